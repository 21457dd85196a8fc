"""Elimination along the tree: the posterior of every quantity without a dense system, compiled.

From the leaves to the root, what a subtree says about the acceleration of its parent and the
wrench f_i between them is kept in a mixed form: f_i given a_p as a mean and sources of noise, which
may be none, and what is known of a_p as a triangle of whitened rows, which may be empty. So nothing
known and everything known are both harmless, neither covariance nor information is ever formed,
and equations without slack are exact. With alpha_i = (a_i, joint acceleration), at body i:

    f_i = F alpha_i + phi + Uᵀ u                            wrench balance of the subtree
    y   = H f_i + G alpha_i + noise                         readings: condition f_i; what they say
                                                            about alpha_i goes into its triangle
    alpha_i = (X a_p, 0) + offset + sources                 acceleration equation; given
            = A a_p + mean + Nᵀ omega                       the triangle
    f_i = F A a_p + F mean + phi + (N Fᵀ; U)ᵀ (omega; u)    alpha_i eliminated

At a floating root a_p is nothing, and nothing holds it: f = 0 is one more reading, without noise
but for `EXACT`.
`substitution` goes back to the leaves.

Everything has r right-hand sides: the first is the problem, the others its derivatives by
whatever else is unknown (state, biases, parameters).
"""

from __future__ import annotations

from bodysense.compiled.jit import called
from bodysense.estimation._kernels.conditioning import (
    condition,
    condition_alpha,
    set_aside,
    take_in_told,
    tell,
    whiten,
)
from bodysense.estimation._kernels.own_wrench import bring_own_wrench
from bodysense.estimation._kernels.problem import OWN_MOTION, OWN_WRENCH, PARENT_SIDE
from bodysense.estimation._kernels.reflections import take_in
from bodysense.estimation._kernels.small import (
    add,
    add_product,
    add_transposed_product,
    clear,
    copy,
    product,
)

EXACT = 1e-9
"""Least standard deviation of a reading, in SI units: that of one without noise."""


@called
def _wrench_balance(inertia, balance, external, torque, F, phi, U):
    """Add what a body itself owes to its balance, and the source of its torque's slack.

    Its children have added theirs already.
    """
    six, r = balance.shape
    add(1.0, inertia, six, six, F)
    add(1.0, balance, six, r, phi)
    add(-1.0, external, six, r, phi)
    U[6, 6] = torque


@called
def _motion_told(weight, white, on_alpha, Y, E, e):
    """Whitened rows of a block of readings of motion; whether they say anything about alpha."""
    m, r = e.shape
    some = 0
    for a in range(m):
        for j in range(7):
            x = 0.0
            for b in range(m):
                x += white[a, b] * on_alpha[b, j]
            some += x != 0.0
            E[a, j] = weight * x
        for c in range(r):
            x = 0.0
            for b in range(m):
                x += white[a, b] * Y[b, c]
            e[a, c] = weight * x
    return some > 0


@called
def _coefficients(weight, on_wrench, on_alpha, Y, H, E, e):
    """Coefficients and right-hand sides of a block, where `condition` wants them."""
    for a in range(e.shape[0]):
        for c in range(7):
            H[a, c] = weight * on_wrench[a, c]
            E[a, c] = weight * on_alpha[a, c]
        for c in range(e.shape[1]):
            e[a, c] = weight * Y[a, c]


@called
def _coefficients_on_parent(weight, on_wrench, on_alpha, Y, X, H, E, e):
    """The same on the parent's side, where the wrench is -Xᵀ f."""
    for a in range(e.shape[0]):
        for c in range(6):
            x = 0.0
            for k in range(6):
                x -= on_wrench[a, k] * X[c, k]
            H[a, c] = weight * x
            E[a, c] = weight * on_alpha[a, c]
        for c in range(e.shape[1]):
            e[a, c] = weight * Y[a, c]


