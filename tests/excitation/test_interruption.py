from __future__ import annotations

import signal
import threading

import pytest

from bodysense.excitation.design import _first_interruption_ignored

pytestmark = pytest.mark.usefixtures("listening_to_ctrl_c")


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_first_interruption_passes():
    before = signal.getsignal(signal.SIGINT)
    done = False
    with _first_interruption_ignored():
        press()
        done = True
    assert done
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_one_ends_the_work():
    with _first_interruption_ignored():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_afterwards_the_first_one_counts_again():
    with _first_interruption_ignored():
        pass
    with pytest.raises(KeyboardInterrupt):
        press()


def test_other_threads_are_left_alone():
    found = []

    def work() -> None:
        with _first_interruption_ignored():
            found.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["done"]
