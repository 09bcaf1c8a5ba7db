"""An immutable program: instructions over registers, assigned by last use.

Reductions cut a program into phases. Phase k first computes the scalars that the reductions of earlier phases feed,
then passes over the rows: columns that a later phase needs again are computed again, not stored, so that memory does
not grow with rows and data may stream. Unretained adjoints have no place of their own: their register is reused as
soon as they are consumed (`Program.slots` shows it).

Registers: scalars first, then the input columns, then the output columns, then buffers of floats, then of conditions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN, TABLE

_REDUCES = {
    name: p.ufunc.removesuffix(".reduce") for name, p in TABLE.items() if p.ufunc and p.ufunc.endswith(".reduce")
}

Instruction = tuple[str, int, tuple[int, ...]]  # operation, target register, argument registers
Place = tuple[str, int]  # a register before they are numbered: s(calar), i(nput), o(utput), f(loat), c(ondition)
Step = tuple[str, Place, tuple[Place, ...]]


@dataclass(frozen=True)
class Code:
    """Instructions on scalars, which may be millions: registers as the bytes of flat arrays, which nobody can change.
    Iterates over instructions."""

    ops: tuple[str, ...] = ()
    targets: bytes = b""
    ends: bytes = b""
    operands: bytes = b""

    def __len__(self) -> int:
        return len(self.ops)

    def layout(self) -> tuple[tuple[str, ...], array[int], array[int], array[int]]:
        """For loops over all instructions: operations, targets, operands of all and where those of each one end."""
        return self.ops, array("i", self.targets), array("i", self.operands), array("i", self.ends)

    def __iter__(self) -> Iterator[Instruction]:
        ops, targets, operands, ends = self.layout()
        low = 0
        for op, out, high in zip(ops, targets, ends, strict=True):
            yield op, out, tuple(operands[low:high])
            low = high


@dataclass(frozen=True)
class Immediates:
    """Numbers and the scalar registers that they are in, as the bytes of flat arrays. Iterates over pairs of them."""

    registers: bytes = b""
    values: bytes = b""

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(array("i", self.registers), array("d", self.values), strict=True)


_Given = tuple[Immediates, list[tuple[int, str]], int]


class Phase(NamedTuple):
    """`scalars` run once, `columns` once a block, then `reductions`: (ufunc, source register, target scalar).

    `stores` copies a register into an output that is not computed in place: (source register, output number).
    """

    scalars: Code
    columns: tuple[Instruction, ...]
    reductions: tuple[tuple[str, int, int], ...]
    stores: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Program:
    """What it takes to evaluate the roots of a graph.

    `constants`: (scalar register, value); `scalar_inputs`: (scalar register, label); `column_inputs`: labels in
    the order of their registers; `rows_register`: where the number of rows goes,
    or -1; `roots`: for each root (True, output number) for a column or (False, scalar register);
    `taints`: for each root the index of the root whose nan it shares, or -1; `slots`: how many registers are computed
    into at once, scalars and columns, outputs not counted.
    """

    constants: Immediates
    scalar_inputs: tuple[tuple[int, str], ...]
    column_inputs: tuple[str, ...]
    rows_register: int
    phases: tuple[Phase, ...]
    roots: tuple[tuple[bool, int], ...]
    taints: tuple[int, ...]
    scalar_count: int
    output_count: int
    float_count: int
    condition_count: int
    operations: int

    @property
    def slots(self) -> int:
        return self.scalar_count + self.float_count + self.condition_count


_Plan = tuple[Code, list[Step], list[tuple[str, Place, int]], list[tuple[Place, int]]]
_GIVEN = frozenset(("constant", "leaf", "rows"))
_MANY = 10_000  # scalars of a phase from which on whole arrays are quicker


class _Pool:
    """Registers handed out and taken back."""

    def __init__(self) -> None:
        self.count = 0
        self.free: list[int] = []

    def take(self) -> int:
        if self.free:
            return self.free.pop()
        self.count += 1
        return self.count - 1


def _levels(graph: Graph, needed: bytearray) -> tuple[array[int], list[int]]:
    """The phase that computes each node, one later than its argument for a reduction; and the reductions."""
    levels, reductions = array("i", (0,)) * len(graph), []
    if not _REDUCES.keys().isdisjoint(graph.ops):
        for node, op in compress(enumerate(graph.ops), needed):
            arguments = graph.arguments(node)
            if arguments:
                levels[node] = max([levels[a] for a in arguments]) + (op in _REDUCES)
            if op in _REDUCES:
                reductions.append(node)
    if reductions:
        _sink(graph, needed, levels)
    return levels, reductions


def _sink(graph: Graph, needed: bytearray, levels: array[int]) -> None:
    """Compute scalars in the phase that uses them, not before: what needs the number of rows may then come after the
    pass that counts them."""
    wanted = array("i", (max(levels),)) * len(graph)
    ops, first, flat = graph.layout()
    for node in range(len(graph) - 1, -1, -1):
        if needed[node]:
            if not graph.columns[node] and ops[node] not in _REDUCES:
                levels[node] = wanted[node]
            for i in range(first[node], first[node + 1]):
                wanted[flat[i]] = min(wanted[flat[i]], levels[node])


class _Scheduler:
    def __init__(self, graph: Graph, roots: Sequence[int]) -> None:
        self.graph = graph
        self.roots = roots
        self.needed = graph.reachable(roots)
        self.levels, self.reductions = _levels(graph, self.needed)
        self.scalar_pool, self.float_pool, self.condition_pool = _Pool(), _Pool(), _Pool()
        self.scalar_at = array("i", (-1,)) * len(graph)
        self.given_count = 0
        self.inputs: dict[int, int] = {}
        self.outputs: dict[int, int] = {}
        self.column_roots = [r for r in roots if graph.columns[r]]
        for number, root in enumerate(self.column_roots):
            if graph.ops[root] not in ("leaf", "spread"):
                self.outputs.setdefault(root, number)

    def run(self, taints: Iterable[int]) -> Program:
        levels = self.levels
        last = max((levels[n] for n in self.reductions), default=0)
        per_phase = [self._columns_of(level) for level in range(last + 1)]
        given, by_level = self._scalars(last)
        inputs = self._given(given)
        last_uses = self._last_uses(by_level, per_phase)
        phases = []
        for level in range(last + 1):
            scalars = self._scalar_code(by_level[level], last_uses)
            phases.append((scalars, *self._column_code(level, per_phase[level])))
        return self._assemble(phases, inputs, tuple(taints))

    def _scalars(self, last: int) -> tuple[array[int], list[array[int]]]:
        """What is given, and what is computed in each phase."""
        graph, levels = self.graph, self.levels
        if len(graph) >= _MANY:
            from gradcli.engine.registers import split  # not for small graphs

            return split(graph, self.needed, levels, self.reductions)
        columns, given, by_level = graph.columns, array("i"), [array("i") for _ in range(last + 1)]
        for node, op in compress(enumerate(graph.ops), self.needed):
            if columns[node] or op in _REDUCES:
                continue
            if op in _GIVEN:
                given.append(node)
            else:
                by_level[levels[node]].append(node)
        return given, by_level

    def _given(self, nodes: Iterable[int]) -> _Given:
        """Registers of the constants, of the scalar leaves, and of the number of rows (-1: not used).

        They are filled before the first phase, so none of them is ever taken for something else.
        """
        ops, numbers, labels, rows = self.graph.ops, self.graph.numbers, self.graph.labels, -1
        registers, values = array("i"), array("d")
        leaves: list[tuple[int, str]] = []
        register = -1
        for register, node in enumerate(nodes):
            self.scalar_at[node] = register
            if ops[node] == "constant":
                registers.append(register)
                values.append(numbers.floats[numbers.places[node]])
            elif ops[node] == "leaf":
                leaves.append((register, labels[node]))
            else:
                rows = register
        self.given_count = self.scalar_pool.count = register + 1
        return Immediates(registers.tobytes(), values.tobytes()), leaves, rows

    def _columns_of(self, level: int) -> list[int]:
        """The columns that the pass of this level computes, in order."""
        graph, levels = self.graph, self.levels
        wanted = [r for r in self.column_roots if levels[r] == level]
        wanted += [graph.arguments(node)[0] for node in self._reduced(level)]
        if not wanted:
            return []
        marks = bytearray(len(graph))
        for node in wanted:
            marks[node] = 1
        order = []
        for node in range(max(wanted), -1, -1):
            if marks[node] and graph.columns[node]:
                order.append(node)
                for a in graph.arguments(node):
                    marks[a] = 1
        return order[::-1]

    def _reduced(self, level: int) -> list[int]:
        """The reductions that the pass of this level feeds."""
        return [n for n in self.reductions if self.levels[n] == level + 1]

    def _last_uses(self, by_level: list[array[int]], per_phase: list[list[int]]) -> bytearray:
        """A mark for every operand of a scalar operation, by its place among all operands, where it is used for the
        last time: its register is free. What a root is or a column uses as the last one is kept to the end."""
        _, first, flat = self.graph.layout()
        seen, marks = bytearray(len(self.graph)), bytearray(len(flat))
        for root in self.roots:
            seen[root] = 1
        for nodes, columns in zip(reversed(by_level), reversed(per_phase), strict=True):
            for node in columns:
                for a in self.graph.arguments(node):
                    seen[a] = 1
            if len(nodes) >= _MANY:
                from gradcli.engine.registers import last_places  # not for small graphs

                last_places(first, flat, nodes, seen, marks)
                continue
            for node in reversed(nodes):
                for i in range(first[node + 1] - 1, first[node] - 1, -1):
                    if not seen[a := flat[i]]:
                        seen[a] = marks[i] = 1
        return marks

    def _scalar_code(self, nodes: array[int], last_uses: bytearray) -> Code:
        ops, first, flat = self.graph.layout()
        at, pool, given = self.scalar_at, self.scalar_pool, self.given_count
        names = tuple(map(ops.__getitem__, nodes))
        if len(nodes) >= _MANY:
            from gradcli.engine.registers import LongCode

            long = LongCode(first, flat, nodes, last_uses)
            pool.count = long.assign(at, given, pool.free, pool.count)
            return Code(names, *long.registers(at))
        ends, operands = array("i"), array("i")
        for node in nodes:
            for i in range(first[node], first[node + 1]):
                register = at[flat[i]]
                operands.append(register)
                if last_uses[i] and register >= given:
                    pool.free.append(register)
            ends.append(len(operands))
            at[node] = pool.take()
        targets = array("i", map(at.__getitem__, nodes))
        return Code(names, targets.tobytes(), ends.tobytes(), operands.tobytes())

    def _column_code(
        self, level: int, nodes: list[int]
    ) -> tuple[list[Step], list[tuple[str, Place, int]], list[tuple[Place, int]]]:
        graph, levels = self.graph, self.levels
        reduced = self._reduced(level)
        kept = {graph.arguments(n)[0] for n in reduced} | set(self.column_roots)
        last_use: dict[int, int] = {}
        for node in nodes:
            for a in graph.arguments(node):
                last_use[a] = node
        at: dict[int, Place] = {}
        code: list[Step] = []
        for node in nodes:
            op = graph.ops[node]
            if op == "leaf":
                at[node] = ("i", self.inputs.setdefault(node, len(self.inputs)))
                continue
            if op == "spread":  # a scalar operand of a ufunc is in every row anyway
                at[node] = ("s", self.scalar_at[graph.arguments(node)[0]])
                continue
            arguments = graph.arguments(node)
            places = tuple([at[a] if graph.columns[a] else ("s", self.scalar_at[a]) for a in arguments])
            for a in dict.fromkeys(arguments):
                if graph.columns[a] and last_use[a] == node and a not in kept:
                    self._release(at[a])
            if node in self.outputs and levels[node] == level:
                at[node] = ("o", self.outputs[node])
            elif op in BOOLEAN:
                at[node] = ("c", self.condition_pool.take())
            else:
                at[node] = ("f", self.float_pool.take())
            code.append((op, at[node], places))
            if node not in last_use and node not in kept:
                self._release(at[node])
        return code, *self._ends(level, reduced, at)

    def _ends(
        self, level: int, reduced: list[int], at: dict[int, Place]
    ) -> tuple[list[tuple[str, Place, int]], list[tuple[Place, int]]]:
        """What is reduced and what is stored at the end of a block; then all buffers are free."""
        reductions: list[tuple[str, Place, int]] = []
        for node in reduced:
            source = at[self.graph.arguments(node)[0]]
            self.scalar_at[node] = self.scalar_pool.take()
            reductions.append((_REDUCES[self.graph.ops[node]], source, self.scalar_at[node]))
        stores = []
        for number, root in enumerate(self.column_roots):
            if self.levels[root] == level and at[root] != ("o", number):
                stores.append((at[root], number))
        for pool in (self.float_pool, self.condition_pool):
            pool.free = list(range(pool.count))
        return reductions, stores

    def _release(self, place: Place) -> None:
        kind, number = place
        pool = {"f": self.float_pool, "c": self.condition_pool}.get(kind)
        if pool:
            pool.free.append(number)

    def _assemble(self, phases: list[_Plan], given: _Given, taints: tuple[int, ...]) -> Program:
        graph = self.graph
        base = {"s": 0, "i": self.scalar_pool.count}
        base["o"] = base["i"] + len(self.inputs)
        base["f"] = base["o"] + len(self.column_roots)
        base["c"] = base["f"] + self.float_pool.count
        done = tuple([_numbered(plan, base) for plan in phases])
        roots, output = [], 0
        for root in self.roots:
            roots.append((True, output) if graph.columns[root] else (False, self.scalar_at[root]))
            output += graph.columns[root]
        constants, leaves, rows = given
        return Program(
            constants=constants,
            scalar_inputs=tuple(leaves),
            column_inputs=tuple([graph.labels[node] for node in self.inputs]),
            rows_register=rows,
            phases=done,
            roots=tuple(roots),
            taints=taints,
            scalar_count=self.scalar_pool.count,
            output_count=len(self.column_roots),
            float_count=self.float_pool.count,
            condition_count=self.condition_pool.count,
            operations=sum(len(p.scalars) + len(p.columns) for p in done),
        )


def _numbered(plan: _Plan, base: dict[str, int]) -> Phase:
    """A phase with its places as register numbers."""
    scalars, columns, reductions, stores = plan

    def register(place: Place) -> int:
        return base[place[0]] + place[1]

    code = tuple([(op, register(out), tuple([register(p) for p in places])) for op, out, places in columns])
    return Phase(
        scalars,
        code,
        tuple([(name, register(source), target) for name, source, target in reductions]),
        tuple([(register(source), output) for source, output in stores]),
    )


def schedule(graph: Graph, roots: Sequence[int], taints: Iterable[int] = ()) -> Program:
    """The program that evaluates the roots of a graph of machine operations."""
    return _Scheduler(graph, roots).run(taints)
