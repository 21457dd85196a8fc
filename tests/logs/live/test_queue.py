"""Nobody waits for anybody: the oldest items are dropped, and counted."""

from __future__ import annotations

import threading
import time

from bodysense.logs.live import DroppingQueue


def test_the_oldest_are_dropped_and_counted():
    queue: DroppingQueue[int] = DroppingQueue(3)
    for k in range(10):
        queue.put(k)
    assert queue.dropped == 7
    assert [queue.take(0.0) for _ in range(4)] == [7, 8, 9, None]


def test_a_patient_producer_loses_nothing():
    queue: DroppingQueue[int] = DroppingQueue(2)

    def produce() -> None:
        for k in range(200):
            queue.put(k, wait=True)
        queue.close()

    thread = threading.Thread(target=produce)
    thread.start()
    taken = []
    while (item := queue.take(5.0)) is not None:
        taken.append(item)
    thread.join()
    assert taken == list(range(200))
    assert queue.dropped == 0


def test_closing_lets_everybody_go():
    queue: DroppingQueue[int] = DroppingQueue(1)
    queue.put(1)
    thread = threading.Thread(target=lambda: queue.put(2, wait=True))
    thread.start()
    time.sleep(0.02)
    queue.close()
    thread.join(2.0)
    assert not thread.is_alive()
    assert queue.take_all(1.0) == [2]
    start = time.perf_counter()
    assert queue.take(5.0) is None
    assert queue.take_all(5.0) == []
    assert time.perf_counter() - start < 1.0


def test_an_item_wakes_who_waits():
    queue: DroppingQueue[float] = DroppingQueue(1)
    threading.Timer(0.05, lambda: queue.put(time.perf_counter())).start()
    sent = queue.take(5.0)
    assert sent is not None
    assert time.perf_counter() - sent < 1.0
