"""Compiled dynamics against Pinocchio, for robots of every shape and parameters of any value."""

from __future__ import annotations

import numba
import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import ShapeError
from bodysense.robot import (
    Actuators,
    Robot,
    energy_regressor,
    forward_dynamics,
    inverse_dynamics,
    mass_matrix,
    torque_regressor,
)

RANDOM = ["serial", "branched", "floating"]
REAL = ["tx40", "tx40-coupled", "rv2sq", "example:panda", "example:talos", "example:tiago"]
every_robot = pytest.mark.parametrize("name", [*RANDOM, *REAL])


def friction_of(robot: Robot, v):
    """Friction torques (n_t, nv) from the numpy form of the law, and its definition for motors."""
    layout, first = robot.layout, robot.nv - robot.n_joints
    tau = np.zeros_like(v)
    for j in range(robot.n_joints):
        phi, _ = robot.friction.model.basis(v[:, first + j], robot.friction.shape[j])
        F = [robot.theta[layout.friction(term)][j] for term in layout.friction_terms]
        tau[:, first + j] = phi @ np.array(F)
    for (term, motor), value in zip(layout.coupled, robot.theta[layout.coupling], strict=True):
        c = robot.actuators.coupling[motor]
        shared = np.outer(c, c) - np.diag(c * c)
        if term == "Fvm":
            tau[:, first:] += value * v[:, first:] @ shared
        elif term == "Fcm":
            tau[:, first:] += value * np.outer(np.sign(v[:, first:] @ c), c)
    return tau


