"""Smooth motions of joints: derivatives of a known one, and joints that stand."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.logs.filtering import LEAST_RANGE, smooth_motion, standing, usable_cutoff

RATE = 200.0


def test_derivatives_of_a_sine():
    t = np.arange(2000) / RATE
    w = np.array([2.0, 5.0])
    motion = smooth_motion(np.sin(np.outer(t, w)), RATE, 10.0)
    inner = slice(100, -100)
    np.testing.assert_allclose(motion.q[inner], np.sin(np.outer(t, w))[inner], atol=1e-4)
    np.testing.assert_allclose(motion.v[inner], (w * np.cos(np.outer(t, w)))[inner], atol=1e-3)
    np.testing.assert_allclose(
        motion.a[inner], (-(w**2) * np.sin(np.outer(t, w)))[inner], atol=1e-2
    )


def test_noise_of_a_standing_joint_is_no_motion(rng):
    q = np.stack(
        [0.3 + rng.normal(scale=0.1 * LEAST_RANGE, size=1000), np.sin(np.arange(1000) / RATE)],
        axis=1,
    )
    motion = smooth_motion(q, RATE, 20.0)
    assert not motion.v[:, 0].any()
    assert not motion.a[:, 0].any()
    assert motion.v[:, 1].any()


def test_a_cutoff_stays_below_half_the_rate():
    assert usable_cutoff(10.0, 100.0) == 10.0
    assert usable_cutoff(100.0, 100.0) == pytest.approx(45.0)


def test_slow_joints_stand_at_lower_speeds():
    v = np.stack([np.linspace(-1.0, 1.0, 101), np.linspace(-0.02, 0.02, 101)], axis=1)
    still = standing(v, 0.02)
    assert still[50].all()
    assert not still[0].any()
    assert still[:, 1].mean() < 0.1
