"""Small dense matrices, compiled: products, factors, and triangles that take in more rows.

Functions allocate nothing and write into their last arguments. Sizes are those of the arrays
unless an argument gives them.
"""

from __future__ import annotations

import math

from bodysense.robot._kernels.jit import called

# A pivot of a semi-definite matrix that is this much smaller than the diagonal entry it came from
# is zero up to rounding, and its direction has no variance.
_VANISHED = 1e-14


@called
def product(A, B, out):
    """Write A B."""
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            out[i, j] = 0.0
        for k in range(A.shape[1]):
            x = A[i, k]
            for j in range(B.shape[1]):
                out[i, j] += x * B[k, j]


@called
def add_product(sign, A, B, out):
    """Add sign · A B to out."""
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            x = sign * A[i, k]
            for j in range(B.shape[1]):
                out[i, j] += x * B[k, j]


@called
def add_transposed_product(sign, A, B, out):
    """Add sign · Aᵀ B to out."""
    for k in range(A.shape[0]):
        for i in range(A.shape[1]):
            x = sign * A[k, i]
            for j in range(B.shape[1]):
                out[i, j] += x * B[k, j]


@called
def add_product_transposed(sign, A, B, out):
    """Add sign · A Bᵀ to out."""
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            x = 0.0
            for k in range(A.shape[1]):
                x += A[i, k] * B[j, k]
            out[i, j] += sign * x


@called
def clear(A):
    """Set to zero."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = 0.0


@called
def copy(A, out):
    """Write A."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i, j] = A[i, j]


@called
def congruence(A, P, work, out):
    """Add A P Aᵀ to out; work has the shape of A."""
    product(A, P, work)
    add_product_transposed(1.0, work, A, out)


@called
def factorise(S, m, floor):
    """Overwrite the lower triangle of S (m, m) with L, S = L Lᵀ; pivots are at least floor."""
    for j in range(m):
        d = S[j, j]
        for k in range(j):
            d -= S[j, k] * S[j, k]
        d = math.sqrt(max(d, floor))
        S[j, j] = d
        for i in range(j + 1, m):
            x = S[i, j]
            for k in range(j):
                x -= S[i, k] * S[j, k]
            S[i, j] = x / d


@called
def forward(L, m, B):
    """B ← L⁻¹ B for the first m rows of B."""
    for i in range(m):
        for k in range(i):
            x = L[i, k]
            for j in range(B.shape[1]):
                B[i, j] -= x * B[k, j]
        d = 1.0 / L[i, i]
        for j in range(B.shape[1]):
            B[i, j] *= d


@called
def backward(L, m, B):
    """B ← L⁻ᵀ B for the first m rows of B."""
    for i in range(m - 1, -1, -1):
        for k in range(i + 1, m):
            x = L[k, i]
            for j in range(B.shape[1]):
                B[i, j] -= x * B[k, j]
        d = 1.0 / L[i, i]
        for j in range(B.shape[1]):
            B[i, j] *= d


@called
def semidefinite_inverse(P, n, L, out):
    """Write a generalised inverse of P (n, n) that may be singular: J with P J P = P.

    By L Lᵀ, leaving out directions without variance.
    """
    for j in range(n):
        d = P[j, j]
        for k in range(j):
            d -= L[j, k] * L[j, k]
        if d <= _VANISHED * P[j, j] or d <= 0.0:
            for i in range(j, n):
                L[i, j] = 0.0
            continue
        d = math.sqrt(d)
        L[j, j] = d
        for i in range(j + 1, n):
            x = P[i, j]
            for k in range(j):
                x -= L[i, k] * L[j, k]
            L[i, j] = x / d
    for c in range(n):
        for i in range(n):
            out[i, c] = 0.0
        if L[c, c] == 0.0:
            continue
        out[c, c] = 1.0 / L[c, c]
        for i in range(c + 1, n):
            if L[i, i] == 0.0:
                continue
            x = 0.0
            for k in range(c, i):
                x -= L[i, k] * out[k, c]
            out[i, c] = x / L[i, i]
    # out holds L⁻¹; J = L⁻ᵀ L⁻¹, from its first row on, which no later one needs
    for i in range(n):
        for j in range(i, n):
            x = 0.0
            for k in range(j, n):
                x += out[k, i] * out[k, j]
            L[i, j] = x
    for i in range(n):
        for j in range(i, n):
            out[i, j] = L[i, j]
            out[j, i] = L[i, j]


@called
def take_in(R, n, new, k):
    """Take k more rows into a triangle by reflections.

    The first n columns of R (n, n + r) are a triangle, the others right-hand sides, as in new
    (k, n + r). Afterwards the first n columns of new are spent, and its right-hand sides hold
    what no value of the unknowns can explain.
    """
    for j in range(n):
        norm = 0.0
        for i in range(k):
            norm += new[i, j] * new[i, j]
        if norm == 0.0:
            continue
        head = R[j, j]
        norm = math.sqrt(norm + head * head)
        alpha = -norm if head > 0.0 else norm
        pivot = head - alpha
        scale = 1.0 / (alpha * pivot)
        R[j, j] = alpha
        for c in range(j + 1, R.shape[1]):
            x = pivot * R[j, c]
            for i in range(k):
                x += new[i, j] * new[i, c]
            x *= scale
            R[j, c] += x * pivot
            for i in range(k):
                new[i, c] += x * new[i, j]
        for i in range(k):
            new[i, j] = 0.0
