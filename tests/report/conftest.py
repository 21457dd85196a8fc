"""Identifications of small robots, made up without any recording, to be reported on."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from bodysense.doctor import Diagnosis, Finding
from bodysense.identification import identifier
from bodysense.identification.choices import CutoffChoice
from bodysense.identification.friction_comparison import FrictionChoice, FrictionTrial
from bodysense.identification.regression import Regression
from bodysense.identification.run import IdentificationRun
from bodysense.identification.scores import predict, score
from bodysense.identification.verdict import judge
from bodysense.logs.log import Log
from bodysense.robot import Friction, Robot
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.spatial import random_pi

sys.path.insert(0, str(Path(__file__).parent))

from browser import NAMES, Browser

RATE = 100.0


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser: install one of {', '.join(NAMES)}, e.g. apt install chromium")
    started = Browser(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def other_test() -> Callable[[str], Any]:
    """Import the module of another test beside this file."""

    def module_of(name: str) -> Any:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(name, module)
        spec.loader.exec_module(module)
        return module

    return module_of


@pytest.fixture(scope="session")
def make_run() -> Callable[..., IdentificationRun]:
    """Identify a chain of joints with the given names; see `made_run`."""
    return made_run


@pytest.fixture(scope="session")
def run() -> IdentificationRun:
    """A run with two joints, a validation recording, and a finding of each severity."""
    return made_run(("shoulder", "elbow"))


def chain(joints: Sequence[str], links: Sequence[str], name: str) -> Robot:
    """Joints about alternating axes, 30 cm apart, with friction."""
    rng = np.random.default_rng(5)
    model = pin.Model()
    model.name = name
    pi = random_pi(rng, len(joints))
    for k, joint in enumerate(joints):
        kind = pin.JointModelRZ() if k % 2 == 0 else pin.JointModelRY()
        place = pin.SE3(np.eye(3), np.array([0.3 if k else 0.0, 0.0, 0.05]))
        i = model.addJoint(k, kind, place, joint)
        model.appendBodyToJoint(i, pin.Inertia.FromDynamicParameters(pi[k]), pin.SE3.Identity())
        model.addBodyFrame(links[k], i, pin.SE3.Identity(), model.addJointFrame(i))
    n = len(joints)
    friction = Friction.from_model("coulomb", n, width=0.02)
    return Robot.from_pinocchio(
        model, friction=friction, coefficients={"Fv": np.full(n, 0.4), "Fc": np.full(n, 0.9)}
    )


def made_run(
    joints: Sequence[str],
    *,
    links: Sequence[str] | None = None,
    name: str = "chain",
    source: str = "run.csv",
    text: str = "seen",
    n_t: int = 600,
) -> IdentificationRun:
    """Identify the chain from simulated samples, the prior being off by a fifth."""
    rng = np.random.default_rng(3)
    links = [f"link{k + 1}" for k in range(len(joints))] if links is None else links
    truth = chain(joints, links, name)
    prior = truth.with_parameters(0.8 * truth.theta)
    n, t = len(joints), np.arange(n_t) / RATE
    omega, phase = rng.uniform(0.5, 3.0, (4, n)), rng.uniform(0.0, 6.0, (4, n))
    angle = t[:, None, None] * omega + phase
    q, v = np.sin(angle).sum(axis=1), (omega * np.cos(angle)).sum(axis=1)
    a = (-(omega**2) * np.sin(angle)).sum(axis=1)
    v[: n_t // 10, 0] = 0.0  # the first joint stands for a while
    tau = inverse_dynamics(truth, q, v, a) + rng.normal(scale=0.05, size=q.shape)
    problem = Regression.from_samples(prior, q, v, a, tau, rate=RATE)
    identification = replace(
        identifier("wls").fit(problem),
        provenance={
            "versions": {"bodysense": "0.0", "numpy": "0.1"},
            "robot": {"name": name, "file": f"{text}.urdf", "sha256": "ab" * 32},
            "logs": [{"source": source, "sha256": "cd" * 32}],
            "validation": [{"source": f"other {source}", "sha256": ""}],
            "seed": 7,
        },
    )
    motion, theta = problem.motions[0], [identification.theta]
    predictions = [
        predict(prior, motion, problem.settings, theta, source=f"{pre}{source}", kind=kind)
        for kind, pre in (("training", ""), ("held-out", ""), ("validation", "other "))
    ]
    scores = tuple(score([p]) for p in predictions)
    findings = tuple(
        Finding(f"{severity}-kind", severity, text, f"{text} in rows", f"{text} dropped")
        for severity in ("error", "warning", "note")
    )
    channels = {f"q.{joint}": q[:, j] for j, joint in enumerate(joints)}
    log = Log.of(t, channels)
    diagnoses = [
        Diagnosis(
            source=f"{pre}{source}",
            digest="",
            joint_names=tuple(joints),
            findings=findings,
            segments=(log,),
            moving=(np.abs(v) > 0.02,),
            n_samples=n_t + 5,
            rate=RATE,
        )
        for pre in ("", "other ")
    ]
    return IdentificationRun(
        identification=identification,
        diagnoses=(diagnoses[0],),
        validation=(diagnoses[1],),
        problem=problem,
        cutoff=CutoffChoice(5.0, (2.0, 5.0, 9.0), (0.3, 0.1, 0.2), (0.02, 0.0, 0.03)),
        friction=FrictionChoice(
            "coulomb",
            (FrictionTrial("coulomb", 1.1, 12), FrictionTrial("offset", 1.2, 18)),
        ),
        method_choice=None,
        scores=scores,
        predictions=tuple(predictions),
        defects=(),
        verdict=judge(identification, scores),
    )
