"""Where a filter starts, whether its result can be used, and the uncertainty of that.

The plausible sizes of a robot's parameters leave it open whether its mass matrix is positive: each
rotor's inertia may be as large as would explain all of the torque. A regression does not mind. A
filter divides by the mass matrix and relies on a tangent or a few points, so that it must start
where these mean something. Beside the prior N(theta_0, spread² L Lᵀ) stands therefore, in some
postures q of the log,

    ‖M_0^-½ (M(q, theta) - M_0) M_0^-½‖ ~ ρ,       M_0 = M(q, theta_0)

which bounds errors of masses to about the share ρ. It is one observation against thousands of the
log: where the prior is wrong, the data prevail.

A prior that does not explain the torques at all, as of a robot file without rotors and friction, is
no place to start from. The filter then starts from ridge regression of the same data, which stays
with the prior where the data say nothing; that the data are used twice hardly counts, as the
covariance of the start is as wide as ever. Where joints stand, ridge regression may leave the mass
matrix with a negative eigenvalue, and what the filter makes of it is decided by rounding: it starts
short of there, on the way from the prior.

A filter's covariance holds if noise is as modelled. Where innovations are larger, or follow each
other instead of being white, the information that it took from the data is worth less by a level c.
With eigenvalues e of its covariance, in coordinates in which the prior is a ball of variance s²,
the data's information is d = 1 / e - 1 / s², and

    by data alone: c / d,         of the estimate: (c d + 1 / s²) / (d + 1 / s²)²

which are both e for c = 1 and little prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from bodysense.identification.filtering.body_model import BodyModel
from bodysense.identification.identification import Iteration, Status
from bodysense.identification.linear.least_squares import Ridge
from bodysense.identification.linear.method import NoiseWeights
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.uncertainty import (
    BaseUncertainty,
    autocorrelation,
    correlation_lags,
    parzen,
)
from bodysense.kalman.run import FilterRun
from bodysense.robot.dynamics import torque_regressor
from bodysense.spatial.arrays import Array

_POSTURES = 8  # postures of the log in which the mass matrix is bounded
_LEAST_EIGENVALUE = 1e-3  # of the prior's mass matrix, in units of its largest one
_UNEXCITED_STD = 1e-4  # in the prior's, of what no motion excites: covariance forms need some
_LEAST_MASS = 0.1  # least eigenvalue of M_0^-½ M M_0^-½ where the filter starts
_UNEXPLAINED = 0.5  # share of the torque from which on a prior is no place to start
_WORSE = 1.1  # torque error, in units of the prior's, from which on a filter has diverged

LARGEST_NIS = 25.0
"""Mean square of innovations, in variances, from which on the model lacks something."""

_LARGEST_VARIANCE = 1e4  # in units of the prior's, where the data say nothing
_SMALLEST_VARIANCE = 1e-20  # variance at least, in units of the prior's
_SINGULAR = 1e-9  # effect, relative to the strongest, below which a direction is not excited
_TRACE_LEGS = 10  # entries of the trace


@dataclass(frozen=True, eq=False)
class FilterOutcome:
    """Scaled parameters p after all samples, theta_base = prior + size p.

    Attributes:
        mean: (b,) of p.
        root: (b, b) lower-triangular root of its covariance.
        path: (n_t, b) means of p after each sample, NaN from where the filter ended.
        innovations: (n_t, n) measurements less their prediction, NaN where there are none.
        nis: (n_t,) normalised innovations squared.
        status: how it ended.
    """

    mean: Array
    root: Array
    path: Array
    innovations: Array
    nis: Array
    status: Status

    @classmethod
    def from_run(cls, run: FilterRun, b: int) -> FilterOutcome:
        """Of the first b entries of the state, which are p."""
        message = run.message[:1].upper() + run.message[1:]
        if run.message.startswith("stopped"):
            message = f"The filter {run.message}"
        return cls(
            mean=np.array(run.state.mean[:b]),
            root=np.array(run.state.factor[:b, :b]),
            path=run.means[:, :b],
            innovations=run.innovations,
            nis=run.nis,
            status=Status(run.ok, message),
        )

    @property
    def mean_nis(self) -> float:
        """Mean square of innovations in variances: one, if noise and model are right."""
        n = self.innovations.shape[1]
        finite = self.nis[np.isfinite(self.nis)]
        return float(finite.mean()) / n if finite.size else 0.0

    def judged(self, problem: Regression, prior: Prior, start: Array) -> FilterOutcome:
        """The self with its status, whether it can be used; the prior's where it cannot.

        It must explain the torques no worse than the prior; `start` (b, b) is the root of the
        covariance that the filter started from.
        """
        before = _torque_error(problem, prior.theta_base)
        after = np.inf
        if np.isfinite(self.mean).all() and np.isfinite(self.root).all():
            after = _torque_error(problem, prior.theta_base + prior.size_base * self.mean)
        most = _WORSE * before if self.status.ok else before
        if after > most or not np.isfinite(after):
            reason = self.status.message if not self.status.ok else "The filter diverged."
            status = Status(
                False,
                f"{reason} Its result explains the torques worse than the prior, which is kept: "
                "check signs and units of the torques, start closer to the truth, or use wls.",
            )
            return replace(self, mean=np.zeros_like(self.mean), root=start, status=status)
        if not self.status.ok:
            return self
        said = f"All samples were filtered. {self.status.message}".strip()
        if self.mean_nis > LARGEST_NIS:
            said = (
                f"Positions were missed by {np.sqrt(self.mean_nis):.0f} times what the noise "
                "explains: the model lacks something, such as friction at standstill. Intervals "
                "are widened accordingly; a higher rate or more substeps may help."
            )
        return replace(self, status=Status(True, said))

    def innovation_level(self, model: BodyModel) -> float:
        """c: mean square of innovations in variances, times how far they are from white, or 1.

        How far is the sum of their autocorrelations under the Parzen window, as for residuals of a
        regression; the largest over the pieces.
        """
        sums = [
            1.0 + 2.0 * float(parzen(lags)[1 : rho.size] @ rho[1 : lags + 1])
            for rho, lags, _, _ in self._whiteness(model)
        ]
        return max(1.0, self.mean_nis * max([1.0, *sums]))

    def correlation_times(self, model: BodyModel, n_logs: int) -> Array:
        """(n_logs,) how long innovations stay correlated [s]."""
        times = np.zeros(n_logs)
        for _, lags, log, period in self._whiteness(model):
            times[log] = max(times[log], lags * period)
        return times

    def _whiteness(self, model: BodyModel) -> list[tuple[Array, int, int, float]]:
        """For each piece: autocorrelation of its innovations, lags of it, log and period."""
        result, at = [], 0
        for piece in model.pieces:
            rows = self.innovations[at + 1 : at + piece.y.shape[0]]
            at += piece.y.shape[0]
            rows = rows[np.isfinite(rows).all(axis=1)]
            if rows.shape[0] >= 8:
                rho = autocorrelation(rows)
                result.append((rho, correlation_lags(rho), piece.log, piece.period))
        return result

    def uncertainty(
        self,
        prior: Prior,
        excited: tuple[Array, Array],
        *,
        spread: float,
        level: float,
        correlation_time: Array,
    ) -> BaseUncertainty:
        """Covariance of the base parameters, of the estimate and from the data alone, at level c.

        Directions that the motion does not excite are as in the prior, whose s is `spread`.
        """
        L = scaled_factor(prior)
        U, s, _ = np.linalg.svd(solve_triangular(L, self.root, lower=True))
        held = 1.0 / spread**2
        with np.errstate(divide="ignore"):
            information = np.maximum(1.0 / s**2 - held, 0.0)
        information = np.minimum(information, 1e30)
        variance = (level * information + held) / (information + held) ** 2
        by_data = np.minimum(
            level / np.maximum(information, level / _LARGEST_VARIANCE), _LARGEST_VARIANCE
        )
        kept, unexcited = excited
        variance = np.maximum(np.minimum(variance, spread**2), _SMALLEST_VARIANCE)
        root = prior.base_factor @ np.hstack([kept @ (kept.T @ (U * np.sqrt(variance))), unexcited])
        C = root @ root.T
        root = np.hstack(
            [kept @ (kept.T @ (U * np.sqrt(by_data))), np.sqrt(_LARGEST_VARIANCE) * unexcited]
        )
        D = root @ root.T
        return BaseUncertainty(
            covariance=0.5 * (C + C.T),
            by_data=0.5 * (D + D.T),
            widening=np.ones(s.size),
            correlation_time=correlation_time,
        )

    def trace(self) -> tuple[Iteration, ...]:
        """Ten legs: mean NIS, and how far the parameters moved, in plausible sizes."""
        steps, before = [], np.zeros(self.mean.size)
        for leg in np.array_split(np.arange(self.nis.size), _TRACE_LEGS):
            kept = leg[np.isfinite(self.nis[leg])]
            if kept.size == 0:
                continue
            cost = float(self.nis[kept].mean())
            now = self.path[kept[-1]]
            if not (np.isfinite(cost) and np.isfinite(now).all()):
                break
            steps.append(Iteration(cost, float(np.linalg.norm(now - before) / np.sqrt(now.size))))
            before = now
        return tuple(steps)


def _torque_error(problem: Regression, theta_base: Array) -> float:
    """Root mean square over the joints of the torque's relative error."""
    squares, rows = problem.squares(theta_base)
    size = np.where(problem.torque_size > 0.0, problem.torque_size, 1.0)
    share = squares.sum(axis=0) / np.maximum(rows.sum(axis=0), 1.0) / size**2
    return float(np.sqrt(share.mean()))


