"""Covariance of an estimate whose residuals are correlated in time and between joints.

For weighted least squares with rows y_r, residuals e_r and weights w_r,

    Cov = M S M,     M = (Σ_r w_r² y_r y_rᵀ + Λ)⁻¹,     S = Σ_k κ(k) Σ_t g_t g_{t+k}ᵀ + Λ,

where g_t = Σ_j w² y e gathers the rows of one instant, κ is the Parzen window over the lags k for
which residuals stay correlated (Newey and West 1987, Andrews 1991), and Λ the information of the
prior, which matters only where the data have next to no information. With white residuals S = M⁻¹
and this is eq (16) of the thesis; filtered torques and friction that no model describes are far
from white, and that formula then gives intervals several times too short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import stdtrit

from bodysense.identification.identification import Identification, Iteration, Status
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.solution import PriorTerm, WeightedSolution, noise_levels
from bodysense.spatial.arrays import Array, read_only
from bodysense.status import BAND

_MIN_LAGS = 4  # of the window: even white noise is correlated over the filter's length
_UNCORRELATED = 0.05  # autocorrelation below which residuals count as uncorrelated
_UNOBSERVABLE = 1e-9  # singular value over the largest, of a direction that is not observable
_UNKNOWN_VARIANCE = 1e4  # of directions without information in the data, in units of the prior's
_PARZEN_POWER = 0.539  # ∫ κ² over both sides, by which a window reduces degrees of freedom
_MIN_FREEDOM = 4.0  # degrees of freedom of a variance at least
_MAX_LEVERAGE = 0.9  # of one row, so that its residual is magnified at most tenfold
_MAX_LAGS = 64  # of the window; neighbouring samples are added up where it would be longer
_SCORES_BYTES = 256e6  # of memory for scores; beyond it neighbouring samples are added up


@dataclass(frozen=True, eq=False)
class BaseUncertainty:
    """Covariance of the base parameters, and where it comes from.

    Attributes:
        covariance: (b, b) of the estimate. Where the data have no information the estimate is the
            prior's, and so is its variance.
        by_data: (b, b) covariance from the data alone, of x in theta_base = prior.base_factor x:
            the prior's is the unit matrix.
        widening: (b,) factors by which the covariance's standard deviations have been widened, so
            that 1.96 of them make an interval of 95 %.
        correlation_time: (n_logs,) how long residuals stay correlated [s].
    """

    covariance: Array
    by_data: Array
    widening: Array
    correlation_time: Array


def base_uncertainty(
    problem: Regression, prior: Prior, theta_base: Array, fit: WeightedSolution, term: PriorTerm
) -> BaseUncertainty:
    """Covariance of the base parameters, of the estimate (b,) and from the data alone.

    Depends on how rows were weighted, and on the prior term that the method used.
    """
    free = _uncertainty(problem, prior.base_factor, theta_base, fit, term.spread)
    if term.factor is None:
        return free
    held = _uncertainty(problem, term.factor, theta_base, fit, 1.0, term.error_factor)
    return replace(free, covariance=held.covariance, widening=held.widening)


def _uncertainty(
    problem: Regression,
    L: Array,
    theta_base: Array,
    fit: WeightedSolution,
    spread: float,
    error_factor: Array | None = None,
) -> BaseUncertainty:
    """As `base_uncertainty`, about a prior N(0, spread² L Lᵀ)."""
    curvature = fit.stack if fit.bread is None else fit.bread
    # In coordinates in which the prior is a unit ball, turned so that M is diagonal, 1 / root²:
    # forming M would lose half the digits.
    s, Vt = np.linalg.svd(curvature.A @ L)[1:]
    turned = L @ Vt.T
    faintest = _UNOBSERVABLE * float(s.max(initial=0.0))
    hidden = s <= faintest
    weight = max(1.0 / spread if spread < np.inf else faintest, 1e-150)
    root = np.hypot(s, weight)
    S = np.zeros((s.size, s.size))
    squares, fourths = np.zeros((2, problem.size))
    times: dict[int, list[float]] = {}
    for log, time, scores, window, part in _correlated(problem, theta_base, fit, turned / root):
        times.setdefault(log, []).append(time)
        S += part
        pulls = np.square(scores @ (turned / root).T)  # on each base parameter
        squares += pulls.sum(axis=0)
        fourths += np.square(pulls).sum(axis=0) * (1.0 + _PARZEN_POWER * window)
    S = 0.5 * (S + S.T)
    if error_factor is None:
        half = (S + np.diag((weight / root) ** 2)) / root / root[:, None]
        half = _with_variance(half, hidden, min(spread, 1.0) ** 2)
    else:
        # The prior pulls by weight² times its error: its actual uncertainty, not one spread.
        error = np.linalg.lstsq(L, error_factor, rcond=None)[0]
        off = (weight**2 / root)[:, None] * (Vt @ error)
        half = (_with_variance(S, hidden, 0.0) + off @ off.T) / root / root[:, None]
    widen = _widening(squares, fourths)
    C = (turned @ half @ turned.T) * widen * widen[:, None]
    # M of the data alone is 1 / s²; what would come out beyond the largest variance is unknown.
    unknown = hidden | (s**2 < 1.0 / _UNKNOWN_VARIANCE)
    gain = root / np.where(unknown, 1.0, s) ** 2
    by_data = Vt.T @ _with_variance(S * gain * gain[:, None], unknown, _UNKNOWN_VARIANCE) @ Vt
    correlation = np.array([max(times.get(log, [0.0])) for log in range(problem.n_logs)])
    return BaseUncertainty(0.5 * (C + C.T), 0.5 * (by_data + by_data.T), widen, correlation)


def score_covariance(
    problem: Regression, theta_base: Array, fit: WeightedSolution, whitening: Array
) -> Array:
    """(k, k) S of the module's equation without its prior, for rows y_r whitening (b, k)."""
    parts = (part for *_, part in _correlated(problem, theta_base, fit, whitening))
    S: Array = sum(parts, np.zeros((whitening.shape[1],) * 2))
    return 0.5 * (S + S.T)


