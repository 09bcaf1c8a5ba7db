"""Why rows are not finite: the first operation whose result is not, though its operands are; counted by place.

Rows are told apart by which of the nodes are finite in them; one row of each kind is followed back from the result.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradcli.api import Program
from gradcli.calculus.adjoint import adjoints
from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import specialise
from gradcli.engine import execute
from gradcli.engine.program import Program as MachineProgram
from gradcli.engine.program import schedule
from gradcli.graph import Graph

Rows = NDArray[np.float64]
_ROOM = 1 << 21  # numbers at a time


@dataclass(frozen=True)
class Cause:
    """Where a nan or an infinity first arose. `slope`: in a derivative, the value being finite."""

    output: str
    function: str
    text: str
    line: int
    slope: bool = False

    @property
    def sentence(self) -> str:
        if self.function == "input":
            return f"input `{self.text}`"
        return f"{'the slope of ' if self.slope else ''}`{self.text or self.function}` in line {self.line}"


@dataclass
class _Traced:
    """A graph with all nodes of one result as roots."""

    graph: Graph
    root: int
    order: list[int]
    machine: MachineProgram


class Causes:
    """Traces for the programs of a run, made when first needed."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.traces: dict[tuple[int, str, frozenset[str]], _Traced] = {}
        self.lock = threading.Lock()

    def find(
        self, number: int, inputs: Mapping[str, Rows], results: Mapping[str, Rows]
    ) -> dict[Cause, tuple[int, int]]:
        """For each cause how many rows, and the first of them. `results`: the value under "", gradients by name."""
        found: dict[Cause, tuple[int, int]] = {}
        open_rows = np.arange(len(next(iter(results.values()))))
        for label, values in results.items():
            rows = open_rows[~np.isfinite(values[open_rows])]
            if len(rows):
                for low in range(0, len(rows), step := self._step(number, label, inputs)):
                    self._count(found, number, label, inputs, rows[low : low + step])
                open_rows = np.setdiff1d(open_rows, rows)
        return found

    def _step(self, number: int, label: str, inputs: Mapping[str, Rows]) -> int:
        return max(1, _ROOM // len(self._trace(number, label, frozenset(inputs)).order))

    def _trace(self, number: int, label: str, columns: frozenset[str]) -> _Traced:
        with self.lock:
            key = (number, label, columns)
            if key not in self.traces:
                self.traces[key] = self._make(self.programs[number], label, columns)
            return self.traces[key]

    def _make(self, program: Program, label: str, columns: frozenset[str]) -> _Traced:
        resolved = program.model.resolved
        names = resolved.names
        roots = [names[program.output].node, *([names[label].node] if label else [])]
        graph, at = specialise(resolved.graph, columns, roots)
        root = at[roots[0]]
        if label:
            root = adjoints(graph, root, (at[roots[1]],)).get(at[roots[1]], root)
        order = [n for n, mark in enumerate(graph.reachable((root,))) if mark]
        machine, placed = simplify(graph, order)
        return _Traced(graph, root, order, schedule(machine, placed))

    def _count(
        self,
        found: dict[Cause, tuple[int, int]],
        number: int,
        label: str,
        inputs: Mapping[str, Rows],
        rows: NDArray[np.intp],
    ) -> None:
        program = self.programs[number]
        trace = self._trace(number, label, frozenset(inputs))
        given: dict[str, Any] = {n: np.ascontiguousarray(v[rows]) for n, v in inputs.items()}
        values, _, _ = program.values(given)
        numbers = execute.run(trace.machine, {**values, **given}, len(rows), 1)
        table = np.array([np.broadcast_to(v, len(rows)) for v in numbers])
        kinds = np.isfinite(table) + 2 * (table != 0)
        _, firsts, counts = np.unique(kinds, axis=1, return_index=True, return_counts=True)
        position = {node: i for i, node in enumerate(trace.order)}
        for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
            cause = _cause(program, trace, table[:, first], position, label)
            earlier = found.get(cause, (0, int(rows[first])))
            found[cause] = earlier[0] + count, min(earlier[1], int(rows[first]))


def _cause(program: Program, trace: _Traced, row: Rows, position: Mapping[int, int], label: str) -> Cause:
    graph, node = trace.graph, trace.root
    while True:
        arguments = list(graph.arguments(node))
        if graph.ops[node] == "where":
            arguments = [arguments[1] if row[position[arguments[0]]] else arguments[2]]
        if graph.ops[node] == "_taint":
            arguments = arguments[::-1]
        worse = [a for a in arguments if graph.number(a) is None and not np.isfinite(row[position[a]])]
        if not worse:
            break
        node = min(worse)
    source = program.model.source
    start, end = graph.starts[node], graph.ends[node]
    text = source.text[start:end] if start >= 0 else ""
    line = source.line_of(start) if start >= 0 else 0
    if graph.ops[node] == "leaf":
        return Cause(program.output, "input", graph.labels[node], line)
    return Cause(program.output, graph.ops[node], text if len(text) <= 60 else text[:57] + "...", line, bool(label))
