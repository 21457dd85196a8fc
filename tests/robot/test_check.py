"""What is wrong with a robot's parameters, found the same way from Python and by command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from bodysense.cli.main import main
from bodysense.errors import BodysenseError
from bodysense.excitation import FourierTrajectory
from bodysense.identification import Preprocessing, identify
from bodysense.logs import write_log
from bodysense.robot import check_robot, load_robot, suggested_controller, write_mjcf
from bodysense.robot.checks.units import unit_findings
from bodysense.robot.io.load import example_robot_names
from bodysense.simulation import rollout

ROOT = Path(__file__).parents[2]
ROBOTS = ROOT / "examples" / "robots"
ARM = (ROBOTS / "arm.urdf").read_text()


def arm(folder: Path, *changes: tuple[str, str]) -> Path:
    """The example arm with some text changed."""
    text = ARM
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "arm.urdf"
    path.write_text(text)
    return path


AXES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
ZERO = 'ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"'
ONES = 'ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"'
LARGE = 'ixx="1.1" ixy="0" ixz="0" iyy="0.9" iyz="0" izz="0.8"'
BEYOND = 'ixx="0.11" ixy="0" ixz="0" iyy="0.09" iyz="0" izz="0.08"'
MESH = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
IMPOSSIBLE = ('izz="0.004"', 'izz="0.4"')  # of the upper arm: breaks the triangle inequality
BACKWARD = ('damping="0.6"', 'damping="-0.6"')


def test_an_impossible_inertia_is_a_note_with_its_severity(tmp_path):
    assert not [n for n in load_robot(arm(tmp_path)).notes if n.startswith("error")]
    robot = load_robot(arm(tmp_path, IMPOSSIBLE))
    note = robot.notes[-1]
    assert note.startswith("error: infeasible-inertia: link 'upper_arm': the principal moments")
    assert "the triangle inequality fails" in note


def test_negative_friction_is_a_note(tmp_path):
    note = load_robot(arm(tmp_path, BACKWARD)).notes[-1]
    assert note.startswith("error: negative-friction: joint 'elbow': Fv is -0.6")
    drives = tmp_path / "drives.yaml"
    drives.write_text("friction: {coefficients: {Fc: {lift: -1}}}")
    note = load_robot(arm(tmp_path), actuators=drives).notes[-1]
    assert note.startswith("error: negative-friction: joint 'lift': Fc is -1")


def test_findings_alike_are_one_note(tmp_path):
    changes = [(f'izz="0.00{k}"', 'izz="9"') for k in (8, 4)]
    notes = load_robot(arm(tmp_path, *changes)).notes
    assert [note for note in notes if note.startswith("error")] == [notes[-1]]
    assert notes[-1].endswith("(and 1 more: `bodysense check` lists them)")


def test_python_identifies_what_the_command_identifies(tmp_path, capsys):
    """A link that no body has is no reason to refuse either of them."""
    truth = load_robot(arm(tmp_path))
    rng = np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(truth, duration=6.0, rng=rng)
    truth = truth.with_controller(suggested_controller(truth))
    log = rollout(truth, motion, sampling_rate=100.0, torque_noise=0.02, rng=rng).log()
    recording = write_log(tmp_path / "log.csv", log)
    path = arm(tmp_path, IMPOSSIBLE)
    robot = load_robot(path)
    run = identify(robot, log, preprocessing=Preprocessing(cutoff=15.0), friction="own")
    assert run.identification.status.ok
    assert all(check.feasible for check in run.identification.robot.consistency())
    words = ["identify", str(path), str(recording), "--cutoff", "15", "--friction", "own", "--json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "small-arm: error: infeasible-inertia: link 'upper_arm'" in err
    assert json.loads(out)["verdict"] is not None


# -- bodysense check --------------------------------------------------------------------------

BOX = '<collision><origin xyz="0 0 0.06"/><geometry><box size="0.1 0.1 0.2"/></geometry>'
BOX += "</collision>"
SHOULDER = '<link name="shoulder">'
CASES = {
    "triangle": ((IMPOSSIBLE,), "infeasible-inertia", "error", "upper_arm"),
    "on the base": (
        (('izz="0.016"', 'izz="0.16"'),),
        "infeasible-inertia",
        "error",
        "base",
    ),
    "in a sum": ((('izz="0.0004"', 'izz="0.004"'),), "infeasible-inertia", "error", "gripper"),
    "massless": (
        (
            ('<mass value="1.3"/>', '<mass value="0"/>'),
            ('ixx="0.008" ixy="0" ixz="-0.0002" iyy="0.0078" iyz="0" izz="0.0014"', ZERO),
            ('<mass value="0.45"/>', '<mass value="0"/>'),
            ('ixx="0.0006" ixy="0" ixz="0" iyy="0.0007" iyz="0" izz="0.0004"', ZERO),
        ),
        "infeasible-inertia",
        "error",
        "forearm",
    ),
    "negative mass": ((('value="2.4"', 'value="-2.4"'),), "unreadable", "error", "arm.urdf"),
    "millimetres": ((('xyz="0 0 0.30"', 'xyz="0 0 300"'),), "unit-of-length", "error", "elbow"),
    "centre in mm": (
        (('xyz="0 0.01 0.06"', 'xyz="0 10 60"'),),
        "unit-of-length",
        "error",
        "shoulder",
    ),
    "huge": ((('value="2.4"', 'value="1e20"'),), "unit-of-mass", "error", "upper_arm"),
    "1e308": ((('value="2.4"', 'value="1e308"'),), "unreadable", "error", "arm.urdf"),
    "grams": (
        tuple((f'value="{m}"', f'value="{1000 * m}"') for m in (4.0, 3.2, 2.4, 1.3, 0.45)),
        "unit-of-mass",
        "error",
        "all links",
    ),
    "identity": (
        (('ixx="0.026" ixy="0" ixz="0.0004" iyy="0.025" iyz="0" izz="0.004"', ONES),),
        "placeholder-inertia",
        "warning",
        "upper_arm",
    ),
    "foam": (
        (('ixx="0.011" ixy="0" ixz="0" iyy="0.009" iyz="0.0006" izz="0.008"', LARGE),),
        "implausible-inertia",
        "warning",
        "shoulder",
    ),
    "outside": (
        ((SHOULDER, SHOULDER + BOX), ('xyz="0 0.01 0.06"', 'xyz="0 0.11 0.06"')),
        "com-outside",
        "warning",
        "shoulder",
    ),
    "far outside": (
        ((SHOULDER, SHOULDER + BOX), ('xyz="0 0.01 0.06"', 'xyz="0 1 6"')),
        "com-outside",
        "error",
        "shoulder",
    ),
    "beyond the shape": (
        (
            (SHOULDER, SHOULDER + BOX),
            ('ixx="0.011" ixy="0" ixz="0" iyy="0.009" iyz="0.0006" izz="0.008"', BEYOND),
        ),
        "inertia-beyond-shape",
        "warning",
        "shoulder",
    ),
    "no range": ((('lower="-1.9" upper="1.9" ', ""),), "empty-range", "error", "lift"),
    "degrees": (
        (('lower="-1.9" upper="1.9"', 'lower="-110" upper="110"'),),
        "unit-of-limits",
        "warning",
        "lift",
    ),
    "endless": (
        (('lower="-1.9" upper="1.9"', 'lower="-1e9" upper="1e9"'),),
        "no-limits",
        "note",
        "lift",
    ),
    "no effort": ((('effort="30"', 'effort="0"'),), "no-limits", "warning", "elbow"),
    "no speed": ((('velocity="4.0"', 'velocity="0"'),), "no-limits", "warning", "elbow"),
    "any speed": (
        (('velocity="4.0"', 'velocity="10000"'),),
        "placeholder-limits",
        "warning",
        "elbow",
    ),
    "negative damping": ((BACKWARD,), "negative-friction", "error", "elbow"),
    "all the same": (
        tuple(
            (f'damping="{d}" friction="{c}"', 'damping="1.0" friction="1.0"')
            for d, c in ((1.2, 2.0), (1.4, 2.4), (0.6, 1.1))
        ),
        "placeholder-friction",
        "warning",
        "all joints",
    ),
    "no mesh": (
        ((SHOULDER, SHOULDER + MESH.format("shoulder.stl")),),
        "broken-mesh",
        "error",
        "shoulder.stl",
    ),
    "no package": (
        ((SHOULDER, SHOULDER + MESH.format("package://other/shoulder.stl")),),
        "broken-mesh",
        "warning",
        "package://other/shoulder.stl",
    ),
    "mesh in mm": (
        (
            (
                SHOULDER,
                SHOULDER + '<visual><geometry><box size="80 90 160"/></geometry></visual>',
            ),
        ),
        "unit-of-shape",
        "warning",
        "shoulder",
    ),
    "turned in degrees": (
        (
            (
                '<origin xyz="0 0 0.12"/>\n    <parent link="shoulder"/>',
                '<origin xyz="0 0 0.12" rpy="0 90 0"/>\n    <parent link="shoulder"/>',
            ),
        ),
        "unit-of-angle",
        "error",
        "lift",
    ),
    "no robot": ((("<robot", "<robt"), ("</robot", "</robt")), "unreadable", "error", "arm.urdf"),
}


@pytest.mark.parametrize(("changes", "kind", "severity", "where"), CASES.values(), ids=CASES)
def test_a_defect_is_found_and_nothing_else(changes, kind, severity, where, tmp_path):
    before = {str(finding) for finding in check_robot(arm(tmp_path)).findings}
    check = check_robot(arm(tmp_path, *changes))
    new = [finding for finding in check.findings if str(finding) not in before]
    assert {(finding.kind, finding.severity) for finding in new} == {(kind, severity)}
    assert any(where in finding.where for finding in new)
    assert check.ok is (severity != "error")


def test_masses_and_inertias_in_grams_are_one_finding(tmp_path):
    """They are bodies of their size, a thousand times too heavy."""
    factor = re.compile(r'(value|i[xyz]{2})="([^"]*)"')
    text = factor.sub(lambda m: f'{m[1]}="{1000.0 * float(m[2]):g}"', ARM)
    (tmp_path / "arm.urdf").write_text(text)
    check = check_robot(tmp_path / "arm.urdf")
    (found,) = [f for f in check.findings if f.severity == "error"]
    assert (found.kind, found.where) == ("unit-of-mass", "all links")
    assert "not in grams and g·m²" in found.action
    assert not [f for f in check.findings if f.kind == "implausible-inertia"]


@pytest.mark.parametrize("same", ["1e-6", "3e-6"], ids=["placeholders", "copies"])
def test_inertias_that_somebody_made_up_are_in_no_unit(same, tmp_path):
    """They are warned of as what they are, and masses are judged without them."""
    body = (f'{a}="{same if a in ("ixx", "iyy", "izz") else 0}"' for a in AXES)
    text = re.sub(r"<inertia [^>]*>", f"<inertia {' '.join(body)}/>", ARM)
    text = re.sub(r'<mass value="[^"]*"', '<mass value="2.5"', text)
    (tmp_path / "arm.urdf").write_text(text)
    check = check_robot(tmp_path / "arm.urdf")
    kind = "placeholder-inertia" if same == "1e-6" else "copied-inertia"
    assert kind in {finding.kind for finding in check.findings}
    assert check.ok, check.summary()


@pytest.mark.parametrize("name", example_robot_names())
def test_public_robots_are_in_the_right_units(name):
    try:
        robot = load_robot(f"example:{name}")
    except BodysenseError:
        pytest.skip("an SDF file")
    assert not unit_findings(robot)


def test_a_name_that_does_not_exist_is_no_file_to_correct():
    (found,) = check_robot("example:iiwa").findings
    assert (found.kind, found.severity) == ("unknown", "error")
    assert "names that exist" in found.action


def test_a_body_without_a_shape_is_not_held_against_that_of_others(tmp_path):
    shaped = (SHOULDER, SHOULDER + BOX)
    link = '<link name="camera"><inertial><origin xyz="0 0.6 0"/><mass value="0.1"/>'
    link += (
        '<inertia ixx="1e-5" ixy="0" ixz="0" iyy="1.1e-5" iyz="0" izz="1.2e-5"/></inertial></link>'
    )
    joint = (
        '<joint name="bracket" type="fixed"><parent link="shoulder"/><child link="camera"/></joint>'
    )
    check = check_robot(arm(tmp_path, shaped, ("</robot>", f"{link}{joint}</robot>")))
    (found,) = [finding for finding in check.findings if finding.kind == "com-outside"]
    assert found.severity == "warning"
    assert "camera" in found.where


def test_what_cannot_be_read_is_said_beside_what_is_missing(tmp_path):
    (tmp_path / "broken.stl").write_bytes(b"solid nothing")
    changes = (SHOULDER, SHOULDER + MESH.format("broken.stl"))
    other = '<link name="forearm">'
    more = (other, other + MESH.format("package://other/x.stl"))
    found = [
        f for f in check_robot(arm(tmp_path, changes, more)).findings if f.kind == "broken-mesh"
    ]
    assert sorted(f.severity for f in found) == ["error", "warning"]


def test_a_robot_that_was_changed_is_checked_as_it_is(tmp_path):
    robot = load_robot(arm(tmp_path))
    theta = robot.theta.copy()
    theta[robot.layout.link("upper_arm")] *= 1e6
    heavy = check_robot(robot.with_parameters(theta))
    assert "unit-of-mass" in {finding.kind for finding in heavy.findings}
    broken = load_robot(arm(tmp_path, IMPOSSIBLE))
    theta = broken.theta.copy()
    theta[broken.layout.link("upper_arm")] = robot.pi("upper_arm")
    assert check_robot(broken.with_parameters(theta)).ok


def test_a_good_robot_passes(tmp_path):
    assert check_robot(arm(tmp_path)).findings == ()
    assert check_robot("tx40").ok
    assert check_robot(load_robot("tx40")).findings == check_robot("tx40").findings


def test_a_unit_shared_by_all_bodies_is_one_finding(tmp_path):
    """Inertias in kg·mm² beside masses in kg."""
    path = arm(tmp_path)
    text = re.sub(r'(i[xyz]{2})="([^"]*)"', lambda m: f'{m[1]}="{float(m[2]) * 1e6}"', ARM)
    path.write_text(text)
    (finding,) = check_robot(path).findings
    assert (finding.kind, finding.severity) == ("unit-of-inertia", "error")


def test_copies_along_a_chain_are_found_and_legs_that_are_alike_are_not(tmp_path):
    link = '<link name="{0}"><inertial><mass value="1"/><inertia ixx="2e-3" ixy="0" ixz="0" '
    link += 'iyy="3e-3" iyz="0" izz="4e-3"/></inertial></link>'
    joint = '<joint name="{1}" type="continuous"><parent link="{0}"/><child link="{1}"/>'
    joint += '<limit effort="1" velocity="2"/></joint>'

    def robot(*pairs: tuple[str, str]) -> str:
        names = dict.fromkeys(name for pair in pairs for name in pair)
        parts = [link.format(name) for name in names if name != "w"]
        parts += [joint.format(*pair) for pair in pairs]
        return f'<robot name="r"><link name="w"/>{"".join(parts)}</robot>'

    path = tmp_path / "r.urdf"
    path.write_text(robot(("w", "a"), ("a", "b"), ("b", "c")))
    (finding,) = check_robot(path).findings
    assert finding.kind == "copied-inertia"
    path.write_text(robot(("w", "a"), ("w", "b"), ("w", "c")))
    assert check_robot(path).findings == ()


def test_a_dh_table_in_millimetres_and_mjcf_are_checked(tmp_path):
    table = yaml.safe_load((ROBOTS / "scara.yaml").read_text())
    table["joints"][1]["a"] = 1000 * table["joints"][1]["a"]
    path = tmp_path / "scara.yaml"
    path.write_text(yaml.safe_dump(table))
    assert "unit-of-length" in {finding.kind for finding in check_robot(path).of("error")}
    mjcf = write_mjcf(load_robot(arm(tmp_path)), tmp_path / "arm.xml")
    assert check_robot(mjcf).ok


def test_the_command_has_an_exit_status(tmp_path, capsys):
    good, bad = arm(tmp_path), tmp_path / "bad.urdf"
    bad.write_text(ARM.replace(*IMPOSSIBLE))
    assert main(["check", str(good)]) == 0
    assert main(["check", str(good), str(bad), "--json"]) == 1
    listed = json.loads(capsys.readouterr().out.split("\n", 1)[1])
    assert [entry["ok"] for entry in listed] == [True, False]
    assert listed[1]["findings"][0]["kind"] == "infeasible-inertia"
    assert main(["check", "tx40"]) == 0
    assert main(["check", "tx40", "--strict"]) == 1
    assert "no-limits" in capsys.readouterr().out


def test_the_hook_and_the_action_call_the_command():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "bodysense check"
    assert re.search(hook["files"], "robots/arm.urdf")
    assert hook["language"] == "python"
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    assert "bodysense check" in steps[-1]["run"]
    assert set(action["inputs"]) == {"robots", "options", "python-version"}
    for name in ("robots", "options"):
        assert f"${{{{ inputs.{name} }}}}" in str(steps[-1]["env"].values())


def test_parts_of_one_link_are_no_chain():
    """Four fingers that are fixed to the same hand."""
    assert "copied-inertia" not in {f.kind for f in check_robot("example:kinova").findings}


def test_names_that_no_file_can_have_are_missing_meshes(tmp_path):
    for name in ("x" * 5000, "package://" + "y" * 5000 + "/a.stl", "a/" * 3000):
        path = arm(tmp_path, (SHOULDER, SHOULDER + MESH.format(name)))
        assert {f.kind for f in check_robot(path).findings} == {"broken-mesh"}
    assert check_robot("z" * 5000 + ".urdf").findings[0].kind == "unreadable"


def test_shapes_without_a_finite_size_are_no_bound(tmp_path):
    pytest.importorskip("mujoco")
    text = write_mjcf(load_robot(arm(tmp_path)), tmp_path / "arm.xml").read_text()
    changed = re.sub(r'size="[-.e0-9]+', 'size="nan', text, count=1)
    assert changed != text
    (tmp_path / "arm.xml").write_text(changed)
    check_robot(tmp_path / "arm.xml")


def test_the_documentation_has_all_kinds():
    folder = ROOT / "src" / "bodysense" / "robot" / "checks"
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    kinds = {"unknown", "unreadable", *re.findall(r'"([a-z]+(?:-[a-z]+)+)"', source)}
    table = (ROOT / "docs" / "robots.md").read_text().partition("## Checking a robot")[2]
    rows = [line for line in table.splitlines() if re.match(r"\| `", line)]
    assert {kind for row in rows for kind in re.findall(r"`([a-z-]+)`", row.split("|")[1])} == kinds
