"""`gradcli batch`: rows in, values and gradients out."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import click

from gradcli.cli import inputs, options
from gradcli.cli.output import Console
from gradcli.cli.rows import Flags, Job
from gradcli.cli.selection import Selection
from gradcli.errors import FileError

_FORMATS = click.Choice(["csv", "tsv", "ndjson", "parquet"])
_COUNT = click.IntRange(min=0)
_MOST_JOBS = 512  # threads; a system may allow less


_OPTIONS = (
    click.option(
        "-o",
        "--output",
        default="-",
        metavar="FILE|DIR/",
        help="Where results go, whole or absent; a folder of parts with --engine dask.",
    ),
    click.option("--in-format", type=_FORMATS, help="Format of the data; by default what the suffix says."),
    click.option(
        "--out-format",
        type=_FORMATS,
        help="Format of the results; by default what the suffix says, else as the data.",
    ),
    click.option(
        "--rename",
        multiple=True,
        metavar="VAR=COLUMN",
        help="The column that gives a name its values; repeatable.",
    ),
    click.option("--names", metavar="TEMPLATE", help="Names of gradient columns.  [default: d{output}_d{input}]"),
    click.option(
        "--keep", default="all", metavar="all|none|NAMES", show_default=True, help="Which columns pass through."
    ),
    click.option("--domain", is_flag=True, help="Rows outside the model's `domain` lines are faults."),
    click.option(
        "--missing",
        type=click.Choice(["null", "error"]),
        default="null",
        show_default=True,
        help="A blank, NA or null: results stay empty, or it is a fault.",
    ),
    click.option("--na", multiple=True, metavar="TEXT", help="One more text that means missing; repeatable."),
    click.option(
        "--on-error",
        type=click.Choice(["fail", "null", "skip"]),
        help="A row with a fault: stop, leave its results empty, or leave it out.  [default: fail; skip with "
        "--rejects, null with --max-errors]",
    ),
    click.option("--rejects", metavar="FILE", help="List faults as CSV: file, row, line, column, text, reason."),
    click.option("--max-errors", type=_COUNT, metavar="N", help="Stop with status 1 beyond N bad rows."),
    click.option(
        "--max-nonfinite",
        type=_COUNT,
        metavar="N",
        help="Fail with status 1 beyond N rows that are not finite.",
    ),
    click.option(
        "--nonfinite",
        type=click.Choice(["null", "string"]),
        default="null",
        show_default=True,
        help='nan and inf in NDJSON: null, or "NaN", "Infinity".',
    ),
    click.option("--delimiter", metavar="CHAR", help="What separates fields in CSV; \\t for a tab."),
    click.option(
        "--decimal-comma", is_flag=True, help="Numbers in cells are written 1.234,56; so are results in CSV and TSV."
    ),
    click.option(
        "--header", metavar="NAMES", help="The data have no header: these are the names, with commas between."
    ),
    click.option(
        "--encoding", metavar="NAME", help="Of the data, such as latin-1; results are UTF-8.  [default: utf-8]"
    ),
    click.option(
        "--chunk-rows",
        type=click.IntRange(min=1),
        metavar="N",
        help="Rows worked on at a time; same bits for any.",
    ),
    click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1, _MOST_JOBS),
        metavar="N",
        help="Workers.  [default: all cores, at most 8]",
    ),
    click.option(
        "--engine",
        type=click.Choice(["local", "dask"]),
        help="The cores of this machine, or a Dask cluster: on this machine with -j workers, or that of --scheduler.  "
        "[default: local]",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786."),
    click.option(
        "-n",
        "--dry-run",
        is_flag=True,
        help="Say which columns bind which names and what is written, and stop.",
    ),
    click.option("--progress", is_flag=True, help="Report progress also when stderr is no terminal."),
    click.option("--summary", metavar="FILE", help="Counts, causes and seconds as JSON."),
)


def _flags(function: options.F) -> options.F:
    """Options in the order of the help."""
    for decorator in reversed(_OPTIONS):
        function = decorator(function)
    return function


@click.command("batch", cls=options.Command)
@click.argument("words", metavar="MODEL [DATA | NAME=VALUE]...", nargs=-1)
@click.option(
    "-e",
    "--expr",
    "expressions",
    multiple=True,
    metavar="TEXT",
    help="A model of its own, or appended to a MODEL that ends in .expr; repeatable, joined by newlines.",
)
@options.choice
@_flags
@options.talk
@click.pass_context
def command(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    expressions: tuple[str, ...],
    of: tuple[str, ...],
    wrt: tuple[str, ...],
    retain: tuple[str, ...],
    retain_all: bool,
    no_retain: tuple[str, ...],
    no_grad: tuple[str, ...],
    as_json: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
    color: str,
    **rest: Any,
) -> int:
    """Put the value and every gradient beside each row of a table.

    Columns give names of the model their values, row by row. DATA are CSV, TSV, NDJSON or Parquet files, plain, gzip or
    zstd; `-` is standard input; several are one stream. Cells pass through as they are.

    \b
    gradcli batch model.expr rows.csv -o out.csv
    gradcli batch -e 'a*exp(-b*t)' a=2 b=0.1 times.csv --wrt a,b
    cat rows.ndjson | gradcli batch model.expr - | jq .o
    """
    out_format = rest.pop("out_format") or ("ndjson" if as_json else None)
    flags = Flags(**rest, out_format=out_format, as_json=as_json)
    console = Console(quiet, verbose, strict, color)
    models, data, bindings = _sorted(words, bool(expressions), ctx)
    gc.freeze()  # what is loaded stays; a long run collects the rest
    gc.enable()
    request = options.gather(ctx, models, expressions, console)
    if console.status:
        return console.status
    if len(request.sources) != 1:
        raise FileError.of("batch runs one model", help="name one file; -e adds to it")
    selection = Selection(of, wrt, retain, retain_all, no_retain, no_grad)
    return Job(console, flags, selection).run(*request.sources[0], data, bindings)


def _sorted(words: Sequence[str], expressions: bool, ctx: click.Context) -> tuple[list[str], list[str], dict[str, str]]:
    """Models, data files and values. Without -e the first word is the model; with it, what ends in .expr."""
    bindings, paths = {}, []
    for word in words:
        found = inputs.binding(word)
        if found is not None:
            bindings[found[0]] = found[1]
        else:
            paths.append(word)
    models = [p for p in paths if p.endswith(".expr")] if expressions else paths[:1]
    data = [p for p in paths if p not in models] if expressions else paths[1:]
    if not models and not expressions:
        raise click.UsageError("no model\nhelp: `gradcli batch MODEL DATA...`; an expression is given with -e", ctx)
    if not data:
        raise click.UsageError("no data\nhelp: name a file, or `-` for standard input", ctx)
    if not expressions and not models[0].endswith(".expr") and (late := [p for p in data if p.endswith(".expr")]):
        raise click.UsageError(f"`{models[0]}` is no model\nhelp: the model comes first: `{late[0]}`", ctx)
    if "-" in models and "-" in data:
        raise click.UsageError("standard input can be read once\nhelp: name `-` once", ctx)
    return models, data, bindings
