"""From the root to the leaves: what is found of every source of noise, and so of all unknowns.

Elimination turned sources into others by reflections; here the same reflections lead back (see
`reflections`). The mean of a source that no reading told anything about is zero; for covariances
(`covariance`) it is a fresh unit normal instead.
"""

from __future__ import annotations

from bodysense.compiled.jit import called
from bodysense.estimation._kernels.conditioning import surprise
from bodysense.estimation._kernels.problem import OWN_WRENCH, PARENT_SIDE
from bodysense.estimation._kernels.reflections import give_back
from bodysense.estimation._kernels.small import add_product, add_transposed_product, clear, copy


@called
def _motion_found(A, mean, N, n_motion, above, n, alpha):
    """Alpha of a body, given the acceleration of its parent and its sources n."""
    seven, six = A.shape
    r = n.shape[1]
    copy(mean, seven, r, alpha)
    add_product(1.0, A, above, seven, six, r, alpha)
    add_transposed_product(1.0, N, n, seven, n_motion, r, alpha)


@called
def _wrench_found(F, phi, U, n_u, alpha, u, S, wrench, tau):
    """Wrench, slack and torque of a body."""
    seven, r = phi.shape
    copy(phi, seven, r, wrench)
    add_product(1.0, F, alpha, n_u, seven, r, wrench)
    add_transposed_product(1.0, U, u, n_u, n_u, r, wrench)
    for c in range(r):
        x = wrench[6, c]
        for k in range(6):
            x += S[k] * wrench[k, c]
        tau[c] = x


@called
def _sources_found(sources, n, out):
    """Add sourcesᵀ n to out (6, r)."""
    six, r = out.shape
    add_transposed_product(1.0, sources, n, six, six, r, out)


@called
def substitute(bodies, readings, priors, w):
    """From the root to the leaves."""
    begin, block_first = readings.begin, readings.first
    present, E, e, of_reading = w.present, w.E, w.e, w.of_reading
    alpha, u, n, eps = w.alpha, w.u, w.n, w.eps
    seven, r = w.A0.shape
    six = seven - 1
    for i in range(alpha.shape[0]):
        parent = bodies.parent[i]
        n_wrench, n_motion, n_slack = priors.n_wrench[i], priors.n_motion[i], priors.n_slack[i]
        n_u = seven if priors.torque[i] > 0.0 else six
        k = n_motion + n_u
        copy(w.external[i], six, r, w.fx[i])
        clear(w.slack[i], six, r)
        clear(n, k, r)
        if i == 0:
            copy(w.A0, seven, r, alpha[0])
            clear(w.wrench[0], seven, r)
            for c in range(r):
                w.tau[0, c] = 0.0
            if bodies.floating == 0:
                clear(w.fx[0], six, r)
                continue
            copy(w.root_e, six, r, eps)
            give_back(w.of_root, six, eps, n, k, r)
            copy(w.mean[0], seven, r, alpha[0])
            add_transposed_product(1.0, w.N[0], n, seven, n_motion, r, alpha[0])
        else:
            if parent > 0 or bodies.floating == 1:
                give_back(w.of_body[i], six, u[parent], n, k, r)
            for block in range(begin[i, PARENT_SIDE + 1] - 1, begin[i, PARENT_SIDE] - 1, -1):
                if present[block] == 1:
                    a, b = block_first[block], block_first[block + 1]
                    surprise(E[a:b], e[a:b], alpha[parent], six, eps)
                    give_back(of_reading[a:b], b - a, eps, n, k, r)
            _motion_found(w.A[i], w.mean[i], w.N[i], n_motion, alpha[parent], n, alpha[i])
        for j in range(n_u):
            for c in range(r):
                u[i, j, c] = n[n_motion + j, c]
        if i > 0:
            S = bodies.S[i]
            _wrench_found(w.F[i], w.phi[i], w.U[i], n_u, alpha[i], u[i], S, w.wrench[i], w.tau[i])
        for block in range(begin[i, OWN_WRENCH + 1] - 1, begin[i, OWN_WRENCH] - 1, -1):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                surprise(E[a:b], e[a:b], alpha[i], seven, eps)
                give_back(of_reading[a:b], b - a, eps, u[i], n_u, r)
        if n_slack > 0:
            clear(n, six, r)
            give_back(w.of_slack[i], six, u[i], n, six, r)
            _sources_found(priors.slack[i], n, w.slack[i])
        if n_wrench > 0:
            clear(n, six, r)
            give_back(w.of_external[i], six, u[i], n, six, r)
            _sources_found(w.external_noise[i], n, w.fx[i])
