"""`gradcli grad`: value and gradients at a point."""

from __future__ import annotations

import click

from gradcli.cli import data as rows_of
from gradcli.cli import options
from gradcli.cli.output import Console
from gradcli.cli.selection import Selection
from gradcli.errors import GradcliError
from gradcli.source import visible

_ITEMS = "Print bare values, one a line: `o`, `x1.grad`, `n.is_leaf`, `n.requires_grad`, `n.retains_grad`."


@click.command(
    "grad", cls=options.Command, epilog='In cmd.exe quote with "...": an unquoted ^ gets lost; ** works as well.'
)
@options.models
@options.choice
@rows_of.flags
@click.option("--print", "items", multiple=True, metavar="ITEM", help=_ITEMS)
@click.option("--hessian", is_flag=True, help="Second derivatives by every two names too.")
@click.option("--digits", type=click.IntRange(1, 10_000), metavar="N", help="To N digits, on the decimals as written.")
@click.option("--materialize-grads", is_flag=True, help="A gradient that is none becomes 0.")
@click.option("--ofmt", metavar="FORMAT", callback=options.check_format, help="How numbers are printed, such as %.6g.")
@options.talk
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    expressions: tuple[str, ...],
    of: tuple[str, ...],
    wrt: tuple[str, ...],
    retain: tuple[str, ...],
    retain_all: bool,
    no_retain: tuple[str, ...],
    no_grad: tuple[str, ...],
    data: tuple[str, ...],
    rename: tuple[str, ...],
    in_format: str | None,
    data_missing: str,
    items: tuple[str, ...],
    hessian: bool,
    digits: int | None,
    materialize_grads: bool,
    ofmt: str | None,
    as_json: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
    color: str,
) -> int:
    """Print the value and the gradients of each output at a point.

    The point is what the model's leaves say, unless a NAME=VALUE says otherwise. Each line is a name, its value and the
    gradient of the output by it; `none` where there is none (`gradcli explain` says why).

    \b
    gradcli grad -e 'tanh(x*w + b)' x=2 w=-3 b=6.88
    gradcli grad samples/neuron.expr --retain n
    gradcli grad samples/neuron.expr --print x1.grad w1=-2.5
    """
    if items and as_json:
        raise click.UsageError("--print and --json exclude each other\nhelp: --json has every value and gradient", ctx)
    if digits and (hessian or ofmt):
        raise click.UsageError("--digits goes with neither --hessian nor --ofmt\nhelp: leave one of them out", ctx)
    console = Console(quiet, verbose, strict, color)
    request = options.gather(ctx, words, expressions, console)
    selection = Selection(of, wrt, retain, retain_all, no_retain, no_grad)
    if data:
        if items or hessian or digits or materialize_grads:
            raise click.UsageError(
                "--data goes with --of, --wrt, --retain, --json and --ofmt only\nhelp: leave the other flags out", ctx
            )
        return rows_of.run(
            console, request, selection, rows_of.Data(data, rename, in_format, data_missing), ofmt, as_json
        )
    rows_of.refuse_without_data(ctx)
    found = options.read_models(request, console)
    from gradcli.cli.answers import Questions  # numpy, only once there is something to answer

    questions = Questions(console, selection, items, hessian, materialize_grads, ofmt, as_json, digits)
    titled = len(request.sources) > 1 and not as_json and not items
    for path, model in found:
        try:
            blocks = questions.answer(path, model)
        except GradcliError as fault:
            console.fail(fault)
            continue
        if titled:
            console.data(f"# {visible(path)}")
        for block in blocks:
            console.data(block)
    return console.status
