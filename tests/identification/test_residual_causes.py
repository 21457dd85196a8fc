"""What residuals follow is named where a model lacks it, and nothing is where they are noise."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification.preprocessing import Motion
from bodysense.identification.residual_causes import residual_causes
from bodysense.identification.scores import Prediction
from bodysense.spatial import Array

NAMES = ("shoulder", "elbow", "wrist")
RATE = 100.0


@pytest.fixture(scope="module")
def motion(sines) -> Motion:
    t, q, v, a = sines(3, 2, 2000, RATE)
    rng = np.random.default_rng(0)
    tau = 5.0 * np.sin(q) + a + 0.2 * rng.normal(size=q.shape)
    return Motion(t, q, v, a, tau, tau, RATE)


def predictions_of(motion: Motion, residual: Array) -> list[Prediction]:
    """Two pieces of a recording, of which the elbow's torque is off by the residual."""
    made = []
    for part in (slice(None, 1200), slice(1200, None)):
        m = Motion(
            *(x[part] for x in (motion.t, motion.q, motion.v, motion.a)),
            motion.tau[part],
            motion.tau[part],
            RATE,
        )
        model = m.tau - residual[part, None] * np.array([0.0, 1.0, 0.0])
        rows = np.ones(m.q.shape, dtype=bool)
        made.append(
            Prediction(
                "a",
                "held-out",
                0,
                m.t,
                m.tau,
                m.tau,
                model,
                model,
                model,
                model,
                rows,
                rows,
                1.0,
                50.0,
                motion=m,
            )
        )
    return made


LACKS = {
    "its velocity": lambda m: np.tanh(m.v[:, 1] / 0.02),
    "its load": lambda m: 0.3 * np.abs(m.tau[:, 1]) * np.tanh(m.v[:, 1] / 0.02),
    "its position": lambda m: 2.0 * m.q[:, 1],
    "its acceleration": lambda m: 0.3 * m.a[:, 1],
    "the motion of wrist": lambda m: 0.5 * m.v[:, 2] + np.tanh(m.v[:, 2] / 0.02),
}


@pytest.mark.parametrize("follows", LACKS)
def test_what_the_model_lacks_is_named(follows, motion):
    noise = 0.1 * np.random.default_rng(1).normal(size=motion.t.size)
    (cause,) = residual_causes(
        NAMES, predictions_of(motion, LACKS[follows](motion) + noise), ["elbow"]
    ).values()
    assert cause.follows == follows
    assert 0.5 < cause.share <= 1.0


def test_noise_follows_nothing(motion):
    noise = np.random.default_rng(1).normal(size=motion.t.size)
    assert residual_causes(NAMES, predictions_of(motion, noise), NAMES) == {}
