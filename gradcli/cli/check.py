"""`gradcli check`: verifies derivatives, claims, expectations and other programs' gradients; the CI command."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gradcli.cli import options
from gradcli.cli.inputs import files, unused
from gradcli.cli.output import FAILED, FINE, NOTHING, WRONG, Console, json_line
from gradcli.errors import Diagnostic, shown
from gradcli.source import visible

if TYPE_CHECKING:
    from gradcli.checking.run import Options, Outcome
    from gradcli.reports.checks import Entry
    from gradcli.source import Source


@dataclass(frozen=True)
class Settings:
    """The options of the command, by their names."""

    words: tuple[str, ...]
    expressions: tuple[str, ...]
    of: tuple[str, ...]
    only: tuple[str, ...]
    points: int
    seed: int
    min_digits: float | None
    max_failures: int | None
    require_claims: bool
    jobs: int | None
    symbolic: bool
    time_limit: float | None
    against: str | None
    against_command: str | None
    column: tuple[str, ...]
    rtol: float | None
    atol: float | None
    precision: str
    report: tuple[str, ...]
    exit_zero: bool
    as_json: bool
    strict: bool
    quiet: bool
    verbose: bool
    color: str


F = TypeVar("F", bound=Callable[..., Any])


def _options(*given: tuple[tuple[str, ...], dict[str, Any]]) -> Callable[[F], F]:
    def apply(function: F) -> F:
        for names, attributes in reversed(given):
            function = click.option(*names, **attributes)(function)
        return function

    return apply


def _option(*names: str, **attributes: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return names, attributes


class _Finite(click.FloatRange):
    """A range of numbers: nan compares with nothing, so it would pass, and switch off what it limits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{number!r} is not a finite number.", param, ctx)
        return number


_SECONDS = _Finite(0, 1_000_000, min_open=True)  # more than any system waits for in one call is an internal error
_MOST_DIGITS = 17  # of a float64
_CHOSEN = _options(
    _option("--of", multiple=True, metavar="NAME", help="Which output; repeatable."),
    _option("--only", multiple=True, metavar="NAME",
            help="Only these checks: a claim's name, `line 7`, `d(o, x)`, a glob; repeatable."),
    _option("--points", default=8, show_default=True, type=click.IntRange(1, 10_000), help="How many points a check."),
    _option("--seed", default=0, show_default=True, type=int, help="Move all points."),
    _option("--min-digits", type=_Finite(0, _MOST_DIGITS), metavar="N",
            help="Fail where fewer digits of a float64 gradient are right."),
    _option("--max-failures", type=click.IntRange(1), metavar="N", help="Say no more than N failures."),
    _option("--require-claims", is_flag=True, help="A model without a claim or an expectation fails."),
    _option("-j", "--jobs", type=click.IntRange(1), metavar="N",
            help="Processes (default: as many as there is work for)."),
    _option("--symbolic", is_flag=True, help="Let sympy simplify each claim too: a side note, never the verdict."),
    _option("--time-limit", type=_SECONDS, metavar="SECONDS",
            help="For sympy on one claim (default 5), and for a program (default 60)."),
)  # fmt: skip
_OTHERS = _options(
    _option("--against", metavar="FILE", help="Judge a table (CSV, NDJSON, Parquet): inputs, and columns `do_dx`."),
    _option("--against-command", metavar="PROGRAM",
            help="Judge a program: points as CSV on its stdin, values and gradients as CSV on its stdout."),
    _option("--column", multiple=True, metavar="NAME=COLUMN", help="Which column is the gradient by NAME; repeatable."),
    _option("--rtol", type=_Finite(0), metavar="R", help="Accept their numbers within R, relative."),
    _option("--atol", type=_Finite(0), metavar="A", help="Accept their numbers within A, absolute."),
    _option("--precision", type=click.Choice(["float64", "float32"]), default="float64", show_default=True,
            help="What they compute with: inputs are rounded to it first."),
    _option("--report", multiple=True, metavar="KIND:PATH", help="Write junit, github, sarif or json; repeatable."),
    _option("--exit-zero", is_flag=True, help="Exit 0 although checks failed, for a step that uploads a report."),
)  # fmt: skip


