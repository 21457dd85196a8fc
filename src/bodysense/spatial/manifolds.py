"""All inertia manifolds, so that a caller can choose by name and a law can run over all."""

from __future__ import annotations

from bodysense.errors import unknown_name
from bodysense.spatial.exponential_eigenvalue import ExponentialEigenvalue
from bodysense.spatial.log_cholesky import LogCholesky
from bodysense.spatial.manifold import InertiaManifold
from bodysense.spatial.square_root import SquareRoot

MANIFOLDS: tuple[InertiaManifold, ...] = (LogCholesky(), ExponentialEigenvalue(), SquareRoot())


def manifold_named(name: str) -> InertiaManifold:
    """Return the manifold with that `name`, with its default settings.

    Raises:
        UnknownNameError: lists the valid names.
    """
    for manifold in MANIFOLDS:
        if manifold.name == name:
            return manifold
    raise unknown_name("inertia manifold", name, (manifold.name for manifold in MANIFOLDS))