def start_mean(problem: Regression, prior: Prior) -> tuple[Array, str]:
    """(b,) base parameters to start from, and a remark on them."""
    if _torque_error(problem, prior.theta_base) <= _UNEXPLAINED:
        return prior.theta_base, ""
    ridge = NoiseWeights().fit(problem, prior, lambda s: Ridge().solve(problem, prior, s))
    theta_base = prior.to_base(prior.untouched(ridge.theta))
    return _with_mass(problem, prior.theta_base, theta_base), (
        "The prior explains too little of the torques, so that the filter starts from ridge."
    )


def start_factor(
    problem: Regression,
    prior: Prior,
    theta_base: Array,
    excited: tuple[Array, Array],
    *,
    spread: float,
    mass_spread: float,
) -> Array:
    """(b, b) lower-triangular root of the covariance of p = (theta_base - prior) / size.

    The filter starts at theta_base (b,) with ρ = `mass_spread`; directions that the motion does not
    excite keep to the start.
    """
    L = scaled_factor(prior)
    b = L.shape[0]
    information = solve_triangular(L, np.eye(b), lower=True) / spread
    rows = _mass_rows(problem, theta_base) * prior.size_base / (mass_spread * np.sqrt(_POSTURES))
    R = np.linalg.qr(np.vstack([information, rows]), mode="r")
    root = solve_triangular(R, np.eye(b))
    kept, unexcited = excited
    if unexcited.size:
        unit = prior.size_base[:, None]
        x = solve_triangular(prior.base_factor, unit * root, lower=True)
        x = np.hstack([kept @ (kept.T @ x), _UNEXCITED_STD * unexcited])
        root = prior.base_factor @ x / unit
    return _lower(root)


