"""The README's example without and with its payload, and a real arm that is pushed or not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pinocchio as pin

from benchmarks import ur10e
from benchmarks.contact_study import wrench_of
from benchmarks.contact_subjects import PRIOR, motion_of
from benchmarks.recording import ROOT
from benchmarks.result import NotMeasuredError, Result
from benchmarks.subjects import tx40
from bodysense.estimation import LogEstimate, load_estimation, parse_estimation, prepare_log
from bodysense.identification import identify
from bodysense.logs.log import Log
from bodysense.robot import with_payload
from bodysense.simulation import rollout
from bodysense.spatial import Array

_SENSORS = {
    "sensors": {
        "motors": {"kind": "joint_torque", "joint": "all", "side": "drive", "std": 0.05},
        "motion": {"kind": "joint_acceleration", "joint": "all"},
    },
    "external_wrenches": {"link6": {"std": list(PRIOR)}},
}
"""The sensors file of the README."""
_MASS, _COM = 2.0, (0.0, 0.0, 0.1)  # kg, m: its payload

PUSHES = ((5.0, 5.5), (8.75, 9.1), (12.2, 12.7))  # s, of the real arm
_BESIDE = 0.5  # s that a contact may begin or end away from them
FREE = (
    ur10e.TRAINING,
    *ur10e.VALIDATION,
    "ur-20_02_19_15harm50sec.csv",
    "ur-20_01_31-unload.csv",
    *(f"ur-20_01_22-joint_{k}.csv" for k in range(1, 7)),
    *(f"static_p{k}.csv" for k in range(1, 11)),
)
"""Recordings of an arm that nobody touches."""
PUSH_LOG = "ur-20_01_22-push_pose_1.csv"
LOAD_ERROR = 5.0  # %


def load_results() -> list[Result]:
    """The README's example without and with its payload."""
    robot = tx40()
    setup = parse_estimation(_SENSORS, robot, "sensors.yaml")
    clean = prepare_log(setup, robot, _readme_log(None)[0])
    log, held = _readme_log(_MASS)
    loaded = prepare_log(setup, robot, log)
    assert clean.found is not None
    assert loaded.found is not None
    load = loaded.found.load
    mass = 0.0 if load is None else load.mass
    force = np.linalg.norm(wrench_of(loaded, "link6", slice(None))[0][:, :3], axis=1)
    true = held[np.searchsorted(log.t, loaded.t - 1e-9)]
    ratio = float(np.median(force / true))
    return [
        Result.judged(
            "contacts",
            "README, nothing touches: contacts",
            unit="contacts",
            ours=float(len(clean.found.contacts) + len(clean.found.lasting)),
            ours_below=1.0,
        ),
        Result.judged(
            "contacts",
            f"README, {_MASS:g} kg: error of the load",
            unit="%",
            ours=100.0 * abs(mass / _MASS - 1.0),
            ours_below=LOAD_ERROR,
            notes="no load" if load is None else load.summary(),
        ),
        Result.judged(
            "contacts",
            f"README, {_MASS:g} kg: error of the median force",
            unit="%",
            ours=100.0 * abs(ratio - 1.0),
            ours_below=LOAD_ERROR,
            notes=f"the median of forces over true ones is {ratio:.3f}; the median force is "
            f"{np.median(force):.1f} N, and {9.81 * _MASS:.1f} N at rest",
        ),
    ]


def _readme_log(mass: float | None) -> tuple[Log, Array]:
    """The log of the README's example and the size of the force of its payload (T,) [N]."""
    robot = tx40()
    moving = robot if mass is None else with_payload(robot, mass, link="link6", com=_COM)
    rng = np.random.default_rng(0)
    simulated = rollout(
        moving,
        motion_of(robot, 10.0, rng),
        sampling_rate=1000.0,
        integrator="rk4",
        position_noise=math.radians(1e-4),
        torque_noise=0.05,
        rng=rng,
    )
    data, model = robot.model.createData(), robot.model
    body = pin.Inertia(mass or 0.0, np.array(_COM), np.zeros((3, 3)))
    force = np.empty(simulated.t.size)
    for k in range(simulated.t.size):
        pin.rnea(model, data, simulated.q[0, k], simulated.v[0, k], simulated.a[0, k])
        w = body * data.a_gf[6] + data.v[6].cross(body * data.v[6])
        force[k] = np.linalg.norm(w.linear)
    return simulated.log(0), force


def recorded_results(files: Sequence[str]) -> list[Result]:
    """The real arm, pushed and not, as two of its recordings identify it."""
    try:
        folder = ur10e.folder()
    except NotMeasuredError:
        return []
    results = []
    for training in (ur10e.TRAINING, ur10e.VALIDATION[0]):
        arm = identify(ur10e.robot(), [ur10e.read(training)]).robot
        setup = load_estimation(ROOT / "examples" / "sensors" / "ur10e_push.yaml", arm)
        pushed = prepare_log(setup, arm, ur10e.read(PUSH_LOG))
        name = training.removesuffix(".csv").rpartition("-")[2]
        results.append(_real_pushes(name, pushed, float(ur10e.read(PUSH_LOG).t[0])))
        free = [file for file in files if file != training and (folder / file).exists()]
        found, seconds = {}, 0.0
        for file in free:
            estimate = prepare_log(setup, arm, ur10e.read(file))
            assert estimate.found is not None
            found[file] = len(estimate.found.contacts) + len(estimate.found.lasting)
            seconds += float(estimate.t[-1] - estimate.t[0])
        listed = ", ".join(f"{file.removesuffix('.csv')} {n}" for file, n in found.items() if n)
        results.append(
            Result.judged(
                "contacts",
                f"UR10e identified from {name}, free motion: contacts",
                unit="contacts",
                ours=float(sum(found.values())),
                ours_below=1.0,
                notes=f"in {seconds / 60.0:.1f} min of {len(free)} recordings: {listed or 'none'}",
            )
        )
    return results


def _real_pushes(name: str, estimate: LogEstimate, start: float) -> Result:
    assert estimate.found is not None
    contacts = [(c.start - start, c.end - start, c) for c in estimate.found.contacts]
    right = [
        any(abs(a - begin) < _BESIDE and abs(b - end) < _BESIDE for a, b, _ in contacts)
        for begin, end in PUSHES
    ]
    listed = "; ".join(f"{c.link} {a:.1f} to {b:.1f} s, {c.force:.0f} N" for a, b, c in contacts)
    wrong = len(contacts) + len(estimate.found.lasting) - sum(right)
    return Result.judged(
        "contacts",
        f"UR10e identified from {name}, pushed: contacts that are pushes",
        unit="of 3",
        ours=float(sum(right)),
        agreement=float(len(PUSHES) - sum(right) + abs(wrong)),
        agreement_within=0.0,
        notes=f"{listed or 'no contact'}; the agreement counts what is missing or too much",
    )
