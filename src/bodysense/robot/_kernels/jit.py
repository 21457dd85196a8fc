"""How kernels are compiled."""

from __future__ import annotations

from functools import partial

from numba import njit

inlined = partial(njit, cache=True, forceinline=True, error_model="numpy", _nrt=False, fastmath={"contract"})
"""A step function: inlined into its caller and without reference counting.

It must not allocate. Counting references to arrays that the caller owns anyway costs more than
the arithmetic between two counts, and the compiler cannot always remove it.
"""

entry = partial(njit, cache=True, parallel=True, error_model="numpy", fastmath={"contract"})
"""What Python calls: allocates the scratch of each thread and loops over runs or samples."""
