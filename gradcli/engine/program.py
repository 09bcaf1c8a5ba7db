"""An immutable program: instructions over registers, assigned by last use.

Reductions cut a program into phases. Phase k first computes the scalars that the reductions of earlier phases feed,
then passes over the rows: columns that a later phase needs again are computed again, not stored, so that memory does
not grow with rows and data may stream. Unretained adjoints have no place of their own: their register is reused as
soon as they are consumed (`Program.slots` shows it).

Registers: scalars first, then the input columns, then the output columns, then buffers of floats, then of conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN, TABLE

_REDUCES = {
    name: p.ufunc.removesuffix(".reduce") for name, p in TABLE.items() if p.ufunc and p.ufunc.endswith(".reduce")
}

Instruction = tuple[str, int, tuple[int, ...]]  # operation, target register, argument registers
Place = tuple[str, int]  # a register before they are numbered: s(calar), i(nput), o(utput), f(loat), c(ondition)
Step = tuple[str, Place, tuple[Place, ...]]
_Plan = tuple[tuple[Instruction, ...], list[Step], list[tuple[str, Place, int]], list[tuple[Place, int]]]
_Given = tuple[list[tuple[int, float]], list[tuple[int, str]], int]


@dataclass(frozen=True)
class Phase:
    """`scalars` run once, `columns` once a block, then `reductions`: (ufunc, source register, target scalar).

    `stores` copies a register into an output that is not computed in place: (source register, output number).
    """

    scalars: tuple[Instruction, ...]
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

    constants: tuple[tuple[int, float], ...]
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


_GIVEN = frozenset(("constant", "leaf", "rows"))
_NEVER = 1 << 62


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


def _levels(graph: Graph, needed: bytearray) -> list[int]:
    """The phase in which each node is first known: one later than its argument for a reduction."""
    levels = [0] * len(graph)
    if _REDUCES.keys().isdisjoint(graph.ops):
        return levels
    for node, op in enumerate(graph.ops):
        if needed[node]:
            arguments = graph.arguments(node)
            if arguments:
                levels[node] = max([levels[a] for a in arguments]) + (op in _REDUCES)
    return levels


class _Scheduler:
    def __init__(self, graph: Graph, roots: Sequence[int]) -> None:
        self.graph = graph
        self.roots = roots
        self.needed = graph.reachable(roots)
        self.levels = _levels(graph, self.needed)
        self.reductions = [n for n, op in enumerate(graph.ops) if op in _REDUCES and self.needed[n]]
        self.scalar_pool, self.float_pool, self.condition_pool = _Pool(), _Pool(), _Pool()
        self.scalar_at = [-1] * len(graph)
        self.inputs: dict[int, int] = {}
        self.outputs: dict[int, int] = {}
        self.column_roots = [r for r in roots if graph.columns[r]]
        for number, root in enumerate(self.column_roots):
            if graph.ops[root] not in ("leaf", "spread"):
                self.outputs.setdefault(root, number)

    def run(self, taints: Iterable[int]) -> Program:
        last = max((self.levels[n] for n, needed in enumerate(self.needed) if needed), default=0)
        per_phase = [self._columns_of(level) for level in range(last + 1)]
        uses = self._last_scalar_uses(per_phase)
        given = self._given(uses)
        by_level: list[list[int]] = [[] for _ in range(last + 1)]
        for node, op in enumerate(self.graph.ops):
            if self.needed[node] and not self.graph.columns[node] and op not in _REDUCES and op not in _GIVEN:
                by_level[self.levels[node]].append(node)
        phases = []
        for level in range(last + 1):
            scalars = self._scalar_code(by_level[level], uses, level)
            phases.append((scalars, *self._column_code(level, per_phase[level])))
        return self._assemble(phases, given, tuple(taints))

    def _given(self, uses: list[int]) -> _Given:
        """Registers of the constants, of the scalar leaves, and of the number of rows (-1: not used).

        They are filled before the first phase, so none of them is ever taken for something else.
        """
        graph, rows = self.graph, -1
        constants: list[tuple[int, float]] = []
        leaves: list[tuple[int, str]] = []
        for node, op in enumerate(graph.ops):
            if op in _GIVEN and self.needed[node] and not graph.columns[node]:
                register = self.scalar_at[node] = self.scalar_pool.take()
                uses[node] = _NEVER
                if op == "constant":
                    constants.append((register, graph.numbers[node][0]))
                elif op == "leaf":
                    leaves.append((register, graph.labels[node]))
                else:
                    rows = register
        return constants, leaves, rows

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

    def _last_scalar_uses(self, per_phase: list[list[int]]) -> list[int]:
        """For each scalar the moment after which its register is free: phase times (nodes + 1) plus node; a use by a
        column holds it to the end of the phase."""
        graph, levels, needed = self.graph, self.levels, self.needed
        ops, first, flat = graph.layout()
        columns, end = graph.columns, len(graph)
        uses = [0] * end
        for node in range(end):
            if needed[node] and not columns[node] and ops[node] not in _REDUCES:
                moment = levels[node] * (end + 1) + node
                for i in range(first[node], first[node + 1]):
                    if uses[flat[i]] < moment:
                        uses[flat[i]] = moment
        for level, nodes in enumerate(per_phase):
            moment = level * (end + 1) + end
            for node in nodes:
                for a in graph.arguments(node):
                    if not columns[a] and uses[a] < moment:
                        uses[a] = moment
        for root in self.roots:
            uses[root] = _NEVER
        return uses

    def _scalar_code(self, nodes: list[int], uses: list[int], level: int) -> tuple[Instruction, ...]:
        ops, first, flat = self.graph.layout()
        at, free, count = self.scalar_at, self.scalar_pool.free, self.scalar_pool.count
        base = level * (len(ops) + 1)
        code = []
        for node in nodes:
            arguments = flat[first[node] : first[node + 1]]
            moment = base + node
            registers = tuple([at[a] for a in arguments])
            for a in arguments:
                if uses[a] == moment:
                    uses[a] = _NEVER  # once, also where it is an operand twice
                    free.append(at[a])
            if free:
                out = at[node] = free.pop()
            else:
                out = at[node] = count
                count += 1
            code.append((ops[node], out, registers))
        self.scalar_pool.count = count
        return tuple(code)

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
            constants=tuple(constants),
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
