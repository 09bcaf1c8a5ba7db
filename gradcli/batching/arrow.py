"""A model as one function from Arrow record batch to record batch, for engines that call such functions.

It is made from plain data, the text of a model and options, so every worker can make it; sent to one, it goes as those
and is compiled there. Columns pass through as they are; results are float64, null where a value is missing.

    function = arrow_function("o = tanh(x*w + b)", values={"b": 6.88})
    frame.mapInArrow(lambda batches: map(function, batches), ...)     # Spark
    dataset.map_batches(function.table, batch_format="pyarrow")       # Ray
    con.from_arrow(pa.Table.from_batches(map(function, relation.to_arrow_reader())))  # DuckDB
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.batching.bind import bind
from gradcli.batching.plan import NAMES, Asked, Plan, plan
from gradcli.batching.run import DataError
from gradcli.batching.work import Shape, Work
from gradcli.errors import BindingError
from gradcli.formats import parquet
from gradcli.formats.cells import MISSING, Reading
from gradcli.formats.headers import Dialect, Header
from gradcli.formats.stream import Progress
from gradcli.formats.table import Table, Wanted
from gradcli.source import Source

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema
    from pyarrow import Table as ArrowTable

_ON_ERROR = ("fail", "null", "skip")


def arrow_function(
    model: str,
    *,
    of: Sequence[str] = (),
    wrt: Sequence[str] | None = None,
    retain: Sequence[str] = (),
    no_grad: Sequence[str] = (),
    values: Mapping[str, float | str] | None = None,
    rename: Mapping[str, str] | None = None,
    keep: str = "all",
    names: str = NAMES,
    domain: bool = False,
    missing: str = "null",
    on_error: str = "fail",
) -> ArrowFunction:
    """A function from record batch to record batch; the options mean what those of `gradcli batch` do.

    `model` is the text of a model. The columns that it needs are looked up when the first batch comes.

        >>> import pyarrow
        >>> square = arrow_function("y = x^2")
        >>> square(pyarrow.record_batch({"x": [1.0, 3.0]})).to_pydict()
        {'x': [1.0, 3.0], 'y': [1.0, 9.0], 'dy_dx': [2.0, 6.0]}
    """
    if on_error not in _ON_ERROR:
        raise ValueError(f"on_error must be one of {', '.join(_ON_ERROR)}, not {on_error}")
    texts = tuple((n, v if isinstance(v, str) else repr(float(v))) for n, v in (values or {}).items())
    asked = Asked(tuple(of), None if wrt is None else tuple(wrt), tuple(retain), tuple(no_grad), names, keep, domain)
    return ArrowFunction(model, texts, tuple((rename or {}).items()), asked, missing == "error", on_error)


@dataclass(frozen=True)
class ArrowFunction:
    """What `arrow_function` makes: called with a record batch, gives one. Threads may share it."""

    model: str
    values: tuple[tuple[str, str], ...]
    rename: tuple[tuple[str, str], ...]
    asked: Asked
    strict: bool
    on_error: str
    _made: dict[tuple[str, ...], Work] = field(default_factory=dict, repr=False, compare=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """As plain data, without what was compiled."""
        return type(self), (self.model, self.values, self.rename, self.asked, self.strict, self.on_error)

    def __call__(self, batch: RecordBatch) -> RecordBatch:
        """Raises BindingError when the columns do not fit the model, DataError for a row that cannot be used."""
        import pyarrow as pa

        work = self._work(tuple(batch.schema.names))
        table = work.reader.parse(batch, work.wanted)
        if work.plan.domains and table.rows:
            work.enforce(table)
        if table.faults and self.on_error == "fail":
            raise _stop(table)
        results = work.compute(table) if table.rows else [np.empty(0) for _ in work.plan.results]
        if table.record_of is not None:
            batch = batch.take(pa.array(table.record_of))
        kept = [batch.column(i) for i in work.plan.kept]
        made = [pa.array(r, mask=table.empty) for r in results]
        return pa.RecordBatch.from_arrays([*kept, *made], schema=self.schema(batch.schema))

    def table(self, table: ArrowTable) -> ArrowTable:
        """The same for a table."""
        import pyarrow as pa

        return pa.Table.from_batches(map(self, table.to_batches()), self.schema(table.schema))

    def schema(self, schema: Schema) -> Schema:
        """The columns of the result for batches with this schema, as engines want to know them beforehand."""
        import pyarrow as pa

        made = self._work(tuple(schema.names)).plan
        results = [pa.field(n, pa.float64()) for n in made.result_names]
        return pa.schema([*(schema.field(i) for i in made.kept), *results])

    def _work(self, columns: tuple[str, ...]) -> Work:
        with self._lock:
            if columns not in self._made:
                self._made[columns] = self._make(columns)
            return self._made[columns]

    def _make(self, columns: tuple[str, ...]) -> Work:
        reader = _Batches(Header(columns))
        reading = Reading(MISSING, strict=self.strict)
        return Work(reader, self._plan(columns), Shape("arrow", Dialect()), self.on_error == "skip", reading)

    def _plan(self, columns: tuple[str, ...]) -> Plan:
        twice = next((n for n in columns if columns.count(n) > 1), None)
        if twice is not None:
            raise BindingError.of(f"two columns are called `{twice}`", help="give one of them another name")
        bound = bind(Source.of(self.model, "model"), dict(self.values), columns, dict(self.rename))
        model, asked = bound.model, self.asked
        unused = [n for n, _ in self.values if n not in model.resolved.used]
        if unused:
            raise BindingError.of(f"`{unused[0]}` is no name that the model uses", help="leave it out")
        retained = asked.retained or [label for label, _ in model.resolved.retained]
        labels = Asked(
            [model.find(n).label for n in asked.outputs] or model.outputs,
            None if asked.wrt is None else [model.find(n).label for n in asked.wrt],
            [model.find(n).label for n in retained],
            [model.find(n).label for n in asked.off],
            asked.names,
            asked.keep,
            asked.domain,
        )
        return plan(bound, labels)


@dataclass
class _Batches:
    """Record batches as what `Work` reads; nothing passes through it."""

    header: Header
    format: str = "arrow"
    progress: Progress = field(default_factory=Progress)
    dialect: Dialect | None = None
    types: Mapping[str, Any] = field(default_factory=dict)

    def chunks(self) -> Iterator[Any]:
        return iter(())

    def parse(self, chunk: RecordBatch, wanted: Wanted) -> Table:
        """The needed columns as numbers, without a copy where they are doubles without nulls."""
        import polars as pl

        names = [self.header.names[i] for i in wanted.needed]
        frame = pl.DataFrame([pl.Series(n, pl.from_arrow(chunk.column(n))) for n in names])
        needed = Wanted(wanted.needed, (), False, wanted.drop, wanted.reading)
        if not names:
            return Table(chunk.num_rows, chunk.num_rows, {})
        return parquet.parse("the batch", frame, self.header, needed)

    def extend(self, names: Sequence[str], unbound: Sequence[str]) -> None:
        raise NotImplementedError


def _stop(table: Table) -> DataError:
    fault = table.faults[0]
    column = f", column `{fault.column}`" if fault.column else ""
    return DataError.of(f"row {fault.record + 1} of the batch{column}: {fault.reason}", help=fault.help)