@called
def _given_parent(T, X, triangle, told, A):
    """What the triangle of alpha says about a_p, whitened, and A, from the S and K of alpha."""
    seven, six = told.shape
    product(T, X, seven, six, six, told)
    whiten(triangle, told.shape[0], told, told.shape[1])
    for b in range(7):
        for j in range(6):
            x = X[b, j] if b < 6 else 0.0
            for a in range(7):
                x -= triangle[a, 7 + b] * told[a, j]
            A[b, j] = x


@called
def _wrench_given_parent(F, phi, U, n_u, A, mean, N, n_motion, F_above, phi_above, noise):
    """Write f = F_above a_p + phi_above + noiseᵀ (omega; u), alpha eliminated."""
    seven, six = A.shape
    product(F, A, six, seven, six, F_above)
    copy(phi, six, phi.shape[1], phi_above)
    add_product(1.0, F, mean, six, seven, phi.shape[1], phi_above)
    for i in range(n_motion):
        for c in range(6):
            x = 0.0
            for j in range(7):
                x += F[c, j] * N[i, j]
            noise[i, c] = x
    for i in range(n_u):
        for c in range(6):
            noise[n_motion + i, c] = U[i, c]


@called
def _send(X, F_above, phi_above, noise, k, F, phi, U, moved, reflections):
    """Add the wrench of a body to the balance of its parent, where it is Xᵀ f."""
    six = X.shape[0]
    add_transposed_product(1.0, X, F_above, six, six, six, F)
    add_transposed_product(1.0, X, phi_above, six, six, phi.shape[1], phi)
    product(noise, X, k, six, six, moved)
    take_in(U, six, six, moved, k, reflections)


@called
def _balance_of_root(H, E, root_e, exact):
    """Coefficients of the last reading: nothing pushes a free root but its external wrench."""
    six, r = root_e.shape
    clear(H, six, H.shape[1])
    clear(E, six, E.shape[1])
    clear(root_e, six, r)
    clear(exact, six, six)
    for j in range(six):
        H[j, j] = 1.0
        exact[j, j] = EXACT


@called
def _settle_fixed(T, A0, e, left, kept, score):
    """A root whose acceleration is known: what the triangle says about it is left over."""
    r = A0.shape[1]
    for a in range(7):
        for c in range(r):
            x = T[a, 7 + c]
            for b in range(a, 7):
                x -= T[a, b] * A0[b, c]
            e[a, c] = x
    set_aside(e, e.shape[0], 0, left, kept, score)


