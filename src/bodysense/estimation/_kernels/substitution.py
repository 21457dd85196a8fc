"""From the root to the leaves: the means of all unknowns, compiled.

The multipliers mu_i of the wrench balances give the means (Bryson and Frazier's form of
smoothing), without the inverse of any covariance: with mu of the parent moved to the body,

    f_i = F1 alpha_p + phi1 + P1 mu,   alpha_i = A alpha_p + c + Q Fᵀ mu,   fx_i = fx - P_x mu

where mu passes the readings on the parent's side first, and those of the body itself last.
"""

from __future__ import annotations

from bodysense.estimation._kernels.conditioning import resist
from bodysense.estimation._kernels.problem import (
    ALPHA_FOUND,
    ALPHA_MEAN,
    COV_ABOVE,
    EXTERNAL_COV,
    EXTERNAL_FORCE,
    EXTERNAL_FOUND,
    MULTIPLIER,
    OFFSET_ABOVE,
    OWN_WRENCH,
    PARENT_SIDE,
    SLOPE,
    SLOPE_ABOVE,
    TRANSFORM,
    WRENCH_FOUND,
)
from bodysense.estimation._kernels.small import add_product, backward, clear, copy, product
from bodysense.robot._kernels.jit import called, merged


@merged
def root_found(floating, M, V, Z, A0, L, E, e):
    """Acceleration, multiplier and external wrench of the root."""
    clear(V[MULTIPLIER])
    clear(V[WRENCH_FOUND])
    clear(V[EXTERNAL_FOUND])
    if floating == 0:
        copy(A0, Z[ALPHA_FOUND])
        return
    copy(Z[ALPHA_MEAN], Z[ALPHA_FOUND])
    copy(e, V[MULTIPLIER])
    add_product(-1.0, E, Z[ALPHA_FOUND], V[MULTIPLIER])
    backward(L, V[MULTIPLIER])
    external_found(M, V)


@merged
def external_found(M, V):
    """External wrench: its mean after its own readings, less P_x mu."""
    copy(V[EXTERNAL_FORCE], V[EXTERNAL_FOUND])
    add_product(-1.0, M[EXTERNAL_COV], V[MULTIPLIER], V[EXTERNAL_FOUND])


@merged
def body_found(M, G, V, Z, A, Q, S, above, tau, FQ):
    """Wrench, acceleration and Sᵀ f of a body, given alpha of its parent."""
    mu, f, alpha = V[MULTIPLIER], V[WRENCH_FOUND], Z[ALPHA_FOUND]
    copy(V[OFFSET_ABOVE], f)
    add_product(1.0, G[SLOPE_ABOVE], above, f)
    add_product(1.0, M[COV_ABOVE], mu, f)
    product(G[SLOPE], Q, FQ)
    copy(Z[ALPHA_MEAN], alpha)
    add_product(1.0, A, above, alpha)
    add_product(1.0, FQ.T, mu, alpha)
    for c in range(tau.size):
        x = 0.0
        for k in range(6):
            x += S[k] * f[k, c]
        tau[c] = x


@called
def add_torque_slack(variance, on_torque, eta, tau):
    """The slack of tau = Sᵀ f, from the multipliers of the torque's readings."""
    for a in range(on_torque.size):
        for c in range(tau.size):
            tau[c] += variance * on_torque[a] * eta[a, c]


@merged
def substitute(bodies, readings, beliefs, w):
    """From the root to the leaves."""
    begin, block_first = readings.begin, readings.first
    M, V, Z, tau, present = w.M, w.V, w.Z, w.d_tau, w.present
    H, K, L, E, e, eta = w.H, w.K, w.L, w.E, w.e, w.eta
    root_found(bodies.floating, M[0], V[0], Z[0], w.A0, w.root_L, w.root_E, w.root_e)
    for c in range(tau.shape[1]):
        tau[0, c] = 0.0
    for i in range(1, M.shape[0]):
        parent = bodies.parent[i]
        mu, above, alpha = V[i, MULTIPLIER], Z[parent, ALPHA_FOUND], Z[i, ALPHA_FOUND]
        product(M[i, TRANSFORM], V[parent, MULTIPLIER], mu)
        for block in range(begin[i, PARENT_SIDE + 1] - 1, begin[i, PARENT_SIDE] - 1, -1):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                resist(a, b, above, mu, H, K, L, E, e, eta)
        S = bodies.S[i]
        body_found(M[i], w.G[i], V[i], Z[i], w.A[i], w.Q[i], S, above, tau[i], w.work67)
        for block in range(begin[i, OWN_WRENCH + 1] - 1, begin[i, OWN_WRENCH] - 1, -1):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                resist(a, b, alpha, mu, H, K, L, E, e, eta)
                add_torque_slack(beliefs.slack_torque[i], readings.on_torque[a:b], eta[a:b], tau[i])
        external_found(M[i], V[i])
