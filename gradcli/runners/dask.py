"""A Dask cluster: in this machine's processes, or behind a scheduler. Order is kept, a killed worker changes nothing.

The program goes to each worker once, as plain data, and is built there; a task is a part of the input, small enough to
be sent again when its worker dies. A few tasks are on their way at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from gradcli.errors import FileError

P = TypeVar("P")
R = TypeVar("R")
_AHEAD = 3  # tasks on their way for each thread of the cluster
_PATIENCE = 15  # seconds to reach a scheduler


def run(
    build: Callable[[], Callable[[P], R]], parts: Iterable[P], jobs: int, scheduler: str | None = None
) -> Generator[R]:
    """`build()(part)` of each part, in order; `build` is called once in each worker. What a task raises is raised here.

    Raises FileError: Dask is not installed, the scheduler is not reached, or workers keep dying.
    """
    with _quiet(), _client(jobs, scheduler) as client, _shipped(client, build) as name:
        waiting: deque[Any] = deque()
        try:
            for part in parts:
                waiting.append(client.submit(_task, name, part, pure=False))
                while len(waiting) >= _AHEAD * max(1, _threads(client)):
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()


def _task(name: str, part: Any) -> Any:
    from distributed import get_worker

    shipped: Any = get_worker().plugins[name]
    me = threading.get_ident()
    shipped.running.add(me)
    try:
        if shipped.stopped:
            return None  # nobody waits for it
        if shipped.work is None:
            shipped.work = shipped.build()
        return shipped.work(part)
    finally:
        shipped.running.discard(me)


async def _settle(name: str, dask_worker: Any) -> None:
    """In a worker: until no task of ours runs, so that none writes where everything is being removed."""
    shipped = dask_worker.plugins[name]
    shipped.stopped = True
    while shipped.running:
        await asyncio.sleep(0.02)


def _result(future: Any) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as fault:
        raise FileError.of(
            f"workers died again and again at one part of the data: {str(fault).splitlines()[0][:200]}",
            help="they may lack memory: `--chunk-rows` makes parts of the work smaller",
        ) from None
    except ImportError as fault:
        raise _lacks(fault) from None
    finally:
        future.release()


def _absent() -> FileError:
    return FileError.of("`--engine dask` needs Dask", help="install it: `pip install 'gradcli[dask]'`")


def _lacks(fault: BaseException) -> FileError:
    return FileError.of(
        f"a worker cannot load gradcli: {str(fault)[:200]}",
        help="install the same version there: `pip install gradcli`",
    )


def _threads(client: Any) -> int:
    """How many tasks run at a time now; workers come and go."""
    return int(sum(client.nthreads().values()))


@contextlib.contextmanager
def _shipped(client: Any, build: Callable[[], Any]) -> Iterator[str]:
    """`build` as a plugin of all workers, also of those that start later."""
    from distributed import WorkerPlugin

    plugin: Any = WorkerPlugin()
    plugin.name, plugin.build, plugin.work = f"gradcli-{secrets.token_hex(8)}", build, None
    plugin.running, plugin.stopped = set(), False
    try:
        client.register_plugin(plugin)
    except ImportError as fault:
        raise _lacks(fault) from None
    try:
        yield plugin.name
    finally:
        with contextlib.suppress(Exception):
            client.run(_settle, plugin.name, on_error="ignore")
            client.unregister_worker_plugin(plugin.name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What happens to workers is Dask's affair, and is mended; it is not for stderr."""
    try:
        import dask
    except ImportError:
        raise _absent() from None
    with dask.config.set({"logging.distributed": "critical"}):
        yield


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Ctrl-C is for us: processes that start meanwhile, and later from the same threads, do not hear it."""
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its start would unblock what is blocked here
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def _client(jobs: int, scheduler: str | None) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise _absent() from None
    connect: Any = distributed.Client
    start: Any = distributed.LocalCluster
    if scheduler is None:
        with _own_interrupts():
            cluster = start(n_workers=jobs, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0,
                            silence_logs=50)  # fmt: skip
        with cluster, connect(cluster) as client:
            yield client
        return
    try:
        client = connect(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError) as fault:
        raise FileError.of(
            f"cannot reach the Dask scheduler `{scheduler}`: {str(fault)[:200]}", help="such as `tcp://host:8786`"
        ) from None
    with client:
        yield client
