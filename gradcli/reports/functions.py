"""The table as people read it: `gradcli functions` and the generated page of the docs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradcli.calculus.adjoint import adjoints
from gradcli.calculus.specialise import build
from gradcli.primitives import OVER_ROWS, Interval, Primitive, callable_rows, new_graph
from gradcli.reports.formula import formula


@dataclass(frozen=True)
class Description:
    name: str
    signature: str
    aliases: tuple[str, ...]
    arguments: tuple[str, ...]
    domain: tuple[Interval, ...]
    doc: str
    derivatives: dict[str, str]
    over_rows: bool


def describe() -> Iterator[Description]:
    """Every row a model can call, in the order of the table, with its derivatives as formulas."""
    for name, primitive in callable_rows().items():
        if name == primitive.name:
            arguments = tuple(a.rstrip("*") for a in primitive.arguments)
            over = bool(primitive.reduction) or name in OVER_ROWS
            yield Description(
                name,
                primitive.signature,
                primitive.aliases,
                arguments,
                primitive.domain,
                primitive.doc,
                derivatives(primitive),
                over,
            )


def derivatives(primitive: Primitive) -> dict[str, str]:
    """The rule of a row, written out: by each argument that carries a gradient."""
    graph = new_graph()
    names = [a.rstrip("*") for a in primitive.arguments]
    leaves = [graph.leaf(n, column=bool(primitive.reduction)) for n in names]
    y = build(graph, primitive.name, leaves)
    if graph.columns[y] and primitive.reduction:
        return {}
    found = adjoints(graph, y, leaves)
    return {n: formula(graph, found[leaf]) for n, leaf in zip(names, leaves, strict=True) if leaf in found}
