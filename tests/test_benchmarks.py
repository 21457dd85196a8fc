"""The benchmarks run, compare equal things, and the documentation shows their last results.

Sizes are tiny and nothing here depends on how long anything takes.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest

from bodysense.robot import Actuators, load_robot, torque_regressor

# `benchmarks` is no part of the installed package: it lies in the root of the repository.
sys.path.insert(0, str(Path(__file__).parent.parent))

import benchmarks.__main__ as command
from benchmarks import (
    consistency,
    contact_stream,
    contacts,
    covariances,
    coverage,
    dynamics,
    excitation,
    first_try,
    identification,
    least_squares,
    live,
    long_log,
    map_dynamics,
    methods,
    momentum,
    payload,
    poor_data,
    regressor,
    rollout,
    sabotage,
    sensitivity,
    sensor_check,
    square_root,
    start,
    state,
    stream,
    threads,
    ur10e,
)
from benchmarks.figaroh_process import Answer
from benchmarks.record import (
    PAGE,
    RESULTS,
    Record,
    machine_facts,
    markdown_table,
    page_with_table,
)
from benchmarks.result import NotMeasuredError, Result
from benchmarks.subjects import largest_difference, random_motion, talos
from benchmarks.timing import (
    Timings,
    all_threads,
    interleaved,
    numba_threads,
    on_threads,
)

TINY = {
    "rollout": (partial(rollout.run, duration=0.1), 2),
    "regressor": (partial(regressor.run, samples=3), 8),
    "sensitivity": (partial(sensitivity.run, duration=0.1), 2),
    "threads": (partial(threads.run, runs=2, duration=0.02), 1),
    "start": (partial(start.run, cache=os.environ["NUMBA_CACHE_DIR"]), 9),
    "dynamics": (partial(dynamics.run, samples=3), 8),
    "identification": (partial(identification.run, rows=10_000), 4),
    "least-squares": (partial(least_squares.run, duration=0.2), 2),
    "consistency": (partial(consistency.run, duration=2.0), 2),
    "methods": (
        partial(methods.run, duration=2.0, names=("wls", "iv", "cloe"), noises=1, priors=1),
        4,
    ),
    "coverage": (
        partial(coverage.run, recorded=(0,), noises=2, few=1, names=("wls", "tls")),
        2,
    ),
    "long-log": (partial(long_log.run, samples=2_000, tasks=("wls",)), 2),
    "square-root": (partial(square_root.run, noisy=2, forms=("wls",)), 3),
    "payload": (partial(payload.run, pairs=("01_31",)), 2),
    "poor-data": (partial(poor_data.run, starts=(10.0,)), 4),
    "first-try": (
        partial(first_try.run, training=("20sec_8harm",), predicted=("30sec_12harm",)),
        2,
    ),
    "sabotage": (
        partial(sabotage.run, only="torques' sign", robots=("example:ur5",), seeds=1, record=None),
        3,
    ),
    "excitation": (partial(excitation.run, seconds=2.0, starts=1, duration=4.0), 2),
    "map-dynamics": (partial(map_dynamics.run, steps=1, batch=4, links=(5, 10)), 14),
    "state": (partial(state.run, repetitions=1, samples=12), 9),
    "stream": (partial(stream.run, steps=20, faulty=150), 8),
    "momentum": (partial(momentum.run, steps=4, minutes=0.1), 4),
    "live": (partial(live.run, seconds=2.0), 3),
    "sensor-check": (partial(sensor_check.run, trials=1, subjects=("example:ur5",)), 23),
    "contacts": (
        partial(
            contacts.run,
            hours=0.05,
            pushes=10,
            robots=("tx40",),
            laws=("viscous",),
            noises=(1e-6,),
            rates=(500.0,),
            recordings=("static_p1.csv",),
        ),
        16,
    ),
    "contact-stream": (partial(contact_stream.run, minutes=0.1, trials=3), 6),
    "covariances": (partial(covariances.run, samples=12, parts=1, within=0.5), 4),
}
RESULT = Result.judged(
    "rollout", "one run", unit="µs/step", ours=2.0, peer=24.0, ratio_at_least=10.0, notes="a note"
)


def test_every_benchmark_is_tried_here():
    assert set(TINY) == set(command.BENCHMARKS)


NONE_IS_BEST = ("%", "contacts", "per hour")
"""Units of figures of which zero is best: shares of recordings, false alarms."""

QUICK = ("rollout", "regressor", "sensitivity", "threads", "dynamics", "least-squares", "long-log")
"""Tried with all tests. The others need a peer or take long: `make bench-smoke`."""


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.smoke) for name in TINY],
)
def test_benchmark_runs_and_both_sides_agree(name):
    run, lines = TINY[name]
    try:
        results = run(1)
    except NotMeasuredError as reason:
        pytest.skip(str(reason))
    assert len(results) == lines
    assert len({result.what for result in results}) == lines
    for result in results:
        assert result.name == name
        assert result.ours > 0.0 or result.unit in NONE_IS_BEST
        assert (result.ratio is None) == (result.peer is None)
        if result.peer is not None:
            assert result.ratio == result.peer / result.ours
        if "agreement" in result.target:
            limit = float(result.target.rpartition("≤")[2])
            assert result.agreement is not None
            assert result.agreement <= limit
        if "nothing compiled" in result.target:
            assert result.notes.endswith(" 0 functions compiled")
    assert any(result.target for result in results)


@pytest.mark.usefixtures("recordings")
def test_first_try_gives_a_robot_and_the_parameters_of_the_peer_the_same_score():
    (file,) = first_try.SETS["20sec_8harm"]
    robot = ur10e.robot()
    theta = np.zeros(84)
    theta[:60] = robot.theta[:60]
    score, peer = first_try.Model(robot).error([file]), first_try.Model(theta=theta).error([file])
    assert score == pytest.approx(peer, rel=1e-9)
    assert first_try.plain_wls([file]).error([file]) < 0.2 * score


def test_peer_keeps_any_ascending_columns():
    robot = talos()
    q, v, a = random_motion(robot, 2)
    columns = np.arange(0, robot.layout.size, 7)
    peer = regressor.pinocchio_stack(robot, q, v, a, columns)
    assert peer.shape == (2, robot.nv, columns.size)
    assert largest_difference(torque_regressor(robot, q, v, a, columns=columns), peer) < 1e-10


def test_answer_of_the_peer_is_put_into_the_layout_of_the_robot():
    coupling = np.eye(6)
    coupling[5, 4] = 1.0
    actuators = Actuators.from_values(6, coupling=coupling, coupled_terms=("Iam", "Fvm", "Fcm"))
    layout = load_robot("tx40").with_actuators(actuators).with_friction("offset").layout
    expected = {"MX2": 1.0, "Ia3": 4.0, "Fv1": 2.0, "Fc6": 3.0, "Fo2": 5.0, "Fcm6": 6.0}
    # In the peer's order: fv, fs, Ia, off of all joints after the inertial ones, then the wrist.
    names = ["mx_joint_2", "Ia_joint_3", "fv_joint_1", "fs_joint_6", "off_joint_2", "fsm6"]
    places = [11, 74, 60, 71, 79, 86]
    theta = Answer(1.0, names, places, list(expected.values()), 9).theta(layout)
    assert {layout.names[k]: theta[k] for k in np.flatnonzero(theta)} == expected


def test_sides_take_turns_in_rotating_order():
    calls: list[str] = []
    sides = {name: partial(calls.append, name) for name in ("a", "b", "c")}
    timings = interleaved(sides, 4)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab" + "abc"
    assert {name: len(seconds) for name, seconds in timings.seconds.items()} == {
        "a": 4,
        "b": 4,
        "c": 4,
    }


def test_best_is_the_shortest_and_the_paired_ratio_is_that_of_a_round():
    timings = Timings({"slow": (8.0, 40.0, 30.0), "fast": (2.0, 4.0, 10.0)})
    assert timings.best("slow") == 8.0
    assert timings.best("fast") == 2.0
    assert timings.paired_ratio("slow", "fast") == 4.0


def test_threads_are_set_for_a_block_only():
    before = numba.get_num_threads()
    assert on_threads(1, numba.get_num_threads)() == 1
    assert on_threads(all_threads() + 1, numba.get_num_threads)() == all_threads()
    with pytest.raises(ZeroDivisionError), numba_threads(1):
        _ = 1 / 0
    assert numba.get_num_threads() == before


@pytest.mark.parametrize(
    ("given", "target", "reached"),
    [
        ({}, "", None),
        ({"ratio_at_least": 4.0}, "ratio ≥ 4", True),
        ({"ratio_at_least": 4.1}, "ratio ≥ 4.1", False),
        ({"ours_below": 0.5}, "< 0.5 s", False),
        ({"ours_below": 0.6}, "< 0.6 s", True),
        ({"agreement_within": 1e-3}, "agreement ≤ 0.001", True),
        ({"agreement_within": 9e-4}, "agreement ≤ 0.0009", False),
        ({"compiled": 0}, "nothing compiled", True),
        ({"compiled": 1}, "nothing compiled", False),
        (
            {"ratio_at_least": 4.0, "agreement_within": 9e-4},
            "ratio ≥ 4, agreement ≤ 0.0009",
            False,
        ),
    ],
)
def test_figures_are_held_against_their_targets(given, target, reached):
    result = Result.judged("x", "y", unit="s", ours=0.5, peer=2.0, agreement=1e-3, **given)
    assert result.ratio == 4.0
    assert (result.target, result.reached) == (target, reached)


def test_target_without_its_figure_is_missed():
    assert not Result.judged("x", "y", unit="s", ours=0.5, ratio_at_least=1.0).reached
    assert not Result.judged("x", "y", unit="s", ours=0.5, agreement_within=1.0).reached


def test_record_survives_saving_to_four_digits(tmp_path):
    odd = Result.judged("x", "y", unit="s", ours=1.0 / 3.0, compiled=0)
    Record({"cpus": "2"}, (RESULT, odd)).save(tmp_path / "results.json")
    loaded = Record.load(tmp_path / "results.json")
    assert loaded.machine == {"cpus": "2"}
    assert loaded.results[0] == RESULT
    assert loaded.results[1].ours == 0.3333
    assert loaded.results[1].reached is True


def test_table_shows_figures_targets_and_notes():
    table = markdown_table(Record({"cpus": "2", "numpy": "2.4"}, (RESULT,)))
    assert table.startswith("Measured on: cpus 2, numpy 2.4.\n\n| benchmark | what |")
    assert "| rollout | one run | 2 µs/step | 24 µs/step | 12 | ✓ ratio ≥ 10 |  |" in table.split(
        "\n"
    )
    assert table.endswith("- rollout: one run: a note.")


def test_kept_results_are_complete_and_tell_no_names():
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert set(content["machine"]) == set(machine_facts())
    kept = set(command.BENCHMARKS) - command.STUDIES
    assert {entry["name"] for entry in content["results"]} == kept
    for entry in content["results"]:
        assert set(entry) == {field.name for field in fields(Result)}
    assert str(Path.home()) not in RESULTS.read_text(encoding="utf-8")


def test_documentation_shows_the_kept_results():
    page = PAGE.read_text(encoding="utf-8")
    assert markdown_table(Record.load(RESULTS)) in page, "run: python -m benchmarks --table"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The command with one instant benchmark, its record and its page in a temporary folder."""
    page, results = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text("before <!-- results: begin -->old<!-- results: end --> after")
    monkeypatch.setattr(command, "PAGE", page)
    monkeypatch.setattr(command, "RESULTS", results)
    monkeypatch.setattr(command, "BENCHMARKS", {"instant": lambda repeat: (RESULT,) * repeat})
    return tmp_path


