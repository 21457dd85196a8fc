"""Kinds of Kalman filters: by the tangent of the dynamics, or by points about the mean.

Both families of points take the mean x and the pairs x ± γ S_i, S_i the columns of the lower factor
(thesis C.2 prints MATLAB's upper one, transposed), without points for the noise: it is added, once,
as a covariance. (Thesis C.4 does both, which counts it twice.) With differences and sums of the
images

    Δ_i = f(x + γ S_i) - f(x - γ S_i),   s_i = f(x + γ S_i) + f(x - γ S_i) - 2 f(x)

the mean is f(x) + w Σ s_i with w = 1/(2γ²), as the weight of the centre is 1 - 2 n w, and the
cross covariance with the state is Σ S_i Δ_iᵀ/(2γ). Covariances:

- unscented, thesis C.3 and C.4. γ² = α² (n + κ), pairs weigh w each, the centre
  w_c = 1 - 2 n w + 1 - α² + β. About the mean the centre lies at -w Σ s_j and a pair at
  (s_i ± Δ_i)/2 - w Σ s_j. Multiplied out, with μ = w Σ s_j,

      Σ w (…)(…)ᵀ = w/2 Σ Δ_i Δ_iᵀ + w/2 Σ s_i s_iᵀ - 2 μ μᵀ + 2 n w μ μᵀ,

  and the centre's w_c μ μᵀ leaves (β - α²) μ μᵀ, whatever κ is. Nothing is subtracted where
  β ≥ α², so a square-root form never has to downdate.
- central differences, thesis C.5 and C.6. γ = h, 1/(4h²) Σ Δ_i Δ_iᵀ + (h² - 1)/(4h⁴) Σ s_i s_iᵀ,
  and the mean runs over all 2 n points, where thesis C.6 prints half of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bodysense.errors import ShapeError


class _PointWeights(NamedTuple):
    """Where the points lie and how their images count.

    The differences' coefficient is 1/(4γ²) in both families.

    Attributes:
        gamma: γ, distance of the points from the mean in columns of the factor.
        curvature: coefficient of Σ s_i s_iᵀ in the covariance.
        bend: coefficient of (Σ s_i)(Σ s_i)ᵀ in the covariance.
    """

    gamma: float
    curvature: float
    bend: float


@dataclass(frozen=True)
class Extended:
    """Dynamics replaced by their tangent, thesis C.1. It has no settings."""

    name: ClassVar[str] = "ekf"


@dataclass(frozen=True)
class Unscented:
    """Points at α √(n + κ) columns of the factor from the mean.

    Far points take more of the function into account, near ones only its curvature at the mean.
    With 64 states, α = 0.1 lies at 0.8 standard deviations.

    Attributes:
        alpha: distance of the points from the mean: α √(n + κ) standard deviations for n unknowns;
            the thesis has 0.01.
        beta: knowledge of the distribution: 2 for a normal one; at least α².
        kappa: κ in the distance α √(n + κ) of the points from the mean, above -n; the thesis has
            0.
    """

    name: ClassVar[str] = "ukf"

    alpha: float = 0.1
    beta: float = 2.0
    kappa: float = 0.0

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "kappa"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise ShapeError(f"{name} is {value:g}: give a finite number.")
        if self.alpha < 1e-6:
            raise ShapeError(
                f"alpha is {self.alpha:g}: give a positive number, 1e-6 or more, since differences "
                "of nearer points are lost in rounding."
            )
        if self.beta < self.alpha**2:
            raise ShapeError(
                f"beta is {self.beta:g} and alpha² {self.alpha**2:g}: their difference weighs a "
                "part of the covariance, which must not be negative; raise beta, e.g. to 2, or "
                "lower alpha."
            )

    def weights(self, n: int) -> _PointWeights:
        """Weights for a state of n entries.

        Raises:
            ShapeError: n + κ is not positive.
        """
        if n + self.kappa <= 0.0:
            raise ShapeError(f"kappa is {self.kappa:g}: with {n} states, give more than {-n}.")
        squared = self.alpha**2 * (n + self.kappa)
        w = 0.5 / squared
        return _PointWeights(math.sqrt(squared), 0.5 * w, (self.beta - self.alpha**2) * w * w)


@dataclass(frozen=True)
class CentralDifferences:
    """Points at h columns of the factor from the mean.

    Attributes:
        h: distance of the points from the mean, in standard deviations: √3 for a normal
            distribution, at least 1.
    """

    name: ClassVar[str] = "cdkf"

    h: float = math.sqrt(3.0)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.h) and self.h >= 1.0):
            raise ShapeError(
                f"h is {self.h:g}: (h² - 1) weighs a part of the covariance, which must not be "
                "negative; give 1 or more, √3 for a normal distribution."
            )

    def weights(self, n: int) -> _PointWeights:
        """Weights, the same for any number of states."""
        squared = self.h**2
        return _PointWeights(self.h, (squared - 1.0) / (4.0 * squared**2), 0.0)


FilterKind = Extended | Unscented | CentralDifferences
