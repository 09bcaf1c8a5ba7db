"""`gradcli grad --data FILE`: a scalar over the columns of a file, with its gradient."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gradcli.cli import options
from gradcli.cli.inputs import Request, split_names
from gradcli.cli.output import Console, json_line, json_number, number, table, terminal
from gradcli.cli.selection import Selection, is_glob
from gradcli.errors import BindingError, Diagnostic, GradcliError, shown
from gradcli.source import visible

if TYPE_CHECKING:
    from gradcli.batching.bind import Bound
    from gradcli.batching.loss import Answered
    from gradcli.source import Source


_BATCH_ONLY = ("--on-error", "--delimiter", "--decimal-comma", "--header", "--encoding", "--keep", "--na ", "--missing")


class Data(NamedTuple):
    """The flags that are about data."""

    files: tuple[str, ...]
    rename: tuple[str, ...]
    in_format: str | None
    missing: str


def refuse_without_data(ctx: click.Context) -> None:
    """Raises UsageError for a flag that says how to read --data where there is none."""
    for name in ("rename", "in_format", "data_missing"):
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"`{flag}` goes with --data\nhelp: name the file: `--data FILE`", ctx)


def flags(function: options.F) -> options.F:
    """--data and what goes with it."""
    for decorator in (
        click.option(
            "--data-missing",
            type=click.Choice(["error", "skip"]),
            default="error",
            show_default=True,
            help="A blank, NA or null in --data: an error, or its row is left out.",
        ),
        click.option("--in-format", type=click.Choice(["csv", "tsv", "ndjson", "parquet"]), help="Format of --data."),
        click.option(
            "--rename", multiple=True, metavar="VAR=COLUMN", help="The column of --data that gives a name its values."
        ),
        click.option(
            "--data",
            multiple=True,
            metavar="FILE",
            help="Columns of CSV, TSV, NDJSON or Parquet, plain or compressed, give names their values; `-` is "
            "standard input.",
        ),
    ):
        function = decorator(function)
    return function


def run(console: Console, request: Request, selection: Selection, data: Data, ofmt: str | None, as_json: bool) -> int:
    """Answer for each model in turn; standard input serves one."""
    from gradcli.formats.stream import expand

    gc.freeze()
    gc.enable()
    if data.files.count("-") and len(request.sources) > 1:
        raise BindingError.of(
            "standard input can be read once", help="run the models one by one, or save the data in a file"
        )
    names = expand(data.files)
    for path, source in request.sources:
        try:
            blocks = _answers(console, path, source, request.bindings, selection, data, names, ofmt, as_json)
        except GradcliError as fault:
            console.fail(_with_remedies(fault))
            continue
        if len(request.sources) > 1 and not as_json:
            console.data(f"# {visible(path)}")
        for block in blocks:
            console.data(block)
    return console.status


def _with_remedies(fault: GradcliError) -> GradcliError:
    """The rooms below know the flags of `batch`, which are more than those of `grad`."""
    return type(fault)(*[d._replace(help=_remedy(d.help)) for d in fault.diagnostics])


def _remedy(text: str | None) -> str | None:
    if text is None or not any(flag in text for flag in _BATCH_ONLY):
        return text
    if "--delimiter '\\t'" in text:
        return "`--in-format tsv` reads tabs"
    return f"`gradcli batch -o FILE.parquet` writes a table that --data reads, and has more flags: {text}"


def _answers(
    console: Console,
    path: str,
    source: Source,
    bindings: dict[str, str],
    selection: Selection,
    data: Data,
    names: Sequence[str],
    ofmt: str | None,
    as_json: bool,
) -> list[str]:
    from gradcli.batching.bind import bind
    from gradcli.batching.loss import Question, answer
    from gradcli.cli.rows import ENGINE, renames
    from gradcli.formats.cells import Reading
    from gradcli.formats.reader import Options, open_data
    from gradcli.runners.local import cores

    reader = open_data(names, Options(format=data.in_format))
    bound = bind(source, bindings, reader.header.names, renames(data.rename), reader.format == "ndjson")
    model = bound.model
    if reader.format == "ndjson":
        reader.extend(bound.absent, bound.unbound(bindings))
    if console.verbose:
        console.tell(Diagnostic(f"{cores()} workers, {ENGINE}", severity="note"))
    console.heard.clear()
    console.tell(*model.notes, *bound.notes)
    retained, off = _scalars(bound, selection, selection.retained(model, console), console), selection.off(model)
    by = selection.by(model)
    valued = [*retained, *(n for n in by or () if model.find(n).kind == "intermediate")]
    questions = [Question(o, by, valued, off) for o in selection.outputs(model)]
    found = answer(bound, questions, reader, data.missing == "skip", Reading(), cores())
    common, blocks = list(console.heard), []
    for answered in found:
        console.heard[:] = common
        console.tell(*_why_not_finite(answered))
        if as_json:
            warnings = list(dict.fromkeys(d.sentence() for d in console.heard))
            blocks.append(json_line({**_record(path, names, answered, retained), "warnings": warnings}))
        else:
            blocks.append(_text(answered, ofmt))
    return blocks


def _scalars(bound: Bound, selection: Selection, retained: Sequence[str], console: Console) -> list[str]:
    """Of what is to be retained that which is one number. Of a column a glob skips it, a `retain` of the text gets a
    note. Raises BindingError for one that --retain names."""
    model = bound.model
    rows = _row_wise(bound, retained)
    named = {model.find(n).label for n in split_names(selection.retain) if not is_glob(model, n)}
    for label in retained:
        if label in rows and label in named:
            raise BindingError.of(
                f"the gradient of {shown(label)} has a number for each row",
                model.find(label).span,
                "retain scalars only, such as a `sum(...)` of it",
            )
    for label, span in model.resolved.retained:
        if label in rows and label in retained:
            fact = f"the gradient of {shown(label)} has a number for each row, `retain {label}` has no effect"
            console.tell(Diagnostic(fact, span, "with --data scalars are retained only", "note"))
    return [n for n in retained if n not in rows]


def _row_wise(bound: Bound, labels: Sequence[str]) -> set[str]:
    """The names that hold a number for each row once the data are bound."""
    from gradcli.calculus.specialise import specialise

    nodes = {n: bound.model.resolved.names[n].node for n in labels}
    graph, at = specialise(bound.model.resolved.graph, frozenset(bound.columns), nodes.values())
    return {n for n, node in nodes.items() if graph.columns[at[node]]}


def _why_not_finite(found: Answered) -> list[Diagnostic]:
    """Which columns brought a nan or an infinity into a value, or into a gradient where the value is finite."""
    result = found.result
    numbers = {result.output: result.value}
    numbers |= {f"{n}.grad": g for n, g in {**result.gradients, **result.retained}.items() if g is not None}
    fact = next((f"`{n}` is {v!r}" for n, v in numbers.items() if not isfinite(v)), None)
    if fact is None:
        return []
    made = [
        Diagnostic(
            f"{fact}: column `{name}` is not finite in {rows:,} row{'s' * (rows != 1)}, first in {place}",
            None,
            None,
            "note",
        )
        for name, (rows, place) in found.odd.items()
    ]
    return made or [
        Diagnostic(fact, None, "without its reduction, `gradcli batch` says in which rows it arises", "note")
    ]


def _value(found: Answered, label: str) -> Any:
    """The number of a name: a scalar leaf, what was asked for, or a leaf that the output does not need."""
    result = found.result
    if label == result.output:
        return result.value
    value = found.values.get(label, result.values.get(label))
    return found.program.model.point.get(label) if value is None else value


def _text(found: Answered, ofmt: str | None) -> str:
    result = found.result
    gradients = {**result.gradients, **result.retained}
    labels = dict.fromkeys((result.output, *(n for n in found.program.model.names if n in gradients)))
    rows = [(n, number(_value(found, n), ofmt), number(gradients.get(n), ofmt)) for n in labels]
    return "\n".join(line.rstrip("\t") for line in table(rows, terminal(sys.stdout)))


def _record(path: str, names: Sequence[str], found: Answered, retained: Sequence[str]) -> dict[str, Any]:
    """The JSON of `grad`, with the data, and without its warnings."""
    from gradcli.explain import reason

    result, program = found.result, found.program
    labels = program.model.resolved.names
    kept = {n: g for n, g in result.retained.items() if n in retained}
    lost = [n for n, g in {**result.gradients, **kept}.items() if g is None]
    return {
        "schema": 1,
        "model": path,
        "data": list(names),
        "rows": result.rows,
        "output": result.output,
        "value": json_number(result.value),
        "point": {n: json_number(v) for n, v in found.values.items()},
        "gradients": {n: json_number(g) for n, g in result.gradients.items()},
        "retained": {n: {"value": json_number(_value(found, n)), "gradient": json_number(g)} for n, g in kept.items()},
        "reasons": {n: reason(program, labels[n], None)[0] for n in lost},
    }