def scaled_factor(prior: Prior) -> Array:
    """(b, b) lower-triangular root of the prior's covariance of p = (theta_base - prior) / size."""
    return _lower(prior.base_factor / prior.size_base[:, None])


def _lower(root: Array) -> Array:
    """(b, b) lower-triangular root, of positive diagonal, of the same covariance as root (b, k)."""
    R = np.linalg.qr(root.T, mode="r")
    sign = np.where(np.diag(R) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray((sign[:, None] * R).T)


def _with_mass(problem: Regression, known: Array, wanted: Array) -> Array:
    """(b,) base parameters on the way from known to wanted (b,), as far as mass stays positive.

    M is linear in the parameters and its least eigenvalue concave, so that in between it is no less
    than the straight line between the ends.
    """
    n = problem.n_joints
    rows = _mass_rows(problem, known)
    start, end = (
        float(np.linalg.eigvalsh((rows @ theta).reshape(-1, n, n)).min())
        for theta in (known, wanted)
    )
    if end >= _LEAST_MASS or start <= _LEAST_MASS:  # a prior without mass is no help
        return wanted
    return known + (start - _LEAST_MASS) / (start - end) * (wanted - known)


def _mass_rows(problem: Regression, theta_base: Array) -> Array:
    """(m, b) derivatives of M_0^-½ M M_0^-½ by the base parameters in some postures."""
    n, b = problem.n_joints, problem.base.size
    q = np.concatenate([motion.q for motion in problem.motions])
    q = np.repeat(q[np.linspace(0, len(q) - 1, _POSTURES).astype(np.int64)], n + 1, axis=0)
    a = np.tile(np.vstack([np.zeros(n), np.eye(n)]), (_POSTURES, 1))
    Y = torque_regressor(
        problem.robot, q, np.zeros_like(a), a, columns=problem.base.independent
    ).reshape(_POSTURES, n + 1, n, b)
    rows = []
    for posture in Y:
        basis = posture[1:] - posture[0]  # (n, n, b): columns of M by parameter
        values, vectors = np.linalg.eigh(basis @ theta_base)
        values = np.maximum(np.abs(values), _LEAST_EIGENVALUE * np.abs(values).max())
        root = (vectors / np.sqrt(values)) @ vectors.T
        rows.append(np.einsum("ij,jkb,kl->ilb", root, basis, root).reshape(n * n, b))
    return np.concatenate(rows)


def excited_directions(problem: Regression, prior: Prior) -> tuple[Array, Array]:
    """(b, k), (b, b - k): directions of x, theta_base = L x, that the motion excites, and others.

    A joint that stood throughout trembles a little in a filter, which would take that for
    information on its inertia and friction.
    """
    A = problem.stack(np.ones((problem.n_logs, problem.n_joints))).A
    s, Vt = np.linalg.svd(A @ prior.base_factor)[1:]
    kept = s > _SINGULAR * s.max(initial=0.0)
    return Vt[kept].T, Vt[~kept].T
