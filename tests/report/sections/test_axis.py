"""Axes of drawings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.report.sections.axis import Axis, round_step

NUMBERS = st.floats(-1e6, 1e6)


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_all_values_are_on_the_axis(values):
    axis = Axis.around(values, 10.0, 200.0)
    places = [axis.place(value) for value in values]
    assert all(10.0 <= place <= 200.0 for place in places)
    ordered = [axis.place(value) for value in sorted(values)]
    assert ordered == sorted(ordered)


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_ticks_are_few_and_stand_where_they_say(values):
    axis = Axis.around(values, 0.0, 1000.0)
    ticks = axis.ticks(6)
    assert len(ticks) <= 8
    for place, label in ticks:
        number = float(label.replace("\N{MINUS SIGN}", "-"))
        width = axis.high - axis.low
        assert place == pytest.approx(1000.0 * (number - axis.low) / width, abs=1.0)


def test_what_is_not_finite_does_not_count():
    axis = Axis.around([1.0, math.nan, math.inf, 3.0], 0.0, 1.0)
    assert (axis.low, axis.high) == pytest.approx((0.84, 3.16))


def test_an_axis_of_nothing_or_of_one_value():
    assert Axis.around([], 0.0, 1.0).low < 0.0
    one = Axis.around([5.0, 5.0], 0.0, 100.0)
    assert one.place(5.0) == 50.0


@pytest.mark.parametrize(
    ("rough", "step"), [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (0.021, 0.05), (6.0, 10.0)]
)
def test_steps_are_round(rough, step):
    assert round_step(rough) == pytest.approx(step)
