"""Forward sensitivities against finite differences of rollouts."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.excitation import FourierTrajectory, HoldTrajectory, SampledTrajectory
from bodysense.robot import (
    Actuators,
    Controller,
    Friction,
    Robot,
    base_parameters,
    inverse_dynamics,
)
from bodysense.robot.dynamics import drive_loads
from bodysense.simulation import rollout, sensitivities
from bodysense.simulation._kernels.sensitivity import run_with_tangent_batch

KINDS = {"M": 2e-3, "MX": 2e-4, "MY": 2e-4, "MZ": 2e-4, "Ia": 4e-5, "Iam": 4e-5}
INERTIAS = dict.fromkeys(("XX", "XY", "YY", "XZ", "YZ", "ZZ"), 2e-5)


def step_of(name: str) -> float:
    """Choose the step: a small change of its kind of parameter, by far above rounding."""
    return {**KINDS, **INERTIAS}.get(name.rstrip("0123456789"), 2e-3)


def differences(robot: Robot, motion, columns, **settings):
    """(n_s, n, n_p) derivatives of q and tau, of fourth order (Richardson)."""
    theta = np.asarray(settings.pop("theta", robot.theta))
    steps = np.array([step_of(robot.layout.names[k]) for k in columns])
    rows = np.tile(theta, (4, len(columns), 1))
    for point, factor in enumerate((1.0, -1.0, 2.0, -2.0)):
        rows[point, np.arange(len(columns)), columns] += factor * steps
    result = rollout(robot, motion, theta=rows.reshape(-1, theta.size), **settings)
    assert result.ok
    for values in (result.q, result.tau):
        ahead, behind, far_ahead, far_behind = values.reshape(4, len(columns), *values.shape[1:])
        near = (ahead - behind) / (2.0 * steps[:, None, None])
        far = (far_ahead - far_behind) / (4.0 * steps[:, None, None])
        yield np.moveaxis((4.0 * near - far) / 3.0, 0, -1)


def assert_columns_close(actual, expected, names, tolerance):
    """Equal up to a fraction of the largest entry of each parameter."""
    assert actual.shape == expected.shape
    size = np.abs(expected).max(axis=(0, 1))
    assert (size > 0.0).all()
    error = np.abs(actual - expected).max(axis=(0, 1)) / size
    worst = int(np.argmax(error))
    assert error[worst] < tolerance, (names[worst], error[worst])


def check(robot: Robot, motion, parameters=None, *, tolerance=1e-5, **settings):
    """Compare with differences; by base parameters unless some are named."""
    base = base_parameters(robot) if parameters is None else None
    found = sensitivities(robot, motion, base=base, parameters=parameters, **settings)
    if base is not None:
        columns = base.independent
        assert found.parameters == base.names
    else:
        columns = np.array([robot.layout.index(name) for name in parameters])
        assert found.parameters == tuple(parameters)
    same = rollout(robot, motion, **settings)
    for name in ("t", "q", "tau"):
        expected = getattr(same, name)
        atol = 1e-12 * np.abs(expected).max()
        np.testing.assert_allclose(getattr(found, name), expected, rtol=0, atol=atol)
    assert np.isnan(found.lost_at).all()
    dq, dtau = differences(robot, motion, columns, **settings)
    assert_columns_close(found.dq[0], dq, found.parameters, tolerance)
    assert_columns_close(found.dtau[0], dtau, found.parameters, tolerance)
    return found


def smooth(robot: Robot, width: float = 0.05) -> Robot:
    return robot.with_friction("coulomb", coefficients={}, width=width)


@pytest.fixture(scope="module")
def tx40(robot_of):
    return smooth(robot_of("tx40"))


@pytest.fixture(scope="module")
def coupled(robot_of):
    """Build the TX40 with inertia, viscous and Coulomb friction of its coupled motor."""
    return smooth(robot_of("tx40-three")).with_parameter_values({"Iam6": 0.005})


# -- against differences -------------------------------------------------------------------


def test_all_52_base_parameters_of_the_tx40(tx40, wave_of):
    found = check(tx40, wave_of(6, 2.0, speed=1.5), sampling_rate=500.0)
    assert found.dq.shape == found.dtau.shape == (1, 1001, 6, 52)


def test_ten_seconds_at_5_khz(tx40):
    lower, upper = tx40.position_limits
    motion = FourierTrajectory.random(
        6,
        duration=10.0,
        harmonics=5,
        lower=lower,
        upper=upper,
        velocity=tx40.velocity_limit,
        acceleration=tx40.acceleration_limit,
        rng=np.random.default_rng(0),
    )
    check(tx40, motion, ["ZZ1", "MX2", "M3", "Fc3", "Ia4", "Fv6"], sampling_rate=100.0)


@pytest.mark.parametrize(("integrator", "substeps"), [("euler", 3), ("rk2", 1), ("rk4", 2)])
def test_integrators(integrator, substeps, tx40, wave_of):
    check(tx40, wave_of(6), integrator=integrator, substeps=substeps, sampling_rate=1000.0)


def pid(robot: Robot) -> Controller:
    own = robot.controller
    return Controller.from_gains(6, kp=own.kp, kd=own.kd, ki=8.0 * own.kp, rate=4000.0)


def test_integral(tx40, wave_of):
    check(tx40, wave_of(6), controller=pid(tx40))


def test_feed_forward_and_another_start(tx40, wave_of):
    motion = wave_of(6)
    _, q, v, a = motion.sample(5000.0)
    feed_forward = inverse_dynamics(tx40, q, v, a)
    check(tx40, motion, feed_forward=feed_forward, start=(q[0] + 0.002, v[0] - 0.2))


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_coupled_motor(integrator, coupled, wave_of):
    found = check(coupled, wave_of(6), integrator=integrator, controller=pid(coupled))
    assert [name[:4] for name in found.parameters[-3:]] == ["Iam6", "Fvm6", "Fcm6"]
    _, q, v, a = wave_of(6).sample(5000.0)
    check(coupled, wave_of(6), ["Fcm6"], feed_forward=inverse_dynamics(coupled, q, v, a))


@pytest.mark.parametrize("integrator", ["euler", "rk2", "rk4"])
def test_a_controller_that_differentiates_positions(integrator, tx40, wave_of):
    settings = {"integrator": integrator, "sampling_rate": 1000.0}
    found = check(tx40, wave_of(6), differentiate=True, **settings)
    plain = sensitivities(tx40, wave_of(6), base=base_parameters(tx40), **settings)
    assert np.abs(found.dtau - plain.dtau).max() > 1e-3 * np.abs(plain.dtau).max()


def test_differences_with_all_else_that_a_controller_has(coupled, wave_of):
    """An integral, coupled motors, feed-forward, and a start in the middle of a motion."""
    motion = wave_of(6)
    _, q, v, a = motion.sample(4000.0)
    torque, start = 0.5 * inverse_dynamics(coupled, q, v, a), (q[0] + 0.002, v[0] - 0.2)
    settings = {"controller": pid(coupled), "substeps": 2, "differentiate": True}
    check(coupled, motion, feed_forward=torque, start=start, **settings)


def test_a_saturated_motor_that_differentiates_does_not_answer(tx40, limited, wave_of):
    limit = np.array([np.inf, np.inf, 5.0, np.inf, np.inf, np.inf])
    robot, motion = limited(tx40, limit), wave_of(6)
    _, q, v, _ = motion.sample(5000.0)
    start = (q[0] - [0.0, 0.0, 0.3, 0.0, 0.0, 0.0], v[0])
    settings = {"start": start, "saturate": True, "differentiate": True}
    base = base_parameters(robot)
    found = sensitivities(robot, motion, base=base, **settings)
    dq, dtau = differences(robot, motion, base.independent, **settings)
    assert_columns_close(found.dq[0], dq, found.parameters, 1e-5)
    assert_columns_close(found.dtau[0], dtau, found.parameters, 1e-5)
    assert not found.dtau[0, 1:, 2].any()


def test_stribeck_and_offset(tx40, wave_of):
    coefficients = {"Fs": [9, 10, 8, 3, 4, 2], "Fo": 0.3}
    shape = {"width": 0.1, "vs": 0.3, "delta": 1.6}
    robot = tx40.with_friction("stribeck-offset", coefficients=coefficients, **shape)
    found = check(robot, wave_of(6))
    assert len(found.parameters) == 64


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_load_dependent_friction(integrator, random_model, gains_for):
    # All loads keep their sign, so that no step of a difference crosses the kink of |T|.
    model = random_model(np.random.default_rng(0), 3)
    model.gravity.linear = np.array([4.0, 6.0, -7.0])
    coupling = [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    robot = Robot.from_pinocchio(
        model,
        friction=Friction.from_model("stribeck-load", 3, vs=0.3, delta=1.5, width=0.05),
        coefficients={"Fv": 0.3, "Fc": 0.2, "Fs": 0.6, "Fl": [0.1, 0.3, 0.2], "Iam": 0.005},
        actuators=Actuators.from_values(3, coupling=coupling, coupled_terms=("Iam", "Fcm")),
    )
    controller, times = gains_for(robot), np.linspace(0.0, 0.2, 8)
    points = np.outer(times + 4.0 * times**2, [0.5, -0.5, 0.5])
    motion = SampledTrajectory(times, points, at_rest=False)
    _, *states = motion.sample(controller.rate)
    settings = {"controller": controller, "feed_forward": inverse_dynamics(robot, *states)}
    found = check(robot, motion, integrator=integrator, **settings)
    assert {"Fl1", "Fl2", "Fl3", "Iam3"} <= set(found.parameters)
    run = rollout(robot, motion, **settings)
    side = np.sign(drive_loads(robot, run.q[0], run.v[0], run.a[0]))
    assert (side == side[0]).all()


def test_a_friction_law_of_the_users(custom_law, tx40, wave_of):
    robot = tx40.with_friction(custom_law, coefficients={"Fv": 0.5, "Fa": 2.0, "Fq": 0.3})
    check(robot, wave_of(6))


@pytest.mark.parametrize("law", ["none", "viscous"])
def test_without_coulomb_friction(law, tx40, wave_of):
    check(tx40.with_friction(law, coefficients={}), wave_of(6))


def test_a_jump_that_is_not_passed(robot_of):
    # All velocities keep their sign, so that sign(v) is as good as any constant.
    times = np.linspace(0.0, 0.2, 8)
    points = np.outer(times + 4.0 * times**2, [1.0, -1, 1, -1, 1, -1])
    pose = np.array([0.3, -0.5, 0.8, 0.4, -0.6, 0.2])
    faster = SampledTrajectory(times, pose + points, at_rest=False)
    found = check(robot_of("tx40"), faster)
    direction = np.sign(rollout(robot_of("tx40"), faster).v[0])
    assert (direction == direction[0]).all()
    assert "Fc1" in found.parameters


@pytest.mark.parametrize("name", ["branched", "serial"])
def test_trees_of_turning_and_sliding_joints(name, robot_of, gains_for, wave_of):
    robot = robot_of(name)
    check(robot, wave_of(12), controller=gains_for(robot), integrator="rk2")


def test_motors_that_couple_branches(robot_of, gains_for, wave_of):
    coupling = np.eye(12)
    coupling[np.ix_([3, 8], [3, 8])] = [[1.0, 1.0], [-1.0, 1.0]]
    drives = Actuators.from_values(12, coupling=coupling, coupled_terms=("Iam", "Fvm", "Fcm"))
    values = {"Iam": [0.02, 0.05], "Fvm": 0.3, "Fcm": 0.4}
    robot = robot_of("branched").with_actuators(drives, values)
    names = ["Iam4", "Fvm4", "Fcm4", "Iam9", "Fvm9", "Fcm9", "M8", "Ia4", "Fv9", "Fs1"]
    check(robot, wave_of(12), names, controller=gains_for(robot, ki=2000.0))


def test_saturated_motors_do_not_answer(tx40, limited, wave_of):
    limit = np.array([np.inf, np.inf, 5.0, np.inf, 2.0, np.inf])
    robot, motion = limited(tx40, limit), wave_of(6)
    _, q, v, _ = motion.sample(4000.0)
    start = (q[0] - [0.0, 0.0, 0.3, 0.0, -0.4, 0.0], v[0])
    settings = {"controller": pid(robot), "start": start, "saturate": True}
    held = np.abs(rollout(robot, motion, **settings).tau[0]) == limit
    np.testing.assert_array_equal(held.mean(axis=0), [0, 0, 1, 0, 1, 0])
    base = base_parameters(robot)
    found = sensitivities(robot, motion, base=base, **settings)
    dq, dtau = differences(robot, motion, base.independent, **settings)
    assert_columns_close(found.dq[0], dq, found.parameters, 1e-5)
    assert_columns_close(found.dtau[0], dtau, found.parameters, 1e-5)
    assert not found.dtau[0, :, [2, 4]].any()


def test_a_motor_that_leaves_its_limit(tx40, limited, wave_of):
    # PID: the integral has stood still, then runs on, and so does its derivative.
    limit = np.array([60.0, *[np.inf] * 5])
    robot, motion = limited(tx40, limit), HoldTrajectory(wave_of(6).q0, 0.3)
    away = np.array([0.02, 0.01, 0.01, 0.01, 0.01, 0.01])
    start = (wave_of(6).q0 + away, np.zeros(6))
    settings = {"controller": pid(robot), "start": start, "saturate": True}
    names = ["Ia1", "Fv1", "ZZ1", "Fc1", "Ia2"]
    theta = np.tile(robot.theta, (2 * len(names), 1))
    for k, name in enumerate(names):
        theta[[2 * k, 2 * k + 1], robot.layout.index(name)] += [
            2 * step_of(name),
            -2 * step_of(name),
        ]
    held = np.abs(rollout(robot, motion, theta=theta, **settings).tau[..., 0]) == limit[0]
    assert 10 < held[0].sum() < held.shape[1] - 100
    assert (held == held[0]).all()  # otherwise differences would be taken across a switch
    check(robot, motion, names, **settings)


# -- without differences -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tx40-three", "branched"])
def test_all_parameters_follow_from_the_base_parameters(name, robot_of, gains_for, wave_of):
    robot = smooth(robot_of(name))
    if name == "tx40-three":
        robot = robot.with_parameter_values({"Iam6": 0.005})
    motion = wave_of(robot.n_joints, 0.1)
    settings = {"controller": gains_for(robot), "sampling_rate": 100.0}
    base = base_parameters(robot)
    every = sensitivities(robot, motion, **settings)
    assert every.parameters == robot.layout.names
    reduced = sensitivities(robot, motion, base=base, **settings)
    for name in ("dq", "dtau"):  # theta_base = mapping @ theta
        expected = getattr(reduced, name) @ base.mapping
        atol = 1e-9 * np.abs(expected).max()
        np.testing.assert_allclose(getattr(every, name), expected, rtol=0, atol=atol)


def test_unphysical_parameters(tx40, wave_of, rng):
    base, motion = base_parameters(tx40), wave_of(6)
    theta = base.join(base.to_base(tx40.theta), rng.normal(size=base.dependent.size))
    assert (theta[tx40.layout.inertial][::10] < 0.0).any()
    own = sensitivities(tx40, motion, base=base)
    other = sensitivities(tx40, motion, base=base, theta=theta)
    for name in ("q", "tau"):
        expected = getattr(own, name)
        atol = 1e-8 * np.abs(expected).max()
        np.testing.assert_allclose(getattr(other, name), expected, rtol=0, atol=atol)
    for name in ("dq", "dtau"):
        assert_columns_close(getattr(other, name)[0], getattr(own, name)[0], base.names, 1e-8)


def test_a_batch_is_its_runs_on_any_number_of_threads(coupled, wave_of, rng):
    motion, names = wave_of(6, 0.05), ["ZZ1", "Fcm6", "Fv2"]
    theta = coupled.theta * rng.uniform(0.98, 1.02, (5, coupled.layout.size))
    before = numba.get_num_threads()
    together = []
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            together.append(sensitivities(coupled, motion, parameters=names, theta=theta))
    finally:
        numba.set_num_threads(before)
    for name in ("q", "tau", "dq", "dtau"):
        np.testing.assert_array_equal(getattr(together[0], name), getattr(together[1], name))
        for run in (0, 4):
            alone = sensitivities(coupled, motion, parameters=names, theta=theta[run])
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together[0], name)[run])


def test_chosen_parameters_and_samples(tx40, wave_of):
    motion = wave_of(6, 0.1)
    every = sensitivities(tx40, motion)
    names = ["Fv6", "M3", "Ia1"]
    few = sensitivities(tx40, motion, parameters=names, sampling_rate=140.0)
    assert few.parameters == tuple(names)
    steps = np.round(few.t * 5000.0).astype(int)
    assert steps.tolist() == [round(k * 5000 / 140) for k in range(15)]
    columns = [tx40.layout.index(name) for name in names]
    np.testing.assert_array_equal(few.q, every.q[:, steps])
    np.testing.assert_array_equal(few.dq, every.dq[:, steps][..., columns])
    np.testing.assert_array_equal(few.dtau, every.dtau[:, steps][..., columns])
    assert not every.dq[:, 0].any()  # the start does not depend on parameters
    compiled = len(run_with_tangent_batch.signatures)
    frozen = tx40.theta.copy()
    frozen.flags.writeable = False
    sensitivities(tx40, motion, parameters=names, theta=frozen)
    assert len(run_with_tangent_batch.signatures) == compiled


@pytest.mark.parametrize("sampling_rate", [None, 140.0])
def test_a_lost_run(sampling_rate, tx40):
    impossible = tx40.theta.copy()
    impossible[tx40.layout.index("Ia1")] = -2.0  # pushed one way, it goes the other
    motion = HoldTrajectory(np.zeros(6), 0.6)
    settings = {
        "theta": [impossible, tx40.theta],
        "start": (np.full(6, 0.01), np.zeros(6)),
        "sampling_rate": sampling_rate,
    }
    found = sensitivities(tx40, motion, parameters=["Ia6", "ZZ1"], **settings)
    result = rollout(tx40, motion, **settings)
    np.testing.assert_array_equal(found.lost_at, result.lost_at)
    np.testing.assert_array_equal(np.isnan(found.lost_at), [False, True])
    before = found.t < found.lost_at[0]
    for name in ("q", "tau", "dq", "dtau"):
        values = getattr(found, name)
        assert np.isfinite(values[0, before]).all()
        assert np.isnan(values[0, ~before]).all()
        assert np.isfinite(values[1]).all()


# -- what is refused -----------------------------------------------------------------------


def test_friction_with_a_state_is_refused(tx40, wave_of):
    robot = tx40.with_friction("lugre", coefficients={"Fs": 1.0})
    with pytest.raises(MismatchError, match=r"'lugre' has a state.*with_friction\(\"stribeck\""):
        sensitivities(robot, wave_of(6))


def test_bad_choices_of_parameters(tx40, coupled, robot_of, wave_of):
    motion = wave_of(6)
    for other in (robot_of("serial"), coupled, tx40.with_friction("viscous", coefficients={})):
        with pytest.raises(MismatchError, match="base belongs to another robot"):
            sensitivities(tx40, motion, base=base_parameters(other))
    with pytest.raises(MismatchError, match="base or parameters, not both"):
        sensitivities(tx40, motion, base=base_parameters(tx40), parameters=["M1"])
    with pytest.raises(UnknownNameError, match=r"unknown parameter 'M9'.*M1"):
        sensitivities(tx40, motion, parameters=["M1", "M9"])
    with pytest.raises(UnknownNameError, match=r"unknown parameter.*M1"):
        sensitivities(tx40, motion, parameters=[])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"integrator": "rk3"}, UnknownNameError, "unknown integrator 'rk3'"),
        ({"substeps": 0}, ShapeError, "substeps is 0"),
        ({"sampling_rate": 6000.0}, ShapeError, "sampling rate is 6000 Hz"),
        ({"theta": np.full(78, np.inf)}, ShapeError, "theta holds inf"),
        ({"theta": np.ones(70)}, ShapeError, r"theta has shape \(1, 70\)"),
        ({"theta": np.ones((0, 78))}, ShapeError, "theta has no rows"),
        ({"start": (np.zeros(6), np.zeros(5))}, ShapeError, "start velocity"),
        ({"feed_forward": np.zeros((3, 6))}, ShapeError, "feed_forward has shape"),
        (
            {"controller": Controller.from_gains(2, kp=1.0, kd=1.0, rate=1.0)},
            MismatchError,
            "controller is for 2 joints",
        ),
    ],
)
def test_bad_settings_are_refused(wrong, error, message, tx40, wave_of):
    with pytest.raises(error, match=message):
        sensitivities(tx40, wave_of(6), **wrong)


def test_robots_that_cannot_be_simulated(tx40, robot_of, wave_of):
    with pytest.raises(MismatchError, match="floats"):
        sensitivities(robot_of("floating"), wave_of(12))
    with pytest.raises(MismatchError, match="another robot"):
        sensitivities(tx40, wave_of(12))
    with pytest.raises(MismatchError, match="without a controller"):
        sensitivities(robot_of("serial"), wave_of(12))
