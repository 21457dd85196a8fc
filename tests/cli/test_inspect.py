from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bodysense.cli.main import EXIT_ERROR, main
from bodysense.robot.io.load import load_robot


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def inspected(capsys, *words: str) -> str:
    assert main(["inspect", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_tables_name_every_link_joint_and_base_parameter(capsys):
    out = inspected(capsys, "tx40-coupled")
    robot = load_robot("tx40-coupled")
    for name in (*robot.link_names, *robot.joint_names):
        assert name in out
    assert "Base parameters: 54 of 80 parameters (36 inertial, 4 rotor, 14 friction)" in out
    assert "XX4 - YY4 + YY5" in out
    assert "Without any effect (11): M1 MX1" in out
    assert "the motor of joint6 also moves joint5, ratio 1" in out


@pytest.mark.parametrize("name", ["tx40", "example:icub", "example:hector", "example:tiago_pro"])
def test_piped_output_fits_in_100_columns_without_colours(name, capsys):
    lines = inspected(capsys, name).splitlines()
    assert all(len(line) <= 100 for line in lines if not line.startswith("from "))
    assert not any("\x1b" in line or line != line.rstrip() for line in lines)


def test_a_terminal_gets_colours(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in inspected(capsys, "example:romeo_small")


def test_links_that_cannot_exist_stand_out(capsys):
    out = inspected(capsys, "example:romeo_small")
    assert "note: error: infeasible-inertia: link 'RShoulderYawLink': the principal moments" in out
    assert "1 more: `bodysense check`" in " ".join(out.split())
    assert out.count("INFEASIBLE") == 2


def test_links_without_volume_are_a_note(capsys):
    out = inspected(capsys, "example:icub")
    assert "note: 10 links without volume: r_hip_1" in out
    assert "INFEASIBLE" not in out


def test_json_is_complete_and_finite(capsys):
    out = inspected(capsys, "example:human", "--json", "--friction", "stribeck")
    content = json.loads(out, parse_constant=refuse_constant)
    assert content["floating_base"] is True
    assert content["friction"] == "stribeck"
    assert set(content["joints"][0]["friction"]) == {"Fv", "Fc", "Fs"}
    assert len(content["links"]) == 37
    assert content["consistent"] is False


def test_the_base_can_be_chosen(capsys):
    assert "fixed base" in inspected(capsys, "example:a1", "--fixed")
    assert "floating base" in inspected(capsys, "example:ur5", "--floating")
    with pytest.raises(SystemExit):
        main(["inspect", "tx40", "--fixed", "--floating"])


def test_an_actuator_file_is_used(capsys, tmp_path: Path):
    drives = tmp_path / "drives.yaml"
    drives.write_text("gear_ratio: 123.5\n")
    assert "123.5" in inspected(capsys, "example:double_pendulum", "--actuators", str(drives))


def test_names_are_printed_as_they_are(capsys, tmp_path: Path):
    robot = tmp_path / "odd.urdf"
    robot.write_text(
        '<robot name="[bold]odd[/bold]"><link name="w"/><link name="[red]:smile:"><inertial>'
        '<mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
        '</link><joint name="[/x]" type="continuous"><parent link="w"/><child link="[red]:smile:"/>'
        "</joint></robot>"
    )
    out = inspected(capsys, str(robot))
    assert "[bold]odd[/bold]" in out
    assert "[red]:smile:" in out
    assert "[/x]" in out


def test_an_encoding_without_lines_still_prints(capsys, monkeypatch, tmp_path: Path):
    with (tmp_path / "out.txt").open("w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["inspect", "tx40"]) == 0
    assert "joint6" in (tmp_path / "out.txt").read_text(encoding="ascii")


def test_an_unknown_robot_is_an_error(capsys):
    assert main(["inspect", "tx41"]) == EXIT_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    assert "did you mean 'tx40'" in err
