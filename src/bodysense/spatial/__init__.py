"""Rotations, pseudo-inertia, inertia manifolds and distances between bodies; numpy only."""

from bodysense.spatial.arrays import Array, as_array, as_stack, read_only
from bodysense.spatial.distances import (
    affine_invariant_distance,
    entropic_divergence,
    entropic_gradient,
    geodesic,
    pullback_distance,
    pullback_metric,
    robot_distance,
)
from bodysense.spatial.manifolds import (
    MANIFOLDS,
    ExponentialEigenvalue,
    InertiaManifold,
    LogCholesky,
    SquareRoot,
    manifold_named,
)
from bodysense.spatial.pseudo_inertia import (
    PI_NAMES,
    PhysicalConsistency,
    inertia_at_com,
    physical_consistency,
    pi_from_mass_com_inertia,
    pi_from_pseudo_inertia,
    pseudo_inertia_from_pi,
    random_pi,
    require_consistent,
    transform_pi,
)
from bodysense.spatial.se3 import exp_so3, log_quaternion, log_so3, skew

__all__ = [
    "MANIFOLDS",
    "PI_NAMES",
    "Array",
    "ExponentialEigenvalue",
    "InertiaManifold",
    "LogCholesky",
    "PhysicalConsistency",
    "SquareRoot",
    "affine_invariant_distance",
    "as_array",
    "as_stack",
    "entropic_divergence",
    "entropic_gradient",
    "exp_so3",
    "geodesic",
    "inertia_at_com",
    "log_quaternion",
    "log_so3",
    "manifold_named",
    "physical_consistency",
    "pi_from_mass_com_inertia",
    "pi_from_pseudo_inertia",
    "pseudo_inertia_from_pi",
    "pullback_distance",
    "pullback_metric",
    "random_pi",
    "read_only",
    "require_consistent",
    "robot_distance",
    "skew",
    "transform_pi",
]