@called
def eliminate(bodies, readings, priors, w):
    """From the leaves to the root."""
    begin, block_first, root = readings.begin, readings.first, readings.root
    on_alpha, on_wrench = readings.on_alpha, readings.on_wrench
    F, phi, U, T, X, present, weight = w.F, w.phi, w.U, w.T, w.X, w.present, w.weight
    Y, H, E, e, of_reading = w.Y, w.H, w.E, w.e, w.of_reading
    A, N, mean, told, told_right = w.A, w.N, w.mean, w.told, w.told_right
    triangle, new, scratch, noise = w.triangle, w.new, w.scratch, w.noise
    F_above, phi_above = w.F_above, w.phi_above
    left, kept, score, waiting, count = w.left, w.kept, w.score, w.waiting, w.waiting_count
    seven, r = w.A0.shape
    six, nothing = seven - 1, seven - seven  # no literals: each would be compiled for itself
    score[0] = score[1] = 0.0
    kept[0] = 0
    for i in range(F.shape[0]):
        clear(F[i], seven, seven)
        clear(phi[i], seven, r)
        clear(T[i], seven, seven + r)
        count[i] = 0
        bring_own_wrench(readings, priors, w, i)
    for i in range(F.shape[0] - 1, -1, -1):
        parent = bodies.parent[i]
        n_motion = priors.n_motion[i]
        n_u = seven if priors.torque[i] > 0.0 else six
        _wrench_balance(
            bodies.inertia[i], w.balance[i], w.external[i], priors.torque[i], F[i], phi[i], U[i]
        )
        for block in range(begin[i, OWN_MOTION], begin[i, OWN_MOTION + 1]):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                white = readings.white[a:b]
                score[0] += readings.log_scale[block]
                if not _motion_told(weight[block], white, on_alpha[a:b], Y[a:b], E[a:b], e[a:b]):
                    set_aside(e[a:b], b - a, nothing, left, kept, score)
                    continue
                count[i] = tell(
                    E[a:b],
                    e[a:b],
                    seven,
                    waiting[i],
                    count[i],
                    T[i],
                    scratch,
                    left,
                    kept,
                    score,
                )
        for block in range(begin[i, OWN_WRENCH], begin[i, OWN_WRENCH + 1]):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                _coefficients(
                    weight[block], on_wrench[a:b], on_alpha[a:b], Y[a:b], H, E[a:b], e[a:b]
                )
                condition(
                    root[a:b],
                    H,
                    U[i],
                    n_u,
                    n_u,
                    F[i],
                    seven,
                    phi[i],
                    E[a:b],
                    e[a:b],
                    of_reading[a:b],
                    triangle,
                    new,
                    score,
                )
                count[i] = tell(
                    E[a:b],
                    e[a:b],
                    seven,
                    waiting[i],
                    count[i],
                    T[i],
                    scratch,
                    left,
                    kept,
                    score,
                )
        take_in_told(waiting[i], count[i], T[i], scratch, left, kept, score)
        if i == 0 and bodies.floating == 0:
            _settle_fixed(T[0], w.A0, told_right[0], left, kept, score)
            break
        offset = w.offset[i] if i > 0 else w.A0
        condition_alpha(
            T[i],
            priors.motion[i],
            n_motion,
            offset,
            N[i],
            mean[i],
            told_right[i],
            w.of_motion[i],
            triangle,
            new,
            score,
        )
        _given_parent(T[i], X[i], triangle, told[i], A[i])
        _wrench_given_parent(
            F[i], phi[i], U[i], n_u, A[i], mean[i], N[i], n_motion, F_above, phi_above, noise
        )
        k = n_motion + n_u
        if i == 0:
            set_aside(told_right[0], seven, nothing, left, kept, score)
            _balance_of_root(H, w.work, w.root_e, w.exact)
            condition(
                w.exact,
                H,
                noise,
                k,
                six,
                w.nothing,
                nothing,
                phi_above,
                w.work,
                w.root_e,
                w.of_root,
                triangle,
                new,
                score,
            )
            set_aside(w.root_e, six, nothing, left, kept, score)
            break
        count[parent] = tell(
            told[i],
            told_right[i],
            six,
            waiting[parent],
            count[parent],
            T[parent],
            scratch,
            left,
            kept,
            score,
        )
        for block in range(begin[i, PARENT_SIDE], begin[i, PARENT_SIDE + 1]):
            if present[block] == 1:
                a, b = block_first[block], block_first[block + 1]
                _coefficients_on_parent(
                    weight[block], on_wrench[a:b], on_alpha[a:b], Y[a:b], X[i], H, E[a:b], e[a:b]
                )
                condition(
                    root[a:b],
                    H,
                    noise,
                    k,
                    six,
                    F_above,
                    six,
                    phi_above,
                    E[a:b],
                    e[a:b],
                    of_reading[a:b],
                    triangle,
                    new,
                    score,
                )
                count[parent] = tell(
                    E[a:b],
                    e[a:b],
                    six,
                    waiting[parent],
                    count[parent],
                    T[parent],
                    scratch,
                    left,
                    kept,
                    score,
                )
        if parent > 0 or bodies.floating == 1:
            _send(
                X[i],
                F_above,
                phi_above,
                noise,
                k,
                F[parent],
                phi[parent],
                U[parent],
                w.noise_on_parent,
                w.of_body[i],
            )
