"""Threads that stay, and work that they share by taking pieces of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


@cache
def cores() -> int:
    return os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that stay: starting one takes as long as 50,000 rows."""
    from concurrent.futures import ThreadPoolExecutor  # not for one point

    return ThreadPoolExecutor(max(1, cores() - 1), "gradcli")


def in_threads(work: Callable[[int], None], workers: int) -> None:
    """`work` in this thread and in others. The others may be busy; the work is shared by taking, not by dividing."""
    others = [_pool().submit(work, i) for i in range(1, workers)]
    work(0)
    for other in others:
        if not other.cancel():
            other.result()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
