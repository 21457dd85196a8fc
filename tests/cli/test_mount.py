"""A robot on the wall, from its simulation to its identification."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bodysense.cli.main import EXIT_ERROR, main
from bodysense.robot import load_robot, write_mjcf

QUICK = ["--cutoff", "15", "--friction", "own"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wall")
    words = ["random", "--duration", "6", "--sampling-rate", "200", "-o", str(folder / "log.csv")]
    assert main(["simulate", "example:ur5", *words, "--mount", "0,90,0deg"]) == 0
    return folder


def test_a_robot_on_the_wall(folder, capsys):
    words = ["example:ur5", str(folder / "log.csv"), *QUICK]
    out = folder / "out"
    assert main(["identify", *words, "--gravity", "9.81,0,0", "-o", str(out)]) == 0
    printed = capsys.readouterr()
    assert "GOOD" in printed.out
    assert "URDF holds no gravity; it is 9.81,0,0 m/s² in the actuator file" in printed.err
    files = [out / name for name in ("identified.urdf", "identified.actuators.yaml")]
    back = load_robot(files[0], actuators=files[1])
    np.testing.assert_allclose(back.model.gravity.linear, [9.81, 0.0, 0.0])
    np.testing.assert_allclose(
        load_robot(out / "identified.xml").model.gravity.linear, [9.81, 0.0, 0.0]
    )
    right = json.loads((out / "scores.json").read_text())
    main(["identify", *words, "-o", str(folder / "floor"), "--allow-unusable"])
    capsys.readouterr()
    wrong = json.loads((folder / "floor" / "scores.json").read_text())
    errors = [scores["data"][0]["identified"]["all"]["d_tau"] for scores in (right, wrong)]
    assert errors[0] < 0.02
    assert errors[1] > 10.0 * errors[0]
    assert main(["identify", "--config", str(out / "config.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == right


@pytest.mark.parametrize("command", ["identify", "doctor"])
def test_gravity_in_other_units_is_not_told_where_it_is_given(command, tmp_path, capsys):
    path = write_mjcf(load_robot("tx40"), tmp_path / "tx40.xml")
    text = path.read_text().replace("-9.81", "-981")
    path.write_text(text)
    words = [command, str(path), str(tmp_path / "missing.csv")]
    told = []
    for given in ([], ["--gravity", "0,0,-9.81"]):
        assert main([*words, *given]) == EXIT_ERROR
        told.append("unit-of-gravity" in capsys.readouterr().err)
    assert told == [True, False]


def test_inspect_shows_it(capsys):
    assert main(["inspect", "example:ur5", "--mount", "ceiling"]) == 0
    assert "gravity (0, 0, 9.81) m/s²" in " ".join(capsys.readouterr().out.split())
    assert main(["inspect", "example:ur5", "--mount", "0,1.5707963267948966,0", "--json"]) == 0
    gravity = json.loads(capsys.readouterr().out)["gravity"]
    np.testing.assert_allclose(gravity, [9.81, 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gravity", "9.81"], "--gravity: invalid value '9.81'; expected x,y,z in m/s²"),
        (["--mount", "roof"], "expected floor, wall, ceiling, or roll,pitch,yaw"),
        (["--gravity", "0,0,9.81", "--mount", "wall"], "exclude each other"),
        (["--gravity", "0,1,0"], "its size is 1; give it in m/s²"),
    ],
)
def test_bad_options(words, message, folder, capsys):
    assert main(["identify", "example:ur5", str(folder / "log.csv"), *words]) == EXIT_ERROR
    assert message in capsys.readouterr().err
