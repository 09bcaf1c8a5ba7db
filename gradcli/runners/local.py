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
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

C = TypeVar("C")
R = TypeVar("R")
_MOST = 8
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


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
        library.mallopt(_MMAP_THRESHOLD, 1 << 26)
        library.mallopt(_TRIM_THRESHOLD, 1 << 26)


def run(work: Callable[[C], R], chunks: Iterable[C], jobs: int) -> Iterator[R]:
    """`work` of each chunk, in order. What reading or working raises is raised here, after the results before it."""
    _keep_memory()
    waiting: queue.Queue[Future[R] | BaseException | None] = queue.Queue(jobs + 1)
    stop = threading.Event()
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="gradcli")

    def put(item: Future[R] | BaseException | None) -> None:
        while not stop.is_set():
            try:
                return waiting.put(item, timeout=0.1)
            except queue.Full:
                continue

    def read() -> None:
        try:
            for chunk in chunks:
                if stop.is_set():
                    return
                put(pool.submit(work, chunk))
            put(None)
        except BaseException as fault:  # noqa: BLE001  raised again where results are taken
            put(fault)

    threading.Thread(target=read, daemon=True, name="gradcli-reader").start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item.result()
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
