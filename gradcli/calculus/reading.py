"""The sweep of `adjoint` once more, for formulas that are read: cotangents are added in the order of the text.

`d(x^2*sin(x), x)` is `2*x*sin(x) + x^2*cos(x)`, the product rule from left to right, where the engine adds in the order
of its sweep. The numbers are those of `adjoint`, but for the rounding of sums; `gradcli.readback` compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from gradcli.calculus.adjoint import depends, pull, shaped_as
from gradcli.cotangent import Cotangent
from gradcli.graph import Graph


def adjoints(graph: Graph, output: int, wanted: Iterable[int]) -> dict[int, int]:
    """The adjoint of each wanted node, as `adjoint.adjoints`, which has to accept the question first."""
    wanted = set(wanted)
    per_row = bool(graph.columns[output])
    active = depends(graph, wanted, output)
    parts: dict[int, list[tuple[int, Cotangent]]] = {output: [(0, Cotangent.seed(graph))]} if active[output] else {}
    found: dict[int, int] = {}
    columns, place = graph.columns, graph.place
    for node in range(output, min(wanted, default=output) - 1, -1):
        flowing = parts.pop(node, None)
        if flowing is None:
            continue
        graph.place = (graph.starts[node], graph.ends[node])
        flowing.sort(key=itemgetter(0))
        g = Cotangent.total([part for _, part in flowing])
        if node in wanted:
            found[node] = shaped_as(graph, g.node(), node if columns[node] else output)
        arguments = graph.arguments(node)
        if not any(active[a] for a in arguments):
            continue
        for a, part in zip(arguments, pull(graph, node, g, arguments), strict=True):
            if part is not None and active[a]:
                summed = columns[node] and not columns[a] and not per_row
                parts.setdefault(a, []).append((graph.starts[node], part.gather(node) if summed else part))
    graph.place = place
    return found