def test_run_of_all_writes_record_and_page(elsewhere, capsys):
    assert command.main(["--repeat", "2"]) == 0
    record = Record.load(elsewhere / "results.json")
    assert record.results == (RESULT, RESULT)
    assert record.machine == machine_facts()
    page = (elsewhere / "page.md").read_text()
    assert page == page_with_table(page, record)
    assert page.startswith("before <!-- results: begin -->\n\nMeasured on: ")
    assert page.endswith("\n\n<!-- results: end --> after")
    assert "one run" in capsys.readouterr().out


def test_run_of_some_writes_only_where_told(elsewhere):
    command.main(["instant", "--repeat", "1"])
    assert not (elsewhere / "results.json").exists()
    command.main(["instant", "--repeat", "1", "--json", str(elsewhere / "some.json")])
    assert Record.load(elsewhere / "some.json").results == (RESULT,)
    assert "old" in (elsewhere / "page.md").read_text()


def test_benchmark_that_cannot_run_says_why_and_the_rest_goes_on(elsewhere, monkeypatch, capsys):
    def absent(repeat):
        raise NotMeasuredError("no recording")

    monkeypatch.setattr(command, "BENCHMARKS", {"absent": absent, "instant": lambda _: (RESULT,)})
    assert command.main([]) == 0
    assert "not measured absent: no recording" in capsys.readouterr().out
    assert Record.load(elsewhere / "results.json").results == (RESULT,)


def test_recording_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("BODYSENSE_DATA", str(tmp_path))
    with pytest.raises(NotMeasuredError, match="set BODYSENSE_DATA"):
        identification.run(1)


def test_table_alone_runs_nothing(elsewhere, monkeypatch):
    Record({"cpus": "2"}, (RESULT,)).save(elsewhere / "results.json")
    monkeypatch.setattr(command, "BENCHMARKS", {})
    command.main(["--table"])
    assert "one run" in (elsewhere / "page.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "no benchmark 'speed': choose from rollout, regressor"),
        (["--repeat", "0"], "--repeat is 0: give at least 1"),
    ],
)
def test_bad_arguments_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
