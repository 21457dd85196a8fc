import math

import numpy as np
import pytest

from bodysense.compiled.jit import threaded
from bodysense.robot._kernels.tree import cosines_and_sines

# The library's own are off by half a unit in the last place; numpy's, by processor, by more.
COS, SIN = np.vectorize(math.cos), np.vectorize(math.sin)
# Half a unit of numbers below one, 1.1e-16, is lost in each part of the reduced angle, in the last
# sum of the series and by the library, which is three units if all of these fall together.
ROUNDING = 3.4e-16


@threaded
def compiled(q, cosine, sine):
    cosines_and_sines(q, cosine, sine)


def both(q):
    q = np.asarray(q, dtype=np.float64)
    cosine, sine = np.empty_like(q), np.empty_like(q)
    compiled(q, cosine, sine)
    return cosine, sine


@pytest.mark.parametrize("largest", [1e-8, 1.0, 10.0, 1e3, 9.99e5, 1e9])
def test_equal_to_the_library_to_rounding(largest):
    q = np.random.default_rng(0).uniform(-largest, largest, 20_000)
    cosine, sine = both(q)
    np.testing.assert_allclose(cosine, COS(q), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(sine, SIN(q), rtol=0, atol=ROUNDING)


def test_around_the_borders_of_the_quadrants():
    borders = np.arange(-40, 41) * (math.pi / 4.0)
    q = np.concatenate([np.nextafter(borders, -100.0), borders, np.nextafter(borders, 100.0)])
    cosine, sine = both(q)
    np.testing.assert_allclose(cosine, COS(q), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(sine, SIN(q), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(cosine**2 + sine**2, 1.0, rtol=0, atol=5e-16)


def test_what_is_not_finite_stays_so():
    cosine, sine = both([math.inf, math.nan, 0.0])
    assert np.isnan(cosine[:2]).all()
    assert np.isnan(sine[:2]).all()
    assert (cosine[2], sine[2]) == (1.0, 0.0)
