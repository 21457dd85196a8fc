"""How the logs of an identification were filtered, why so, and what the residuals look like."""

from __future__ import annotations

import numpy as np
from scipy.signal import welch

from bodysense.identification.friction_comparison import FrictionChoice
from bodysense.identification.run import IdentificationRun
from bodysense.identification.scores import Prediction
from bodysense.logs.filtering import drawable
from bodysense.report.page import Section, count, number
from bodysense.robot.layout import effort_unit
from bodysense.spatial.arrays import Array

_LAG_POINTS = 200  # of a drawn autocorrelation
_SPECTRUM_POINTS = 160  # of a drawn spectrum
_CORRELATION_TIMES = 6.0  # drawn


def preprocessing_section(run: IdentificationRun) -> Section:
    """Settings in words, the noise of each joint, and curves of residuals for the page's script."""
    result, training = run.identification, [p for p in run.predictions if p.kind == "training"]
    longest = max(training, key=lambda p: p.t.size, default=None)
    times = [float(time) for time in result.correlation_time]
    return {
        "facts": _processing(run),
        "logs": [  # those at the end of the list may have been too short to count
            (diagnosis.source, f"{number(time, 3)} s")
            for diagnosis, time in zip(run.diagnoses, times, strict=False)
        ],
        "noise": _noise(run),
        "data": {
            "cutoff": _cutoff(run),
            "residuals": None if longest is None else _residuals(longest, max(times, default=0.0)),
            "band": _marks(run),
            "units": [effort_unit(kind) for kind in result.prior.joint_types],
        },
    }


def _noise(run: IdentificationRun) -> list[Section]:
    """Standard deviation of each joint's residuals in each log, and share of the raw torque."""
    result = run.identification
    floor = next((s.noise_floor for s in run.scores if s.kind == "training"), None)
    return [
        {
            "joint": joint,
            "unit": effort_unit(result.prior.joint_types[j]),
            "noise": result.noise[:, j].tolist(),
            "floor": float("nan") if floor is None else floor[j],
        }
        for j, joint in enumerate(result.prior.joint_names)
    ]


def _processing(run: IdentificationRun) -> list[tuple[str, str]]:
    settings, problem = run.settings, run.problem
    rates = sorted({round(m.rate, 2) for m in problem.motions})
    samples = sum(m.t.size for m in problem.motions)
    rows = sum(factor.rows for factor in problem.factors.values())
    chosen = "chosen from the data" if run.cutoff is not None else "given"
    still = settings.still_speed or 0.0
    facts = [
        ("Cut-off of positions and torques", f"{_hertz(settings.cutoff)}, {chosen}"),
        (
            "Scores compare torques below",
            f"{_hertz(run.scores[0].bandwidth)}, whatever the cut-off",
        ),
        ("Filter", f"Butterworth of order {settings.order}, forward and backward"),
        ("Differences", f"central, of order {settings.accuracy}"),
        (
            "Parallel filter",
            f"{_hertz(settings.band)}, then decimated"
            if settings.decimate and settings.band != np.inf
            else "none",
        ),
        ("Cut off at both ends", f"{number(settings.border or 0.0, 3)} s"),
        ("Rate", ", ".join(f"{number(r, 4)} Hz" for r in rates[:6])),
        ("Samples", f"{samples:,} in {count(len(problem.motions), 'piece')}"),
        ("Rows of the regression", f"{rows:,} for {problem.size} unknowns"),
        (
            "Still joints",
            f"rows slower than {number(still, 2)} rad/s (m/s) left out"
            if still
            else "all rows kept",
        ),
    ]
    if run.cutoff is not None and run.cutoff.warning:
        facts.append(("Choice of the cut-off", run.cutoff.warning))
    if run.friction is not None:
        facts += _friction(run.friction)
    return facts


def _friction(choice: FrictionChoice) -> list[tuple[str, str]]:
    tried = sorted(choice.trials, key=lambda trial: trial.error)
    compared = ", ".join(
        f"{trial.name} {number(trial.error)} ({trial.coefficients} coefficients)" for trial in tried
    )
    facts = [("Friction law", f"{choice.name}. {choice.reason}".strip())]
    if compared:
        facts.append(
            (
                "Friction laws",
                "squared error of moving joints on blocks left out, in units of the noise "
                f"variance: {compared}",
            )
        )
    facts += [
        (f"Fitted {name}", ", ".join(number(x, 3) for x in values))
        for name, values in choice.shape.items()
        if len(set(values)) > 1
    ]
    return facts


