"""The whole run: chunks through workers, pieces to the target in order, faults to the policy that the user named."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from gradcli.batching.summary import Reporter, Summary
from gradcli.batching.work import Piece, Work, pack
from gradcli.errors import Diagnostic, FileError, GradcliError
from gradcli.formats.cells import Fault, shorten
from gradcli.formats.folder import Folder
from gradcli.formats.parquet import Sink
from gradcli.formats.target import Target


class DataError(GradcliError):
    """A row cannot be used, and the policy is to stop."""


class LimitError(GradcliError):
    """More bad rows, or more that are not finite, than the user allows."""


@dataclass(frozen=True)
class Policy:
    """What happens to rows with faults: `fail`, `null` or `skip`; how many are borne; is a missing value a fault."""

    on_error: str = "fail"
    max_errors: int | None = None
    max_nonfinite: int | None = None
    missing: str = "null"


@dataclass
class Outputs:
    """Where things go: results, rejected rows, the record of the run. Into a folder workers write themselves."""

    target: Target | Folder
    rejects: Target | None = None
    record: Target | None = None
    sink: Sink | None = None

    def open(self) -> None:
        """Raises FileError; `discard` is due then too."""
        for one in (self.target, self.rejects, self.record):
            if one is not None:
                one.open()

    def write(self, data: Any) -> None:
        if self.sink is None:
            self.target.write(data)
        elif not isinstance(data, (bytes, memoryview)):
            try:
                self.sink.write(data)
            except BrokenPipeError:
                raise
            except OSError as fault:
                raise self.target.failed(fault) from None

    def commit(self) -> None:
        if self.sink is not None:
            sink, self.sink = self.sink, None
            try:
                sink.close()
            except BrokenPipeError:
                raise
            except OSError as fault:
                raise self.target.failed(fault) from None
        self.target.commit()

    def discard(self) -> None:
        """Remove what is not committed."""
        if self.sink is not None:
            self.sink.cancel()
        for one in (self.target, self.rejects, self.record):
            if one is not None:
                one.discard()


class Run:
    """One run over one stream, whose pieces come in order from whatever runs the work."""

    def __init__(
        self,
        work: Work,
        outputs: Outputs,
        policy: Policy,
        pieces: Iterable[Piece],
        reporter: Reporter,
        summary: Summary,
    ) -> None:
        self.work, self.outputs, self.policy, self.pieces = work, outputs, policy, pieces
        self.reporter, self.summary = reporter, summary
        self.base = 0  # data rows of earlier chunks of the same file
        self.source = -1
        self.seen: set[str] = set()
        self.warn: Callable[[Diagnostic], None] = lambda d: None

    def run(self) -> None:
        """Raises GradcliError, after which no output is changed; the rejects that were found are kept."""
        try:
            self._all()
            self.outputs.commit()
        except GradcliError as fault:
            self.summary.error = fault.diagnostics[0].sentence()
            raise
        finally:
            self.summary.finish()
            self.reporter.clear()
            if isinstance(self.pieces, Generator):
                self.pieces.close()  # workers first
            if self.outputs.rejects is not None:
                self.outputs.rejects.commit()

    def _all(self) -> None:
        self.outputs.write(pack(self.work.header(), self.work.shape.packing))
        if self.outputs.rejects is not None:
            self.outputs.rejects.write(_row("file", "row", "line", "column", "text", "reason"))
        for piece in self.pieces:
            self._take(piece)
            self.reporter.tick(self.summary)
        self._check_absent()
        limit = self.policy.max_nonfinite
        if limit is not None and self.summary.nonfinite > limit:
            count = self.summary.nonfinite
            rows = "1 row is" if count == 1 else f"{count:,} rows are"
            raise LimitError.of(f"{rows} not finite, `--max-nonfinite` allows {limit}")

    def _take(self, piece: Piece) -> None:
        if piece.number != self.source:
            self.source, self.base = piece.number, 0
        before = self.summary.rows
        self._judge(piece)
        self.summary.rows += piece.records
        self.summary.written += piece.rows
        self.summary.missing += piece.missing
        self.summary.nonfinite += piece.nonfinite
        for cause, (count, first) in piece.causes.items():
            self.summary.add_cause(cause, count, before + first + 1)
        self.seen |= piece.seen
        self.base += piece.records
        if piece.rows:
            self.outputs.write(piece.data)

    def _judge(self, piece: Piece) -> None:
        """Faults: stop at the first, or list them and count their rows."""
        if not piece.faults:
            return
        if self.policy.on_error == "fail":
            self.summary.rejected += 1
            self._list(piece, piece.faults[0])
            raise self._stop(piece, piece.faults[0])
        self._count_cut(piece)
        last = -1
        for fault in piece.faults:
            self._list(piece, fault)
            if fault.record == last:
                continue
            last = fault.record
            self.summary.rejected += 1
            limit = self.policy.max_errors
            if limit is not None and self.summary.rejected > limit:
                where = self._place(piece, fault)
                raise LimitError.of(
                    f"more bad rows than the {limit} that `--max-errors` allows; the last: {where}: {fault.reason}",
                    help=_beyond(fault.help),
                )

    def _count_cut(self, piece: Piece) -> None:
        """Rows that stay although some of their text does not fit."""
        cut = [f for f in piece.faults if f.cut] if self.policy.on_error == "null" else []
        if cut and not self.summary.cut:
            self.summary.first_cut = f"{self._place(piece, cut[0])}: {cut[0].reason}"
        self.summary.cut += len({f.record for f in cut})

    def _list(self, piece: Piece, fault: Fault) -> None:
        if self.outputs.rejects is not None:
            row, line = self.base + fault.record + 1, _line(piece, fault) or ""
            self.outputs.rejects.write(_row(piece.source, row, line, fault.column, fault.text, fault.reason))

    def _place(self, piece: Piece, fault: Fault) -> str:
        line = _line(piece, fault)
        place = f"{piece.source}:{line}" if line else piece.source
        column = f", column `{fault.column}`" if fault.column else ""
        return f"{place}: data row {self.base + fault.record + 1}{column}"

    def _stop(self, piece: Piece, fault: Fault) -> DataError:
        shown = "" if fault.column or not fault.text else f": `{shorten(fault.text)}`"
        return DataError.of(f"{self._place(piece, fault)}: {fault.reason}{shown}", help=fault.help)

    def _check_absent(self) -> None:
        lost = [n for n in self.work.plan.bound.absent if n not in self.seen]
        needed = {n for p in self.work.plan.programs for n in p.needed}
        lost = [n for n in lost if n in needed]
        if lost and self.summary.rows:
            raise FileError(
                *[
                    Diagnostic(f"no row has `{n}`, which the model needs", None, f"`--rename {n}=KEY`, or `{n}=VALUE`")
                    for n in lost
                ]
            )


def _beyond(remedy: str | None) -> str:
    """What to do about too many bad rows: the policy is in force already."""
    if remedy is not None and "--on-error" not in remedy:
        return remedy
    return "`--rejects FILE` lists them, `--max-errors` with a larger number bears them"


def _line(piece: Piece, fault: Fault) -> int:
    """The physical line in the file, 0 where there are none (Parquet)."""
    return piece.line + fault.line if fault.line else 0


def _row(*cells: object) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue().encode("utf-8", "replace")
