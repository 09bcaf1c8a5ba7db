"""Threads that stay, and work that they share by taking pieces of it.

A thread waits at a lock and is woken by its release: an executor's queue, condition and future take 30 us more a run,
as long as 10,000 rows.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache

Work = Callable[[int], None]


@cache
def cores() -> int:
    """Those that this process may use: a thread for one that it may not would only be in the way."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Task:
    """What a helper is to do, unless it is called off before. `fault` is what it raised."""

    def __init__(self, work: Work, number: int) -> None:
        self._work: Work | None = work
        self._number = number
        self._claim, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()
        self.fault: BaseException | None = None

    def run(self) -> None:
        if self._claim.acquire(blocking=False):
            work, self._work = self._work, None  # it holds columns: their memory is to be free when all is done
            assert work is not None
            try:
                work(self._number)
            except BaseException as fault:  # noqa: BLE001  raised again in the thread that waits for it
                self.fault = fault

    def ended(self) -> None:
        self._done.release()

    def end(self) -> None:
        """Call it off or wait for it: on a busy machine a helper may get a core only when all is done."""
        if self._claim.acquire(blocking=False):
            self._work = None
        else:
            self._done.acquire()


class _Helper:
    """A thread that does one task after the other."""

    def __init__(self, idle: list[_Helper]) -> None:
        self._idle, self._given = idle, threading.Lock()
        self._given.acquire()
        self._task: _Task | None = None
        threading.Thread(target=self._serve, daemon=True, name="gradcli").start()

    def start(self, task: _Task) -> None:
        self._task = task
        self._given.release()

    def _serve(self) -> None:
        while True:
            self._given.acquire()
            task, self._task = self._task, None
            assert task is not None
            task.run()
            self._idle.append(self)  # before that thread goes on and looks for helpers again
            task.ended()


class _Helpers:
    """One for each core but that of the caller, made when they are first needed."""

    def __init__(self) -> None:
        self._idle: list[_Helper] = []
        self._missing = cores() - 1
        self._lock = threading.Lock()

    def take(self) -> _Helper | None:
        """One that waits, or None if all are busy."""
        try:
            return self._idle.pop()
        except IndexError:
            pass
        with self._lock:
            if not self._missing:
                return None
            try:
                helper = _Helper(self._idle)
            except RuntimeError:  # the interpreter ends, or the system has no more threads
                return None
            self._missing -= 1
            return helper


@cache
def _helpers() -> _Helpers:
    return _Helpers()


def in_threads(work: Work, workers: int) -> None:
    """`work` in this thread and in others, as far as they are not busy; its pieces are taken, not dealt out."""
    tasks = []
    for number in range(1, min(workers, cores())):
        helper = _helpers().take()
        if helper is None:
            break
        tasks.append(_Task(work, number))
        helper.start(tasks[-1])
    try:
        work(0)
    finally:  # whatever happens here, they still use what belongs to the caller
        for task in tasks:
            task.end()
    for task in tasks:
        if task.fault is not None:
            raise task.fault


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)
