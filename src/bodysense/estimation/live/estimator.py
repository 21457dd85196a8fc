"""`LiveEstimator`: estimates from a stream of messages, one after the other.

Where a source has velocities, and accelerations that the sensors ask for, its signals are taken as
they are. Otherwise velocities are differences of positions, and all signals pass the causal
low-pass of `EstimatorStream`, which derives accelerations: estimates are late by its delay. Samples
give no result before their rate is known, which the low-pass needs, and while it settles.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import MismatchError, ShapeError, listing, unknown_name
from bodysense.estimation.contact.detector import DetectionSettings
from bodysense.estimation.contact.online import LEARNING
from bodysense.estimation.live.contacts import LiveContacts
from bodysense.estimation.live.inputs import LiveInputs
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.files import components
from bodysense.estimation.map_dynamics.setup import EstimationSetup
from bodysense.estimation.map_dynamics.stream import EstimatorStream, Sample
from bodysense.estimation.posterior import Posterior
from bodysense.logs.filtering import usable_cutoff
from bodysense.logs.layout import LogLayout
from bodysense.logs.live import (
    Arrival,
    LiveResult,
    LiveSample,
    SampleDecoder,
    StreamClock,
    StreamFaults,
)
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

CUTOFF = 10.0
"""Hz of the low-pass where rates are computed, as for recordings."""

_ATTENDED = 100  # messages, and
_ATTENDANCE = 1.0  # s after which channels that have not come are named
_NAMES = 12  # of channels in a message
_SETTLED = 5.0  # delays of the low-pass after which its beginning is forgotten
_CHANGED = 0.2  # share by which the rate of samples may differ from that of the low-pass
_USUAL_RATE = 1000.0  # Hz, at which all is tried once before the first sample


class LiveEstimator:
    """Makes results of messages, one after the other, whatever they hold.

    Attributes:
        problem: the estimator.
        columns: of the results, as in estimates.parquet.
        faults: what was wrong so far.
        clock: of the source.
        cutoff: of the low-pass that all signals pass [Hz]; `None` if they are taken as they come.
        samples: that came so far.
        withheld: of these, those that gave no result, by reason.
        contacts: so far.
    """

    def __init__(
        self,
        setup: EstimationSetup,
        robot: Robot,
        *,
        faults: StreamFaults | None = None,
        layout: LogLayout | None = None,
        cutoff: float | None = None,
        estimates: Sequence[str] = (),
        detection: DetectionSettings | None = None,
        learning: float = LEARNING,
    ) -> None:
        """Prepare, and compile.

        Args:
            setup: sensors and priors.
            robot: as far as it is known.
            faults: that count what is wrong.
            layout: names and units of the source.
            cutoff: of the low-pass on all signals [Hz]; `None`: 10 if rates are to be computed,
                otherwise there is none.
            estimates: patterns of what results hold, as "fx.*"; by default external wrenches that
                are not known beforehand, and torques.
            detection: what makes a contact; by default one false alarm an hour.
            learning: time at the beginning in which nothing touches and noise is learned [s].

        Raises:
            MismatchError: a setup that needs a recording, or a layout that a stream cannot have.
            UnknownNameError: a pattern that fits nothing.
        """
        if setup.state is not None:
            raise MismatchError(
                "positions and velocities are not estimated from a live stream, which must have "
                "positions of all joints: leave `state` out of the sensors file."
            )
        self.problem = setup.problem(robot)
        self.faults = StreamFaults() if faults is None else faults
        self.clock = StreamClock(self.faults)
        if cutoff is not None and not (np.isfinite(cutoff) and cutoff > 0.0):
            raise ShapeError(f"the cut-off is {cutoff:g} Hz: give a positive one.")
        self.cutoff: float | None = None
        self.samples, self.withheld = 0, dict[str, int]()
        self._wanted = cutoff
        self._inputs = LiveInputs(self.problem, setup)
        epoch = time.time() - time.perf_counter()
        self._decoder = SampleDecoder(
            self._inputs.positions,
            self._inputs.others,
            self.faults,
            layout=layout,
            clock=lambda arrived: epoch + arrived,
        )
        self._places, self.columns = _chosen(self.problem, estimates)
        self.contacts = LiveContacts(self.problem, setup.standing, detection, learning, self.faults)
        self._stream = self._rehearsed()
        self._messages, self._first = 0, 0.0
        self._attended = self._started = False
        self._derives = False
        self._period, self._settled = np.inf, -np.inf

    @property
    def counts(self) -> dict[str, int]:
        """What the estimator in the loop counted, apart from samples."""
        return {key: n for key, n in self._stream.counts.items() if key != "samples" and n}

    @property
    def absent(self) -> dict[str, int]:
        """By sensor, how many samples came without a reading of it."""
        return {name: n for name, n in self._stream.absent.items() if n}

    @property
    def health(self) -> dict[str, str]:
        """By sensor that does not work as it should, what is wrong."""
        found = self._stream.health()
        return {name: sensor.words for name, sensor in found.items() if sensor.status != "ok"}

    def step(self, arrival: Arrival) -> LiveResult | None:
        """The result of a message; `None` if it completes no sample, or none can be given."""
        try:
            sample = self._decoder.decode(arrival)
            self._attend(arrival)
            return None if sample is None else self._result(sample)
        except Exception as error:  # no message may end the loop
            self.faults.report(
                "messages that failed",
                f"a message could not be used: {type(error).__name__}: {error}",
            )
            return None

    @property
    def delay(self) -> float:
        """Of the estimates behind the samples, that of the low-pass [s]."""
        return self._stream.delay

    def attend(self) -> None:
        """Name channels that have not come, if anything has."""
        if not self._messages:
            return
        self._attended = True
        inputs, seen = self._inputs, self._decoder.seen
        channels = zip(self._decoder.channels, seen, strict=True)
        missing = {channel for channel, there in channels if not there}
        others = listing(self._decoder.unknown, _NAMES) or "nothing else"
        joints = [q for q in inputs.positions if q in missing]
        if joints:
            self.faults.report(
                "joints without positions",
                f"no positions have come as {listing(joints, _NAMES)}; what came is {others}. Is "
                "it the stream of another robot? Otherwise name the channels in a layout file "
                "(--layout), or lock joints that nobody measures (--lock).",
            )
        readings = [c for c in inputs.channels if c in missing and c not in inputs.derivable]
        if readings:
            self.faults.report(
                "channels that did not come",
                f"no readings have come as {listing(readings, _NAMES)}, and they count as absent; "
                f"what came beside others is {others}. Name them in a layout file (--layout), or "
                "say `channels:` in the sensors file.",
            )

    def _rehearsed(self) -> EstimatorStream:
        """A stream, after doing once what samples need: nothing is compiled or loaded later."""
        problem, gravity = self.problem, self._inputs.gravity
        rest, y = np.zeros(problem.robot.n_joints), np.full(problem.layout.size, np.nan)
        for cutoff in (None, CUTOFF):
            stream = EstimatorStream(problem, gravity=gravity, cutoff=cutoff, rate=_USUAL_RATE)
            self._values(stream.step(Sample(0.0, rest, rest, y)))
            self.contacts.rehearse(stream)
        return EstimatorStream(problem, gravity=gravity)

    def _attend(self, arrival: Arrival) -> None:
        if self._attended:
            return
        self._messages += 1
        self._first = self._first or arrival.at
        if self._messages >= _ATTENDED or arrival.at - self._first > _ATTENDANCE:
            self.attend()

    def _result(self, sample: LiveSample) -> LiveResult | None:
        self.samples += 1
        verdict = self.clock.judge(sample.t, sample.arrived)
        if verdict == "late":
            return self._withhold("late or repeated")
        if verdict != "next":
            self._begin_anew(sample.t, verdict == "restart")
        if not self._attended:
            self._inputs.judge_positions(sample.values, self.faults)
        if not self._started and not self._start(sample.values):
            return self._withhold("before all positions had come")
        if self._wanted is not None and not self._lay_out(sample.t):
            return self._withhold("before the rate of samples was known")
        q, dq = self._inputs.motion(sample.t, sample.values, derives=self._derives)
        y = self._inputs.readings(sample.values)
        twist = self._inputs.base_twist(q, dq, y)
        posterior = self._stream.step(Sample(sample.t, q, dq, y, twist))
        contacts = self.contacts.step(sample.t)
        if sample.t < self._settled:
            return self._withhold("while the low-pass settled")
        results = self._values(posterior)
        if results is None:
            return self._withhold("without finite estimates")
        notes = posterior.notes
        absent = tuple(posterior.absent)
        return LiveResult(sample.t, sample.arrived, results, absent, notes, contacts)

    def _withhold(self, reason: str) -> LiveResult | None:
        self.withheld[reason] = self.withheld.get(reason, 0) + 1
        return None

    def _begin_anew(self, t: float, set_back: bool) -> None:
        """Forget what came before a gap, or before the clock was set back."""
        self._stream.restart()
        self._inputs.forget()
        self._settled = t + _SETTLED * self.delay
        if set_back:
            self._decoder.forget()

    def _start(self, values: Array) -> bool:
        """Whether positions of all joints are there; then whether to filter is decided."""
        inputs = self._inputs
        if not np.isfinite(values[: len(inputs.positions)]).all():
            return False
        self._started = True
        self._derives = bool(np.isnan(values[inputs.derivable_places]).any())
        if self._derives and self._wanted is None:
            self._wanted = CUTOFF
        if self._wanted is None:
            self.contacts.begin(self._stream)
        return True

    def _lay_out(self, t: float) -> bool:
        """Whether the low-pass is there, for which the rate of the samples must be known."""
        clock, wanted = self.clock, self._wanted or CUTOFF
        if self.cutoff is not None:
            if abs(clock.usual / self._period - 1.0) > _CHANGED:
                self.faults.report(
                    "rates that changed",
                    f"samples are {clock.usual:.3g} s apart, and were {self._period:.3g} s apart "
                    "when the low-pass was laid out: its delay is another. Start again.",
                )
            return True
        if not clock.known:
            return False
        rate, self._period = 1.0 / clock.usual, clock.usual
        self.cutoff = usable_cutoff(wanted, rate)
        self._stream = EstimatorStream(
            self.problem,
            gravity=self._inputs.gravity,
            cutoff=self.cutoff,
            rate=rate,
            encoder_std=self._inputs.encoder_std,
        )
        self._settled = t + _SETTLED * self.delay
        self.contacts.begin(self._stream)
        if self.cutoff < wanted:
            self.faults.report(
                "samples that are too rare",
                f"{rate:.3g} samples per second are too few for a cut-off of {wanted:g} Hz: "
                f"signals are filtered at {self.cutoff:.2g} Hz. Is the time in seconds?",
            )
        derived = ", which derives what the source does not have" if self._derives else ""
        self.faults.say(
            f"all signals pass a low-pass of {self.cutoff:.3g} Hz{derived}: estimates are late by "
            f"{1e3 * self.delay:.3g} ms"
        )
        return True

    def _values(self, posterior: Posterior) -> list[float] | None:
        """Means and standard deviations, alternating; `None` if one is not finite."""
        result = np.empty(2 * self._places.size)
        result[0::2] = posterior.mean[self._places]
        if posterior.variance is not None:
            result[1::2] = np.sqrt(np.maximum(posterior.variance[self._places], 0.0))
        return [*map(float, result)] if np.isfinite(result).all() else None


def _chosen(
    problem: MapDynamics, patterns: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Places and names of the numbers that results hold."""
    variables = problem.variables
    if patterns:
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in variables):
                raise unknown_name("estimate", pattern, variables)
        names = [v for v in variables if any(fnmatchcase(v, pattern) for pattern in patterns)]
    else:
        links = [problem.tree.names[i] for i in problem.tree.with_unknowns]
        wrenches = [x for x in links if problem.assumptions.wrench_of(x).covariance.any()]
        names = [f"fx.{link}" for link in wrenches]
        names += [name for name in variables if name.startswith("tau.")]
    every = np.arange(variables.size)
    places = np.concatenate([every[:0], *(every[variables[name]] for name in names)])
    columns = components(variables, problem)
    return places, tuple(columns[k][0] for k in places)
