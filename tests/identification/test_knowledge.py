"""What is known of links, kept by the estimate: against a program written for cvxpy over theta."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.identification import identifier
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import MARGIN, Relaxation
from bodysense.identification.knowledge import EqualLinks, Knowledge, Mirror
from bodysense.identification.prior import Prior
from bodysense.robot.shapes.hull import Hull

BOX = Hull.from_box([-0.02, -0.1, 0.0], [0.1, 0.05, 0.08])


def pseudo_inertia(pi, bmat=np.block):
    m, x, y, z, xx, xy, yy, xz, yz, zz = (pi[k] for k in range(10))
    return bmat(
        [
            [(yy + zz - xx) / 2.0, -xy, -xz, x],
            [-xy, (xx + zz - yy) / 2.0, -yz, y],
            [-xz, -yz, (xx + yy - zz) / 2.0, z],
            [x, y, z, m],
        ]
    )


def mirrored(P, axis, offset):
    """Reflected at the plane that is normal to an axis: x ↦ 2 offset - x."""
    S = np.eye(4)
    S[axis, axis], S[axis, 3] = -1.0, 2.0 * offset
    return S @ P @ S.T


# By hand, over the matrices of links 1, 2 and 3: equalities as matrices that are zero.
CASES = {
    "total mass": (
        Knowledge(total_mass=2.2),
        lambda P: [P[0][3, 3] + P[1][3, 3] + P[2][3, 3] - 2.2],
        lambda P: [],
    ),
    "a mass": (
        Knowledge(masses={"link1": 0.5, "link3": 0.8}),
        lambda P: [P[0][3, 3] - 0.5, P[2][3, 3] - 0.8],
        lambda P: [],
    ),
    "a range that holds, one above and one below": (
        Knowledge(mass_ranges={"link1": (0.0, 90.0), "link2": (1.4, 2.0), "link3": (0.1, 0.2)}),
        lambda P: [],
        lambda P: [1.4 - P[1][3, 3], P[1][3, 3] - 2.0, 0.1 - P[2][3, 3], P[2][3, 3] - 0.2],
    ),
    "symmetry": (
        Knowledge(symmetric={"link2": (Mirror("y", 0.03),), "link3": (Mirror("x"), Mirror("z"))}),
        lambda P: [
            P[1] - mirrored(P[1], 1, 0.03),
            P[2] - mirrored(P[2], 0, 0.0),
            P[2] - mirrored(P[2], 2, 0.0),
        ],
        lambda P: [],
    ),
    "equal links": (
        Knowledge(equal=(EqualLinks("link1", "link2"),)),
        lambda P: [P[0] - P[1]],
        lambda P: [],
    ),
    "mirrored links": (
        Knowledge(equal=(EqualLinks("link1", "link2", Mirror("z", 0.1)),)),
        lambda P: [P[0] - mirrored(P[1], 2, 0.1)],
        lambda P: [],
    ),
    "centre in a box": (
        Knowledge(com_inside={"link1": BOX}),
        lambda P: [],
        lambda P: [
            P[0][:3, 3] - P[0][3, 3] * np.array([0.1, 0.05, 0.08]),
            P[0][3, 3] * np.array([-0.02, -0.1, 0.0]) - P[0][:3, 3],
        ],
    ),
}


class Known:
    """A problem with knowledge, and the program by hand."""

    def __init__(self, simulate, knowledge) -> None:
        simulated = simulate([[4.0, 2.0, 1.0]], n_t=80, seed=1, off=0.3)
        self.problem = replace(simulated.problem, knowledge=knowledge)
        self.prior = Prior.of(self.problem)
        self.stack = self.problem.stack(np.array([[2.0, 1.0, 0.5]]))
        self.A = self.stack.A @ self.prior.mapping

    def cost(self, theta) -> float:
        x = (theta - self.prior.theta) / self.prior.size
        return float(np.sum((self.A @ theta - self.stack.z) ** 2) + x @ x)

    def directly(self, zero, at_most) -> np.ndarray:
        prior = self.prior
        x = cp.Variable(prior.size.size)
        theta = cp.multiply(prior.size, x)
        P = [pseudo_inertia(theta[link], cp.bmat) for link in prior.links]
        constraints = [x[prior.positive] >= 0.0]
        for matrix, mass, length in zip(P, prior.link_mass, prior.link_length, strict=True):
            unit = np.diag(np.append(np.full(3, 1.0 / length), 1.0) / np.sqrt(mass))
            scaled = unit @ matrix @ unit
            constraints.append((scaled + scaled.T) / 2.0 >> MARGIN * np.eye(4))
        constraints += [part == 0.0 for part in zero(P)] + [part <= 0.0 for part in at_most(P)]
        fit = cp.sum_squares(self.A @ theta - self.stack.z)
        away = cp.sum_squares(x - prior.theta / prior.size)
        cp.Problem(cp.Minimize(fit + away), constraints).solve(solver=cp.CLARABEL)
        return theta.value


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["euclidean", "pullback", "entropic"])
def test_what_is_known_is_kept(name, kind, simulate):
    knowledge, zero, at_most = CASES[name]
    known = Known(simulate, knowledge)
    solution = consistent_least_squares(known.prior, known.stack, Relaxation(kind))
    assert not solution.failure
    P = [pseudo_inertia(solution.theta[link]) for link in known.prior.links]
    for part in zero(P):
        np.testing.assert_allclose(part, 0.0, atol=1e-6)
    for part in at_most(P):
        assert (part <= 1e-6).all()
    # It has an effect.
    free = replace(known.prior, constraints=Knowledge().constraints(known.problem.robot))
    other = consistent_least_squares(free, known.stack, Relaxation(kind)).theta
    assert np.abs((other - solution.theta) / known.prior.size).max() > 1e-3


@pytest.mark.parametrize("name", CASES)
def test_a_program_over_theta_finds_the_same(name, simulate):
    knowledge, zero, at_most = CASES[name]
    known = Known(simulate, knowledge)
    found = consistent_least_squares(known.prior, known.stack).theta
    expected = known.directly(zero, at_most)
    assert known.cost(found) == pytest.approx(known.cost(expected), rel=1e-6)
    base = known.prior.mapping / known.prior.size_base[:, None]
    np.testing.assert_allclose(base @ found, base @ expected, atol=1e-3)


def test_identifiers_keep_what_is_known(simulate):
    known = Known(simulate, Knowledge(total_mass=2.2))
    found = identifier("pc-wls").fit(known.problem)
    masses = [found.theta[link][0] for link in known.prior.links]
    assert sum(masses) == pytest.approx(2.2, abs=1e-6)
    assert found.consistent


def test_contradictions_are_named(simulate):
    known = Known(
        simulate, Knowledge(total_mass=1.0, masses={"link1": 1.0, "link2": 1.0, "link3": 1.0})
    )
    with pytest.raises(MismatchError, match="contradicts itself"):
        consistent_least_squares(known.prior, known.stack)


def test_knowledge_that_no_robot_fulfils_is_a_status_with_advice(simulate):
    far = Hull.from_box([1.0] * 3, [1.2] * 3)
    knowledge = Knowledge(symmetric={"link1": (Mirror("x"),)}, com_inside={"link1": far})
    known = Known(simulate, knowledge)
    for kind in ("euclidean", "entropic"):
        solution = consistent_least_squares(known.prior, known.stack, Relaxation(kind))
        assert "no consistent solution" in solution.failure
        assert "known of the links" in solution.failure


@pytest.mark.parametrize(
    "knowledge",
    [
        Knowledge(masses={"elbow": 1.0}),
        Knowledge(symmetric={"elbow": (Mirror("x"),)}),
        Knowledge(equal=(EqualLinks("link1", "elbow"),)),
        Knowledge(com_inside={"elbow": BOX}),
    ],
)
def test_unknown_links_are_named(knowledge, small_arm):
    with pytest.raises(UnknownNameError, match="elbow"):
        knowledge.constraints(small_arm)


@pytest.mark.parametrize("method", ["pc-wls", "pc-sqp-wls", "pc-closest"])
def test_methods_keep_masses_in_their_range(method, simulate):
    known = Known(simulate, Knowledge(mass_ranges={"link2": (1.4, 2.0), "link3": (0.1, 0.2)}))
    found = identifier(method).fit(known.problem)
    masses = [found.theta[link][0] for link in known.prior.links]
    assert 1.4 - 1e-5 <= masses[1] <= 2.0 + 1e-5
    assert 0.1 - 1e-5 <= masses[2] <= 0.2 + 1e-5
    assert found.consistent
    assert "known" not in found.labels[10:30:10]  # a range is not a value


@pytest.mark.parametrize("ends", [(2.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (0.0, np.inf), (np.nan, 1)])
def test_ranges_have_a_lower_and_an_upper_end(ends):
    with pytest.raises(ShapeError, match="the mass of link1 is known to lie between"):
        Knowledge(mass_ranges={"link1": ends})


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan, np.inf])
def test_masses_are_positive(mass):
    with pytest.raises(ShapeError, match="all links"):
        Knowledge(total_mass=mass)
    with pytest.raises(ShapeError, match="link1"):
        Knowledge(masses={"link1": mass})


def test_mirrors_have_an_axis_and_a_place():
    with pytest.raises(UnknownNameError, match="w"):
        Mirror("w")
    with pytest.raises(ShapeError, match="offset"):
        Mirror("x", np.nan)


def test_summaries_say_what_is_known():
    assert not Knowledge().any
    assert Knowledge().summary() == ""
    knowledge = Knowledge(
        total_mass=3.5,
        masses={"hand": 0.5},
        symmetric={"arm": (Mirror("x"), Mirror("y"))},
        equal=(EqualLinks("left", "right", Mirror("y")), EqualLinks("a", "b")),
        com_inside={"arm": BOX},
    )
    assert knowledge.any
    said = knowledge.summary()
    for words in (
        "all links together have 3.5 kg",
        "hand has 0.5 kg",
        "arm is symmetric in x and y",
        "left is the mirror image of right",
        "a is equal to b",
        "inside the shapes of arm",
    ):
        assert words in said
