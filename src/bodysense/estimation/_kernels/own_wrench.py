"""What a body itself brings to its wrench balance, however it moves: compiled.

What readings say about its external wrench, and the slack of its balance, do not depend on the
motion. What they are as sources of noise is worked out once, and kept as long as the same readings
come with the same weights:

    f_i = … + Uᵀ u,     fx_i = mean + M u + N n,     slack = M_s u + N_s n

where u and n are independent unit normals: all that is found of fx_i and the slack is found of u.
"""

from __future__ import annotations

from bodysense.compiled.jit import called
from bodysense.compiled.lanes import is_zero
from bodysense.estimation._kernels.conditioning import (
    condition_means,
    condition_noise,
    set_aside,
)
from bodysense.estimation._kernels.problem import EXTERNAL
from bodysense.estimation._kernels.reflections import give_back, take_in
from bodysense.estimation._kernels.small import (
    add_product,
    add_transposed_product,
    clear,
    copy,
    gram,
    product,
    square,
)


@called
def _is_settled(w, first, last, i):
    """Whether blocks first … last come with the weights of the last time, which are noted."""
    settled = w.keep[0] > 0 and w.own_known[i] > 0
    for block in range(first, last):
        weight = w.weight[block]
        if w.present[block] == 0:
            weight = 0.0 * weight
        settled = settled and is_zero(weight - w.own_weight[block])
        w.own_weight[block] = weight
    w.own_known[i] = 1
    return settled


@called
def _take_in_sources(scale, sources, U, new, reflections):
    """Add six sources of noise to those of a wrench."""
    for i in range(6):
        for c in range(6):
            new[i, c] = scale * sources[i, c]
    six = U.shape[0]
    take_in(U, six, six, new, six, reflections)


@called
def _found_of(sources, reflections, first, u, n, out, slope, covariance):
    """Slope by u, and covariance besides, of sourcesᵀ n.

    u (6, 18) becomes what it was before these sources were taken in; n are unit normals, in
    columns first … of it.
    """
    six, width = u.shape
    clear(n, six, width)
    for j in range(six):
        n[j, first + j] = 1.0
    give_back(reflections, six, u, n, six, width)
    clear(out, six, width)
    add_transposed_product(1.0, sources, n, six, six, width, out)
    copy(out, six, six, slope)
    for i in range(six):
        for c in range(six, width):
            out[i, c - six] = out[i, c]
    gram(out, six, width - six, covariance)


@called
def _external_coefficients(weight, on_external, H):
    """Coefficients of a block of readings of an external wrench."""
    for a in range(on_external.shape[0]):
        for c in range(6):
            H[a, c] = weight * on_external[a, c]


@called
def _settle(readings, priors, w, i):
    """Work out the sources of a body whose readings or weights have changed."""
    six = w.external.shape[1]
    sources, score = w.noise, w.own_score[i]
    copy(priors.wrench[i], six, six, sources)
    clear(w.own_U[i], six, six)
    score[0] = 0.0
    for block in range(readings.begin[i, EXTERNAL], readings.begin[i, EXTERNAL + 1]):
        if w.present[block] == 1:
            a, b = readings.first[block], readings.first[block + 1]
            m, reflections = b - a, w.of_reading[a:b]
            _external_coefficients(w.weight[block], readings.on_external[a:b], w.H)
            root, triangle, k = readings.root[a:b], w.own_rows[a:b], priors.n_wrench[i]
            condition_noise(root, w.H, sources, k, six, m, reflections, triangle, w.new, score)
    u = w.own_u
    clear(u, six, u.shape[1])
    for j in range(six):
        u[j, j] = 1.0
    if priors.n_wrench[i] > 0:
        _take_in_sources(-1.0, sources, w.own_U[i], w.new, w.of_external)
    if priors.n_slack[i] > 0:
        _take_in_sources(1.0, priors.slack[i], w.own_U[i], w.new, w.of_slack)
        slope, covariance = w.slack_slope[i], w.slack_noise[i]
        _found_of(priors.slack[i], w.of_slack, six, u, w.own_n, w.own_out, slope, covariance)
    if priors.n_wrench[i] > 0:
        slope, covariance = w.external_slope[i], w.external_noise[i]
        _found_of(sources, w.of_external, six + six, u, w.own_n, w.own_out, slope, covariance)


@called
def bring_own_wrench(readings, priors, w, i):
    """Begin the balance of a body: the sources of its own, and the mean of its external wrench."""
    begin, end = readings.begin[i, EXTERNAL], readings.begin[i, EXTERNAL + 1]
    external, six = w.external[i], w.external.shape[1]
    if not _is_settled(w, begin, end, i):
        _settle(readings, priors, w, i)
    clear(w.U[i], w.U.shape[1], w.U.shape[1])
    copy(w.own_U[i], six, six, w.U[i])
    clear(external, six, external.shape[1])
    for j in range(6):
        external[j, 0] = priors.wrench_mean[i, j]
    w.score[0] += w.own_score[i, 0]
    for block in range(begin, end):
        if w.present[block] == 1:
            a, b = readings.first[block], readings.first[block + 1]
            weight, Y, E, e = w.weight[block], w.Y[a:b], w.E[a:b], w.e[a:b]
            _external_coefficients(weight, readings.on_external[a:b], w.H)
            for k in range(b - a):
                for c in range(e.shape[1]):
                    e[k, c] = weight * Y[k, c]
            none = six - six
            condition_means(w.own_rows[a:b], w.H, b - a, six, w.nothing, none, external, E, e)
            set_aside(e, b - a, none, w.left, w.kept, w.score)


@called
def find_own_wrench(priors, w, i):
    """External wrench and slack of a body, now that u is found."""
    fx, slack = w.fx[i], w.slack[i]
    six, r = fx.shape
    copy(w.external[i], six, r, fx)
    clear(slack, six, r)
    if priors.n_wrench[i] > 0:
        add_product(1.0, w.external_slope[i], w.u[i], six, six, r, fx)
    if priors.n_slack[i] > 0:
        add_product(1.0, w.slack_slope[i], w.u[i], six, six, r, slack)


@called
def _add_noise(noise, covariance):
    for i in range(6):
        for j in range(6):
            covariance[i, j] += noise[i, j]


@called
def spread_own_wrench(priors, w, s, i, u, columns, blocks, slacks):
    """Covariances of external wrench and slack of a body, from u (6, columns) of unit normals."""
    fx, six = s.fx, w.external.shape[1]
    if priors.n_wrench[i] > 0:
        product(w.external_slope[i], u, six, six, columns, fx)
        for j in range(6):
            s.variance[i, 13 + j] = square(fx, j, columns) + w.external_noise[i, j, j]
        if blocks:
            gram(fx, six, columns, s.external[i])
            _add_noise(w.external_noise[i], s.external[i])
    else:
        for j in range(6):
            s.variance[i, 13 + j] = 0.0
        if blocks:
            clear(s.external[i], six, six)
    if slacks and priors.n_slack[i] > 0:
        product(w.slack_slope[i], u, six, six, columns, fx)
        gram(fx, six, columns, s.slack_wrench[i])
        _add_noise(w.slack_noise[i], s.slack_wrench[i])
    elif slacks:
        clear(s.slack_wrench[i], six, six)
