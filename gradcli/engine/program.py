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
        self.scalar_at: dict[int, int] = {}
        self.inputs: dict[int, int] = {}
        self.outputs: dict[int, int] = {}
        self.column_roots = [r for r in roots if graph.columns[r]]
        for root in self.column_roots:
            if graph.ops[root] not in ("leaf", "spread") and root not in self.outputs:
                self.outputs[root] = self.column_roots.index(root)

    def run(self, taints: Iterable[int]) -> Program:
        graph, levels = self.graph, self.levels
        ops, columns = graph.ops, graph.columns
        last = max((levels[n] for n in range(len(graph)) if self.needed[n]), default=0)
        per_phase = [self._columns_of(level) for level in range(last + 1)]
        scalar_uses = self._last_scalar_uses(per_phase)
        constants: list[tuple[int, float]] = []
        scalar_inputs: list[tuple[int, str]] = []
        rows_register = -1
        by_level: list[list[int]] = [[] for _ in range(last + 1)]
        for node in range(len(graph)):
            if not self.needed[node] or columns[node]:
                continue
            op = ops[node]
            if op in ("constant", "leaf", "rows"):
                register = self.scalar_at[node] = self.scalar_pool.take()
                if op == "constant":
                    constants.append((register, graph.numbers[node][0]))
                elif op == "leaf":
                    scalar_inputs.append((register, graph.labels[node]))
                else:
                    rows_register = register
            elif op not in _REDUCES:
                by_level[levels[node]].append(node)
        given = frozenset(self.scalar_at)
        phases = []
        for level in range(last + 1):
            scalars = self._scalar_code(by_level[level], scalar_uses, given, level)
            phases.append((scalars, *self._column_code(level, per_phase[level])))
        return self._assemble(phases, constants, scalar_inputs, rows_register, tuple(taints))

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

    def _last_scalar_uses(self, per_phase: list[list[int]]) -> dict[int, tuple[int, int]]:
        """(phase, node) after which the register of a scalar is free; a column holds it to the end of the phase."""
        graph, levels = self.graph, self.levels
        end = len(graph)
        uses: dict[int, tuple[int, int]] = {}
        for node in range(end):
            if self.needed[node] and not graph.columns[node] and graph.ops[node] not in _REDUCES:
                for a in graph.arguments(node):
                    uses[a] = max(uses.get(a, (0, 0)), (levels[node], node))
        for level, nodes in enumerate(per_phase):
            for node in nodes:
                for a in graph.arguments(node):
                    if not graph.columns[a]:
                        uses[a] = max(uses.get(a, (0, 0)), (level, end))
        for root in self.roots:
            uses[root] = (len(per_phase), end)
        return uses

    def _scalar_code(
        self, nodes: list[int], uses: dict[int, tuple[int, int]], given: frozenset[int], level: int
    ) -> tuple[Instruction, ...]:
        graph, at, pool = self.graph, self.scalar_at, self.scalar_pool
        code = []
        for node in nodes:
            arguments = tuple(graph.arguments(node))
            registers = tuple([at[a] for a in arguments])
            for a in dict.fromkeys(arguments):
                if a not in given and uses[a] <= (level, node):
                    pool.free.append(at[a])
            at[node] = pool.take()
            code.append((graph.ops[node], at[node], registers))
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
        reductions: list[tuple[str, Place, int]] = []
        for node in reduced:
            source = at[graph.arguments(node)[0]]
            self.scalar_at[node] = self.scalar_pool.take()
            reductions.append((_REDUCES[graph.ops[node]], source, self.scalar_at[node]))
        stores = []
        for number, root in enumerate(self.column_roots):
            if levels[root] == level and at[root] != ("o", number):
                stores.append((at[root], number))
        for pool in (self.float_pool, self.condition_pool):
            pool.free = list(range(pool.count))
        return code, reductions, stores

    def _release(self, place: Place) -> None:
        kind, number = place
        pool = {"f": self.float_pool, "c": self.condition_pool}.get(kind)
        if pool:
            pool.free.append(number)

    def _assemble(
        self,
        phases: list[tuple[tuple[Instruction, ...], list[Step], list[tuple[str, Place, int]], list[tuple[Place, int]]]],
        constants: list[tuple[int, float]],
        scalar_inputs: list[tuple[int, str]],
        rows_register: int,
        taints: tuple[int, ...],
    ) -> Program:
        graph = self.graph
        base = {"s": 0, "i": self.scalar_pool.count}
        base["o"] = base["i"] + len(self.inputs)
        base["f"] = base["o"] + len(self.column_roots)
        base["c"] = base["f"] + self.float_pool.count

        def register(place: Place) -> int:
            return base[place[0]] + place[1]

        done = []
        for scalars, columns, reductions, stores in phases:
            code = tuple([(op, register(out), tuple([register(p) for p in places])) for op, out, places in columns])
            done.append(
                Phase(
                    scalars,
                    code,
                    tuple([(u, register(s), t) for u, s, t in reductions]),
                    tuple([(register(s), o) for s, o in stores]),
                )
            )
        sources = [graph.labels[node] for node in self.inputs]
        roots, output = [], 0
        for root in self.roots:
            if graph.columns[root]:
                roots.append((True, output))
                output += 1
            else:
                roots.append((False, self.scalar_at[root]))
        return Program(
            tuple(constants),
            tuple(scalar_inputs),
            tuple(sources),
            rows_register,
            tuple(done),
            tuple(roots),
            taints,
            self.scalar_pool.count,
            len(self.column_roots),
            self.float_pool.count,
            self.condition_pool.count,
            sum(len(p.scalars) + len(p.columns) for p in done),
        )


def schedule(graph: Graph, roots: Sequence[int], taints: Iterable[int] = ()) -> Program:
    """The program that evaluates the roots of a graph of machine operations."""
    return _Scheduler(graph, roots).run(taints)