@click.command("check", cls=options.Command)
@options.models
@_CHOSEN
@_OTHERS
@options.talk
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Verify every derivative, claim and expectation of the models, to forty digits, without a step size or tolerance.

    \b
    gradcli check samples/neuron.expr
    gradcli check models/ --report junit:checks.xml
    gradcli check model.expr --against theirs.csv
    """
    settings = Settings(**given)
    from gradcli.reports.checks import parse_target

    if settings.against_command is not None and not settings.against_command.strip():
        raise click.UsageError("`--against-command` names no program\nhelp: a variable of the shell may be unset", ctx)
    console = Console(settings.quiet, settings.verbose, settings.strict, settings.color)
    targets = [parse_target(text) for text in settings.report]
    if settings.as_json and any(path == "-" and kind != "github" for kind, path in targets):
        raise click.UsageError("--json and a report on `-` exclude each other\nhelp: give the report a file", ctx)
    request = options.gather(ctx, settings.words, settings.expressions, console)
    _guard([path for path, _ in request.sources], settings.against, targets)
    chosen = _chosen(settings, console)
    run = _Run(console, settings)
    from gradcli.checking.run import check_all

    jobs = settings.jobs or min(os.cpu_count() or 1, 1 + len(request.sources) // 8)
    outcomes = check_all([source for _, source in request.sources], request.bindings, chosen, jobs)
    for (path, source), outcome in zip(request.sources, outcomes, strict=True):
        run.add(path, source, outcome)
    run.close(request.bindings, targets)
    if console.status == FINE and (run.nothing or (chosen.table is not None and not chosen.table.rows)):
        console.worst(NOTHING)  # what failed, or is wrong, is worth more than what is missing
    return 0 if settings.exit_zero and console.status in (FAILED, NOTHING) else console.status


def _guard(models: Sequence[str], against: str | None, targets: Sequence[tuple[str, str]]) -> None:
    """No report goes where a model, a table or another report is. Raises FileError."""
    from gradcli.formats.target import check_distinct

    read = [*files(models), *([against] if against is not None else [])]
    check_distinct(read, [path for kind, path in targets if (kind, path) != ("github", "-")])


def _chosen(settings: Settings, console: Console) -> Options:
    """What is to be checked. Raises FileError and BindingError."""
    from gradcli.checking.against import Tolerance, parse_columns
    from gradcli.checking.run import Options
    from gradcli.checking.table import read_table

    table = read_table(settings.against) if settings.against is not None else None
    if table is not None and not table.rows:
        console.tell(Diagnostic(f"{table.name} has no rows: nothing was checked against it", None,
                                "check the step that writes it", "warning"))  # fmt: skip
    how = Tolerance(settings.rtol, settings.atol, settings.precision, parse_columns(settings.column))
    symbolic = (settings.time_limit or 5.0) if settings.symbolic else None
    return Options(settings.points, settings.seed, settings.only, tuple(options.split_names(settings.of)), symbolic,
                   table, settings.against_command, settings.time_limit or 60.0, how)  # fmt: skip


class _Run:
    """Prints as outcomes arrive, collects, and settles the exit status."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self.console, self.settings = console, settings
        self.entries: list[Entry] = []
        self.faults: list[tuple[str, Diagnostic]] = []
        self.models = self.hidden = self.told = 0
        self.nothing = False
        self.used: set[str] = set()
        self.known: dict[str, None] = {}

    def add(self, path: str, source: Source, outcome: Outcome) -> None:
        from gradcli.checking.messages import diagnostic, entry, note, well
        from gradcli.reports.json_report import record

        console = self.console
        self.models += 1
        self.used |= outcome.used
        self.known.update(dict.fromkeys(outcome.known))
        console.tell(*outcome.notes)
        entries = [entry(path, source, check, self.settings.min_digits) for check in outcome.checks]
        self.entries += entries
        self.faults += [(path, d) for d in outcome.faults]
        if self.settings.as_json:
            for found in entries:
                console.data(json_line(record(found)))
        console.tell(*outcome.faults, *filter(None, (note(source, c) for c in outcome.checks)))
        if outcome.faults:
            console.worst(WRONG)
        bad = [e for e in entries if not e.passed]
        for found in bad:
            self._fail(diagnostic(source, found))
        self._whole(path, outcome)
        if not self.settings.as_json and not console.quiet and entries:
            good = f"{len(entries) - len(bad)} passed, {len(bad)} failed"
            console.data(f"{visible(path)}: {good if bad else well(outcome.checks)}")

    def _fail(self, message: Diagnostic) -> None:
        self.console.worst(FAILED)
        most = self.settings.max_failures
        if most is not None and self.told >= most:
            self.hidden += 1
            return
        self.told += 1
        self.console.tell(message)

    def _whole(self, path: str, outcome: Outcome) -> None:
        """What is to be said of a model as a whole."""
        if outcome.faults:
            return
        if not outcome.checks and not self.settings.only:
            remedy = "give it a claim, or an output with a leaf"
            self.console.tell(Diagnostic(f"{visible(path)} has nothing to check", None, remedy, "warning"))
            self.nothing = True
        elif self.settings.require_claims and not any(c.kind in ("claim", "expect") for c in outcome.checks):
            fact = f"{visible(path)} has no claim and no expectation"
            self.console.tell(Diagnostic(fact, None, "add one: `claim A = B`"))
            self.console.worst(FAILED)

    def close(self, bindings: dict[str, str], targets: list[tuple[str, str]]) -> None:
        from gradcli import __version__
        from gradcli.reports.checks import Report, write
        from gradcli.reports.json_report import summary

        console = self.console
        for name, value in bindings.items():
            if name not in self.used and not self.faults:
                help = unused(name, value, self.known)
                console.tell(Diagnostic(f"{shown(name)} is no name that a model uses", None, help))
                console.worst(WRONG)
        report = Report(self.entries, self.faults, self.models, __version__)
        counts = report.summary()
        if self.settings.as_json:
            console.data(json_line(summary(report)))
        for kind, path in targets:
            write(kind, path, report, self.settings.as_json)
        if self.hidden:
            console.tell(Diagnostic(f"{self.hidden} more failures are not shown", severity="note"))
        if self.models > 1:
            text = f"{self.models} models: {counts['passed']} passed, {counts['failed']} failed"
            console.tell(Diagnostic(text, severity="note"))
        if not self.entries and not self.faults:
            self._nothing()

    def _nothing(self) -> None:
        remedy = "see `gradcli check --help`"
        if self.settings.only:
            remedy = f"no check is called {', '.join(map(shown, self.settings.only))}; `--json` lists all names"
        self.console.tell(Diagnostic("nothing was checked", None, remedy, "warning"))
        self.nothing = True
