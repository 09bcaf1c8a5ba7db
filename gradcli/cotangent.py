"""What flows back through the graph: a node that is linear in the seed, a factor, and the mask under which it counts.

A branch that is not selected never leaks: the cotangent of an unselected branch is not multiplied by zero, it is
*masked*, and the mask travels behind every rule (each rule is linear in the cotangent), so an infinite slope of the
dead branch never meets the zero as a product. Masks become numbers only where cotangents are added up.

The algebra here is the only place where anything is simplified beyond what is exact for floats: `c - c` is 0, and a
factor that is multiplied in and divided out again cancels, of a number that is divided by its root the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradcli.graph import Node, is_simple

if TYPE_CHECKING:
    from gradcli.graph import Graph

_SPINE = 6  # how many factors back a division looks for the one it cancels
_ROOTS = {"sqrt": 2, "cbrt": 3}


class Cotangent:
    """`scale` times the node `index`, where the node `mask` (or None) is true; index -1 is exactly zero.

    `clean`: the node is 0 already where it does not count. Keeping the constant factor apart merges constants and
    signs, and lets sums see `c - c`; only short binary fractions go into it, so that it stays exact when the graph is
    evaluated to fifty digits. `shared` is a scalar node, or None, that multiplies every row of a column: what flows
    back into a reduction. It stays outside until rows are needed, so that a sum over them is taken before it is known:
    the gradient of a mean or a norm takes one pass over the rows.
    """

    __slots__ = ("clean", "graph", "index", "mask", "scale", "shared")

    def __init__(
        self,
        graph: Graph,
        index: int,
        scale: float = 1.0,
        mask: int | None = None,
        clean: bool = False,
        shared: int | None = None,
    ) -> None:
        self.graph = graph
        self.index = index
        self.scale = scale
        self.mask = mask
        self.clean = clean
        self.shared = shared

    @classmethod
    def seed(cls, graph: Graph) -> Cotangent:
        return cls(graph, graph.constant(1.0))

    @property
    def is_zero(self) -> bool:
        return self.index < 0

    def zero(self) -> Cotangent:
        """The slope of a step: exactly zero, whatever it is multiplied by later."""
        return Cotangent(self.graph, -1)

    def only(self, condition: Node) -> Cotangent:
        """Count this cotangent only where `condition` holds."""
        if self.index < 0:
            return self
        mask = condition.index
        if self.mask is not None and self.mask != mask:
            mask = self.graph.add("and", self.mask, mask)
        return Cotangent(self.graph, self.index, self.scale, mask, shared=self.shared)

    def __mul__(self, other: Node | float) -> Cotangent:
        if self.index < 0:
            return self
        graph = self.graph
        factor = other.index if isinstance(other, Node) else graph.handle(self.index).lift(other)
        if factor in graph.numbers:
            number = graph.simple(factor)
            if number == 0:
                return self.zero()
            if number is not None and is_simple(scale := self.scale * number):
                return self.times(self.index, scale)
        return self.times(multiply(graph, self.index, factor))

    def __truediv__(self, other: Node | float) -> Cotangent:
        if self.index < 0:
            return self
        graph = self.graph
        factor = other.index if isinstance(other, Node) else graph.handle(self.index).lift(other)
        number = graph.simple(factor)
        if number and is_simple(scale := self.scale / number) and scale * number == self.scale:
            return self.times(self.index, scale)
        return self.times(divide(graph, self.index, factor))

    def __neg__(self) -> Cotangent:
        return self if self.index < 0 else self.times(self.index, -self.scale)

    def times(self, index: int, scale: float | None = None) -> Cotangent:
        """The same with another node, which a rule has multiplied or divided, or with another factor."""
        return Cotangent(self.graph, index, self.scale if scale is None else scale, self.mask, shared=self.shared)

    def plus(self, other: Cotangent) -> Cotangent:
        """The sum of two cotangents: counted where either counts, everywhere where one has no mask."""
        if self.index < 0:
            return other
        if other.index < 0:
            return self
        graph = self.graph
        if self.mask == other.mask:
            return self._sum(other, self.mask)
        a, b = self.masked(), other.masked()
        mask = None
        if self.mask is not None and other.mask is not None and not _complements(graph, self.mask, other.mask):
            mask = graph.add("or", self.mask, other.mask)
        return a._sum(b, mask)

    def _sum(self, other: Cotangent, mask: int | None) -> Cotangent:
        if self.shared != other.shared:
            return self._in_rows()._sum(other._in_rows(), mask)
        if self.shared is not None:
            rows = self._alone()._sum(other._alone(), mask)
            return rows if rows.index < 0 else Cotangent(self.graph, rows.index, rows.scale, mask, shared=self.shared)
        graph, a, b = self.graph, self.index, other.index
        if a == b:
            scale = self.scale + other.scale
            return self.zero() if scale == 0 else Cotangent(graph, a, scale, mask)
        if self.scale == other.scale:
            return Cotangent(graph, graph.add("add", a, b), self.scale, mask)
        if self.scale == -other.scale:
            return Cotangent(graph, graph.add("sub", a, b), self.scale, mask)
        if other.scale < 0:
            return Cotangent(graph, graph.add("sub", self.node(), (-other).node()), 1.0, mask)
        if self.scale < 0:
            return Cotangent(graph, graph.add("sub", other.node(), (-self).node()), 1.0, mask)
        return Cotangent(graph, graph.add("add", self.node(), other.node()), 1.0, mask)

    @classmethod
    def total(cls, parts: Sequence[Cotangent]) -> Cotangent:
        """The sum of all that flows into a node. Equal terms meet first, wherever they come from, so that `c - c` is 0;
        then terms under the same mask."""
        if len(parts) == 1:
            return parts[0]
        plain = cls._plain_total(parts)
        if plain is not None:
            return plain
        terms: dict[tuple[int, int | None, int | None], Cotangent] = {}
        for part in parts:
            if part.index >= 0:
                key = (part.index, part.mask, part.shared)
                same = terms.get(key)
                terms[key] = part if same is None else part.times(part.index, same.scale + part.scale)
        alike: dict[tuple[int | None, int | None], Cotangent] = {}
        for term in terms.values():
            if term.scale != 0:
                group = (term.mask, term.shared)
                same = alike.get(group)
                alike[group] = term if same is None else same.plus(term)
        result = parts[0].zero()
        for sum_of_group in alike.values():
            result = result.plus(sum_of_group)
        return result

    @classmethod
    def _plain_total(cls, parts: Sequence[Cotangent]) -> Cotangent | None:
        """The sum of different terms with one factor and no mask, from the left; None where it is not so plain."""
        graph, scale, shared = parts[0].graph, parts[0].scale, parts[0].shared
        terms = [
            part.index
            for part in parts
            if part.mask is None and part.scale == scale and part.shared == shared and part.index >= 0
        ]
        if scale == 0 or len(set(terms)) < len(parts):
            return None
        columns, total = graph.columns, terms[0]
        for term in terms[1:]:
            if term == total:
                return None
            total = graph.intern("add", (total, term), columns[total] | columns[term])
        return cls(graph, total, scale, shared=shared)

    def masked(self) -> Cotangent:
        """The same with the mask applied as a number: 0 where it does not count."""
        if self.mask is None or self.index < 0:
            return self
        graph = self.graph
        index = self.index if self.clean else graph.add("where", self.mask, self.index, graph.constant(0.0))
        return Cotangent(graph, index, self.scale, shared=self.shared)

    def _alone(self) -> Cotangent:
        """Without what all rows share."""
        return Cotangent(self.graph, self.index, self.scale, self.mask, self.clean)

    def _in_rows(self) -> Cotangent:
        """With what all rows share multiplied into each."""
        if self.shared is None or self.index < 0:
            return self
        index = multiply(self.graph, self.index, self.shared)
        return Cotangent(self.graph, index, self.scale, self.mask)

    def node(self) -> int:
        """The node of the whole: mask and factor applied."""
        graph = self.graph
        if self.index < 0:
            return graph.constant(0.0)
        if self.shared is not None:
            return self._in_rows().node()
        if self.mask is not None and not self.clean:  # the factor inside, so that what does not count is 0.0, not -0.0
            inner = Cotangent(graph, self.index, self.scale).node()
            return graph.add("where", self.mask, inner, graph.constant(0.0))
        number = graph.simple(self.index)
        if number is not None and is_simple(number * self.scale):
            return graph.constant(number * self.scale)
        if self.scale == 1.0:
            return self.index
        if self.scale == -1.0:
            return graph.add("neg", self.index)
        return graph.add("mul", self.index, graph.constant(self.scale))

    def spread(self, like: Node | int) -> Cotangent:
        """The cotangent of every row of a column, from that of its sum; a mask stays a mask."""
        if self.index < 0:
            return self
        graph, shape = self.graph, like if isinstance(like, int) else like.index
        if self.index in graph.numbers or not graph.columns[shape]:
            return Cotangent(graph, graph.add("spread", self.index, shape), self.scale, self.mask)
        ones = graph.add("spread", graph.constant(1.0), shape)
        return Cotangent(graph, ones, self.scale, self.mask, shared=self.index)

    def gather(self, like: Node | int) -> Cotangent:
        """The cotangent of a scalar that was used in every row of `like`: the sum over its rows (a scalar has one). It
        counts where any of the rows counts."""
        graph, shape = self.graph, like if isinstance(like, int) else like.index
        if self.index < 0 or not graph.columns[shape]:
            return self
        gathered = self._gathered(shape)
        return gathered if self.shared is None else gathered * Node(graph, self.shared)

    def _gathered(self, shape: int) -> Cotangent:
        """The sum over rows without what they share."""
        graph, mask = self.graph, self.mask
        if mask is None or not graph.columns[mask]:
            if graph.columns[self.index]:
                return Cotangent(graph, graph.add("gather", self.index), self.scale, mask)
            return Cotangent(graph, multiply(graph, self.index, graph.add("rows", shape)), self.scale, mask)
        inner = self.masked()
        counted = graph.add("gt", graph.add("gather", graph.add("_number", mask)), graph.constant(0.0))
        return Cotangent(graph, graph.add("gather", inner.index), inner.scale, counted, clean=True)


def multiply(graph: Graph, c: int, factor: int) -> int:
    """c * factor; a matching divisor cancels."""
    if graph.number(c) == 1.0:
        return factor
    if graph.ops[c] == "div":
        rest, divisor = graph.arguments(c)
        if divisor == factor:
            return rest
        if graph.ops[factor] == "exp" and (k := _added_to(graph, divisor, factor)) is not None:
            # e/(k + e) as sigmoid: where e overflows, a hand-written 1/(1 + exp(-x)) has slope 0, not 0*inf
            u, number = graph.handle(graph.arguments(factor)[0]), graph.handle(k)
            u = u if graph.number(k) == 1.0 else u - number.apply("log")
            return multiply(graph, rest, graph.add("sigmoid", u.index))
    return graph.add("mul", c, factor)


def _added_to(graph: Graph, node: int, term: int) -> int | None:
    """The positive constant that a node adds to the term, or None where it is no such sum."""
    if graph.ops[node] != "add":
        return None
    a, b = graph.arguments(node)
    k = b if a == term else a if b == term else -1
    number = graph.number(k)
    return k if number is not None and 0 < number < float("inf") else None


def divide(graph: Graph, c: int, factor: int) -> int:
    """c / factor; where the factor was multiplied in within the last few steps, it is taken out again. Of the number of
    a root there remain roots: x/sqrt(x) is sqrt(x), also at 0."""
    without = _cancel(graph, c, factor, _SPINE)
    if without is not None:
        return without
    degree = _ROOTS.get(graph.ops[factor], 0)
    if degree and (without := _cancel(graph, c, graph.arguments(factor)[0], _SPINE)) is not None:
        for _ in range(degree - 1):
            without = multiply(graph, without, factor)
        return without
    return graph.add("div", c, factor)


def _cancel(graph: Graph, c: int, factor: int, steps: int) -> int | None:
    """c with one `factor` taken out of its product, or None where there is none; at most `steps` factors deep."""
    if c == factor:
        return graph.constant(1.0)
    op = graph.ops[c]
    if op == "pow":
        base, exponent = graph.arguments(c)
        power = graph.number(exponent)
        if base == factor and power is not None and power.is_integer() and power > 1:
            return base if power == 2 else graph.add("pow", base, graph.constant(power - 1))
    if steps == 0 or op not in ("mul", "div"):
        return None
    left, right = graph.arguments(c)
    without = _cancel(graph, left, factor, steps - 1)
    if without is not None:
        return multiply(graph, without, right) if op == "mul" else divide(graph, without, right)
    if op == "mul":
        without = _cancel(graph, right, factor, 0)
        if without is not None:
            return multiply(graph, left, without)
    return None


def _complements(graph: Graph, a: int, b: int) -> bool:
    return (graph.ops[a] == "not" and graph.arguments(a)[0] == b) or (
        graph.ops[b] == "not" and graph.arguments(b)[0] == a
    )
