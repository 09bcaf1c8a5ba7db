"""Reverse mode as a graph transformation (Griewank and Walther, Evaluating Derivatives, chapter 3).

One sweep from an output down to the nodes that are wanted; the birth order of nodes is a topological order, so the
sweep is a loop. The derivative is an ordinary graph: it can be differentiated, drawn, simplified and evaluated again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from gradcli.calculus.partials import SAME, partials, passed
from gradcli.cotangent import Cotangent
from gradcli.graph import Graph, Node
from gradcli.primitives import TABLE, new_graph


class MixedRows(Exception):
    """A gradient row by row would pass through the reduction `op`, written at `place` (start and end offsets)."""

    def __init__(self, op: str, place: tuple[int, int]) -> None:
        self.op = op
        self.place = place
        super().__init__(f"{op} mixes rows")


@cache
def carries(op: str, count: int) -> tuple[bool, ...]:
    """Which of the arguments of a row carry a gradient: conditions and orders do not."""
    if op in ("leaf", "constant"):
        return ()
    if op in ("name", "d"):
        return (True, True)[:count]
    primitive = TABLE[op]
    if primitive.rule is None:
        return (True,) * count
    graph = new_graph()
    arguments = [graph.handle(graph.leaf(str(i), column=True)) for i in range(count)]
    y = graph.handle(graph.leaf("y", column=primitive.reduction != "scalar"))
    results = primitive.rule(Cotangent(graph, graph.leaf("g")), y, *arguments)
    return tuple(r is not None for r in results)


def depends(graph: Graph, wanted: Iterable[int], top: int) -> bytearray:
    """A mark for every node up to `top` that a gradient by one of the wanted nodes passes through."""
    wanted = list(wanted)
    settled = graph.settled(wanted, top, down=False, closed=_closed(graph))
    if settled is not None:
        return settled
    marks = bytearray(len(graph))
    for node in wanted:
        marks[node] = 1
    ops, first, flat = graph.layout()
    for node in range(min(wanted, default=top), top + 1):
        if not marks[node]:
            low, high = first[node], first[node + 1]
            for i in range(low, high):
                if marks[flat[i]] and carries(ops[node], high - low)[i - low]:
                    marks[node] = 1
                    break
    return marks


def receives(graph: Graph, output: int) -> bytearray:
    """A mark for every node that gets a gradient from the output."""
    settled = graph.settled([output], output, down=True, closed=_closed(graph))
    if settled is not None:
        return settled
    marks = bytearray(len(graph))
    marks[output] = 1
    ops, first, flat = graph.layout()
    for node in range(output, -1, -1):
        if marks[node]:
            low, high = first[node], first[node + 1]
            for i in range(low, high):
                if not marks[flat[i]] and carries(ops[node], high - low)[i - low]:
                    marks[flat[i]] = 1
    return marks


def _closed(graph: Graph) -> list[int]:
    """The places, among the operands of all nodes, that carry no gradient."""
    ops, first, _ = graph.layout()
    stops = {op for op in set(ops) if not all(carries(op, len(TABLE[op].arguments) if op in TABLE else 2))}
    if not stops:
        return []
    found = []
    for node, op in enumerate(ops):
        if op in stops:
            low, high = first[node], first[node + 1]
            found += [low + i for i, carry in enumerate(carries(op, high - low)) if not carry]
    return found


def adjoints(graph: Graph, output: int, wanted: Iterable[int]) -> dict[int, int]:
    """The adjoint of each wanted node, as nodes appended to the graph; a node without a path is left out.

    A scalar output: the usual gradient, in which a scalar used in many rows gets the sum over them. A column output:
    each row is its own function and nothing is summed.

    Raises MixedRows where a column output depends on a wanted node through a reduction.
    """
    wanted = set(wanted)
    per_row = bool(graph.columns[output])
    active = depends(graph, wanted, output)
    flows: list[Cotangent | list[Cotangent] | None] = [None] * (output + 1)
    flows[output] = Cotangent.seed(graph) if active[output] else None
    found: dict[int, int] = {}
    ops, first, flat = graph.layout()
    columns, starts, ends, place = graph.columns, graph.starts, graph.ends, graph.place
    for node in range(output, min(wanted, default=output) - 1, -1):
        g = flows.pop()
        if g is None:
            continue
        column, op, low, high = columns[node], ops[node], first[node], first[node + 1]
        graph.place = (starts[node], ends[node])
        if isinstance(g, list):
            g = Cotangent.total(g)
        if node in wanted:
            found[node] = shaped_as(graph, g.node(), node if column else output)
        arguments = flat[low:high]
        if per_row and op in _MIXING and any(active[a] for a in arguments) and any(columns[a] for a in arguments):
            raise MixedRows(op, (starts[node], ends[node]))
        for a, part in zip(arguments, partials(op, high - low) or _asked(graph, node, g, active), strict=True):
            if part is None or not active[a]:
                continue
            flow = g if part is SAME else part
            if not isinstance(flow, Cotangent):
                flow = passed(flow, g, (node, *arguments))
            if column and not columns[a] and not per_row:
                flow = flow.gather(node)
            before = flows[a]
            if before is None:
                flows[a] = flow
            elif isinstance(before, list):
                before.append(flow)
            else:
                flows[a] = [before, flow]
    graph.place = place
    return found


def _asked(graph: Graph, node: int, g: Cotangent, active: bytearray) -> Iterable[Cotangent | None]:
    """What the rule of a node makes, where an argument is active."""
    arguments = graph.arguments(node)
    return pull(graph, node, g, arguments) if any(active[a] for a in arguments) else (None,) * len(arguments)


_MIXING = frozenset(name for name, primitive in TABLE.items() if primitive.reduction) - {"rows"}


def pull(graph: Graph, node: int, g: Cotangent, arguments: Iterable[int]) -> Iterable[Cotangent | None]:
    """The rule of one node applied to its cotangent."""
    op = graph.ops[node]
    if op == "name":
        return (g,)
    rule = TABLE[op].rule
    assert rule is not None, f"{op} should have been expanded"
    return rule(g, Node(graph, node), *[Node(graph, a) for a in arguments])


def shaped_as(graph: Graph, node: int, like: int) -> int:
    """A gradient in the shape of its variable or its output: a constant slope of a column is a column."""
    return graph.add("spread", node, like) if graph.columns[like] and not graph.columns[node] else node


def derivative(graph: Graph, output: int, by: int) -> int:
    """`d(output, by)` as a node: 0 where there is no path, nan where the output is nan."""
    found = adjoints(graph, output, (by,)).get(by)
    if found is None:
        return shaped_as(graph, graph.constant(0.0), by if graph.columns[by] else output)
    return graph.add("_taint", found, output)
