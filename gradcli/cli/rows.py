"""One run of `gradcli batch`: the flags become a reader, a plan, a target, and a summary."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradcli import __version__
from gradcli.cli import inputs
from gradcli.cli.output import FAILED, WRONG, Console, json_line, json_number, terminal
from gradcli.cli.selection import Selection
from gradcli.errors import Diagnostic, FileError, GradcliError

if TYPE_CHECKING:
    from gradcli.batching.plan import Asked, Plan
    from gradcli.batching.run import Outputs, Run
    from gradcli.batching.ship import Shipment
    from gradcli.batching.summary import Summary
    from gradcli.batching.work import Piece, Shape, Work
    from gradcli.formats.cells import Reading
    from gradcli.formats.reader import Options, Reader
    from gradcli.formats.target import Target
    from gradcli.source import Source

ENGINE = "engine numpy: the same bits for any chunks, format and runner"


@dataclass(frozen=True)
class Flags:
    """The options of `batch` that are not those of `grad`."""

    output: str
    in_format: str | None
    out_format: str | None
    rename: tuple[str, ...]
    names: str | None
    keep: str
    domain: bool
    missing: str
    na: tuple[str, ...]
    on_error: str | None
    rejects: str | None
    max_errors: int | None
    max_nonfinite: int | None
    nonfinite: str
    delimiter: str | None
    decimal_comma: bool
    header: str | None
    encoding: str | None
    chunk_rows: int | None
    jobs: int | None
    engine: str | None
    scheduler: str | None
    dry_run: bool
    progress: bool
    summary: str | None
    as_json: bool = False

    @property
    def is_shipped(self) -> bool:
        """Whether workers elsewhere do it."""
        return self.engine == "dask" or self.scheduler is not None

    @property
    def folder(self) -> str | None:
        """The output where it is a folder."""
        return self.output if self.output.endswith("/") or Path(self.output).is_dir() else None


_SIGNALS = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


class _Terminated(BaseException):
    """A signal ends the run; its number gives the exit status. As Ctrl-C it is no fault that a library may handle."""


def _terminate(number: int, frame: Any) -> None:
    raise _Terminated(number)


class Job:
    """The flags of one run, applied step by step."""

    def __init__(self, console: Console, flags: Flags, selection: Selection) -> None:
        self.console, self.flags, self.selection = console, flags, selection

    def run(self, model: str, source: Source, data: Sequence[str], bindings: dict[str, str]) -> int:
        """The exit status; SIGTERM and SIGHUP leave as orderly as Ctrl-C does. `model` is the path of the source."""
        caught = [n for n in _SIGNALS if signal.getsignal(n) == signal.SIG_DFL]  # nohup lets a run go on
        try:
            for number in caught:
                signal.signal(number, _terminate)
            return self._prepared(model, source, data, bindings)
        except _Terminated as fault:
            return 128 + int(fault.args[0])
        finally:
            for number in caught:
                signal.signal(number, signal.SIG_DFL)

    def _prepared(self, model: str, source: Source, data: Sequence[str], bindings: dict[str, str]) -> int:
        from gradcli.batching.work import Work
        from gradcli.formats.reader import open_data
        from gradcli.formats.stream import expand
        from gradcli.formats.target import check_distinct
        from gradcli.runners import local

        flags = self.flags
        names = expand(data)
        check_distinct([*names, *inputs.files([model])], (flags.output, flags.rejects, flags.summary))
        self._check_engine()
        jobs = flags.jobs or local.cores()
        how = self._options(jobs)
        reader = open_data(names, how)
        self._check_format(reader.format)
        columns = reader.header.names
        asked, plan = self._plan(source, bindings, reader)
        if flags.dry_run:
            return self._tell_plan(plan)
        if self.console.verbose:
            where = f"{jobs} worker{'s' * (jobs != 1)}" + (" of a cluster" if flags.is_shipped else "")
            self.console.tell(Diagnostic(f"{where}, {ENGINE}", severity="note"))
        drop = self._policy_name() in ("skip", "fail")
        work = Work(reader, plan, self._shape(reader), drop, self._reading())
        if not flags.is_shipped:
            return self._go(work, lambda folder: local.run(work, reader.chunks(), jobs))
        from gradcli.batching.ship import Shipment
        from gradcli.formats.parts import Outline

        outline = Outline.of(reader, names, how)
        values, renamed = tuple(bindings.items()), tuple(renames(flags.rename).items())
        shipment = Shipment(source, values, renamed, columns, asked, outline, work.shape, drop, self._reading())
        return self._go(work, lambda folder: self._shipped(shipment, names, jobs, reader, folder))

    def _tell_plan(self, plan: Plan) -> int:
        """What would be computed, for people or as JSON."""
        found = plan.record()
        numbers = {n: json_number(v) for n, v in found["values"].items()}
        lines = [json_line({**found, "values": numbers})] if self.flags.as_json else plan.describe()
        for line in lines:
            self.console.data(line)
        return self.console.status

    def _check_engine(self) -> None:
        flags = self.flags
        if flags.scheduler is not None and flags.engine == "local":
            raise click.UsageError("`--scheduler` is for `--engine dask`\nhelp: leave one of them out")
        if flags.folder and not flags.is_shipped:
            help = "name a file in it; `--engine dask` writes a folder of parts"
            raise FileError.of(f"cannot write {flags.output}: it is a folder", help=help)

    def _check_format(self, format: str) -> None:
        """Raises UsageError for a flag that means nothing for the data, which would be ignored silently."""
        flags = self.flags
        given = {
            "--header": flags.header is not None,
            "--delimiter": flags.delimiter is not None,
            "--decimal-comma": flags.decimal_comma and format == "ndjson",
            "--encoding": flags.encoding is not None and format == "parquet",
        }
        odd = next((flag for flag, is_given in given.items() if is_given), None)
        if odd is not None and format in ("ndjson", "parquet"):
            name, help = (
                ("Parquet", "leave it out") if format == "parquet" else ("NDJSON", "`--in-format csv` reads CSV")
            )
            raise click.UsageError(f"`{odd}` means nothing for {name}\nhelp: {help}")

    def _options(self, jobs: int) -> Options:
        from gradcli.formats.reader import Options
        from gradcli.formats.records import CHUNK
        from gradcli.formats.stream import known_encoding

        flags = self.flags
        return Options(
            flags.in_format,
            _separator(flags.delimiter),
            known_encoding(flags.encoding) if flags.encoding else None,
            _names(flags.header),
            max(1 << 20, min(CHUNK, (8 << 20) // jobs)),
            flags.chunk_rows,
        )

    def _shipped(
        self, shipment: Shipment, names: Sequence[str], jobs: int, reader: Reader, folder: str | None
    ) -> Iterator[Piece]:
        """The pieces that workers of a Dask cluster make; into a folder they write them themselves."""
        from gradcli.batching.ship import pieces
        from gradcli.formats.parts import cut
        from gradcli.runners import dask

        shipment = replace(shipment, folder=folder)
        build = partial(_build, shipment, __version__)
        parts = cut(shipment.outline, names, shipment.part_bytes)
        return pieces(parts, lambda p: dask.run(build, p, jobs, self.flags.scheduler), reader.progress)

    def _plan(self, source: Source, bindings: dict[str, str], reader: Reader) -> tuple[Asked, Plan]:
        from gradcli.batching.bind import bind
        from gradcli.batching.plan import NAMES, Asked, check_template, plan

        flags, console = self.flags, self.console
        template = flags.names or NAMES
        check_template(template)
        bound = bind(source, bindings, reader.header.names, renames(flags.rename), reader.format == "ndjson")
        model = bound.model
        _refuse_unused(bindings, model)
        asked = Asked(
            self.selection.outputs(model),
            self.selection.by(model),
            self.selection.retained(model, console),
            self.selection.off(model),
            template,
            flags.keep,
            flags.domain,
        )
        made = plan(bound, asked)
        console.tell(*model.notes, *bound.notes, *made.notes)
        if reader.format == "ndjson":
            reader.extend(bound.absent, bound.unbound(bindings))
        if flags.domain and not model.resolved.domains:
            console.tell(
                Diagnostic(f"{model.source.name} has no `domain` line", None, "`--domain` has no effect", "warning")
            )
        return asked, made

    def _policy_name(self) -> str:
        flags = self.flags
        return flags.on_error or ("skip" if flags.rejects else "null" if flags.max_errors is not None else "fail")

    def _reading(self) -> Reading:
        from gradcli.formats.cells import MISSING, Reading

        extra = frozenset(t.strip().lower() for t in self.flags.na)
        return Reading(MISSING | extra, extra, self.flags.decimal_comma, self.flags.missing == "error")

    def _shape(self, reader: Reader) -> Shape:
        from gradcli.batching.work import Shape
        from gradcli.formats import output_format
        from gradcli.formats.headers import Dialect

        flags = self.flags
        named, packing = output_format(flags.output, flags.out_format) if not flags.folder else (None, "")
        usual = reader.format if reader.format != "parquet" or flags.folder else "csv"
        format = flags.out_format or named or usual
        dialect = Dialect("\t", False) if format == "tsv" else Dialect()
        if format == "csv" and reader.format == "csv" and reader.dialect is not None:
            dialect = reader.dialect
        return Shape(format, dialect, packing if format != "parquet" else "", flags.nonfinite == "string")

    def _go(self, work: Work, start: Callable[[str | None], Iterator[Piece]]) -> int:
        """`start` gives the pieces; it is told the folder where there is one."""
        from gradcli.batching.run import LimitError, Outputs, Policy, Run
        from gradcli.batching.summary import Reporter, Summary
        from gradcli.formats.folder import Folder
        from gradcli.formats.parquet import Sink
        from gradcli.formats.target import Target

        flags = self.flags
        outputs: Outputs = Outputs(
            Folder(flags.output) if flags.folder else Target(flags.output),
            Target(flags.rejects) if flags.rejects else None,
            Target(flags.summary) if flags.summary else None,
        )
        try:
            outputs.open()
            if work.shape.format == "parquet" and not flags.folder:
                outputs.sink = Sink(outputs.target.place, work.empty_frame())
            policy = Policy(self._policy_name(), flags.max_errors, flags.max_nonfinite, flags.missing)
            summary = Summary()
            wanted = not self.console.quiet and (flags.progress or terminal(sys.stderr))
            reporter = Reporter(wanted, work.reader.progress)
            pieces = start(outputs.target.place if flags.folder else None)
            run: Run = Run(work, outputs, policy, pieces, reporter, summary)
            try:
                run.run()
                self._tell_of_cut(summary)
            except LimitError as fault:
                self.console.fail(fault, FAILED)
            except GradcliError as fault:
                self.console.fail(fault, WRONG)
            self._finish(summary, outputs.record)
        finally:
            outputs.discard()
        return self.console.status

    def _tell_of_cut(self, summary: Summary) -> None:
        """Nothing is lost silently: of rows whose text does not fit into columns, the first is named, also under -q."""
        if summary.cut and not self.flags.rejects:
            rows = f"{summary.cut:,} rows are" if summary.cut > 1 else "1 row is"
            fact = f"{rows} written without the text that does not fit, first {summary.first_cut}"
            self.console.tell(Diagnostic(fact, None, "`--rejects FILE` keeps such rows whole", "warning"))

    def _finish(self, summary: Any, record: Target | None) -> None:
        """The last line, and the same as JSON."""
        flags, console = self.flags, self.console
        if console.status != WRONG and not console.quiet:
            if summary.rejected:
                console.tell(Diagnostic(summary.sentence, None, None, "warning"))
            elif flags.progress or terminal(sys.stderr) or summary.is_notable:
                console.tell(Diagnostic(summary.sentence, None, None, "note"))
        if record is not None:
            record.write((json_line(summary.record(console.status)) + "\n").encode())
            record.commit()


def _build(shipment: Shipment, version: str) -> Any:
    """In a worker. Raises FileError for another version: bits might differ."""
    if version != __version__:
        fact = f"a worker has gradcli {__version__}, this is {version}"
        raise FileError.of(fact, help="install the same version there")
    return shipment.build()


def _separator(text: str | None) -> str | None:
    if text is None:
        return None
    found = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(found) != 1 or not found.isascii() or found in '"\n\r':
        raise click.UsageError(f"`--delimiter {text}` is not one ASCII character\nhelp: such as `;` or `\\t`")
    return found


def _names(text: str | None) -> list[str] | None:
    from gradcli.batching.plan import split

    found = split(text) if text is not None else None
    if found == []:
        raise click.UsageError("`--header` names no column\nhelp: such as `--header x,y`")
    return found


def renames(texts: Sequence[str]) -> dict[str, str]:
    """VAR=COLUMN, as a table. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        pair = inputs.binding(text)
        if pair is None or not pair[1].strip():
            raise click.UsageError(
                f"`--rename {text}` is not VAR=COLUMN\nhelp: the name in the model first: `--rename x=Price`"
            )
        if pair[0] in found:
            raise click.UsageError(
                f"`--rename` names two columns for `{pair[0]}`: `{found[pair[0]]}` and `{pair[1]}`\nhelp: leave one out"
            )
        found[pair[0]] = pair[1].strip().strip("`")
    return found


def _refuse_unused(bindings: dict[str, str], model: Any) -> None:
    from gradcli.errors import did_you_mean

    unused = [n for n in bindings if n not in model.resolved.used]
    if unused:
        raise GradcliError(
            *[
                Diagnostic(
                    f"`{n}` is no name that the model uses",
                    None,
                    did_you_mean(n, model.resolved.known()) or "leave it out",
                )
                for n in unused
            ]
        )
