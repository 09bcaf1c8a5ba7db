"""What a reader makes of one chunk: numbers of the needed columns, what passes through, and faults by record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradcli.formats.cells import Fault, Reading

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Wanted:
    """What is asked of a reader: `needed` columns as numbers; `kept` columns pass through, as whole lines if `whole`.

    `chosen`: by their names, so that others are left out on purpose.
    `drop`: rows with a fault are left out; otherwise they stay and are marked in `Table.bad`.
    `raw`: cells that pass are JSON as it was read. `taken`: names of results, which no object that passes may have.
    """

    needed: Sequence[int]
    kept: Sequence[int]
    whole: bool
    drop: bool
    reading: Reading
    raw: bool = False
    taken: Sequence[str] = ()
    chosen: bool = True


@dataclass
class Table:
    """Rows of one chunk. `values[i]` are the numbers of needed column i; `missing` and `bad` mark rows without results.

    `lines` (a series) or `frame` pass through; `restore` is a byte that stands for a line break within a line.
    `record_of[i]` is the data record of row i, or None where they are the same; `records` counts all of them; `line_of`
    gives the physical line of a record within the chunk.
    """

    rows: int
    records: int
    values: dict[int, NDArray[np.float64]]
    missing: Mask | None = None
    bad: Mask | None = None
    lines: Any = None
    frame: Any = None
    restore: bytes = b""
    faults: list[Fault] = field(default_factory=list)
    record_of: NDArray[np.intp] | None = None
    line_of: Callable[[int], int] = lambda record: 0

    def record(self, row: int) -> int:
        return int(self.record_of[row]) if self.record_of is not None else row

    def keep(self, mask: Mask) -> None:
        """Leave out the rows that are not in the mask."""
        import polars as pl

        numbers = self.record_of if self.record_of is not None else np.arange(self.rows)
        self.record_of = numbers[mask]
        self.values = {i: v[mask] for i, v in self.values.items()}
        self.missing = self.missing[mask] if self.missing is not None else None
        self.bad = self.bad[mask] if self.bad is not None else None
        self.lines = self.lines.filter(pl.Series(mask)) if self.lines is not None else None
        self.frame = self.frame.filter(pl.Series(mask)) if self.frame is not None else None
        self.rows = int(np.count_nonzero(mask))

    def mark(self, rows: Sequence[int], drop: bool) -> None:
        """Rows with a fault: left out, or without results."""
        if not len(rows):
            return
        mask = np.zeros(self.rows, dtype=bool)
        mask[list(rows)] = True
        if drop:
            self.keep(~mask)
        else:
            self.bad = mask if self.bad is None else self.bad | mask

    @property
    def empty(self) -> Mask | None:
        """Rows whose results are empty."""
        if self.bad is None or self.missing is None:
            return self.missing if self.bad is None else self.bad
        return self.missing | self.bad