def _correlated(
    problem: Regression, theta_base: Array, fit: WeightedSolution, whitening: Array
) -> Iterator[tuple[int, float, Array, int, Array]]:
    """For each piece: log, correlation time, scores, their window and their share of S."""
    for log, period, scores, residuals in _gather(problem, theta_base, fit, whitening):
        rho = autocorrelation(residuals)
        lags = correlation_lags(rho)
        window = max(_MIN_LAGS, min(2 * lags, len(scores) // 4))
        loss = _window_loss(rho, lags, window)
        if window > _MAX_LAGS:  # a long window does not need every sample
            together = -(-window // _MAX_LAGS)
            scores = np.add.reduceat(scores, np.arange(0, len(scores), together), axis=0)
            window = -(-window // together)
        yield log, lags * period, scores, window, loss * _long_run(scores, window)


def _widening(squares: Array, fourths: Array) -> Array:
    """(b,) factors after which 1.96 standard deviations are an interval of 95 %.

    A variance that a few independent rows u decide is itself uncertain. For Gaussian noise it has
    3 (Σ u²)² / Σ u⁴ degrees of freedom (Satterthwaite), of which a window over lags leaves fewer;
    Student's quantile replaces the normal one.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = 3.0 * squares**2 / fourths
    freedom = np.where(np.isfinite(freedom), np.maximum(freedom, _MIN_FREEDOM), np.inf)
    quantile = np.asarray(stdtrit(np.minimum(freedom, 1e6), 0.975), dtype=np.float64)
    return np.maximum(quantile / BAND, 1.0)


def _with_variance(C: Array, where: NDArray[np.bool_], variance: float) -> Array:
    """The covariance with some directions independent of all others, of a given variance."""
    C = np.where(where | where[:, None], 0.0, C)
    C[where, where] = variance
    return C


def _gather(
    problem: Regression, theta_base: Array, fit: WeightedSolution, whitening: Array
) -> list[tuple[int, float, Array, Array]]:
    """For each piece: log, period, scores (m, b) in whitened coordinates, residuals (m, n).

    A row that the fit leans on pulls the fit towards itself, and its residual becomes too small by
    one minus its leverage ‖w y whitening‖²: residuals are divided by that (HC3, MacKinnon and White
    1985).
    """
    # Neighbours are added up where a million rows would not fit; windows are longer than that.
    together = max(1, int(np.ceil(8.0 * problem.n_samples * problem.size / _SCORES_BYTES)))
    pieces: dict[int, tuple[int, list[Array], list[Array], list[Array]]] = {}
    for k, block in enumerate(problem.blocks()):
        weight = block.use if fit.weights is None else fit.weights[k]
        scale = weight / fit.sigma[block.log]
        residual = (block.y - block.Y @ theta_base) * scale
        rows = (block.Y @ whitening) * scale[:, :, None]
        leverage = np.minimum(np.einsum("tjb,tjb->tj", rows, rows), _MAX_LEVERAGE)
        score = np.einsum("tj,tjb->tb", residual / (1.0 - leverage), rows)
        _, t, G, e = pieces.setdefault(block.piece, (block.log, [], [], []))
        t.append(block.t)
        G.append(np.add.reduceat(score, np.arange(0, len(score), together), axis=0))
        e.append(residual[::together])
    out = []
    for log, t_parts, G_parts, e_parts in pieces.values():
        times, scores = np.concatenate(t_parts), np.concatenate(G_parts)
        period = float(times[-1] - times[0]) / max(len(scores) - 1, 1)
        out.append((log, period, scores, np.concatenate(e_parts)))
    return out


def autocorrelation(residuals: Array) -> Array:
    """(≤ m/4,) autocorrelation of residuals (m, n) at lags 0, 1, …, averaged over the joints."""
    m = residuals.shape[0]
    e = residuals - residuals.mean(axis=0)
    n_fft = 2 * int(2 ** np.ceil(np.log2(max(m, 2))))
    power = np.abs(np.fft.rfft(e, n_fft, axis=0)) ** 2
    covariance = np.fft.irfft(power, axis=0)[: max(m // 4, 1)]
    moving = covariance[0] > 0.0
    if not moving.any():
        return np.ones(1)
    rho: Array = (covariance[:, moving] / covariance[0, moving]).mean(axis=1)
    return rho


def correlation_lags(rho: Array) -> int:
    """Over how many samples residuals stay correlated: the first lag of next to no correlation."""
    below = np.flatnonzero(np.abs(rho) < max(_UNCORRELATED, 1.0 / np.sqrt(rho.size)))
    return int(below[0]) if below.size else rho.size


def parzen(lags: int) -> Array:
    """(lags + 1,) weights of lags 0, 1, …, lags."""
    x = np.arange(lags + 1) / (lags + 1)
    return np.where(x <= 0.5, 1.0 - 6.0 * x**2 + 6.0 * x**3, 2.0 * (1.0 - x) ** 3)


def _long_run(scores: Array, lags: int) -> Array:
    """Σ_k κ(k) Σ_t g_t g_{t+k}ᵀ with the Parzen window κ, for scores (m, b)."""
    S: Array = scores.T @ scores
    for k, weight in enumerate(parzen(min(lags, scores.shape[0] - 1))):
        if k > 0:
            C = scores[k:].T @ scores[:-k]
            S += weight * (C + C.T)
    return S


def _window_loss(rho: Array, lags: int, window: int) -> float:
    """By how much a window makes the variance of a sum too small, for residuals alone."""
    near = rho[1 : lags + 1]
    taken = parzen(window)[1 : near.size + 1] * near
    return float(np.clip((1.0 + 2.0 * near.sum()) / (1.0 + 2.0 * taken.sum()), 1.0, 1.5))


def _full_uncertainty(prior: Prior, base: BaseUncertainty) -> tuple[Array, Array, Array]:
    """Standard deviations (p,) and resolutions (p,), and the base parameters' resolutions (b,).

    Beside the data stands the prior theta = theta_0 + F x with x ~ N(0, 1): F = diag(size), without
    the directions that are known for certain. With T = L⁻¹ B F, in coordinates in which the prior
    of the base parameters is a unit ball,

        Sigma = F (Tᵀ by_data⁻¹ T + 1)⁻¹ Fᵀ

    and the resolution of parameter k is 1 - Sigma_kk / size_k²: the share that data and knowledge
    have in it. Standard deviations are widened like those of the base parameters that a parameter
    is part of; what is known has none.
    """
    c, V = np.linalg.eigh(base.by_data)
    c = np.clip(c, 1e-30, None)
    _, F = prior.constraints.free_directions(prior.theta, np.diag(prior.size))
    T = solve_triangular(prior.base_factor, prior.mapping @ F, lower=True)
    s, Wt = np.linalg.svd((V / np.sqrt(c)).T @ T, full_matrices=False)[1:]
    # In units of sizes: parameters have no common one.
    unit = F / prior.size[:, None]
    rows = (unit @ Wt.T) ** 2
    # What no base parameter holds; rounding must not add to variances that are small.
    outside = (unit**2).sum(axis=1) - rows.sum(axis=1)
    outside[outside < 1e-12] = 0.0
    variance = outside + rows @ (1.0 / (1.0 + s**2))
    variance[(unit**2).sum(axis=1) < 1e-18] = 0.0  # known for certain
    resolution = np.clip(1.0 - variance, 0.0, 1.0)
    part = prior.mapping**2
    share = part.sum(axis=0)
    widening = np.sqrt((base.widening**2) @ part / np.where(share > 0.0, share, 1.0))
    sigma: Array = prior.size * np.sqrt(variance)
    sigma = np.where(share > 0.0, np.minimum(sigma * widening, prior.size), sigma)
    base_rows = (prior.base_factor @ V) ** 2
    base_resolution = base_rows @ (1.0 / (1.0 + c)) / base_rows.sum(axis=1)
    return sigma, resolution, np.clip(base_resolution, 0.0, 1.0)


def identification_with(
    name: str,
    problem: Regression,
    prior: Prior,
    theta: Array,
    uncertainty: BaseUncertainty,
    status: Status,
    trace: tuple[Iteration, ...] = (),
) -> Identification:
    """The result of a method, from its estimate theta (p,) and the uncertainty of that."""
    sigma, resolution, base_resolution = _full_uncertainty(prior, uncertainty)
    return Identification(
        method=name,
        prior=problem.robot,
        base=problem.base,
        theta=read_only(theta),
        covariance=read_only(uncertainty.covariance),
        sigma=read_only(sigma),
        resolution=read_only(resolution),
        base_resolution=read_only(base_resolution),
        noise=read_only(noise_levels(problem, prior.to_base(theta))),
        correlation_time=read_only(uncertainty.correlation_time),
        status=status,
        trace=trace,
    )