def assert_close(actual, expected, tolerance=1e-12):
    """Equal up to a fraction of the largest entry: the size of the quantity."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@every_robot
def test_inverse_dynamics_is_pinocchio_plus_friction(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 7)
    data = robot.model.createData()
    rigid = np.array([pin.rnea(robot.model, data, *state) for state in zip(q, v, a, strict=True)])
    assert_close(inverse_dynamics(robot, q, v, a), rigid + friction_of(robot, v))


@every_robot
def test_mass_matrix_is_pinocchios(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, _, _ = states_of(robot, rng, 5)
    data = robot.model.createData()
    for row, M in zip(q, mass_matrix(robot, q), strict=True):
        pin.crba(robot.model, data, row)
        expected = np.triu(data.M) + np.triu(data.M, 1).T
        assert_close(M, expected)
        np.testing.assert_array_equal(M, M.T)


@every_robot
def test_forward_dynamics_is_pinocchios_less_friction(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, tau = states_of(robot, rng, 5)
    data = robot.model.createData()
    net = tau - friction_of(robot, v)
    expected = [pin.aba(robot.model, data, *state) for state in zip(q, v, net, strict=True)]
    for actual, one in zip(forward_dynamics(robot, q, v, tau), expected, strict=True):
        assert_close(actual, one, tolerance=1e-10)  # the matrix has a condition up to 1e5


@every_robot
def test_forward_undoes_inverse(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, tau = states_of(robot, rng, 5)
    a = forward_dynamics(robot, q, v, tau)
    scale = np.abs(mass_matrix(robot, q)).max() * np.abs(a).max()
    back = inverse_dynamics(robot, q, v, a)
    np.testing.assert_allclose(back, tau, rtol=0, atol=1e-12 * scale)


def test_coupled_inertia_is_in_the_mass_matrix(robot_of, states_of, rng):
    robot = robot_of("tx40-three")
    q, v, a = states_of(robot, rng, 5)
    shared = np.zeros((6, 6))
    shared[4, 5] = shared[5, 4] = robot.parameter("Iam6")
    plain = robot.with_parameter_values({"Iam6": 0.0})
    difference = mass_matrix(robot, q) - mass_matrix(plain, q)
    np.testing.assert_allclose(difference, np.broadcast_to(shared, (5, 6, 6)), rtol=0, atol=1e-14)
    moved = inverse_dynamics(robot, q, v, a) - inverse_dynamics(plain, q, v, a)
    np.testing.assert_allclose(moved, a @ shared, rtol=0, atol=1e-12)
    tau = inverse_dynamics(robot, q, v, a)
    np.testing.assert_allclose(forward_dynamics(robot, q, v, tau), a, rtol=0, atol=1e-10)


# Joints 5 and 6 of the branched robot are on different branches; ±1 makes CᵀC diagonal although
# each of the two motors couples them.
DIFFERENTIAL = [[1.0, 1.0], [-1.0, 1.0]]


@pytest.mark.parametrize("wrist", [DIFFERENTIAL, [[1.0, 0.5], [0.0, 1.0]]], ids=["±1", "one-way"])
@pytest.mark.parametrize("name", ["branched", "floating", "serial"])
def test_motors_that_couple_branches(name, wrist, robot_of, states_of, rng):
    robot = robot_of(name)
    coupling = np.eye(12)
    coupling[np.ix_([3, 8], [3, 8])] = wrist
    drives = Actuators.from_values(12, coupling=coupling, coupled_terms=("Iam", "Fvm", "Fcm"))
    motors = len(drives.coupled_motors)
    robot = robot.with_actuators(drives, {"Iam": [0.02, 0.05][:motors], "Fvm": 0.3, "Fcm": 0.4})
    q, v, a = states_of(robot, rng, 150)  # several samples a chunk, in the same memory
    plain = robot.with_actuators(Actuators.from_values(12))
    expected = mass_matrix(plain, q)
    for motor, value in zip(drives.coupled_motors, [0.02, 0.05], strict=False):
        c = coupling[motor]
        expected[:, -12:, -12:] += value * (np.outer(c, c) - np.diag(c * c))
    np.testing.assert_allclose(mass_matrix(robot, q), expected, rtol=0, atol=1e-12)
    tau = inverse_dynamics(robot, q, v, a)
    bias = inverse_dynamics(robot, q, v, np.zeros_like(a))
    assert_close(tau - bias, np.einsum("tij,tj->ti", expected, a))
    assert_close(forward_dynamics(robot, q, v, tau), a, tolerance=1e-9)


def any_theta(robot: Robot, rng: np.random.Generator, n: int):
    """Unphysical parameters, every third link without mass but with first moments."""
    theta = rng.normal(size=(n, robot.layout.size))
    for k in range(0, robot.layout.n_links, 3):
        theta[:, 10 * k] = 0.0
    return theta


@pytest.mark.parametrize("name", [*RANDOM, "tx40-three", "example:talos"])
def test_parameters_need_not_be_physical(name, robot_of, states_of, rng):
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 6)
    theta = any_theta(robot, rng, 6)
    Y = torque_regressor(robot, q, v, a)
    tau = inverse_dynamics(robot, q, v, a, theta=theta)
    assert_close(tau, np.einsum("tij,tj->ti", Y, theta))
    # M a is what an acceleration adds.
    M = mass_matrix(robot, q, theta=theta)
    bias = inverse_dynamics(robot, q, v, np.zeros_like(a), theta=theta)
    assert_close(np.einsum("tij,tj->ti", M, a), tau - bias)
    found = forward_dynamics(robot, q, v, tau, theta=theta)
    scale = np.abs(M).max() * np.abs(found).max()
    residual = np.einsum("tij,tj->ti", M, found - a)
    np.testing.assert_allclose(residual, np.zeros_like(a), rtol=0, atol=1e-9 * scale)


def test_kinetic_energy_is_half_v_M_v(robot_of, states_of, rng):
    robot = robot_of("tx40-three")
    q, v, _ = states_of(robot, rng, 4)
    still = np.zeros_like(v)
    kinetic = (energy_regressor(robot, q, v) - energy_regressor(robot, q, still)) @ robot.theta
    half = 0.5 * np.einsum("ti,tij,tj->t", v, mass_matrix(robot, q), v)
    np.testing.assert_allclose(kinetic, half, rtol=1e-13)


@pytest.mark.parametrize("name", ["branched", "floating", "tx40-three"])
def test_each_sample_has_its_own_parameters(name, robot_of, states_of, rng):
    robot = robot_of(name)
    n_t = 70  # more than there are chunks
    q, v, x = states_of(robot, rng, n_t)
    theta = robot.theta * rng.uniform(0.9, 1.1, (n_t, robot.layout.size))
    for function in (inverse_dynamics, forward_dynamics):
        together = function(robot, q, v, x, theta=theta)
        for t in (0, 1, 33, 69):
            alone = function(robot, q[t : t + 1], v[t : t + 1], x[t : t + 1], theta=theta[t])
            np.testing.assert_array_equal(together[t], alone[0])
    matrices = mass_matrix(robot, q, theta=theta)
    np.testing.assert_array_equal(matrices[69], mass_matrix(robot, q[69:], theta=theta[69])[0])
    np.testing.assert_array_equal(
        inverse_dynamics(robot, q, v, x, theta=theta[:1]),
        inverse_dynamics(robot, q, v, x, theta=theta[0]),
    )


def test_own_parameters_are_the_default(robot_of, states_of, rng):
    robot = robot_of("tx40-coupled")
    q, v, a = states_of(robot, rng, 3)
    tau = inverse_dynamics(robot, q, v, a)
    np.testing.assert_array_equal(tau, inverse_dynamics(robot, q, v, a, theta=robot.theta))
    other = robot.with_parameters(1.1 * robot.theta)
    np.testing.assert_allclose(inverse_dynamics(other, q, v, a), 1.1 * tau, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["tx40", "floating", "example:hector"])
def test_no_samples(name, robot_of):
    robot = robot_of(name)
    q, v = np.empty((0, robot.nq)), np.empty((0, robot.nv))
    for theta in (None, robot.theta, np.empty((0, robot.layout.size))):
        assert inverse_dynamics(robot, q, v, v, theta=theta).shape == (0, robot.nv)
        assert forward_dynamics(robot, q, v, v, theta=theta).shape == (0, robot.nv)
        assert mass_matrix(robot, q, theta=theta).shape == (0, robot.nv, robot.nv)


def test_a_body_without_joints(robot_of, states_of, rng):
    robot = robot_of("example:hector")
    assert robot.n_joints == 0
    q, v, a = states_of(robot, rng, 4)
    data = robot.model.createData()
    tau = inverse_dynamics(robot, q, v, a)
    for t in range(4):
        assert_close(tau[t], pin.rnea(robot.model, data, q[t], v[t], a[t]))
        assert_close(mass_matrix(robot, q)[t], robot.model.inertias[1].matrix())
    assert_close(forward_dynamics(robot, q, v, tau), a)


def test_a_free_flyer_that_starts_elsewhere(random_model, states_of, rng):
    model = random_model(rng, 5, branched=True, floating=True)
    model.jointPlacements[1] = pin.SE3(pin.rpy.rpyToMatrix(0.3, -1.1, 0.8), np.array([1, 2, 3.0]))
    robot = Robot.from_pinocchio(model)
    q, v, a = states_of(robot, rng, 3)
    data = robot.model.createData()
    tau = inverse_dynamics(robot, q, v, a)
    energy = energy_regressor(robot, q, v) @ robot.theta
    for t in range(3):
        assert_close(tau[t], pin.rnea(robot.model, data, q[t], v[t], a[t]))
        potential = pin.computePotentialEnergy(robot.model, data, q[t])
        expected = potential + 0.5 * v[t] @ mass_matrix(robot, q)[t] @ v[t]
        assert energy[t] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["branched", "example:talos"])
def test_results_do_not_depend_on_threads(name, robot_of, states_of, rng):
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("this machine has one thread")
    robot = robot_of(name)
    q, v, a = states_of(robot, rng, 131)
    before = numba.get_num_threads()
    results = []
    try:
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            results.append(
                (
                    inverse_dynamics(robot, q, v, a),
                    forward_dynamics(robot, q, v, a),
                    mass_matrix(robot, q),
                    torque_regressor(robot, q, v, a),
                    energy_regressor(robot, q, v),
                )
            )
    finally:
        numba.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_inputs_are_left_alone(robot_of, states_of, rng):
    robot = robot_of("floating")
    q, v, a = states_of(robot, rng, 3)
    theta = np.array(robot.theta)
    copies = [array.copy() for array in (q, v, a, theta)]
    inverse_dynamics(robot, q, v, a, theta=theta)
    forward_dynamics(robot, q, v, a, theta=theta)
    mass_matrix(robot, q, theta=theta)
    for array, copy in zip((q, v, a, theta), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_arrays_of_any_layout(robot_of, states_of, rng):
    robot = robot_of("floating")
    q, v, a = states_of(robot, rng, 6)
    expected = inverse_dynamics(robot, q, v, a)
    strided = [np.asfortranarray(array) for array in (q, v, a)]
    np.testing.assert_array_equal(inverse_dynamics(robot, *strided), expected)
    listed = [array.tolist() for array in (q, v, a)]
    np.testing.assert_array_equal(inverse_dynamics(robot, *listed), expected)
    every_second = [np.repeat(array, 2, axis=0)[::2] for array in (q, v, a)]
    np.testing.assert_array_equal(inverse_dynamics(robot, *every_second), expected)


@pytest.mark.parametrize("function", [inverse_dynamics, forward_dynamics])
def test_bad_motions_are_refused(function, robot_of, states_of, rng):
    robot = robot_of("floating")
    q, v, x = states_of(robot, rng, 4)
    third = "a" if function is inverse_dynamics else "tau"
    with pytest.raises(ShapeError, match=r"q of random-12 has shape \(4, 18\), expected \(any, "):
        function(robot, q[:, 1:], v, x)
    with pytest.raises(ShapeError, match=r"q of random-12 has shape \(19,\)"):
        function(robot, q[0], v[0], x[0])
    with pytest.raises(ShapeError, match=r"v of random-12 has shape \(3, 18\), expected \(4, 18\)"):
        function(robot, q, v[:3], x)
    with pytest.raises(ShapeError, match=rf"{third} of random-12 has shape \(4, 17\)"):
        function(robot, q, v, x[:, 1:])
    x[2, 5] = np.nan
    with pytest.raises(ShapeError, match=rf"{third} of random-12 holds nan at index \(2, 5\)"):
        function(robot, q, v, x)
    v[1, 0] = np.inf
    with pytest.raises(ShapeError, match="v of random-12 holds inf"):
        function(robot, q, v, x)
    with pytest.raises(ShapeError, match="array of numbers"):
        function(robot, "here", v, x)


def test_base_orientations_must_be_unit_quaternions(robot_of, states_of, rng):
    robot = robot_of("floating")
    q, v, a = states_of(robot, rng, 4)
    expected = inverse_dynamics(robot, q, v, a)
    slightly = q.copy()
    slightly[:, 3:7] *= 1.0 + 5e-7  # what a log with six digits has
    np.testing.assert_allclose(inverse_dynamics(robot, slightly, v, a), expected, atol=1e-11)
    q[2, 3:7] *= 1.01
    with pytest.raises(ShapeError, match=r"q\[2, 3:7\] has norm 1.01: .* unit quaternion"):
        inverse_dynamics(robot, q, v, a)
    q[2, 3:7] = 0.0
    with pytest.raises(ShapeError, match="unit quaternion"):
        forward_dynamics(robot, q, v, a)


def test_bad_parameters_are_refused(robot_of, states_of, rng):
    robot = robot_of("tx40")
    q, v, a = states_of(robot, rng, 4)
    with pytest.raises(ShapeError, match=r"theta has shape \(1, 77\), expected \(any, 78\)"):
        inverse_dynamics(robot, q, v, a, theta=robot.theta[1:])
    with pytest.raises(ShapeError, match="theta has 3 rows: give one, or one for each of the 4"):
        inverse_dynamics(robot, q, v, a, theta=np.tile(robot.theta, (3, 1)))
    with pytest.raises(ShapeError, match="theta holds nan"):
        mass_matrix(robot, q, theta=np.full(78, np.nan))
    with pytest.raises(ShapeError, match="theta must be an array of numbers"):
        forward_dynamics(robot, q, v, a, theta=["heavy"])
    with pytest.raises(ShapeError, match=r"q of TX40 has shape \(4, 5\)"):
        mass_matrix(robot, q[:, :5])
