"""All cores of this machine: reading, working and writing overlap, order is kept, memory is bounded.

A thread reads; workers parse, compute and format whole chunks (polars and numpy release the interpreter lock); the
caller takes the results in order. A few chunks are on their way at a time.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar, cast

from gradcli.errors import GradcliError

C = TypeVar("C")
R = TypeVar("R")
_Place: TypeAlias = "queue.SimpleQueue[tuple[R | None, BaseException | None]]"
_MOST = 8
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8  # of malloc.h


def cores() -> int:
    """How many workers: the cores that this process may use, at most 8 (polars has threads of its own besides)."""
    try:
        return min(len(os.sched_getaffinity(0)), _MOST)
    except AttributeError:
        return min(os.cpu_count() or 1, _MOST)


def _keep_memory() -> None:
    """glibc gives each freed block of a chunk back to the system and faults its pages in again: a third of the time in
    the system. Elsewhere nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 1 << 25)
        library.mallopt(_TRIM_THRESHOLD, 1 << 26)
        library.mallopt(_ARENAS, 1)  # what one worker frees, the next takes: a sixth less memory


def run(work: Callable[[C], R], chunks: Iterable[C], jobs: int) -> Iterator[R]:
    """`work` of each chunk, in order. What reading or working raises is raised here, after the results before it.

    Raises GradcliError where the system allows no more threads.
    """
    _keep_memory()
    flow = _Flow(work, chunks, jobs)
    workers: list[threading.Thread] = []
    try:
        for number in range(jobs):
            worker = threading.Thread(target=flow.labour, daemon=True, name=f"gradcli-{number}")
            _start(worker, jobs)
            workers.append(worker)
        _start(threading.Thread(target=flow.read, daemon=True, name="gradcli-reader"), jobs)
        while (place := flow.ordered.get()) is not None:
            result, fault = place.get()
            if fault is not None:
                raise fault
            yield cast(R, result)
    finally:
        flow.stop()
        for worker in workers:
            worker.join()  # polars must not be in the middle of a chunk when the interpreter ends


def _start(thread: threading.Thread, jobs: int) -> None:
    try:
        thread.start()
    except RuntimeError:
        fact = f"the system starts no more threads for {jobs} worker{'s' * (jobs != 1)}"
        raise GradcliError.of(fact, help="`-j` with a smaller number") from None


class _Flow(Generic[C, R]):
    """Chunks on their way: each has a place in the order of results, which the worker that takes it fills."""

    def __init__(self, work: Callable[[C], R], chunks: Iterable[C], jobs: int) -> None:
        self.work, self.chunks, self.jobs = work, chunks, jobs
        self.ordered: queue.Queue[_Place[R] | None] = queue.Queue(jobs + 1)
        self.waiting: queue.SimpleQueue[tuple[C, _Place[R]] | None] = queue.SimpleQueue()
        self.stopped = threading.Event()

    def read(self) -> None:
        try:
            for chunk in self.chunks:
                if self.stopped.is_set():
                    return
                place: _Place[R] = queue.SimpleQueue()
                self.waiting.put((chunk, place))
                self._put(place)
            self._put(None)
        except BaseException as fault:  # noqa: BLE001  raised again where results are taken
            place = queue.SimpleQueue()
            place.put((None, fault))
            self._put(place)

    def _put(self, place: _Place[R] | None) -> None:
        while not self.stopped.is_set():
            with contextlib.suppress(queue.Full):
                return self.ordered.put(place, timeout=0.1)

    def labour(self) -> None:
        while (task := self.waiting.get()) is not None and not self.stopped.is_set():
            chunk, place = task
            try:
                place.put((self.work(chunk), None))
            except BaseException as fault:  # noqa: BLE001  raised again where results are taken
                place.put((None, fault))

    def stop(self) -> None:
        self.stopped.set()
        for _ in range(self.jobs):
            self.waiting.put(None)
