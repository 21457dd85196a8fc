"""Small dense matrices, compiled: products, factors, and triangles that take in more rows.

Functions allocate nothing and write into their last arguments. Factors may be transposed, A.T,
which compiles them once more. Columns go four at a time, whose sums stay in registers: six times
as fast as rows that are added to one another in memory.
"""

from __future__ import annotations

import math

from bodysense.robot._kernels.jit import called

# A pivot of a semi-definite matrix that is this much smaller than the diagonal entry it came from
# is zero up to rounding, and its direction has no variance.
_VANISHED = 1e-14
# Part of a diagonal entry that is lost in rounding when a pivot is made of it.
_ROUNDING = 1e-15


@called
def product(A, B, out):
    """Write A B into the first columns of out; columns of A without a row of B are left out."""
    n, depth = B.shape[1], B.shape[0]
    for i in range(A.shape[0]):
        j = 0
        while j + 4 <= n:
            x0 = x1 = x2 = x3 = 0.0
            for k in range(depth):
                a = A[i, k]
                x0 += a * B[k, j]
                x1 += a * B[k, j + 1]
                x2 += a * B[k, j + 2]
                x3 += a * B[k, j + 3]
            out[i, j] = x0
            out[i, j + 1] = x1
            out[i, j + 2] = x2
            out[i, j + 3] = x3
            j += 4
        while j < n:
            x0 = 0.0
            for k in range(depth):
                x0 += A[i, k] * B[k, j]
            out[i, j] = x0
            j += 1


@called
def add_product(scale, A, B, out):
    """Add scale · A B to the first rows and columns of out."""
    n, depth = B.shape[1], B.shape[0]
    for i in range(A.shape[0]):
        j = 0
        while j + 4 <= n:
            x0 = x1 = x2 = x3 = 0.0
            for k in range(depth):
                a = A[i, k]
                x0 += a * B[k, j]
                x1 += a * B[k, j + 1]
                x2 += a * B[k, j + 2]
                x3 += a * B[k, j + 3]
            out[i, j] += scale * x0
            out[i, j + 1] += scale * x1
            out[i, j + 2] += scale * x2
            out[i, j + 3] += scale * x3
            j += 4
        while j < n:
            x0 = 0.0
            for k in range(depth):
                x0 += A[i, k] * B[k, j]
            out[i, j] += scale * x0
            j += 1


@called
def add_congruence(A, P, work, out):
    """Add A P Aᵀ to out; work has the shape of A."""
    product(A, P, work)
    add_product(1.0, work, A.T, out)


@called
def identity_minus(A, B, out):
    """Write 1 - A B."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 1.0 if i == j else 0.0
    add_product(-1.0, A, B, out)


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
def add(scale, A, out):
    """Add scale · A to out."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i, j] += scale * A[i, j]


@called
def symmetric(A):
    """Remove what rounding made of the difference between A and Aᵀ."""
    for i in range(A.shape[0]):
        for j in range(i):
            x = 0.5 * (A[i, j] + A[j, i])
            A[i, j] = x
            A[j, i] = x


@called
def factorise(S, floor):
    """Overwrite the lower triangle of the first columns of S with L, S = L Lᵀ; return log det L.

    Pivots are at least floor, and what rounding leaves of the entry they came from.
    """
    m = S.shape[0]
    log = 0.0
    for j in range(m):
        d = S[j, j]
        least = floor + _ROUNDING * abs(d)
        for k in range(j):
            d -= S[j, k] * S[j, k]
        d = math.sqrt(max(d, least))
        S[j, j] = d
        log += math.log(d)
        for i in range(j + 1, m):
            x = S[i, j]
            for k in range(j):
                x -= S[i, k] * S[j, k]
            S[i, j] = x / d
    return log


@called
def forward(L, B):
    """B ← L⁻¹ B."""
    for i in range(B.shape[0]):
        d = 1.0 / L[i, i]
        for j in range(B.shape[1]):
            x = B[i, j]
            for k in range(i):
                x -= L[i, k] * B[k, j]
            B[i, j] = x * d


@called
def backward(L, B):
    """B ← L⁻ᵀ B."""
    m = B.shape[0]
    for i in range(m - 1, -1, -1):
        d = 1.0 / L[i, i]
        for j in range(B.shape[1]):
            x = B[i, j]
            for k in range(i + 1, m):
                x -= L[k, i] * B[k, j]
            B[i, j] = x * d


@called
def next_pivot(P, L, order, rank):
    """The largest variance that `rank` columns of L leave of P, -1 if no more than rounding."""
    pivot, largest = -1, 0.0
    for i in range(P.shape[0]):
        d = P[i, i]
        for c in range(rank):
            d -= L[i, c] * L[i, c]
        for c in range(rank):
            if order[c] == i:
                d = 0.0
        if d > max(largest, _VANISHED * P[i, i]):
            pivot, largest = i, d
    return pivot, largest


@called
def semidefinite_inverse(P, work, out):
    """Write a generalised inverse of P (n, n) that may be singular: J with P J P = P.

    From L Lᵀ of rows and columns in the order of the largest variance that is left, without
    those where none is: what rounding made of a zero is never divided by. work is (n + 1, n) at
    least.
    """
    n = P.shape[0]
    L, order = work, work[n]
    rank = 0
    for c in range(n):
        pivot, d = next_pivot(P, L, order, c)
        if pivot < 0:
            break
        d = math.sqrt(d)
        for i in range(n):
            x = P[i, pivot]
            for b in range(c):
                x -= L[i, b] * L[pivot, b]
            L[i, c] = x / d
        L[pivot, c] = d
        order[c] = pivot
        rank += 1
    clear(out)
    for c in range(rank):  # L⁻¹, in the order of the pivots
        out[c, c] = 1.0 / L[int(order[c]), c]
        for a in range(c + 1, rank):
            i = int(order[a])
            x = 0.0
            for b in range(c, a):
                x -= L[i, b] * out[b, c]
            out[a, c] = x / L[i, a]
    for a in range(rank):
        for b in range(a, rank):
            x = 0.0
            for c in range(b, rank):
                x += out[c, a] * out[c, b]
            L[a, b] = x
    clear(out)
    for a in range(rank):
        for b in range(a, rank):
            i, j = int(order[a]), int(order[b])
            out[i, j] = out[j, i] = L[a, b]


@called
def take_in(R, new, k):
    """Take k more rows into a triangle by reflections.

    The first n columns of R (n, n + r) are a triangle, the others right-hand sides, as in the k
    rows of new. Afterwards the first n columns of new are spent, and its right-hand sides hold
    what no value of the unknowns can explain.
    """
    for j in range(R.shape[0]):
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
