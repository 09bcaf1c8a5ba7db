"""Parquet: read in slices of rows, written as row groups as they come; types are kept, nan stays apart from null."""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.errors import FileError
from gradcli.formats.cells import Fault, read_cells
from gradcli.formats.headers import Header
from gradcli.formats.table import Table, Wanted

ROWS = 1 << 16
_HOLDS = {
    "Date": "dates",
    "Datetime": "dates and times",
    "Time": "times",
    "Duration": "durations",
    "Boolean": "true and false",
    "Categorical": "categories",
    "Enum": "categories",
    "List": "lists",
    "Array": "lists",
    "Struct": "objects",
    "Binary": "bytes",
}


def open_file(name: str, path: str | None = None) -> tuple[Any, Header, int]:
    """A lazy frame, its columns, how many rows it has; `path`: where it is, if not at its name. Raises FileError."""
    import polars as pl

    try:
        frame = pl.scan_parquet(path or name, glob=False)
        header = Header(tuple(frame.collect_schema().names()))
        rows = int(frame.select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError) as fault:
        why = str(fault).splitlines()[0].replace(path or name, name)[:200]
        raise FileError.of(f"cannot read {name} as Parquet: {why}") from None
    return frame, header, rows


def slices(frame: Any, rows: int, size: int) -> Iterator[Any]:
    """The rows in order, `size` at a time."""
    for start in range(0, rows, size):
        yield frame.slice(start, size).collect(engine="streaming")


def parse(source: str, frame: Any, header: Header, wanted: Wanted) -> Table:
    """The rows of a slice. Numbers of any width become floats; a null is missing; texts are read as cells."""
    import polars as pl

    table = Table(frame.height, frame.height, {})
    bad: list[int] = []
    for index in wanted.needed:
        name = header.names[index]
        column = frame[name]
        if column.dtype == pl.String:
            found = read_cells(column, wanted.reading)
            values, missing = found.values, found.missing
            for row, text, reason, remedy in found.bad:
                table.faults.append(Fault(row, 0, name, text, reason, remedy))
                bad.append(row)
        elif column.dtype.is_numeric() or column.dtype == pl.Null:
            floats = column.cast(pl.Float64)
            missing = floats.is_null().to_numpy() if floats.null_count() else None
            values = floats.fill_null(float("nan")).to_numpy() if missing is not None else floats.to_numpy()
        else:
            raise FileError.of(
                f"{source}: column `{name}` holds {_held(column.dtype)}, not numbers",
                help="cast it, or bind another column with --rename",
            )
        table.values[index] = np.ascontiguousarray(values)
        if wanted.reading.strict and missing is not None:
            for row in np.flatnonzero(missing).tolist():
                table.faults.append(Fault(row, 0, name, "", *wanted.reading.absence(None)))
                bad.append(row)
        elif missing is not None:
            table.missing = missing if table.missing is None else table.missing | missing
    if wanted.kept:
        table.frame = frame.select([header.names[i] for i in wanted.kept])
    table.faults.sort(key=lambda f: f.record)
    table.mark(bad, wanted.drop)
    return table


def _held(dtype: Any) -> str:
    kind = str(dtype.base_type())
    return _HOLDS.get(kind, kind)


def _has_bytes(dtype: Any) -> bool:
    import polars as pl

    if isinstance(dtype, pl.Struct):
        return any(_has_bytes(f.dtype) for f in dtype.fields)
    return _has_bytes(dtype.inner) if isinstance(dtype, pl.List | pl.Array) else bool(dtype == pl.Binary)


def refuse_bytes(types: Mapping[str, Any], kept: Sequence[str], format: str) -> None:
    """Raises FileError for columns that no text can hold."""
    odd = next((n for n in kept if n in types and _has_bytes(types[n])), None)
    if odd is not None:
        raise FileError.of(
            f"column `{odd}` holds bytes, which {format.upper()} cannot hold",
            help="`--keep` with other names leaves it out, `--out-format parquet` keeps it",
        )


def refuse_other(source: str, frame: Any, types: Mapping[str, Any]) -> None:
    """A Parquet file has one type for a column. Raises FileError where files that are read differ."""
    odd = next((n for n, t in frame.schema.items() if types.get(n, t) != t), None)
    if odd is not None:
        raise FileError.of(
            f"{source}: column `{odd}` is {frame.schema[odd]}, in the first file it is {types[odd]}",
            help="write CSV or NDJSON, or leave the column out with `--keep`",
        )


def _as_os(fault: BaseException) -> OSError:
    """What the system said, for polars has it as text: a closed pipe, a full disk."""
    text = str(fault)
    found = re.search(r"os error (\d+)", text)
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else OSError(text.splitlines()[0][:200])


class Sink:
    """Writes frames to one file as they come: polars' streaming sink runs in a thread and asks for the next frame."""

    def __init__(self, path: Any, empty: Any) -> None:
        """`path` or an open file; `empty` is a frame without rows that has the columns and their types."""
        self.path, self.schema = path, empty.schema
        self.waiting: queue.Queue[Any] = queue.Queue(2)
        self.fault: BaseException | None = None
        self.stopped = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        from polars.io.plugins import register_io_source

        def frames(columns: Any, predicate: Any, rows: Any, size: Any) -> Iterator[Any]:
            while (frame := self.waiting.get()) is not None:
                if self.stopped:
                    raise InterruptedError
                yield frame.select(columns) if columns is not None else frame

        try:
            source = register_io_source(frames, schema=dict(self.schema))
            source.sink_parquet(self.path, maintain_order=True, compression="zstd", compression_level=1)
        except BaseException as fault:  # noqa: BLE001  handed to the thread that writes
            self.fault = fault

    def write(self, frame: Any) -> None:
        self._put(frame)

    def _put(self, frame: Any) -> None:
        while True:
            if self.fault is not None:
                raise _as_os(self.fault) from None
            try:
                return self.waiting.put(frame, timeout=0.2)
            except queue.Full:
                if not self.thread.is_alive() and self.fault is None:
                    return None

    def close(self) -> None:
        self._put(None)
        self.thread.join()
        if self.fault is not None:
            raise _as_os(self.fault)

    def cancel(self) -> None:
        self.stopped = True
        while self.thread.is_alive():
            try:
                self.waiting.put(None, timeout=0.1)
            except queue.Full:
                self.waiting.get()
            self.thread.join(0.2)


def frame_of(kept: Any, results: Sequence[Any], numbers: dict[str, Any]) -> Any:
    """What one chunk adds to a file: kept columns (texts that were read as numbers become floats), then results."""
    import polars as pl

    columns = list(kept.get_columns()) if kept is not None else []
    made = [numbers.get(c.name, c) if c.dtype == pl.String else c for c in columns]
    return pl.DataFrame(made + list(results)).rechunk()  # row groups are cut where frames have chunks
