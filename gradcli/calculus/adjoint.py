"""Reverse mode as a graph transformation (Griewank and Walther, Evaluating Derivatives, chapter 3).

One sweep from an output down to the nodes that are wanted; the birth order of nodes is a topological order, so the
sweep is a loop. The derivative is an ordinary graph: it can be differentiated, drawn, simplified and evaluated again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, TypeAlias

from gradcli.calculus.partials import SAME, Partial, partials, passed
from gradcli.cotangent import Cotangent
from gradcli.graph import Graph, Node, is_simple
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
    sweep = _Sweep(graph, output, set(wanted))
    place = graph.place
    sweep.run()
    graph.place = place
    return sweep.found


class _Sweep:
    """One reverse sweep. What flows into a node is a `Cotangent`; or the number of a node where it is that node with
    nothing around it, the complement `~node` where it is minus that; or a list of these. Most are numbers."""

    def __init__(self, graph: Graph, output: int, wanted: set[int]) -> None:
        self.graph, self.output, self.wanted = graph, output, wanted
        self.per_row = bool(graph.columns[output])
        self.active = depends(graph, wanted, output)
        self.flows: list[_Flow | list[_Flow] | None] = [None] * (output + 1)
        self.flows[output] = _plain(Cotangent.seed(graph)) if self.active[output] else None
        self.found: dict[int, int] = {}
        self.intern = graph.interner()

    def run(self) -> None:
        graph, flows, active, intern = self.graph, self.flows, self.active, self.intern
        ops, first, flat = graph.layout()
        starts, ends, times, pop = graph.starts, graph.ends, self._times, flows.pop
        routes, asked = _Routes(), graph.columns[: self.output + 1]  # columns, and what is wanted, go by the rules
        for node in self.wanted:
            if node <= self.output:
                asked[node] = 1
        for node in range(self.output, min(self.wanted, default=self.output) - 1, -1):
            g = pop()
            if g is None:
                continue
            if isinstance(g, list):
                graph.place = (starts[node], ends[node])
                g = self._total(g)
            if asked[node] or not isinstance(g, int) or (route := routes[ops[node]]) is None:
                self._by_rule(node, g)
                continue
            low = first[node]
            for k, make, factor, negated in route:
                a = flat[low + k]
                if not active[a]:
                    continue
                flow: _Flow = g
                if factor != _NO_FACTOR:
                    start, end, by = starts[node], ends[node], node if factor < 0 else flat[low + factor]
                    flow = times(g, intern(make, (by,), 0, start, end) if make else by, start, end)
                if negated:
                    flow = ~flow if isinstance(flow, int) else -flow
                before = flows[a]
                flows[a] = flow if before is None else _joined(before, flow)

    def _times(self, g: int, factor: int, start: int, end: int) -> _Flow:
        """As `passed`: neither a factor that could be merged nor a quotient that could cancel is left alone."""
        graph = self.graph
        ops, c = graph.ops, g if g >= 0 else ~g
        if ops[factor] != "constant" or (value := graph.number(factor)) is None or not is_simple(value):
            if ops[c] == "constant" and graph.number(c) == 1.0:
                return factor if g >= 0 else ~factor
            if ops[c] != "div":
                c = self.intern("mul", (c, factor), graph.columns[c] | graph.columns[factor], start, end)
                return c if g >= 0 else ~c
        graph.place = (start, end)
        return _plain(_whole(graph, g) * Node(graph, factor))

    def _total(self, parts: list[_Flow]) -> _Flow:
        """As `Cotangent.total`, without a cotangent for each part: different nodes are added or subtracted from the
        left."""
        graph, intern, columns, (start, end) = self.graph, self.intern, self.graph.columns, self.graph.place
        nodes = set(map(_unmasked, parts))
        if len(nodes) < len(parts) or -1 in nodes:
            return _plain(Cotangent.total([_whole(graph, part) for part in parts]))
        total, *rest = parts
        for part in rest:
            if isinstance(total, int) and isinstance(part, int):
                a, b = total if total >= 0 else ~total, part if part >= 0 else ~part
                if a != b:
                    op = "add" if (total >= 0) == (part >= 0) else "sub"
                    node = intern(op, (a, b), columns[a] | columns[b], start, end)
                    total = node if total >= 0 else ~node
                    continue
            total = _plain(_whole(graph, total).plus(_whole(graph, part)))
        return total

    def _by_rule(self, node: int, flow: _Flow) -> None:
        """What flows through a node of any kind."""
        graph, flows, active = self.graph, self.flows, self.active
        columns, column, op, g = graph.columns, graph.columns[node], graph.ops[node], _whole(graph, flow)
        place = graph.place = (graph.starts[node], graph.ends[node])
        if node in self.wanted:
            self.found[node] = shaped_as(graph, g.node(), node if column else self.output)
        arguments = graph.arguments(node)
        mixes = self.per_row and op in _MIXING
        if mixes and any(active[a] for a in arguments) and any(columns[a] for a in arguments):
            raise MixedRows(op, place)
        rules = partials(op, len(arguments)) or _asked(graph, node, g, active)
        for a, part in zip(arguments, rules, strict=True):
            if part is None or not active[a]:
                continue
            if isinstance(part, Cotangent):
                passes = part
            else:
                passes = g if part is SAME else passed(part, g, (node, *arguments))
            if column and not columns[a] and not self.per_row:
                passes = passes.gather(node)
            before, flow = flows[a], _plain(passes)
            flows[a] = flow if before is None else _joined(before, flow)


_Flow: TypeAlias = Cotangent | int
_Route: TypeAlias = tuple[tuple[int, str, int, bool], ...]
_NO_FACTOR = -2


def _joined(before: _Flow | list[_Flow], flow: _Flow) -> list[_Flow]:
    if isinstance(before, list):
        before.append(flow)
        return before
    return [before, flow]


def _plain(flow: Cotangent) -> _Flow:
    """The number of a node where the flow is no more than that or its opposite."""
    if flow.mask is not None or flow.shared is not None or flow.index < 0 or abs(flow.scale) != 1.0:
        return flow
    return flow.index if flow.scale > 0 else ~flow.index


def _unmasked(flow: _Flow) -> int:
    """The node of a flow with nothing around it but a factor; -1 where there is more."""
    if isinstance(flow, int):
        return flow if flow >= 0 else ~flow
    return flow.index if flow.mask is None and flow.shared is None else -1


def _whole(graph: Graph, flow: _Flow) -> Cotangent:
    if isinstance(flow, Cotangent):
        return flow
    return Cotangent(graph, flow) if flow >= 0 else Cotangent(graph, ~flow, -1.0)


class _Routes(dict[str, "_Route | None"]):
    """Routes by operation."""

    def __missing__(self, op: str) -> _Route | None:
        primitive = TABLE.get(op)
        if op == "name":
            route = _routed(partials(op, 1))
        else:
            route = None if primitive is None or primitive.variadic else _routed(partials(op, len(primitive.arguments)))
        self[op] = route
        return route


@cache
def _routed(rules: tuple[Partial | None, ...] | None) -> _Route | None:
    """For each argument that carries a gradient its number, the number of what the cotangent is multiplied by (-1 for
    the result) or of what a function is applied to first (or none), and whether it is negated; None where some rule
    does anything else."""
    if rules is None:
        return None
    found = []
    for k, partial in enumerate(rules):
        if partial is None:
            continue
        makes, steps = partial
        negated = steps[-1:] == (("neg", 0),)
        factors = steps[:-1] if negated else steps
        if not factors and not makes:
            found.append((k, "", _NO_FACTOR, negated))
        elif len(makes) <= 1 and factors == (("mul", by := factors[0][1]),) and _is_one(makes, by, len(rules)):
            make, (by,) = makes[0] if makes else ("", (by,))
            found.append((k, make, by - 1, negated))
        else:
            return None
    return tuple(found)


def _is_one(makes: tuple[tuple[str, tuple[Any, ...]], ...], by: int, count: int) -> bool:
    """Whether the factor is an operand, or the one function of one operand that is made."""
    return by <= count if not makes else makes[0][0] != "constant" and len(makes[0][1]) == 1 and by > count


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
