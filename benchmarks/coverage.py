"""Do 95 % intervals hold the truth 95 times out of a hundred?

Simulated recordings of the TX40, several motions with several noises each, at the lowest published
noise: 1e-4 degrees on positions, which the controller answers, and 0.05 N·m on torques. Every
recording is identified with another prior, whose links and drives are 15 % off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.result import Result
from benchmarks.subjects import tx40
from bodysense import FourierTrajectory, Robot, base_parameters
from bodysense.identification import IDENTIFIERS, Preprocessing, Regression, identifier, motions
from bodysense.identification.choices import choose_cutoff
from bodysense.simulation import rollout

POSITION_NOISE = float(np.deg2rad(1e-4))
TORQUE_NOISE = 0.05  # N·m
OFF = 0.15  # standard deviation of the priors, relative
NOMINAL = 95.0  # %
NEAR = 3.0  # percentage points

# Total least squares is biased by columns that are not equally noisy, and its intervals do not
# count that, nor do those of pc-closest count how far it has moved the estimate, nor those of
# didim how the simulated motion depends on it. Filters know noise levels from a regression only,
# and particles are too few. pc-irls is irls and pc-wls, and takes as long as all others together;
# pc-sqp-… have the minimum of pc-…; networks end where wls does.
SIMULATING = ("didim", "pc-didim", "cloe", "clie", "pc-cloe", "pc-iv")
FILTERS = ("ekf", "srekf", "ukf", "srukf", "cdkf", "srcdkf", "pf")
NOT_PROMISED = ("tls", "pc-closest", *SIMULATING, *FILTERS)
TWINS = ("pc-irls", "pc-sqp-ols", "pc-sqp-wls", "pc-sqp-irls", "adaline", "hopfield")
PROMISED = tuple(name for name in IDENTIFIERS if name not in NOT_PROMISED + TWINS)


def run(
    repeat: int,
    *,
    recorded: Sequence[int] = range(20),
    noises: int = 10,
    few: int = 8,
    names: tuple[str, ...] = (*PROMISED, *NOT_PROMISED),
) -> tuple[Result, ...]:
    """Count for every method; those that promise nothing, on one noise of the first few motions."""
    promised = tuple(name for name in names if name in PROMISED)
    others = tuple(name for name in names if name not in PROMISED)
    hits = inside(promised, recorded, noises) if promised else {}
    hits |= inside(others, recorded[:few], 1) if others else {}
    results = []
    for name, found in hits.items():
        share = 100.0 * float(found.mean())
        parameter, log = 100.0 * found.mean(axis=0), 100.0 * found.mean(axis=1)
        results.append(
            Result.judged(
                "coverage",
                f"TX40, 10 s: truth in the 95 % interval, {name}",
                unit="%",
                ours=share,
                agreement=abs(share - NOMINAL),
                agreement_within=NEAR if name in PROMISED else None,
                notes=f"{found.shape[0]} recordings with {found.shape[1]} base parameters; the "
                f"least of a recording {log.min():.0f} %, of a parameter {parameter.min():.0f} %; "
                "the agreement is the distance from 95, in percentage points",
            )
        )
    return tuple(results)


def inside(
    names: Sequence[str], recorded: Sequence[int], noises: int
) -> dict[str, NDArray[np.bool_]]:
    """For each method (motions * noises, b): whether the truth lies in the interval.

    Args:
        names: of the methods.
        recorded: seeds of the motions.
        noises: recordings of each motion.
    """
    robot = tx40()
    truth = base_parameters(robot).to_base(robot.theta)
    hits: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in names}
    for seed in recorded:
        for problem in _problems(robot, seed, noises):
            for name in names:
                lower, upper = identifier(name).fit(problem).interval()
                hits[name].append((lower <= truth) & (truth <= upper))
    return {name: np.array(rows) for name, rows in hits.items()}


def _problems(robot: Robot, seed: int, noises: int) -> Iterator[Regression]:
    """A motion, recorded so many times, each with a prior of its own."""
    rng = np.random.default_rng(seed)
    motion = FourierTrajectory.for_robot(robot, duration=10.0, rng=rng)
    run = rollout(
        robot,
        motion,
        runs=noises,
        sampling_rate=1000.0,
        integrator="rk4",
        position_noise=POSITION_NOISE,
        torque_noise=TORQUE_NOISE,
        rng=rng,
    )
    base = base_parameters(robot)
    for k in range(noises):
        # All ten parameters of a link by the same factor: it can still exist.
        factor = np.exp(OFF * rng.normal(size=robot.layout.size))
        for link in map(robot.layout.link, range(robot.layout.n_links)):
            factor[link] = factor[link][0]
        prior = robot.with_parameters(robot.theta * factor)
        pieces = [[run.log(k)]]
        cutoff = choose_cutoff(prior, pieces, Preprocessing(), base).cutoff
        settings = Preprocessing().settled(prior, cutoff)
        yield Regression.of(prior, motions(prior, pieces, settings), settings, base)
