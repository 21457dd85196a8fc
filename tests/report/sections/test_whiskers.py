from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bodysense.report.sections.whiskers import WIDTH, WhiskerScale

finite = st.floats(-1e6, 1e6)


@given(values=st.lists(finite, min_size=1, max_size=20), reach=st.floats(0, 1e6))
def test_places_are_ordered_and_inside(values: list[float], reach: float) -> None:
    scale = WhiskerScale.of(np.array(values), np.full(len(values), reach))
    for value in values:
        whisker = scale.whisker(value, reach)
        assert 0.0 <= whisker.low <= whisker.at <= whisker.high <= WIDTH
        assert whisker.outside == (abs(value) > scale.most)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert scale.place(0.0) == WIDTH / 2


def test_every_value_of_usual_size_is_on_the_axis() -> None:
    values = np.array([-30.0, 0.2, 3.0])
    scale = WhiskerScale.of(values, np.zeros(3))
    assert not any(scale.whisker(v, 0.0).outside for v in values)


def test_what_is_no_number_gets_the_longest_bar() -> None:
    scale = WhiskerScale.of(np.array([np.nan]), np.array([np.inf]))
    whisker = scale.whisker(np.nan, 1.0)
    assert (whisker.low, whisker.high, whisker.outside) == (0.0, WIDTH, True)
    assert scale.whisker(0.0, np.inf).low == 0.0


def test_marks_have_room() -> None:
    for most in (1.5, 8.0, 11.0, 100.0):
        marks = WhiskerScale(most).marks
        places = [at for at, _ in marks]
        assert (np.diff(places) > 13.0).all()
        assert places[0] > 9.0
        assert "0" in [text for _, text in marks]
        assert [at for at, text in marks if text == "1"] == [WhiskerScale(most).plausible[1]]
