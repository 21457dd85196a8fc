"""Random numbers that belong to a run, not to a thread: the same on any number of threads.

A counter run through the finaliser of splitmix64 (Steele, Lea and Flood 2014) gives uniform
numbers, Box and Muller's transform normal ones. No state but the run's key and a counter.
"""

from __future__ import annotations

import math

import numpy as np

from bodysense.compiled.jit import inlined

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@inlined
def uniform(key, counter):
    """Return a number in (0, 1] from a run's key and a counter, both unsigned 64-bit."""
    z = key + (counter + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    z = z ^ (z >> _S31)
    return (np.float64(z >> _S11) + 1.0) * 2.0**-53


@inlined
def normal(key, counter):
    """Return a standard normal number: counters 2k and 2k + 1 are used up."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, np.uint64(2) * counter)))
    angle = uniform(key, np.uint64(2) * counter + np.uint64(1))
    return radius * math.cos(2.0 * math.pi * angle)
