"""A side note: whether sympy simplifies the difference of a claim's sides to zero.

The work is done in one long-lived child process, which is ended when it takes too long. It gets a list of operations,
never a text, and it never changes a verdict.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from gradcli.calculus.exact import Symbols
from gradcli.graph import Graph
from gradcli.primitives import TABLE

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Step = tuple[str, tuple[int, ...], str]
_MEMORY = 2 << 30  # bytes of address space that the child may use
_STEPS = 3000  # operations from which a difference is not looked at
_START = 30.0  # seconds more for the child to come up


@cache
def helper(limit: float) -> Helper:
    """The one child of this process for a time limit."""
    return Helper(limit)


class Helper:
    """A child process that simplifies, started when it is first asked and again after it was ended."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._child: Any = None
        self._line: Connection[Any, Any] | None = None

    def ask(self, graph: Graph, left: int, right: int, positive: Sequence[str] = ()) -> str:
        """zero, nonzero or unknown."""
        steps = encode(graph, left, right)
        if steps is None:
            return "unknown"
        line = self._start()
        try:
            line.send((steps, tuple(positive)))
            if line.poll(self.limit):
                return str(line.recv())
        except (OSError, EOFError):
            pass
        self.end()
        return "unknown"

    def _start(self) -> Connection[Any, Any]:
        if self._line is not None and self._child.is_alive():
            return self._line
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._child = context.Process(target=serve, args=(theirs,), daemon=True)
        self._child.start()
        theirs.close()
        if self._line.poll(_START):  # the child says when sympy is loaded: that does not count
            self._line.recv()
        return self._line

    def end(self) -> None:
        """End the child; the next question starts another."""
        if self._child is not None:
            self._child.kill()
            self._child.join()
        if self._line is not None:
            self._line.close()
        self._child = self._line = None


def encode(graph: Graph, left: int, right: int) -> tuple[list[Step], int, int] | None:
    """The operations that two nodes need, for the child; None with columns, or where there are too many."""
    marks = graph.reachable((left, right))
    nodes = [n for n, mark in enumerate(marks) if mark]
    if len(nodes) > _STEPS or any(graph.columns[n] for n in nodes):
        return None
    at = {n: i for i, n in enumerate(nodes)}
    steps: list[Step] = []
    for n in nodes:
        own = graph.labels.get(n, "") if graph.ops[n] == "leaf" else graph.numbers.get(n, ("", ""))[1]
        steps.append((graph.ops[n], tuple(at[a] for a in graph.arguments(n)), own))
    return steps, at[left], at[right]


def serve(line: Connection[Any, Any]) -> None:
    """The child: one answer a question, until the other end closes."""
    _bound_memory()
    symbols = Symbols()
    line.send("ready")
    while True:
        try:
            (steps, left, right), positive = line.recv()
        except (EOFError, OSError):
            return
        line.send(judge(symbols, steps, left, right, positive))


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def judge(m: Symbols, steps: Sequence[Step], left: int, right: int, positive: Sequence[str]) -> str:
    """What sympy makes of a difference; unknown where it leaves something open."""
    try:
        built: list[Any] = []
        for op, arguments, own in steps:
            inner = [built[a] for a in arguments]
            if op == "leaf":
                built.append(m.sympy.Symbol(f"x{len(built)}", real=True, positive=True if own in positive else None))
            elif op == "constant":
                built.append(m.num(own))
            elif op in ("name", "detach", "spread", "_taint", "gather"):
                built.append(inner[0])
            else:
                built.append(TABLE[op].exact(m, *inner))
        rest = m.sympy.simplify(built[left] - built[right])
        if rest.has(m.sympy.nan, m.sympy.zoo):
            return "unknown"
        return "zero" if rest.is_zero else "nonzero" if rest.is_number and rest.is_zero is False else "unknown"
    except Exception:  # noqa: BLE001  whatever sympy meets, there is no opinion
        return "unknown"
