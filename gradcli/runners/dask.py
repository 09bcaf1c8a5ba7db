"""A Dask cluster: in this machine's processes, or behind a scheduler. Order is kept, a killed worker changes nothing.

The program goes to each worker once, as plain data, and is built there; a task is a part of the input, small enough to
be sent again when its worker dies. A few tasks are on their way at a time.
"""

from __future__ import annotations

import contextlib
import secrets
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
    if shipped.work is None:
        shipped.work = shipped.build()
    return shipped.work(part)


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
    try:
        client.register_plugin(plugin)
    except ImportError as fault:
        raise _lacks(fault) from None
    try:
        yield plugin.name
    finally:
        with contextlib.suppress(Exception):
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
def _client(jobs: int, scheduler: str | None) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise _absent() from None
    connect: Any = distributed.Client
    start: Any = distributed.LocalCluster
    if scheduler is None:
        with (
            start(n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None,
                         memory_limit=0, silence_logs=50) as cluster,
            connect(cluster) as client,
        ):  # fmt: skip
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
