"""`gradcli diff`: the derivative as a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gradcli.cli import options
from gradcli.cli.output import Console, json_line
from gradcli.cli.selection import Selection
from gradcli.errors import BindingError, GradcliError
from gradcli.reports import FORMULAS
from gradcli.source import visible

if TYPE_CHECKING:
    from gradcli.api import Model
    from gradcli.reports.sheet import Sheet

_HIGHEST = 12


@click.command("diff", cls=options.Command)
@options.models
@click.option("--of", multiple=True, metavar="NAME", help="Which output; repeatable, answered in that order.")
@click.option(
    "--wrt",
    multiple=True,
    metavar="NAMES",
    help="By these names only, leaves or intermediates; comma-separated or repeated.",
)
@click.option(
    "--order",
    type=click.IntRange(0, _HIGHEST),
    metavar="N",
    help="Differentiate N times, by every choice of the names; 0 prints the output itself.  [default: 1]",
)
@click.option("--no-grad", multiple=True, metavar="NAME", help="Leave out a leaf.")
@click.option(
    "--to",
    "notation",
    type=click.Choice([*FORMULAS, "json"]),
    default="text",
    show_default=True,
    help="Which notation.",
)
@options.talk
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    expressions: tuple[str, ...],
    of: tuple[str, ...],
    wrt: tuple[str, ...],
    order: int | None,
    no_grad: tuple[str, ...],
    notation: str,
    as_json: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
    color: str,
) -> int:
    """Print the derivative of each output by each leaf, as a formula.

    The formula is a model again: it can be piped into any other command. One derivative is a bare expression, several
    are definitions `do_dx = ...`. What would be long is cut into definitions. An output that is itself a derivative
    `d(f, x)` is printed as it is, unless --wrt or --order ask for more.

    \b
    gradcli diff -e 'x^2*sin(x)'
    gradcli diff samples/neuron.expr --wrt w1,n
    gradcli diff -e 'x^2*sin(x*y)' --order 2 --to latex
    gradcli diff samples/neuron.expr -e 'd(o, x1, w1)'
    """
    console = Console(quiet, verbose, strict, color)
    request = options.gather(ctx, words, expressions, console)
    selection = Selection(of, wrt, (), False, (), no_grad)
    _print(console, request, selection, order, "json" if as_json else notation)
    return console.status


def _print(console: Console, request: options.Request, selection: Selection, order: int | None, notation: str) -> None:
    titled = len(request.sources) > 1 and notation != "json"
    for path, model in options.read_models(request, console):
        try:
            text = _answer(path, model, selection, order, notation)
        except GradcliError as fault:
            console.fail(fault)
            continue
        if titled:
            console.data(FORMULAS[notation].comment.format(visible(path)))
        console.data(text)


def _answer(path: str, model: Model, selection: Selection, order: int | None, notation: str) -> str:
    """What one model prints, complete before the first line is written."""
    from gradcli.derivation import derive, sheet, written_derivatives

    outputs = selection.outputs(model)
    if not outputs:
        raise BindingError.of(f"{model.source.name} defines nothing that can be an output",
                              help="end it with a definition or an expression")  # fmt: skip
    wrt = selection.by(model)
    if order is None and wrt is None and (asked := written_derivatives(model, outputs)):
        derivation = asked
    else:
        derivation = derive(model, outputs, wrt, 1 if order is None else order, selection.off(model))
    if notation == "json":
        return _json(path, sheet(derivation))
    report = FORMULAS[notation]
    return report.load()(sheet(derivation, report.with_values))


def _json(path: str, page: Sheet) -> str:
    text, latex = FORMULAS["text"].load(), FORMULAS["latex"].load()
    lines = []
    for one in page.each():
        line = one.results[0]
        record = {"schema": 1, "model": path, "output": line.output, "by": list(line.by), "order": len(line.by)}
        lines.append(json_line({**record, "text": text(one), "latex": latex(one)}))
    return "\n".join(lines)
