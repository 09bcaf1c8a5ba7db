"""Rules that only multiply, followed once for all nodes of an operation.

The rule of `sin` is `g * f.cos(x)` whatever x is: make the node of the cosine, multiply by it. So is that of most rows.
A rule that looks at a number or a shape, or that masks, is called for each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from gradcli.cotangent import Cotangent
from gradcli.formulas import Rule
from gradcli.graph import Graph, Node
from gradcli.primitives import TABLE, new_graph


class Partial(NamedTuple):
    """What a rule does to the cotangent of one argument.

    First the nodes it makes: `(operation, operands)`, or `("constant", (value, text))`. Then the steps `(mul, div or
    neg, operand)` of the cotangent. Operands are numbered: the node itself, its arguments, what is made.
    """

    makes: tuple[tuple[str, tuple[Any, ...]], ...]
    steps: tuple[tuple[str, int], ...]


SAME = Partial((), ())


class _Looks(Exception):
    """The rule depends on what its operands are."""


class _Operand(Node):
    """An operand of which nothing is known."""

    __slots__ = ()

    def value(self) -> float | None:
        raise _Looks

    simple = value


class _Flow:
    """A cotangent of which only the steps are known; whatever else a rule may ask of one, it has not."""

    def __init__(self, graph: Graph, steps: tuple[tuple[str, int], ...] = ()) -> None:
        self._graph = graph
        self.steps = steps

    def _then(self, step: str, other: Node | float) -> _Flow:
        return _Flow(self._graph, (*self.steps, (step, Node(self._graph, 0).lift(other))))

    def __mul__(self, other: Node | float) -> _Flow:
        return self._then("mul", other)

    def __truediv__(self, other: Node | float) -> _Flow:
        return self._then("div", other)

    def __neg__(self) -> _Flow:
        return self._then("neg", Node(self._graph, 0))


def partials(op: str, count: int) -> tuple[Partial | None, ...] | None:
    """For each argument of a row what its rule does, None where no gradient is carried; or None where the rule has to
    be asked for each node."""
    primitive = TABLE.get(op)
    if op == "name":
        return (SAME,)
    if primitive is None or primitive.rule is None or primitive.reduction or op == "spread":
        return None
    return _followed(primitive.rule, count)


@cache
def _followed(rule: Rule, count: int) -> tuple[Partial | None, ...] | None:
    graph = new_graph()
    y, *operands = [_Operand(graph, graph.leaf(str(i))) for i in range(count + 1)]
    try:
        results = rule(cast("Cotangent", _Flow(graph)), y, *operands)
    except (_Looks, AttributeError):
        return None
    if not graph.special.isdisjoint(graph.ops):
        return None
    return tuple(_partial(graph, cast("_Flow | None", flow), count + 1) for flow in results)


def _partial(graph: Graph, flow: _Flow | None, given: int) -> Partial | None:
    if flow is None or not flow.steps:
        return None if flow is None else SAME
    marks = graph.reachable([node for _, node in flow.steps])
    at = {node: node for node in range(given)}
    makes: list[tuple[str, tuple[Any, ...]]] = []
    for node in range(given, len(graph)):
        if marks[node]:
            at[node] = given + len(makes)
            number = graph.numbers.get(node)
            makes.append((graph.ops[node], number or tuple(at[a] for a in graph.arguments(node))))
    return Partial(tuple(makes), tuple((step, at[node]) for step, node in flow.steps))


def passed(partial: Partial, g: Cotangent, operands: Sequence[int]) -> Cotangent:
    """The cotangent of an argument, from that of the node: what the rule would have made."""
    graph = g.graph
    makes, steps = partial
    if makes:
        operands = [*operands]
        for op, made in makes:
            operands.append(graph.constant(*made) if op == "constant" else graph.add(op, *[operands[i] for i in made]))
    for step, i in steps:
        if step == "mul":
            factor, c = operands[i], g.index
            if c < 0 or c in graph.numbers or graph.ops[c] == "div" or graph.simple(factor) is not None:
                g = g * Node(graph, factor)
            else:  # neither a number that could be merged nor a quotient that could cancel
                column = graph.columns[c] | graph.columns[factor]
                g = g.times(graph.intern("mul", (c, factor), column))
        else:
            g = -g if step == "neg" else g / Node(graph, operands[i])
    return g
