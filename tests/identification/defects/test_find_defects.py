"""Each defect is recovered within its interval and named first; sound logs are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

from bodysense.identification import Preprocessing, Regression
from bodysense.identification.defects import Defect, find_defects
from bodysense.identification.defects.against_file import contradicts_the_file
from bodysense.identification.defects.columns import DefectCandidate, with_lengths
from bodysense.identification.defects.defect import defect_of
from bodysense.identification.preprocessing import Motion
from bodysense.robot import (
    Robot,
    base_parameters,
    inverse_dynamics,
    load_robot,
    with_gravity,
    with_payload,
)
from bodysense.spatial import Array

PLAIN = Preprocessing(cutoff=1e6, band=1e6, border=0.0, still_speed=0.0, decimate=False)
RATE = 40.0


@pytest.fixture(scope="module")
def robot() -> Robot:
    return load_robot("rv2sq").with_friction("coulomb", width=0.02)


@pytest.fixture(scope="module")
def prior(robot) -> Robot:
    """Masses, inertias and friction 15 % off."""
    theta = robot.theta.copy()
    rng = np.random.default_rng(7)
    for k in range(robot.layout.n_links):
        theta[robot.layout.link(k)] *= np.exp(0.15 * rng.normal())
    drives = slice(robot.layout.rotor.start, None)
    theta[drives] *= np.exp(0.15 * rng.normal(size=theta[drives].size))
    return robot.with_parameters(theta)


@pytest.fixture(scope="module")
def problem_of(robot, prior, sines):
    """The regression of a log of ten seconds; imperfect ones hold friction that no law has."""
    base = base_parameters(prior)

    def make(
        damage=None, *, seed=0, imperfect=False, gravity=None, moved=robot, later=None, warm=1.0
    ) -> Regression:
        t, q, v, a = sines(6, seed, 400, RATE)
        if gravity is not None:
            moved = with_gravity(moved, np.array(gravity))
        tau = inverse_dynamics(moved, q, v, a)
        if later is not None:  # another robot in the second half
            tau[200:] = inverse_dynamics(later, q, v, a)[200:]
        smooth = moved.theta.copy()
        smooth[moved.layout.rotor.stop :] = 0.0
        friction = tau - inverse_dynamics(moved, q, v, a, theta=smooth)
        tau = tau + np.linspace(0.0, warm - 1.0, 400)[:, None] * friction
        if imperfect:
            tau = tau + unmodelled(robot, q, v)
        rng = np.random.default_rng(seed + 100)
        motion = Motion(t, q, v, a, tau, tau, RATE)
        if damage is not None:
            motion = damage(motion, rng)
        noisy = motion.tau + 0.05 * rng.normal(size=tau.shape)
        motion = Motion(t, motion.q, motion.v, motion.a, noisy, noisy, RATE)
        return Regression.of(prior, [motion], PLAIN, base)

    return make


def unmodelled(robot: Robot, q: Array, v: Array) -> Array:
    """A Stribeck curve, friction that grows less than linearly, and a ripple of the gears."""
    size = np.array([robot.parameter(f"Fc{j + 1}") for j in range(robot.n_joints)])
    s = np.tanh(v / 0.02)
    curve = 0.4 * np.exp(-np.square(v / 0.1)) + 0.2 * np.sqrt(np.abs(v))
    return size * (curve * s + 0.05 * np.sin(40.0 * q))


def changed(motion: Motion, **values: Array) -> Motion:
    parts = {name: values.get(name, getattr(motion, name)) for name in ("q", "v", "a", "tau")}
    return Motion(motion.t, *parts.values(), parts["tau"], RATE)


def zero(j: int, x: float):
    return lambda motion, rng: changed(motion, q=motion.q + x * np.eye(6)[j])


def scale(j: int, factor: float):
    return lambda motion, rng: changed(
        motion, tau=motion.tau * np.where(np.arange(6) == j, factor, 1.0)
    )


def stretch(j: int, factor: float):
    each = np.where(np.arange(6) == j, factor, 1.0)
    return lambda motion, rng: changed(
        motion, q=motion.q * each, v=motion.v * each, a=motion.a * each
    )


def drift(j: int, x: float):
    along = np.linspace(-0.5, 0.5, 400)[:, None] * x * np.eye(6)[j]
    return lambda motion, rng: changed(motion, tau=motion.tau + along)


def swell(j: int, x: float):
    along = 1.0 + np.linspace(0.0, 1.0, 400)[:, None] * x * np.eye(6)[j]
    return lambda motion, rng: changed(motion, tau=motion.tau * along)


def slip(j: int, x: float):
    along = np.linspace(-0.5, 0.5, 400)[:, None] * x * np.eye(6)[j]
    return lambda motion, rng: changed(motion, q=motion.q + along)


def slow(factor: float):
    return lambda motion, rng: changed(motion, v=motion.v / factor, a=motion.a / factor**2)


def late(samples: int, joints=range(6)):
    def damage(motion: Motion, rng) -> Motion:
        tau = np.concatenate([np.repeat(motion.tau[:1], samples, axis=0), motion.tau[:-samples]])
        return changed(motion, tau=np.where(np.isin(np.arange(6), joints), tau, motion.tau))

    return damage


def only(defects: tuple[Defect, ...], kind: str, joint: str, size: float) -> Defect:
    """The one that is named."""
    assert [(d.kind, d.joint) for d in defects] == [(kind, joint)], defects
    assert defects[0].gain > 0.02
    assert defects[0].std < 0.2 * abs(size)
    return defects[0]


DAMAGES = {
    "zero": ("zero", "joint3", 0.1, zero(2, 0.1)),
    "large zero": ("zero", "joint2", -0.5, zero(1, -0.5)),
    "scale": ("torque-scale", "joint3", 1.3, scale(2, 1.3)),
    "sign": ("torque-scale", "joint2", -1.0, scale(1, -1.0)),
    "travel": ("position-scale", "joint2", 1.2, stretch(1, 1.2)),
    "drift": ("torque-drift", "joint3", 10.0, drift(2, 10.0)),
    "delay": ("delay", "", 0.025, late(1)),
    "delay of one": ("joint-delay", "joint2", 0.05, late(2, [1])),
    "gain that grows": ("scale-drift", "joint2", 0.4, swell(1, 0.4)),
    "zero that moves": ("zero-drift", "joint2", 0.2, slip(1, 0.2)),
    "slow": ("time", "", 2.0, slow(2.0)),
    "fast": ("time", "", 0.5, slow(0.5)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_recovers_a_defect(problem_of, name):
    kind, joint, size, damage = DAMAGES[name]
    found = only(find_defects(problem_of(damage)), kind, joint, size)
    assert abs(found.estimate - size) < 3.0 * found.std


@pytest.mark.parametrize("name", ["zero", "scale", "delay", "slow"])
def test_recovers_a_defect_beside_unmodelled_friction(problem_of, name):
    """That is the same in all blocks, so that it may shift the estimate beyond the interval."""
    kind, joint, size, damage = DAMAGES[name]
    found = only(find_defects(problem_of(damage, imperfect=True)), kind, joint, size)
    assert abs(found.estimate / size - 1.0) < 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("imperfect", [False, True])
def test_a_sound_log_is_left_alone(problem_of, seed, imperfect):
    assert find_defects(problem_of(seed=seed, imperfect=imperfect)) == ()


def test_small_defects_are_plausible(problem_of):
    """Within what calibration leaves nothing is named, however certain it is."""
    assert find_defects(problem_of(zero(1, 0.01))) == ()


def test_two_defects_are_named_one_after_the_other(problem_of):
    def both(motion, rng):
        return late(1)(zero(1, 0.2)(motion, rng), rng)

    found = {(d.kind, d.joint): d for d in find_defects(problem_of(both))}
    assert set(found) == {("zero", "joint2"), ("delay", "")}
    assert abs(found["zero", "joint2"].estimate - 0.2) < 3.0 * found["zero", "joint2"].std


@pytest.mark.parametrize("gravity", [(9.81, 0.0, 0.0), (0.0, 0.0, 9.81), (1.949, 0.0, -9.614)])
def test_finds_where_gravity_points(problem_of, gravity):
    (found,) = find_defects(problem_of(gravity=gravity, imperfect=True))
    expected = np.arccos(np.dot(gravity, (0.0, 0.0, -9.81)) / 9.81**2)
    assert found.kind == "gravity"
    assert abs(found.estimate - expected) < 0.03
    largest = int(np.argmax(np.abs(gravity)))
    components = found.message.split("along (")[1].split(")")[0].split(", ")
    assert abs(float(components[largest]) - gravity[largest]) < 0.15


def test_finds_that_gravity_was_compensated(problem_of):
    (found,) = find_defects(problem_of(gravity=(0.0, 0.0, 0.0)))
    assert found.kind == "gravity"
    assert "no gravity" in found.message


def test_finds_friction_that_falls(problem_of):
    """From 1 to 0.5 is by two thirds of the mean."""
    found = only(find_defects(problem_of(warm=0.5)), "friction-drift", "", -2.0 / 3.0)
    assert abs(found.estimate + 2.0 / 3.0) < 0.03
    assert "friction falls by 6" in found.message


def test_finds_that_the_load_changes(problem_of, robot):
    loaded = with_payload(robot, 3.0, com=(0.0, 0.0, 0.1))
    (found,) = find_defects(problem_of(later=loaded))
    assert (found.kind, found.unit) == ("load-drift", "kg")
    assert "more at the end" in found.message


def test_finds_an_offset_where_the_law_has_none(problem_of):
    def damage(motion, rng):
        return changed(motion, tau=motion.tau + 20.0 * np.eye(6)[3])

    (found,) = find_defects(problem_of(damage))
    assert (found.kind, found.joint, found.unit) == ("offset", "joint4", "N·m")
    assert abs(found.estimate - 20.0) < 3.0 * found.std
    assert "channels: {tau: {offset: {joint4: -19.99" in found.remedy


def test_finds_torques_that_were_filtered(problem_of):
    """Behind a zero-phase filter at 1.5 Hz."""

    def damage(motion, rng):
        sos = butter(2, 1.5, fs=RATE, output="sos")
        return changed(motion, tau=sosfiltfilt(sos, motion.tau, axis=0))

    found = find_defects(problem_of(damage))[0]
    assert found.kind == "low-pass"
    assert 0.5 < found.estimate < 2.0
    assert found.message.startswith("torques lack")
    assert "as after a low-pass filter" in found.message
    uneven = find_defects(problem_of(damage), uneven=True)
    assert "low-pass" not in {defect.kind for defect in uneven}


def test_one_joint_alone_does_not_tell_where_gravity_points(problem_of):
    def damage(motion, rng):
        alone = np.eye(6)[1]
        moved = changed(motion, q=motion.q * alone, v=motion.v * alone, a=motion.a * alone)
        tau = inverse_dynamics(load_robot("rv2sq"), moved.q, moved.v, moved.a)
        return changed(moved, tau=tau)

    assert not [d for d in find_defects(problem_of(damage)) if d.kind == "gravity"]


def test_a_standing_joint_has_no_offset(problem_of):
    """Friction holds it with any torque."""

    def damage(motion, rng):
        stays = 1.0 - np.eye(6)[3]
        q = motion.q * stays
        moved = changed(motion, q=q, v=motion.v * stays, a=motion.a * stays)
        return changed(moved, tau=moved.tau * stays + 3.0 * np.eye(6)[3])

    constant = ("offset", "torque-drift")
    found = [d.joint for d in find_defects(problem_of(damage)) if d.kind in constant]
    assert "joint4" not in found


def test_tells_another_robot_from_another_time(problem_of, robot):
    """The same in torques; a robot three times as heavy is not that of the file."""
    (slower,) = find_defects(problem_of(slow(1.5)))
    assert slower.kind == "time"
    larger = with_lengths(robot, 1.5)
    theta = larger.theta.copy()
    for k in range(6):
        theta[larger.layout.link(k)] *= 3.0 * 1.5 ** np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
    (longer,) = find_defects(problem_of(moved=larger.with_parameters(theta)))
    assert longer.kind == "length"
    assert abs(longer.estimate - 1.5) < 3.0 * longer.std
    assert "another robot" in longer.message


def test_a_short_log_tells_nothing(problem_of, prior):
    problem = problem_of(zero(1, 0.5))
    motion = problem.motions[0]
    parts = (x[:100] for x in (motion.t, motion.q, motion.v, motion.a, motion.tau, motion.tau))
    short = Regression.of(prior, [Motion(*parts, RATE)], PLAIN, problem.base)
    assert find_defects(short) == ()


def test_says_what_to_write(problem_of):
    (found,) = find_defects(problem_of(zero(2, 0.1)))
    assert found.message.startswith("joint3's zero is off by 0.1")
    assert found.unit == "rad"
    assert "channels: {q: {offset: {joint3: -0.1" in found.remedy
    (found,) = find_defects(problem_of(scale(2, 1.3)))
    assert "channels: {tau: {gain: {joint3: 0.7" in found.remedy
    (found,) = find_defects(problem_of(late(1)))
    assert "ms late against positions" in str(found)


def test_zeros_that_torques_do_not_tell_apart_are_named_together(problem_of):
    problem = problem_of(zero(2, 0.1))
    one, other = DefectCandidate("zero", 2), DefectCandidate("zero", 1)
    defect = defect_of(problem, one, 0.1, 0.01, 0.2, [problem.robot.joint_names[other.at]])
    assert "joint3's zero is off by 0.100 ± 0.010 rad, or that of joint2: torques" in defect.message
    assert "offset" not in defect.remedy


def test_a_correction_that_leads_away_from_the_file_is_none(problem_of, prior):
    """What is explained must outweigh what becomes implausible; an empty file tells nothing."""
    sound, damaged = problem_of(), problem_of(scale(1, 5.0))
    assert contradicts_the_file(sound, damaged, 0.05)
    assert not contradicts_the_file(damaged, sound, 0.05)
    assert not contradicts_the_file(sound, damaged, 1.0 - 1e-12)
    empty = [
        Regression.of(prior.with_parameters(1e-9 * prior.theta), p.motions, PLAIN, p.base)
        for p in (sound, damaged)
    ]
    assert not contradicts_the_file(*empty, 0.05)


def test_a_torque_that_is_nearly_nothing_is_no_scale(problem_of):
    """Beyond sizes that logs have, a correction takes the channel away."""
    defects = find_defects(problem_of(scale(5, 1e5)))
    assert all(d.kind != "torque-scale" or abs(d.estimate) < 2001.0 for d in defects)
