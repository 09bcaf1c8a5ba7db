"""`gradcli functions`: the table, as text or JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gradcli.cli import options
from gradcli.cli.output import Console, json_line, json_number, table, terminal
from gradcli.errors import Diagnostic, did_you_mean, shown

if TYPE_CHECKING:
    from gradcli.reports.functions import Description


@click.command("functions", cls=options.Command)
@click.argument("search", required=False, default="")
@options.talk
def command(search: str, as_json: bool, strict: bool, quiet: bool, verbose: bool, color: str) -> int:
    """List the functions: arguments, aliases, domain, derivative, convention. SEARCH narrows the list.

    The derivative and the domain of each are listed with SEARCH or -v.

    \b
    gradcli functions bessel
    """
    from gradcli.reports.functions import describe

    console = Console(quiet, verbose, strict, color)
    found = [d for d in describe() if search.casefold() in " ".join((d.name, *d.aliases, d.doc)).casefold()]
    if as_json:
        lines = [json_line(record(d)) for d in found]
    else:
        lines = table([row(d, verbose or bool(search)) for d in found], terminal(sys.stdout))
    for line in lines:
        console.data(line)
    if not found:
        from gradcli.primitives import callable_rows

        hint = did_you_mean(search, callable_rows()) or "`gradcli functions` lists them all"
        console.tell(Diagnostic(f"no function matches {shown(search)}", None, hint, "warning"))
    return console.status


def row(item: Description, rule: bool) -> tuple[str, ...]:
    """Signature, doc and aliases; with the rule also derivatives and domain."""
    doc = item.doc + (f" Also {', '.join(item.aliases)}." if item.aliases else "")
    if not rule:
        return item.signature, doc
    slopes = "; ".join(f"d/d{a} = {text}" for a, text in item.derivatives.items())
    return item.signature, slopes or "-", interval_text(item), doc


def interval_text(item: Description) -> str:
    """`-1 <= x <= 1`, as far as an argument is bounded."""
    found = []
    for argument, (low, high) in zip(item.arguments, item.domain, strict=False):
        lower = "" if low == float("-inf") else f"{low:g} <= "
        upper = "" if high == float("inf") else f" <= {high:g}"
        if lower or upper:
            found.append(f"{lower}{argument}{upper}")
    return ", ".join(found) or "-"


def record(item: Description) -> dict[str, Any]:
    return {
        "schema": 1,
        "name": item.name,
        "aliases": list(item.aliases),
        "arguments": list(item.arguments),
        "doc": item.doc,
        "domain": [[json_number(low), json_number(high)] for low, high in item.domain],
        "derivatives": item.derivatives,
        "over_rows": item.over_rows,
    }
