"""The local runner: in order, bounded, faults where they belong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from gradcli.errors import GradcliError
from gradcli.runners import local


def test_order_is_kept() -> None:
    def work(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number

    assert list(local.run(work, range(50), 4)) == list(range(50))


def test_few_chunks_are_on_their_way() -> None:
    read = 0

    def chunks() -> Iterator[int]:
        nonlocal read
        for number in range(100):
            read += 1
            yield number

    results = local.run(lambda n: n, chunks(), 2)
    next(results)
    time.sleep(0.2)
    assert read <= 8
    results.close()  # type: ignore[attr-defined]


def test_a_fault_comes_after_the_results_before_it() -> None:
    def chunks() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("gone")

    results = local.run(lambda n: n, chunks(), 2)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(OSError, match="gone"):
        next(results)


def test_results_do_not_wait_for_the_next_chunk() -> None:
    gate = threading.Event()

    def chunks() -> Iterator[int]:
        yield 1
        gate.wait(10)
        yield 2

    results = local.run(lambda n: n, chunks(), 2)
    assert next(results) == 1
    gate.set()
    assert next(results) == 2


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_a_system_that_starts_no_more_threads(monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    before, start = threading.active_count(), threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if threading.active_count() - before >= allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(GradcliError, match="starts no more threads for 3 workers"):
        list(local.run(lambda n: n, range(5), 3))
    assert threading.active_count() == before
