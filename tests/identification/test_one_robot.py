"""Whether recordings, and the two ends of one, belong to one robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.identification.one_robot import changed_within, unlike_each_other
from bodysense.identification.regression import Regression
from bodysense.logs import Log
from bodysense.robot import inverse_dynamics, load_robot, with_payload


@pytest.fixture(scope="module")
def simulated(simulate):
    robot = load_robot("tx40").with_friction("coulomb", width=0.02)
    return simulate(0.05, robot=robot, n_t=1200)


@pytest.mark.parametrize(("factor", "said"), [(1.0, False), (1.02, False), (1.6, True)])
def test_recordings_of_several_robots_are_told(factor, said, simulated):
    problem = simulated.problem
    (one,) = problem.motions
    rng = np.random.default_rng(5)
    tau = factor * one.tau + 0.05 * rng.normal(size=one.tau.shape)
    other = replace(one, tau=tau, tau_raw=tau, log=1)

    def of(*motions):
        return Regression.of(problem.robot, motions, problem.settings, problem.base)

    sentences = unlike_each_other(of(one, other))
    assert bool(sentences) is said
    if said:
        assert sentences[0].startswith("The recordings do not belong to one robot")
    assert unlike_each_other(of(one)) == []
    few = slice(None, problem.size // 6)  # which any parameters explain
    cut = (
        replace(m, **{k: getattr(m, k)[few] for k in ("t", "q", "v", "a", "tau", "tau_raw")})
        for m in (one, other)
    )
    assert unlike_each_other(of(*cut)) == []


@pytest.mark.parametrize("end", [0.7, 1.0])
@pytest.mark.parametrize(("mass", "said"), [(0.0, False), (0.05, False), (3.0, True)])
def test_a_load_that_is_carried_for_some_time_is_told(mass, said, end, simulated):
    problem = simulated.problem
    (motion,) = problem.motions
    begin, end = (motion.t[0] + share * np.ptp(motion.t) for share in (0.4, end))
    robot, parts = problem.robot, (motion.q, motion.v, motion.a)
    carried = (motion.t > begin) & (motion.t <= end)
    load = with_payload(robot, mass, com=(0.0, 0.05, 0.1)) if mass else robot
    more = inverse_dynamics(load, *parts) - inverse_dynamics(robot, *parts)
    tau = motion.tau + carried[:, None] * more
    changed = replace(motion, tau=tau, tau_raw=tau)
    log = replace(Log.of(motion.t, {"q.joint1": motion.q[:, 0]}), source="log.csv")
    rows = Regression.of(robot, [changed], problem.settings, problem.base)
    sentences = changed_within(rows, [log])
    assert bool(sentences) is said
    if said:
        assert sentences[0].startswith("The robot changed during log.csv")
        at = float(sentences[0].split("LOG@:")[1].split()[0].rstrip("."))
        assert at == pytest.approx(begin - motion.t[0], abs=0.1 * np.ptp(motion.t))
        assert ("between" in sentences[0]) == (end < motion.t[-1])
