"""Readings that are missing, late or far apart, a sample at a time."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.estimation import MomentumObserver, Posterior
from bodysense.robot import load_robot


@pytest.fixture
def observer(arm):
    return MomentumObserver(arm, torque_std=0.1, velocity_std=1e-3)


@pytest.fixture
def readings(pushed_arm):
    return pushed_arm.noisy(np.random.default_rng(4), 0.1, 1e-3)


def test_steps_are_the_recording(observer, readings, tmp_path):
    whole = observer.estimate(**readings).posterior()
    stream = observer.stream()
    rows = list(zip(*readings.values(), strict=True))
    steps = [stream.step(*row) for row in rows[:200]]
    rest = stream.run(**{name: value[200:] for name, value in readings.items()}).posterior()
    joined = Posterior.joined(steps)
    assert joined.mean == pytest.approx(whole.mean[:200], rel=1e-12)
    assert joined.variance == pytest.approx(whole.variance[:200], rel=1e-12)
    assert rest.mean == pytest.approx(whole.mean[200:], rel=1e-12)
    assert whole.blocks["tau_ext.panda_joint1"][:, 0, 0] == pytest.approx(whole.variance[:, 0])
    whole.save(tmp_path)
    assert Posterior.load(tmp_path).mean == pytest.approx(whole.mean)


def bursts(T, together):
    """(T, 7) of 100 ms, of one joint after the other or of all at a time."""
    gone = np.zeros((T, 7), dtype=bool)
    for j in range(7):
        for first in range(200 + 60 * j * (not together), T - 100, 700):
            gone[first : first + 50, j] = True
    return gone


@pytest.mark.parametrize("names", [("dq",), ("tau",), ("q", "dq"), ("q", "dq", "tau")])
@pytest.mark.parametrize("kind", ["scattered", "one", "all"])
def test_what_is_missing_makes_the_band_wider(pushed_arm, observer, readings, names, kind):
    T, rng = pushed_arm.t.size, np.random.default_rng(6)
    gone = rng.random((T, 7)) < 0.1 if kind == "scattered" else bursts(T, kind == "all")
    damaged = dict(readings)
    for name in names:
        damaged[name] = np.where(gone, np.nan, readings[name])
    estimate = observer.estimate(**damaged)
    assert np.isfinite(estimate.tau_ext).all()
    assert np.isfinite(estimate.variance).all()
    assert np.isfinite(estimate.q).all()
    error = np.abs(estimate.tau_ext - pushed_arm.tau_ext)
    sigma = np.sqrt(estimate.variance)
    assert (error < 2.0 * sigma).mean() > 0.9
    assert (error < 2.0 * sigma)[gone].mean() > 0.85
    if kind == "all":
        whole = np.sqrt(observer.estimate(**readings).variance)
        last = np.flatnonzero(gone[:, 0])[49]
        assert (sigma[last] > 1.5 * whole[last]).all()
        assert estimate.updated[last] == ("dq" not in names)
        assert sigma[last + 200] == pytest.approx(whole[last + 200], rel=0.2)


def test_nothing_but_missing_readings_is_the_prior(observer):
    nothing = np.full((5, 7), np.nan)
    estimate = observer.estimate(np.arange(5) / 100.0, nothing, nothing, nothing)
    assert np.array_equal(estimate.tau_ext, np.zeros((5, 7)))
    assert np.sqrt(estimate.variance) == pytest.approx(np.full((5, 7), 100.0))


@pytest.mark.parametrize("name", ["tx40-coupled", "example:hyq", "example:panda"])
def test_whatever_comes_in_what_comes_out_is_a_covariance(name, robot_of, rng):
    """Readings that no robot gives, NaN, infinite and huge ones, at any times."""
    robot = load_robot(name, floating_base=True) if name == "example:hyq" else robot_of(name)
    n, T = robot.n_joints, 200

    def wild(width, scale):
        x, kind = rng.normal(size=(T, width)) * scale, rng.random((T, width))
        x[kind < 0.1], x[kind > 0.98] = np.nan, np.inf
        x[(kind > 0.96) & (kind < 0.97)] = 1e8 * rng.normal()
        return x

    for _ in range(8):
        twist = dict(base_twist_std=10.0 ** rng.uniform(-6, 0)) if robot.floating_base else {}
        observer = MomentumObserver(
            robot,
            torque_std=10.0 ** rng.uniform(-4, 2),
            velocity_std=10.0 ** rng.uniform(-7, 1),
            bandwidth=10.0 ** rng.uniform(-1, 3),
            friction_error=0.1,
            gravity_std=0.1,
            **twist,
        )
        t = np.cumsum(10.0 ** rng.uniform(-5.0, -1.5, T))
        t[rng.random(T) < 0.02] = np.nan
        base = dict(base_twist=wild(6, 1.0), gravity=wild(3, 9.0)) if robot.floating_base else {}
        estimate = observer.estimate(t, wild(n, 1.0), wild(n, 1.0), wild(n, 20.0), **base)
        for values in (estimate.tau_ext, estimate.covariance, estimate.lag, estimate.q):
            assert np.isfinite(values).all()
        axes = np.linalg.eigvalsh(estimate.covariance)
        assert (axes[:, 0] > -1e-9 * axes[:, -1]).all()


def test_steps_of_any_length(pushed_arm, observer, readings):
    """Half of the samples, drawn: the covariance holds with steps that are never the same."""
    kept = np.sort(np.random.default_rng(0).choice(3000, 1500, replace=False))
    estimate = observer.estimate(**{name: value[kept] for name, value in readings.items()})
    inside = np.abs(estimate.tau_ext - pushed_arm.tau_ext[kept]) < 2 * np.sqrt(estimate.variance)
    assert 0.92 < inside.mean() < 0.98


def test_late_samples_change_nothing_and_gaps_begin_anew(observer, readings):
    rows = list(zip(*readings.values(), strict=True))
    stream = observer.stream()
    for row in rows[:300]:
        posterior = stream.step(*row)
    assert stream.t == pytest.approx(299 / 500.0)
    for row in (rows[100], rows[299], (np.nan, *rows[300][1:])):
        late = stream.step(*row)
        assert np.array_equal(late.mean, posterior.mean)
    assert stream.step(*rows[300]).sigma("tau_ext.panda_joint1") < 1.0
    assert stream.step(*rows[600]).sigma("tau_ext.panda_joint1") == pytest.approx(100.0, rel=1e-6)
    stream.restart()
    assert stream.step(*rows[0]).mean == pytest.approx(np.zeros(7))


def test_readings_of_another_robot_are_refused(observer, readings):
    with pytest.raises(ShapeError, match="7 positions"):
        observer.stream().step(0.0, np.zeros(6), np.zeros(7), np.zeros(7))
    with pytest.raises(ShapeError, match=r"tau has shape \(3000, 6\), expected \(3000, 7\)"):
        observer.estimate(**(readings | {"tau": readings["tau"][:, :6]}))
