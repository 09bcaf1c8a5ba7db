"""Work is shared by threads that stay: all of it is done, whoever is busy, and what is raised reaches the caller."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from gradcli.engine import threads
from gradcli.engine.threads import in_threads


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "cores", lambda: 4)
    threads._helpers.cache_clear()
    yield
    threads._helpers.cache_clear()


def names(workers: int) -> list[str]:
    """The threads that took part, each waiting for the others."""
    found: list[str] = []
    together = threading.Barrier(workers)

    def work(_: int) -> None:
        together.wait(10)
        found.append(threading.current_thread().name)

    in_threads(work, workers)
    return found


def test_helpers_take_part_and_stay() -> None:
    before = threading.active_count()
    for _ in range(20):
        assert sorted(names(3)) == ["MainThread", "gradcli", "gradcli"]
    assert threading.active_count() == before + 2


def test_there_are_no_more_threads_than_cores() -> None:
    taken: list[int] = []
    in_threads(taken.append, 100)
    assert 0 in taken
    assert set(taken) <= {0, 1, 2, 3}


def test_one_worker_wakes_nobody() -> None:
    before = threading.active_count()
    in_threads(lambda number: None, 1)
    assert threading.active_count() == before


def test_a_fault_of_a_helper_is_raised_after_all_have_ended() -> None:
    ended: list[int] = []
    together = threading.Barrier(3)

    def work(number: int) -> None:
        together.wait(10)
        if number == 1:
            raise KeyError("there")
        ended.append(number)

    for _ in range(3):  # the helper lives on
        ended.clear()
        with pytest.raises(KeyError, match="there"):
            in_threads(work, 3)
        assert sorted(ended) == [0, 2]


def test_a_fault_of_the_caller_waits_for_the_helpers() -> None:
    together, ended = threading.Barrier(2), []

    def work(number: int) -> None:
        together.wait(10)
        if number == 0:
            raise ValueError("here")
        ended.append(number)

    with pytest.raises(ValueError, match="here"):
        in_threads(work, 2)
    assert ended == [1]


def test_callers_at_once_do_all_their_work_though_helpers_are_busy() -> None:
    def caller(_: int) -> list[int]:
        pieces, done = iter(range(500)), []

        def work(_: int) -> None:
            done.extend(pieces)

        in_threads(work, 4)
        return sorted(done)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(caller, range(200))) == [list(range(500))] * 200


def test_work_within_work_does_not_wait_for_itself() -> None:
    total = count()

    def outer(_: int) -> None:
        in_threads(lambda _: next(total), 4)

    for _ in range(100):
        in_threads(outer, 4)
    assert next(total) >= 100


def test_a_helper_that_has_not_begun_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    run = threads._Task.run

    def late(task: threads._Task) -> None:
        release.wait(10)
        run(task)

    monkeypatch.setattr(threads._Task, "run", late)
    done: list[int] = []
    in_threads(done.append, 3)  # it would wait for ten seconds
    assert done == [0]
    assert not release.is_set()
    release.set()
    while len(threads._helpers()._idle) < 2:
        pass
    monkeypatch.setattr(threads._Task, "run", run)
    assert done == [0]
    assert len(names(3)) == 3


def test_no_helper_holds_what_it_worked_on() -> None:
    class Columns:
        pass

    held, gone = Columns(), threading.Event()

    weakref.finalize(held, gone.set)

    def work(_: int, held: Columns = held) -> None:
        assert held

    in_threads(work, 4)
    del work, held
    assert gone.is_set()


def test_without_new_threads_the_caller_does_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    in_threads(done.append, 4)
    assert done == [0]
