"""A batch of rollouts on two threads against one."""

from __future__ import annotations

from benchmarks.result import Result
from benchmarks.subjects import excitation, largest_difference, tx40
from benchmarks.timing import all_threads, interleaved, numba_threads, on_threads
from bodysense import rollout


def run(repeat: int, *, runs: int = 64, duration: float = 1.0) -> tuple[Result, ...]:
    """Compare two threads with one; results must not depend on the number of threads."""
    robot = tx40()
    trajectory = excitation(robot, duration)

    def batch() -> object:
        return rollout(robot, trajectory, runs=runs, sampling_rate=1000.0)

    found = []
    for n in (1, 2):
        with numba_threads(n):
            found.append(rollout(robot, trajectory, runs=runs, sampling_rate=1000.0).q)
    timings = interleaved({"one": on_threads(1, batch), "two": on_threads(2, batch)}, repeat)
    return (
        Result.judged(
            "threads",
            f"TX40, batch of {runs} rollouts of {duration:g} s: two threads, peer: one",
            unit="ms",
            ours=1e3 * timings.best("two"),
            peer=1e3 * timings.best("one"),
            paired_ratio=timings.paired_ratio("one", "two"),
            ratio_at_least=1.7,
            agreement=largest_difference(*found),
            agreement_within=0.0,
            notes="" if all_threads() > 1 else "only one thread is available here",
        ),
    )
