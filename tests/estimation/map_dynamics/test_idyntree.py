"""D, b_D, Y, b_Y entry by entry against iDynTree, and where iDynTree is wrong."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from idyntree_peer import Berdy
from pinocchio_truth import joint_index, truth_of
from sensor_sets import peer_sensors

from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.sensors import ExternalWrench, Mount

SAME = [
    "chain",
    "tree",
    "panda",
    "floating tree",
    "floating tree held",
    "floating tree held at a leaf",
    "icub",
    "icub held",
    "icub standing",
    "talos",
    "talos held",
    "talos standing",
    "talos with hands",
]
OTHER_BASE = ["floating tree on a leaf", "icub on a hand", "talos on an arm"]


@pytest.mark.parametrize("name", SAME)
def test_equal_to_idyntree(name, tree_named, rng):
    tree = tree_named(name)
    sensors = peer_sensors(tree, rng)
    berdy = Berdy(tree, sensors)
    for _ in range(3):
        given = truth_of(tree, rng).arguments()
        equations = _as_theirs(tree, sensors, given)
        D, b_D, Y, b_Y = equations.dense()
        if tree.floating:
            D, b_D, Y = _without_torques(equations, D, b_D, Y)
        peer = berdy.at(equations, **given)
        np.testing.assert_allclose(D, peer.D, rtol=0, atol=1e-12)
        np.testing.assert_allclose(b_D, peer.b_D, rtol=0, atol=1e-10)
        np.testing.assert_allclose(Y, peer.Y, rtol=0, atol=1e-12)
        np.testing.assert_allclose(b_Y, peer.b_Y, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", OTHER_BASE)
def test_idyntree_misses_a_centripetal_term_on_another_base(name, tree_named, rng):
    """Where the axis of a joint misses the origin of the body below it, by (S_w × S_v) q̇²."""
    tree = tree_named(name)
    sensors, truth = peer_sensors(tree, rng), truth_of(tree, rng)
    given = truth.arguments()
    equations = _as_theirs(tree, sensors, given)
    D, b_D, Y, b_Y = equations.dense()
    D, b_D, Y = _without_torques(equations, D, b_D, Y)
    peer = Berdy(tree, sensors).at(equations, **given)
    np.testing.assert_allclose(D, peer.D, rtol=0, atol=1e-12)
    np.testing.assert_allclose(Y, peer.Y, rtol=0, atol=1e-12)
    np.testing.assert_allclose(b_Y, peer.b_Y, rtol=0, atol=1e-10)
    missing = np.zeros_like(b_D)
    for i in range(1, tree.n):
        S, where = tree.arrays.S[i], equations.rows[f"acceleration.{tree.names[i]}"]
        missing[where][:3] = np.cross(S[3:], S[:3]) * truth.dq[tree.joint[i]] ** 2
    assert np.abs(missing).max() > 0.02
    no_torque = np.isfinite(b_D)
    np.testing.assert_allclose((b_D - peer.b_D)[no_torque], missing[no_torque], atol=1e-10)

    # Pinocchio's motion, whose classical accelerations these are
    d = truth.d(equations.variables)
    for i, link in enumerate(tree.names):
        where = equations.variables[f"a.{link}"]
        d[where] += equations.sample.classical[i]
    ours = equations.D @ d + equations.b_D
    np.testing.assert_allclose(ours, 0.0, atol=1e-12 * np.abs(d).max())
    theirs = (np.nan_to_num(peer.D) @ d + np.nan_to_num(peer.b_D))[no_torque]
    np.testing.assert_allclose(theirs, -missing[no_torque], atol=1e-12 * np.abs(d).max())


def test_their_contact_of_three_axes_turns_a_wrench_like_a_motion(tree_named, rng):
    """It reads f_z, m_x, m_y: with X in place of X* of the wrench, unless it sits at the origin."""
    tree = tree_named("floating tree")
    truth = truth_of(tree, rng)
    mount = Mount.from_xyz_rpy("link5", [0.1, -0.2, 0.3], [0.4, 0.2, -0.3])
    sensor = ExternalWrench(name="contact", mount=mount, covariance=np.eye(6))
    equations = Equations.at(tree, [sensor], **truth.arguments(), acceleration="classical")
    berdy = Berdy(tree, [sensor], three_axes=True)
    theirs = berdy.at(equations, **truth.arguments()).Y
    axes, where = [2, 3, 4], equations.variables["fx.link5"]
    ours = equations.Y.toarray()[axes]
    place = pin.SE3(np.array(mount.R), np.array(mount.p))
    push = pin.Force(truth.values["fx.link5"])
    read = place.actInv(push).vector[axes]
    np.testing.assert_allclose(ours[:, where] @ push.vector, read, rtol=1e-12)
    np.testing.assert_allclose(theirs[:, where], place.actionInverse[axes], atol=1e-12)
    assert np.abs(theirs[:, where] @ push.vector - read).max() > 0.1
    assert joint_index(tree, "link5") > 1


def _as_theirs(tree, sensors, given):
    kind = "classical" if tree.floating else "spatial"
    return Equations.at(tree, sensors, **given, acceleration=kind)


def _without_torques(equations, D, b_D, Y):
    """Torques eliminated, tau = Sᵀ f, and their rows NaN: the floating variant has neither."""
    D, b_D, Y = D.copy(), b_D.copy(), Y.copy()
    for row in equations.rows:
        if not row.startswith("torque"):
            continue
        joint, at = row.removeprefix("torque."), equations.rows[row]
        tau, f = equations.variables[f"tau.{joint}"], equations.variables[f"f.{joint}"]
        Y[:, f] += Y[:, tau] @ D[at, f]
        Y[:, tau] = 0.0
        D[at], b_D[at] = np.nan, np.nan
    return D, b_D, Y