def _hertz(frequency: float | None) -> str:
    if frequency == np.inf:
        return "none"
    return f"{number(frequency if frequency is not None else float('nan'), 3)} Hz"


def _marks(run: IdentificationRun) -> list[tuple[float, str]]:
    """Frequencies to mark in a spectrum."""
    settings = run.settings
    marks = [(settings.cutoff, "cut-off")]
    if settings.decimate:
        marks.append((settings.band, "fitted up to"))
    return [(frequency, text) for frequency, text in marks if frequency not in (None, np.inf)]


def _cutoff(run: IdentificationRun) -> Section | None:
    if run.cutoff is None:
        return None
    tried = [
        (f, 100.0 * e)
        for f, e in zip(run.cutoff.tried, run.cutoff.errors, strict=True)
        if np.isfinite(f) and np.isfinite(e)
    ]
    if len(tried) < 2:
        return None
    return {
        "chosen": run.cutoff.cutoff,
        "tried": [f for f, _ in tried],
        "errors": [e for _, e in tried],
    }


def _residuals(piece: Prediction, correlation_time: float) -> Section:
    """Autocorrelation of filtered, and spectrum of raw residuals of the longest piece."""
    period = float(piece.t[-1] - piece.t[0]) / max(piece.t.size - 1, 1)
    lags, rho = autocorrelation(
        piece.filtered - piece.identified_filtered, period, _CORRELATION_TIMES * correlation_time
    )
    f, residual = spectrum(piece.raw - piece.identified, 1.0 / period)
    _, torque = spectrum(piece.raw, 1.0 / period)
    return {
        "source": piece.source,
        "correlationTime": correlation_time if np.isfinite(correlation_time) else None,
        "lags": _four_digits(lags),
        "autocorrelation": [_four_digits(r) for r in rho.T],
        "frequencies": _four_digits(f),
        "residual": [_four_digits(s) for s in residual.T],
        "torque": [_four_digits(s) for s in torque.T],
    }


def autocorrelation(residuals: Array, period: float, span: float) -> tuple[Array, Array]:
    """Lags (m,) [s] and autocorrelations (m, n) of residuals (n_t, n); NaN where they are constant.

    Args:
        residuals: evenly sampled.
        period: between samples [s].
        span: longest lag of interest [s]; at least 20 samples are shown, at most a quarter.
    """
    n_t = residuals.shape[0]
    e = np.nan_to_num(drawable(residuals))
    e = e - e.mean(axis=0)
    n_fft = 2 * int(2 ** np.ceil(np.log2(max(n_t, 2))))
    covariance = np.fft.irfft(np.abs(np.fft.rfft(e, n_fft, axis=0)) ** 2, axis=0)
    wanted = int(span / period) if np.isfinite(span) else 0
    n_lags = max(2, min(max(wanted, 20), n_t // 4))
    kept = np.unique(np.linspace(0, n_lags - 1, min(n_lags, _LAG_POINTS)).round().astype(np.int64))
    variance = np.where(covariance[0] > 0.0, covariance[0], np.nan)
    rho = np.asarray(covariance[kept] / variance, dtype=np.float64)
    return np.asarray(kept * period, dtype=np.float64), rho


def spectrum(signal: Array, rate: float) -> tuple[Array, Array]:
    """Frequencies (m,) [Hz] and amplitude spectral densities (m, n) [1/√Hz] of a signal (n_t, n).

    Welch's method; lines are gathered so that they are even on a logarithmic axis.
    """
    n_t = signal.shape[0]
    finite = np.nan_to_num(drawable(signal))
    length = min(n_t, max(64, 2 ** int(np.log2(max(n_t / 6.0, 2.0)))))
    f, power = welch(finite, rate, nperseg=length, axis=0)
    f, power = f[1:], power[1:]
    edges = np.unique(np.geomspace(1, f.size, min(f.size, _SPECTRUM_POINTS)).astype(np.int64)) - 1
    counts = np.diff([*edges, f.size])
    mean_f: Array = np.add.reduceat(np.asarray(f, dtype=np.float64), edges) / counts
    mean_power = np.add.reduceat(power, edges, axis=0) / counts[:, None]
    return mean_f, np.sqrt(mean_power)


def _four_digits(values: Array) -> list[float | None]:
    """Four digits of each number, `None` for what is none."""
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in values.tolist()]
