"""From the graph of mathematics to the graph of machine operations, without changing a value the user can see.

Names go, formulas are expanded into ufuncs, equal work is done once, signs are folded, scalars are taken out of
columns. Every rewrite here gives the same bits; what is allowed in cotangents only is in `gradcli.cotangent`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import compress
from math import frexp
from typing import TypeAlias

from gradcli.calculus.looks import (
    ASK,
    COLUMN,
    COMMUTES,
    CONSTANT,
    COPIED,
    NOTICED,
    OTHER,
    SCALAR,
    STAYS,
    TAKES_CONDITIONS,
    UNSEEN,
    WITH_CONSTANT,
    look_of_number,
)
from gradcli.graph import OF_ONE_ROW, Graph, Node
from gradcli.primitives import BOOLEAN, REDUCTIONS, TABLE

_STRUCTURAL = OF_ONE_ROW | {"name", "detach", "spread", "rows"}
_OVER_ROWS = frozenset(name for name, primitive in TABLE.items() if primitive.reduction)
_MANY = 10_000  # nodes from which on whole arrays are tried
_WINDOW, _LONGEST = 1024, 1 << 17  # nodes looked at, at once
_LONG, _PAUSE = 512, 16  # a stretch that pays, and what is taken one by one between two


class Machine(Graph):
    """A graph whose `add` rewrites: every row that comes out of it is computed by one ufunc or structural kernel."""

    def __init__(self) -> None:
        super().__init__(REDUCTIONS, shaped=False)
        self._looks = bytearray()

    def take(self, graph: Graph, needed: bytearray) -> array[int]:
        """Where each node of a graph that is needed is in this one. Most are no business of any rule: they are interned
        here, without a call. Places in the text are left behind."""
        at = array("i", (-1,)) * len(graph)
        self.reserve(len(graph))
        if len(graph) >= _MANY and graph.layout()[2]:
            self._take_stretches(graph, needed, at)
        else:
            self._take(graph, needed, at, 0, len(graph))
        return at

    def _take_stretches(self, graph: Graph, needed: bytearray, at: array[int]) -> None:
        """The same, by whole arrays where no rule applies for long; where some do, it is tried less and less often."""
        from gradcli.calculus.stretches import Stretches  # not for small graphs

        stretches = Stretches(graph, needed, self, self._looks, at)
        low, window, pause = 0, _WINDOW, _PAUSE
        while low < len(graph):
            high = min(low + window, len(graph))
            stop = stretches.copy(low, high)
            if stop == high:
                low, window, pause = high, min(2 * window, _LONGEST), _PAUSE
                continue
            pause = _PAUSE if stop - low >= _LONG else min(2 * pause, _LONGEST)
            low, window = min(stop + pause, len(graph)), _WINDOW
            self._take(graph, needed, at, stop, low)

    def _take(self, graph: Graph, needed: bytearray, at: array[int], start: int, end: int) -> None:
        """The same from one node to another."""
        ops, first, flat = graph.layout()
        mine, my_first, my_flat = self.layout()
        looks, columns, copied, numbers = self._looks, self.columns, COPIED.get, graph.numbers
        add_op, add_operand, add_first = mine.append, my_flat.append, my_first.append
        table, mask = self.table, len(self.table) - 1
        nodes = zip(range(start, end), ops[start:end], first[start:end], strict=True)
        for node, op, low in compress(nodes, needed[start:end]):
            operands = copied(op)
            arguments: tuple[int, ...]
            if operands == 2:
                a, b = at[flat[low]], at[flat[low + 1]]
                look = looks[a] + looks[b]
                arguments = (b, a) if a > b and op in COMMUTES else (a, b)
            elif operands:
                a = at[flat[low]]
                look, arguments = looks[a], (a,)
            elif op == "name":
                at[node] = at[flat[low]]
                continue
            if not operands or look not in STAYS or (look in WITH_CONSTANT and op in ASK):
                at[node] = self._number(*numbers[node]) if op == "constant" else self._by_rules(graph, node, at)
                if table is not self.table:
                    table, mask = self.table, len(self.table) - 1
                continue
            slot = hash((op, arguments)) & mask
            while (found := table[slot]) >= 0:
                if mine[found] == op and tuple(my_flat[my_first[found] : my_first[found + 1]]) == arguments:
                    break
                slot = (slot + 1) & mask
            else:
                found = table[slot] = len(mine)
                add_op(op)
                for a in arguments:
                    add_operand(a)
                add_first(len(my_flat))
                columns.append(look >= COLUMN)
                looks.append(OTHER if op in NOTICED else COLUMN if look >= COLUMN else SCALAR)
            at[node] = found

    def _number(self, value: float, text: str) -> int:
        """The node of a constant, which is looked at."""
        node = self.constant(value, text)
        if node == len(self._looks):
            self._looks.append(look_of_number(value))
        return node

    def _by_rules(self, graph: Graph, node: int, at: array[int]) -> int:
        """As `made`; what is new is looked at, and there is room for the rest."""
        looks, before = self._looks, len(self.ops)
        if graph.ops[node] == "neg" and looks[a := at[graph.arguments(node)[0]]] == CONSTANT:
            value = -self.numbers[a][0]
            return self._number(value, repr(value))
        steps = _steps(graph.ops[node])
        if steps is not None and looks[a := at[graph.arguments(node)[0]]] in UNSEEN:
            made = self._follow(steps, a)
        else:
            made = self.made(graph, node, at)
        for new in range(before, len(self.ops)):
            looks.append(self._look(new))
        if len(self.ops) + len(graph) - node > self._limit:
            self.reserve(len(graph) - node)
        return made

    def _follow(self, steps: tuple[_Step, ...], operand: int) -> int:
        """What the formula of a row makes of an operand that no rule looks at."""
        made, column = [operand], self.columns[operand]
        for op, operands, number in steps:
            if number is not None:
                made.append(self.constant(*number))
                continue
            arguments = tuple([made[i] for i in operands])
            if op in COMMUTES and arguments[0] > arguments[1]:
                arguments = (arguments[1], arguments[0])
            made.append(self.intern(op, arguments, column))
        return made[-1]

    def made(self, graph: Graph, node: int, at: Mapping[int, int] | array[int]) -> int:
        """A node of a graph as the rules make it, where its operands are at hand."""
        op = graph.ops[node]
        if op == "constant":
            return self.constant(*graph.numbers[node])
        if op == "leaf":
            return self.leaf(graph.labels[node], bool(graph.columns[node]))
        return self.add(op, *[at[a] for a in graph.arguments(node)])

    def _look(self, node: int) -> int:
        """What a node is to the rules."""
        op = self.ops[node]
        if op == "constant":
            return look_of_number(self.numbers[node][0])
        if op in NOTICED:
            return OTHER
        return COLUMN if self.columns[node] else SCALAR

    def add(self, op: str, *arguments: int) -> int:
        if op in _STRUCTURAL:
            return self._structural(op, arguments)
        ops, columns = self.ops, self.columns
        column = conditions = 0
        for a in arguments:
            if columns[a]:
                column = 1
            if ops[a] in BOOLEAN:
                conditions = 1
        if column and op not in _OVER_ROWS:
            if self._all_spread(arguments):
                return self._hoisted(op, arguments)
            arguments = tuple([self._inner(a) for a in arguments])
        formula = TABLE[op].formula
        if formula is not None:
            return formula(*[Node(self, a) for a in arguments]).index
        if conditions and op not in TAKES_CONDITIONS:
            first = 1 if op == "where" else 0
            numbers = [self.add("_number", a) if ops[a] in BOOLEAN else a for a in arguments[first:]]
            arguments = (*arguments[:first], *numbers)
        rewrite = _REWRITES.get(op)
        if rewrite is not None:
            shorter = rewrite(self, *arguments)
            if shorter is not None:
                return shorter
            if op in COMMUTES and arguments[0] > arguments[1]:
                arguments = (arguments[1], arguments[0])
        return self.intern(op, arguments, 0 if op in REDUCTIONS else column)

    def _structural(self, op: str, arguments: tuple[int, ...]) -> int:
        inner = arguments[0]
        if op in ("name", "detach"):
            return inner
        if op == "spread":
            return self.spread(inner) if len(arguments) == 1 or self.columns[arguments[1]] else inner
        if op == "rows":
            return self.intern("rows", (), 0) if self.columns[inner] else self.constant(1.0)
        if not self.columns[inner]:
            return inner
        return self._hoisted(op, arguments) if self.ops[inner] == "spread" else self.intern(op, arguments, 0)

    def spread(self, node: int) -> int:
        """A scalar in every row; what it is like need not be kept, since all columns have the same number of rows."""
        return node if self.columns[node] else self.intern("spread", (node,), 1)

    def _inner(self, node: int) -> int:
        return self.arguments(node)[0] if self.ops[node] == "spread" else node

    def _all_spread(self, arguments: tuple[int, ...]) -> bool:
        """Whether a column is made of nothing but scalars in every row."""
        found = False
        for a in arguments:
            if self.columns[a]:
                if self.ops[a] != "spread":
                    return False
                found = True
        return found

    def _hoisted(self, op: str, arguments: tuple[int, ...]) -> int:
        """The same on the scalars: once, not once a row."""
        inner = [self._inner(a) for a in arguments]
        if op == "gather":
            return self.add("mul", inner[0], self.intern("rows", (), 0))
        if op in ("min_rows", "max_rows"):
            return inner[0]
        if op == "prod_rows":
            return self.add("_power", inner[0], self.intern("rows", (), 0))
        result = self.add(op, *inner)
        return result if op in REDUCTIONS else self.spread(result)


_Step: TypeAlias = tuple[str, tuple[int, ...], tuple[float, str] | None]


@cache
def _steps(op: str) -> tuple[_Step, ...] | None:
    """The formula of a row of one argument, followed once: operations on what is made before, the argument first, and
    numbers; the last is the result. None where there is no such formula, or it takes more than ufuncs."""
    primitive = TABLE.get(op)
    if primitive is None or primitive.formula is None or len(primitive.arguments) != 1 or primitive.reduction:
        return None
    machine = Machine()
    made = machine.add(op, machine.leaf("x"))
    if made != len(machine) - 1 or not _STRUCTURAL.isdisjoint(machine.ops):
        return None
    nodes = range(1, len(machine))
    return tuple((machine.ops[n], tuple(machine.arguments(n)), machine.numbers.get(n)) for n in nodes)


def _neg(m: Machine, a: int) -> int | None:
    k = m.number(a)
    if k is not None:
        return m.constant(-k)
    return m.arguments(a)[0] if m.ops[a] == "neg" else None


def _add(m: Machine, a: int, b: int) -> int | None:
    x, y = m.number(a), m.number(b)
    if x is not None and y is not None:
        return m.constant(x + y)
    if m.ops[b] == "neg":
        return m.add("sub", a, m.arguments(b)[0])
    if m.ops[a] == "neg":
        return m.add("sub", b, m.arguments(a)[0])
    return None


def _sub(m: Machine, a: int, b: int) -> int | None:
    x, y = m.number(a), m.number(b)
    if x is not None and y is not None:
        return m.constant(x - y)
    if m.ops[b] == "neg":
        return m.add("add", a, m.arguments(b)[0])
    return a if m.numbers.get(b, (1.0, ""))[1] in ("0", "0.0") else None


def _mul(m: Machine, a: int, b: int) -> int | None:
    x, y = m.number(a), m.number(b)
    if x is not None and y is not None:
        return m.constant(x * y)
    for one, other in ((a, b), (b, a)):
        k = m.number(one)
        if k == 1.0:
            return other
        if k == -1.0:
            return m.add("neg", other)
        if m.ops[one] == "neg":
            if m.ops[other] == "neg":
                return m.add("mul", m.arguments(one)[0], m.arguments(other)[0])
            return m.add("neg", m.add("mul", m.arguments(one)[0], other))
    return None


def _div(m: Machine, a: int, b: int) -> int | None:
    k = m.number(b)
    if k == 1.0:
        return a
    if k and abs(frexp(k)[0]) == 0.5 and 1e-300 < abs(k) < 1e300:
        return m.add("mul", a, m.constant(1.0 / k))
    if m.ops[a] == "neg" and m.number(m.arguments(a)[0]) is None:
        return m.add("neg", m.add("div", m.arguments(a)[0], b))
    return None


def _where(m: Machine, c: int, a: int, b: int) -> int | None:
    if a == b:
        return m.spread(a) if m.columns[c] else a
    if m.ops[c] == "not":
        return m.add("where", m.arguments(c)[0], b, a)
    if m.ops[c] not in BOOLEAN:
        return m.add("where", m.add("ne", c, m.constant(0.0)), a, b)
    return None


def _both(m: Machine, a: int, b: int) -> int | None:
    return a if a == b and m.ops[a] in BOOLEAN else None


def _not(m: Machine, a: int) -> int | None:
    return m.arguments(a)[0] if m.ops[a] == "not" and m.ops[m.arguments(a)[0]] in BOOLEAN else None


def _number(m: Machine, a: int) -> int | None:
    return None if m.ops[a] in BOOLEAN else a


def _ne(m: Machine, a: int, b: int) -> int | None:
    """`c != 0` of a condition is the condition."""
    return m.arguments(a)[0] if m.ops[a] == "_number" and m.number(b) == 0 else None


def _plain(m: Machine, a: int, b: int) -> int | None:
    return None


_REWRITES: dict[str, Callable[..., int | None]] = {
    "neg": _neg,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "where": _where,
    "and": _both,
    "or": _both,
    "not": _not,
    "_number": _number,
    "ne": _ne,
    "eq": _plain,
}


def simplify(graph: Graph, roots: Iterable[int]) -> tuple[Machine, list[int]]:
    """Machine operations for everything the roots need, and where the roots are in it."""
    machine = Machine()
    roots = list(roots)
    at = machine.take(graph, graph.reachable(roots))
    placed = []
    for root in roots:
        node = at[root]
        if machine.ops[node] in BOOLEAN:
            node = machine.add("_number", node)
        if graph.columns[root] and not machine.columns[node]:
            node = machine.spread(node)
        placed.append(node)
    return machine, placed
