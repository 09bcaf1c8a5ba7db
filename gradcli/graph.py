"""The graph: append-only arrays of interned nodes; birth order is a topological order, so no pass ever recurses.

A node is a number. What it is stands in parallel arrays: its operation (the name of a row of the table, or one of
the structural operations below), its arguments, its shape, and the piece of source text it came from. Handles
(`Node`) are made only where a rule or a formula needs operators.

Structural operations: `constant`, `leaf`, `name` (a definition: keeps two names with
equal expressions apart until the simplifier erases it), and `d` (a derivative asked for in the text; replaced when
the shapes are known).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from copy import copy

from gradcli.sparse import Constants, Labels

_ROOM = 1024
_MANY = 10_000  # nodes from which on whole arrays are marked at once
OF_ONE_ROW = frozenset(("gather", "min_rows", "max_rows", "prod_rows"))


class Known(float):
    """A float that stands for an exact number: `label` is a decimal, or a key of `calculus.exact.KNOWN`."""

    label: str

    def __new__(cls, value: float, label: str) -> Known:
        self = super().__new__(cls, value)
        self.label = label
        return self


def is_simple(value: float) -> bool:
    """Whether a number is a short binary fraction: products and sums of a few such are exact."""
    return abs(value) < 1e6 and (value * 64).is_integer()


class Graph:
    """Nodes in parallel arrays. `columns[i]` is 1 where node i has one number per row, 0 where it is a scalar.

    `reductions` names the operations whose result is a scalar. While `shaped` is off (the graph of a text, before
    values are bound) every leaf is taken for a scalar and nothing is concluded from it.
    """

    def __init__(self, reductions: frozenset[str] = frozenset(), shaped: bool = True) -> None:
        self.special = reductions | {"spread"}
        self.shaped = shaped
        self.ops: list[str] = []
        self._first = array("i", (0,))
        self._flat = array("i")
        self.columns = bytearray()
        self.starts = array("i")
        self.ends = array("i")
        self.numbers = Constants()
        self.lists: dict[int, tuple[int, ...]] = {}
        self.labels = Labels()
        self.place = (-1, -1)
        self._leaves: dict[str, int] = {}
        self.table = array("i", (-1,)) * _ROOM
        self._limit = _ROOM // 2

    def copy(self, shaped: bool = False) -> Graph:
        """The same nodes, to be appended to apart."""
        other = copy(self)
        for name, value in vars(self).items():
            if not isinstance(value, (bool, frozenset, tuple)):
                setattr(other, name, copy(value))
        other.shaped = shaped
        return other

    def close(self) -> Graph:
        """The same graph, to which nothing is added any more: the table of what is there already goes."""
        del self.table
        return self

    def __len__(self) -> int:
        return len(self.ops)

    def arguments(self, node: int) -> array[int]:
        return self._flat[self._first[node] : self._first[node + 1]]

    def layout(self) -> tuple[list[str], array[int], array[int]]:
        """The arrays themselves, for loops over all nodes: operations, and where the arguments of node i are,
        `flat[first[i]:first[i + 1]]`."""
        return self.ops, self._first, self._flat

    def _append(self, op: str, column: int) -> int:
        """A node without operands."""
        node = len(self.ops)
        self.ops.append(op)
        self._first.append(len(self._flat))
        self.columns.append(column)
        start, end = self.place
        self.starts.append(start)
        self.ends.append(end)
        return node

    def constant(self, value: float, text: str | None = None) -> int:
        """The node of a number; `text` is the decimal as written, kept for exact evaluation."""
        key = repr(value) if text is None else text
        slot = self._slot_of(key)
        node = self.table[slot]
        if node < 0:
            node = self.table[slot] = self._append("constant", 0)
            self.numbers.add(node, value, key)
            if node > self._limit:
                self._resize(4 * len(self.table))
        return node

    def literal(self, items: Iterable[int]) -> int:
        """A column of constants in the text: a leaf of its own, one node per row in `lists`."""
        node = self.leaf(f"\n{len(self.lists)}", column=self.shaped)
        self.lists[node] = tuple(items)
        return node

    def leaf(self, label: str, column: bool = False) -> int:
        node = self._leaves.get(label)
        if node is None:
            node = self._leaves[label] = self._append("leaf", int(column))
            self.labels.add(node, label)
        return node

    def name(self, inner: int, label: str) -> int:
        """A definition: never interned, so that equal expressions under two names stay two nodes."""
        node = len(self.ops)
        self.ops.append("name")
        self._flat.append(inner)
        self._first.append(len(self._flat))
        self.columns.append(self.columns[inner])
        start, end = self.place
        self.starts.append(start)
        self.ends.append(end)
        self.labels.add(node, label)
        return node

    def add(self, op: str, *arguments: int) -> int:
        """The node of `op` over `arguments`: an existing one where there is one."""
        columns = self.columns
        column = 0
        for a in arguments:
            if columns[a]:
                column = 1
        if op in self.special:
            if op == "spread":
                return self.intern(op, arguments, 1) if column else arguments[0]
            if not column and self.shaped:
                if op == "rows":
                    return self.constant(1.0)
                if op in OF_ONE_ROW:
                    return arguments[0]
            column = 0
        return self.intern(op, arguments, column)

    def intern(self, op: str, arguments: tuple[int, ...], column: int) -> int:
        slot = self._slot(op, arguments)
        node = self.table[slot]
        if node < 0:
            for a in arguments:  # half the time of `extend`
                self._flat.append(a)
            node = self.table[slot] = self._append(op, column)
            if node > self._limit:
                self._resize(4 * len(self.table))
        return node

    def interner(self) -> Callable[[str, tuple[int, ...], int, int, int], int]:
        """`intern` for loops, with the place in the text as two more arguments."""
        ops, first, flat = self.ops, self._first, self._flat
        add_op, add_first, add_operand = ops.append, first.append, flat.append
        add_column, add_start, add_end = self.columns.append, self.starts.append, self.ends.append

        def intern(op: str, arguments: tuple[int, ...], column: int, start: int, end: int) -> int:
            table = self.table
            mask = len(table) - 1
            slot = hash((op, arguments)) & mask
            while (node := table[slot]) >= 0:
                if ops[node] == op and tuple(flat[first[node] : first[node + 1]]) == arguments:
                    return node
                slot = (slot + 1) & mask
            table[slot] = node = len(ops)
            add_op(op)
            for a in arguments:  # half the time of `extend`
                add_operand(a)
            add_first(len(flat))
            add_column(column)
            add_start(start)
            add_end(end)
            if node > self._limit:
                self._resize(4 * len(table))
            return node

        return intern

    def reserve(self, more: int) -> None:
        """Make room for so many nodes, so that none of them finds the table of interned nodes too small."""
        size = len(self.table)
        while size < 2 * (len(self.ops) + more):
            size *= 2
        if size > len(self.table):
            self._resize(size)

    def _resize(self, size: int) -> None:
        self.table = table = array("i", (-1,)) * size
        self._limit = size // 2
        if len(self.ops) >= _MANY:
            from gradcli.arrays import enter  # not for small graphs

            enter(self)
            return
        for node, op in enumerate(self.ops):
            if op == "constant":
                table[self._slot_of(self.numbers[node][1])] = node
            elif op not in ("leaf", "name"):
                table[self._slot(op, tuple(self.arguments(node)))] = node

    def _slot(self, op: str, arguments: tuple[int, ...]) -> int:
        """Where the table has the node of an operation on these operands, or has room for it."""
        ops, first, flat, table = self.ops, self._first, self._flat, self.table
        mask = len(table) - 1
        slot = hash((op, arguments)) & mask
        while (node := table[slot]) >= 0:
            if ops[node] == op and tuple(flat[first[node] : first[node + 1]]) == arguments:
                break
            slot = (slot + 1) & mask
        return slot

    def _slot_of(self, text: str) -> int:
        """The same for a number."""
        ops, numbers, table = self.ops, self.numbers, self.table
        mask = len(table) - 1
        slot = hash(text) & mask
        while (node := table[slot]) >= 0:
            if ops[node] == "constant" and numbers[node][1] == text:
                break
            slot = (slot + 1) & mask
        return slot

    def find(self, op: str, arguments: tuple[int, ...]) -> int:
        """The node of an operation on these operands; -1 where there is none."""
        return self.table[self._slot(op, arguments)]

    def find_number(self, text: str) -> int:
        """The node of a number as written; -1 where there is none."""
        return self.table[self._slot_of(text)]

    def number(self, node: int) -> float | None:
        """The value of a constant node, or None."""
        return self.numbers.value(node)

    def simple(self, node: int) -> float | None:
        """The value of a constant that is a short binary fraction, also as written; or None."""
        value = self.numbers.value(node)
        if value is None or not is_simple(value):
            return None
        text = self.numbers[node][1]
        return value if len(text) < 16 and text.lstrip("+-")[:1] in "0123456789." else None

    def handle(self, node: int) -> Node:
        return Node(self, node)

    def reachable(self, roots: Iterable[int]) -> bytearray:
        """A mark for every node that the roots depend on, themselves included."""
        roots = list(roots)
        top = max(roots, default=-1)
        settled = self.settled(roots, top, down=True)
        if settled is not None:
            return settled
        marks = bytearray(len(self.ops))
        for root in roots:
            marks[root] = 1
        first, flat = self._first, self._flat
        for node in range(top, -1, -1):
            if marks[node]:
                for i in range(first[node], first[node + 1]):
                    marks[flat[i]] = 1
        return marks

    def settled(self, start: Iterable[int], top: int, down: bool, closed: Iterable[int] = ()) -> bytearray | None:
        """Marks that spread from some nodes to their operands (`down`) or to what uses them, among nodes up to `top`.
        None where the graph is small, or where a loop is quicker. `closed`: places among all operands that nothing
        passes through."""
        if top < _MANY:
            return None
        from gradcli.arrays import settled  # not for small graphs

        return settled(self, start, top, down, closed)


class Node:
    """A handle on a node: operators append to its graph. Plain numbers become constants."""

    __slots__ = ("graph", "index")

    def __init__(self, graph: Graph, index: int) -> None:
        self.graph = graph
        self.index = index

    def lift(self, other: Node | float) -> int:
        if isinstance(other, Node):
            return other.index
        return self.graph.constant(float(other), other.label if isinstance(other, Known) else None)

    def apply(self, op: str, *others: Node | float) -> Node:
        return Node(self.graph, self.graph.add(op, self.index, *map(self.lift, others)))

    def applied_to(self, op: str, other: Node | float) -> Node:
        return Node(self.graph, self.graph.add(op, self.lift(other), self.index))

    def value(self) -> float | None:
        return self.graph.number(self.index)

    def simple(self) -> float | None:
        return self.graph.simple(self.index)

    def __add__(self, other: Node | float) -> Node:
        return self.apply("add", other)

    def __radd__(self, other: Node | float) -> Node:
        return self.applied_to("add", other)

    def __sub__(self, other: Node | float) -> Node:
        return self.apply("sub", other)

    def __rsub__(self, other: Node | float) -> Node:
        return self.applied_to("sub", other)

    def __mul__(self, other: Node | float) -> Node:
        return self.apply("mul", other)

    def __rmul__(self, other: Node | float) -> Node:
        return self.applied_to("mul", other)

    def __truediv__(self, other: Node | float) -> Node:
        return self.apply("div", other)

    def __rtruediv__(self, other: Node | float) -> Node:
        return self.applied_to("div", other)

    def __neg__(self) -> Node:
        return self.apply("neg")

    def __and__(self, other: Node) -> Node:
        return self.apply("and", other)

    def __or__(self, other: Node) -> Node:
        return self.apply("or", other)

    def __invert__(self) -> Node:
        return self.apply("not")

    def __lt__(self, other: Node | float) -> Node:
        return self.apply("lt", other)

    def __le__(self, other: Node | float) -> Node:
        return self.apply("le", other)

    def __gt__(self, other: Node | float) -> Node:
        return self.apply("gt", other)

    def __ge__(self, other: Node | float) -> Node:
        return self.apply("ge", other)


class Functions:
    """`f.cos(x)` appends a row of the table by name; at least one argument is a node."""

    def __getattr__(self, name: str) -> Callable[..., Node]:
        op = name.rstrip("_") if name in ("and_", "or_", "not_") else name

        def call(*arguments: Node | float) -> Node:
            anchor = next(a for a in arguments if isinstance(a, Node))
            graph = anchor.graph
            return Node(graph, graph.add(op, *(anchor.lift(a) for a in arguments)))

        return call


f = Functions()
