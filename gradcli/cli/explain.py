"""`gradcli explain`: leaf, requires_grad, retained, gradient, and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gradcli.cli import inputs, options
from gradcli.cli.output import Console, json_line, json_number, number, table, terminal
from gradcli.cli.selection import Selection, matching
from gradcli.errors import GradcliError, GradientError
from gradcli.source import visible

if TYPE_CHECKING:
    from gradcli.api import Model
    from gradcli.verdicts import Explanation


@click.command("explain", cls=options.Command)
@options.models
@options.choice
@click.option("--name", "names", multiple=True, metavar="NAME", help="Which name; also as a word behind the model.")
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
    names: tuple[str, ...],
    as_json: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
    color: str,
) -> int:
    """Say for each name whether it is a leaf, requires grad and is retained, its gradient, and why it is what it is.

    Words behind the model that are no files are names. A value that is missing is no error here.

    \b
    gradcli explain samples/neuron.expr n
    """
    console = Console(quiet, verbose, strict, color)
    paths, asked = sort_words(words, bool(expressions))
    request = options.gather(ctx, paths, expressions, console)
    selection = Selection(of, wrt, retain, retain_all, no_retain, no_grad)
    titled = len(request.sources) > 1 and not as_json
    for path, model in options.read_models(request, console):
        lines = []
        try:
            console.tell(*model.notes)
            wanted = matching(model, options.split_names((*asked, *names)))
            kept = kept_by(selection, model, console)
            for output in selection.outputs(model):
                from gradcli.explain import explain

                found = explain(model, wanted, output, {}, selection.by(model), kept, selection.off(model))
                if as_json:
                    lines += [json_line(record(path, output, item)) for item in found]
                else:
                    lines += table(map(row, found), terminal(sys.stdout))
        except GradcliError as fault:
            console.fail(fault)
            continue
        for line in [f"# {visible(path)}", *lines] if titled else lines:
            console.data(line)
    return console.status


def kept_by(selection: Selection, model: Model, console: Console) -> list[str] | None:
    """What is retained; a `retain` that fails is worth a warning here, and the rest is explained."""
    try:
        return selection.retained(model, console)
    except GradientError as fault:
        console.tell(*[d._replace(severity="warning") for d in fault.diagnostics])
        return None


def sort_words(words: tuple[str, ...], expressions: bool) -> tuple[list[str], list[str]]:
    """Models and bindings; and the words behind the first model that are names."""
    paths: list[str] = []
    names: list[str] = []
    modelled = expressions
    for word in words:
        if inputs.binding(word) or word == "-" or inputs.exists(word) or not modelled or word.endswith(".expr"):
            paths.append(word)
            modelled = modelled or not inputs.binding(word)
        else:
            names.append(word)
    return paths, names


def row(item: Explanation) -> tuple[str, ...]:
    """One name for people: the line is in the sentence, or behind it."""
    line = "" if item.line is None or f"line {item.line}" in item.reason else f" (line {item.line})"
    return (
        item.name,
        f"is_leaf={number(item.is_leaf)}",
        f"requires_grad={number(item.requires_grad)}",
        f"retains_grad={number(item.retains_grad)}",
        f"grad={number(item.gradient)}",
        f"{item.reason}{line}" + (f"; {item.help}" if item.help else ""),
    )


def record(path: str, output: str, item: Explanation) -> dict[str, object]:
    return {
        "schema": 1,
        "model": path,
        "output": output,
        "name": item.name,
        "is_leaf": item.is_leaf,
        "requires_grad": item.requires_grad,
        "retains_grad": item.retains_grad,
        "grad": json_number(item.gradient),
        "reason": item.reason,
        "help": item.help,
        "line": item.line,
    }
