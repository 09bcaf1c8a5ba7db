"""Simplification for people: a graph becomes another that a person would accept. Used for printing only.

Products and sums are collected over whole chains, with exact coefficients and merged powers; what the user wrote keeps
its order, what rules made is put in the order in which people write it. Shared nodes stay shared, so nothing swells:
only short sums and products are taken apart where they are used again. No pass recurses.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from gradcli.calculus.rationals import Rational, size, spelled
from gradcli.calculus.rewrites import HALF, call, constant
from gradcli.calculus.specialise import build
from gradcli.calculus.terms import Factors, Part, Terms
from gradcli.graph import Graph
from gradcli.primitives import new_graph

BOLD, SAFE, PLAIN = "bold", "safe", "plain"
_SUM, _PRODUCT = 1, 2
_KINDS = {"add": _SUM, "sub": _SUM, "mul": _PRODUCT, "div": _PRODUCT}
_AS_WRITTEN = frozenset(("add", "sub", "mul", "div", "neg", "pow", "sqrt", "where"))
_HALVES = (2, 4, 8, 16)


@dataclass(frozen=True)
class Tidied:
    """A graph to print, where the roots are in it, and where other nodes went (-1: nowhere)."""

    graph: Graph
    roots: list[int]
    at: array[int]


def tidy(graph: Graph, roots: Iterable[int], level: str = BOLD, written: Collection[int] = (),
         kept: Collection[str] = ()) -> Tidied:  # fmt: skip
    """The roots, simplified.

    `level`: BOLD is what a person expects, SAFE the same number also at special points, PLAIN changes nothing but the
    spelling. `written`: nodes that the user wrote, whose order is left alone. `kept`: the labels of definitions that
    stay names; others are replaced by what they stand for.

    Raises OverflowError where a coefficient leaves the range of floats.
    """
    roots = list(roots)
    reader = _Reader(graph, roots, level, written, kept)
    items = reader.read()
    emitted = _Emitter(reader.terms, [items[r] for r in roots])
    place = emitted.emit()
    at = array("i", (place[i] if i >= 0 else -1 for i in items))
    return Tidied(emitted.graph, [at[r] for r in roots], at)


class _Reader:
    """From nodes to items of the algebra."""

    def __init__(
        self, graph: Graph, roots: list[int], level: str, written: Collection[int], kept: Collection[str]
    ) -> None:
        self.graph, self.roots = graph, roots
        self.terms = Terms(level == BOLD)
        self.plain = level == PLAIN
        self.kept = frozenset(kept)
        self.made = bytearray(b"\1") * len(graph)
        for node in written:
            if node >= 0:
                self.made[node] = 0
        self.needed = graph.reachable(roots)
        self.into = bytearray(len(graph)) if self.plain else self._absorbed()
        self.items = array("i", (-1,)) * len(graph)
        self.like = array("i", (-1,)) * len(graph)

    def _absorbed(self) -> bytearray:
        """Nodes that are only a link in one longer sum or product, and are read with it."""
        graph, ops = self.graph, self.graph.ops
        user, uses = array("i", (-1,)) * len(graph), array("i", (0,)) * len(graph)
        for root in self.roots:
            uses[root] += 2
        for node in range(len(graph)):
            if self.needed[node]:
                for a in graph.arguments(node):
                    uses[a] += 1
                    user[a] = node
        into, kind = bytearray(len(graph)), bytearray(len(graph))
        for node in range(len(graph) - 1, -1, -1):
            outer = user[node]
            single = uses[node] == 1 and self.needed[node]
            sums = single and kind[outer] == _SUM and self.made[node] == self.made[outer]
            sign = ops[node] == "neg"  # belongs to the sum or product around it
            kind[node] = _KINDS.get(ops[node], 0) if not sign else _SUM if sums else _PRODUCT
            into[node] = kind[node] and (sums if kind[node] == _SUM else single and kind[outer] == _PRODUCT)
        return into

    def read(self) -> array[int]:
        graph, items = self.graph, self.items
        for node, op in enumerate(graph.ops):
            if self.needed[node]:
                self.like[node] = self._likeness(node)
                if not self.into[node]:
                    items[node] = self._item(node, op)
        return items

    def _likeness(self, node: int) -> int:
        """A column leaf that a column depends on, or -1."""
        if not self.graph.columns[node]:
            return -1
        return node if self.graph.ops[node] == "leaf" else next((self.like[a] for a in self.graph.arguments(node)
                                                                 if self.like[a] >= 0), -1)  # fmt: skip

    def _item(self, node: int, op: str) -> int:
        graph, t = self.graph, self.terms
        if op == "leaf":
            return t.leaf(graph.labels[node], bool(graph.columns[node]))
        if op == "constant":
            value, text = graph.numbers[node]
            return constant(t, text, value)
        arguments = graph.arguments(node)
        if op == "name":
            inner = self.items[arguments[0]]
            return t.name(inner, graph.labels[node]) if graph.labels[node] in self.kept else inner
        made = bool(self.made[node])
        if self.plain and op in _AS_WRITTEN and any(t.value(self.items[a]) is None for a in arguments):
            return t.apply(op, *(self.items[a] for a in arguments))
        if op in ("add", "sub"):
            return t.total(self._sum(node), made)
        if op in ("mul", "div", "neg"):
            coefficient, parts = self._product(node)
            return t.product(parts, coefficient, made)
        if op == "spread":
            return self.items[arguments[0]]
        if op in ("rows", "gather", "prod_rows"):
            return self._over_rows(op, arguments[0])
        if op == "_others":
            return self._others(arguments[0])
        return call(t, op, tuple(self.items[a] for a in arguments), bool(graph.columns[node]))

    def _sum(self, root: int) -> list[Part]:
        """The terms of a chain of sums, in order."""
        graph = self.graph
        parts: list[Part] = []
        stack: list[tuple[int, int]] = [(root, 1)]
        while stack:
            node, sign = stack.pop()
            if node != root and not self.into[node]:
                parts.append((self.items[node], sign))
                continue
            arguments, op = graph.arguments(node), graph.ops[node]
            if op == "neg":
                stack.append((arguments[0], -sign))
            else:
                stack.append((arguments[1], -sign if op == "sub" else sign))
                stack.append((arguments[0], sign))
        return parts

    def _product(self, root: int) -> tuple[int, list[Part]]:
        """The sign and the factors of a chain of products and quotients, in order."""
        graph, sign = self.graph, 1
        parts: list[Part] = []
        stack: list[tuple[int, int]] = [(root, 1)]
        while stack:
            node, exponent = stack.pop()
            if node != root and not self.into[node]:
                parts.append((self.items[node], exponent))
                continue
            arguments, op = graph.arguments(node), graph.ops[node]
            if op == "neg":
                sign = -sign
            else:
                stack.append((arguments[1], -exponent if op == "div" else exponent))
            stack.append((arguments[0], exponent))
        return sign, parts

    def _over_rows(self, op: str, argument: int) -> int:
        """The number of rows, a sum or a product over them; what is the same in every row is taken out."""
        t, like = self.terms, self.like[argument]
        inner = self.items[argument]
        if like < 0:
            return t.one if op == "rows" else inner
        rows = t.apply("rows", t.leaf(self.graph.labels[like], True), column=False)
        if op == "rows":
            return rows
        if op == "prod_rows":
            return t.apply("prod_rows", inner, column=False) if t.columns[inner] else t.apply("pow", inner, rows)
        coefficient, factors = t.split(inner)
        inside = [f for f in factors if t.columns[f[0]]]
        outside = [f for f in factors if not t.columns[f[0]]]
        total = t.apply("gather", t.product(inside), column=False) if inside else rows
        return t.product([*outside, (total, 1)], coefficient, made=bool(outside))

    def _others(self, argument: int) -> int:
        """For each row the product of the others, in operations that the language has."""
        t, x = self.terms, self.items[argument]
        product, rows = self._over_rows("prod_rows", argument), self._over_rows("rows", argument)
        if not t.columns[x]:
            return t.apply("pow", x, t.total([(rows, 1), (t.one, -1)]))
        zero = t.apply("eq", x, t.zero)
        zeros = t.apply("gather", zero, column=False)
        rest = t.apply("prod_rows", t.apply("where", zero, t.one, x), column=False)
        single = t.apply("where", t.apply("eq", zeros, t.one), rest, t.zero)
        none = t.apply("where", t.apply("eq", zeros, t.zero), t.product([(product, 1), (x, -1)]), t.zero)
        return t.apply("where", zero, single, none)


class _Emitter:
    """From items of the algebra to nodes in reading order."""

    def __init__(self, terms: Terms, roots: list[int]) -> None:
        self.terms, self.roots = terms, roots
        self.graph = Graph(shaped=False)
        self.place = array("i", (-1,)) * len(terms.items)

    def emit(self) -> array[int]:
        items, place = self.terms.items, self.place
        needed = bytearray(len(items))
        for root in self.roots:
            needed[root] = 1
        for i in range(len(items) - 1, -1, -1):
            if needed[i]:
                for part in _parts(items[i]):
                    needed[part] = 1
        for i, item in enumerate(items):
            if needed[i]:
                place[i] = self._node(item)
        return place

    def _node(self, item: tuple[Any, ...]) -> int:
        graph = self.graph
        match item:
            case ("leaf", str(label)):
                return graph.leaf(label)
            case ("text", str(text), float(value)):
                return graph.constant(value, text)
            case ("name", str(label), int(inner)):
                return graph.name(self.place[inner], label)
            case ("call", str(op), tuple(arguments)):
                return graph.intern(op, tuple(self.place[a] for a in arguments), 0)
            case ("sum", tuple(terms)):
                return self._sum(terms)
        _, coefficient, factors = item
        return self._product(coefficient, factors)

    def number(self, value: Rational) -> int:
        text = spelled(value)
        if text is not None:
            return self.graph.constant(float(value), text)
        if max(size(value).numerator, value.denominator) >= 10**9:
            return self.graph.constant(float(value), repr(float(value)))
        return self.graph.intern("div", (self.number(value.numerator), self.number(value.denominator)), 0)

    def _sum(self, terms: tuple[tuple[Rational, int], ...]) -> int:
        node = self._scaled(*terms[0])
        for coefficient, monic in terms[1:]:
            op = "sub" if coefficient < 0 else "add"
            node = self.graph.intern(op, (node, self._scaled(size(coefficient), monic)), 0)
        return node

    def _scaled(self, coefficient: Rational, monic: int) -> int:
        if coefficient == 1:
            return self.place[monic]
        own, factors = self.terms.split(monic)
        return self._product(coefficient * own, factors)

    def _product(self, coefficient: Rational, factors: Factors) -> int:
        """`numerator/denominator`; a half is a division by 2, other decimals are a factor, 2/3 is both."""
        if not factors:
            return self.number(coefficient)
        above = [self._power(b, e) for b, e in factors if e > 0]
        below = [self._power(b, -e) for b, e in factors if e < 0]
        over, under = self._split(size(coefficient), bool(below and not above))
        if over != 1 or not above:
            above.insert(0, self.number(over))
        if under != 1:
            below.insert(0, self.number(under))
        node = self._chain(above)
        if below:
            node = self.graph.intern("div", (node, self._chain(below)), 0)
        return self._negative(node, above, below) if coefficient < 0 else node

    def _split(self, factor: Rational, below: bool) -> tuple[Rational, int]:
        """What of a positive factor stands above and below the line; `below`: nothing else stands above."""
        halves = factor.denominator in _HALVES and (factor.numerator == 1 or below)
        if (halves or spelled(factor) is None) and max(factor.numerator, factor.denominator) < 10**9:
            return factor.numerator, factor.denominator
        return factor, 1

    def _negative(self, node: int, above: list[int], below: list[int]) -> int:
        """The sign goes to a leading number where there is one."""
        number = self.graph.numbers.get(above[0])
        if number is None:
            return self.graph.intern("neg", (node,), 0)
        value, text = number
        if text in ("pi", "e", "tau", "inf", "nan"):
            return self.graph.intern("neg", (node,), 0)
        node = self._chain([self.graph.constant(-value, f"-{text}"), *above[1:]])
        return self.graph.intern("div", (node, self._chain(below)), 0) if below else node

    def _chain(self, nodes: list[int]) -> int:
        result = nodes[0]
        for node in nodes[1:]:
            result = self.graph.intern("mul", (result, node), 0)
        return result

    def _power(self, base: int, exponent: Rational) -> int:
        node = self.place[base]
        if exponent == 1:
            return node
        if exponent == HALF:
            return self.graph.intern("sqrt", (node,), 0)
        return self.graph.intern("pow", (node, self.number(exponent)), 0)


def _parts(item: tuple[Any, ...]) -> Iterable[int]:
    match item:
        case ("name", _, int(inner)):
            return (inner,)
        case ("call", _, tuple(arguments)):
            return arguments
        case ("sum", tuple(terms)):
            return [monic for _, monic in terms]
        case ("product", _, tuple(factors)):
            return [b for b, _ in factors]
    return ()


def tree_sizes(graph: Graph, most: int = 10**9) -> list[int]:
    """For each node how many operations and leaves it is written out, names included as one; at most `most`."""
    sizes = [1] * len(graph)
    for node, op in enumerate(graph.ops):
        if op not in ("name", "leaf", "constant"):
            sizes[node] = min(most, 1 + sum(sizes[a] for a in graph.arguments(node)))
    return sizes


def rebuilt(tidied: Graph, roots: Iterable[int]) -> tuple[Graph, array[int]]:
    """A graph that can be differentiated again, of scalars; places are those of the text that would be printed."""
    graph, at = new_graph(), array("i", (-1,)) * len(tidied)
    starts = _starts(tidied, list(roots))
    for node, op in enumerate(tidied.ops):
        graph.place = (starts[node], starts[node])
        if op == "leaf":
            at[node] = graph.leaf(tidied.labels[node])
        elif op == "constant":
            at[node] = graph.constant(*tidied.numbers[node])
        elif op == "name":
            at[node] = graph.name(at[tidied.arguments(node)[0]], tidied.labels[node])
        else:
            at[node] = build(graph, op, [at[a] for a in tidied.arguments(node)])
    return graph, at


def _starts(graph: Graph, roots: list[int]) -> array[int]:
    """Where each node would first appear in the text of the roots."""
    starts, count = array("i", (-1,)) * len(graph), 0
    stack = roots[::-1]
    while stack:
        node = stack.pop()
        if starts[node] < 0:
            starts[node] = count
            count += 1
            stack.extend(reversed(graph.arguments(node)))
    return starts
