"""Is the rule right, and are the digits right: every derivative of an output, by three witnesses.

The engine's adjoint graph and the symbolic witness are evaluated at the same points to fifty digits; they agree to forty
or somebody is wrong. The function itself, differenced at twice the digits, is the third witness and says who. At a kink
the one-sided slopes count: a gradient between them is accepted, and the kink is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.calculus.adjoint import MixedRows, adjoints
from gradcli.calculus.exact import evaluate
from gradcli.calculus.specialise import expand, specialise
from gradcli.checking.exactly import AGREE, DIGITS, MORE, MOST, exact, is_nan, leaves, near, real_numbers, rows_of, spell
from gradcli.checking.points import Branches, Point, Sampler, seed_of
from gradcli.checking.witness import EXPANDED, Sweep
from gradcli.errors import BindingError, Diagnostic
from gradcli.graph import Graph
from gradcli.language.lower import Name
from gradcli.results import Check, Column, Number

if TYPE_CHECKING:
    from gradcli.api import Model, Program

_FLOAT_DIGITS = 15.95


@dataclass
class _Shape:
    """The graphs of one output for one set of columns: forward with adjoints, and the witness's own."""

    graph: Graph
    output: int
    by: dict[str, int]
    adjoint: dict[str, int]
    last: int
    witness: Graph
    witness_output: int
    witness_by: dict[str, int]


@dataclass
class _Verdict:
    """What has been found for one leaf so far."""

    points: int = 0
    digits: float = _FLOAT_DIGITS
    wrong: dict[str, Any] | None = None
    kink: str | None = None
    doubt: str | None = None


class DerivativeCheck:
    """All derivatives of one output of a model, checked together at the same points."""

    def __init__(self, model: Model, output: str, count: int, seed: int) -> None:
        self.model, self.count = model, count
        self.program: Program = model.compile(output)
        self.output = self.program.output
        self.names = model.resolved.names
        self.leaves = [n for n in self.program.wanted if n in self.program.filled]
        needed = list(self.program.needed.values())
        text = " ".join(f"{n.label}" for n in needed)
        self.seed = seed_of(f"{self.output} {text} {len(model.resolved.graph)}", seed)
        self.sampler = Sampler(model.resolved, model.point, needed, self.seed)
        self.branches = Branches()
        self._shapes: dict[frozenset[str], _Shape] = {}

    def run(self) -> list[Check]:
        """One verdict a leaf. Raises BindingError where the domain contains no point."""
        found = {n: _Verdict() for n in self.leaves}
        if not found:
            return []
        own = self.sampler.own
        if own is not None:
            self._visit(own, found)
        valid = 0
        for tries, point in enumerate(self.sampler.stream()):
            if tries >= self.count * 12 or (valid >= self.count and (self.branches.complete or tries >= self.count * 3)):
                break
            if valid < self.count or not self.branches.complete:
                valid += self._visit(point, found)
            if all(v.wrong for v in found.values()):
                break
        if own is None and valid == 0 and not any(v.points for v in found.values()):
            self._no_points()
        return [self._check(self.names[n], v) for n, v in found.items()]

    def _no_points(self) -> None:
        domains = self.model.resolved.domains
        span = domains[0].span if domains else self.names[self.output].span
        raise BindingError(Diagnostic(f"no valid point for `{self.output}` was found", span,
                                      "give the leaves values, or a `domain` in which the output is defined"))  # fmt: skip

    def _visit(self, point: Point, found: dict[str, _Verdict]) -> bool:
        """Judge every leaf at a point; False where the output has no value there."""
        shape = self._shape(frozenset(n for n, v in point.items() if isinstance(v, list)))
        values = leaves(self.model.resolved, point, own=False)
        numbers = self._numbers(shape, values, DIGITS)
        if any(is_nan(v) or abs(v) == math.inf for v in rows_of(numbers[shape.output])):
            return False
        if not self.branches.sides:
            self.branches.watch(shape.graph, shape.output, shape.last)
        watched = {a for node in self.branches.sides for a in shape.graph.arguments(node)}
        self.branches.record(shape.graph, {a: [float(v) for v in rows_of(numbers[a])] for a in watched})
        sweep = self._sweep(shape, numbers, values)
        floats = self._floats(point)
        for name, verdict in found.items():
            if verdict.wrong is None:
                self._judge(name, verdict, shape, sweep, numbers, floats.get(name), point, values)
        return True

    def _numbers(self, shape: _Shape, values: dict[str, Any], digits: int) -> list[Any]:
        """The exact value of every node that the output and its adjoints need."""
        wanted = [n for n, mark in enumerate(shape.graph.reachable([shape.output, *shape.adjoint.values()])) if mark]
        numbers: list[Any] = [None] * len(shape.graph)
        for node, value in zip(wanted, evaluate(shape.graph, wanted, values, digits), strict=True):
            numbers[node] = value
        return numbers

    def _shape(self, columns: frozenset[str]) -> _Shape:
        if columns not in self._shapes:
            resolved = self.model.resolved
            roots = [self.names[self.output].node, *(self.names[n].node for n in self.leaves)]
            literal = {resolved.graph.labels[n] for n in resolved.graph.lists}
            try:
                graph, at = specialise(resolved.graph, columns | literal, roots)
                output, last = at[roots[0]], len(graph) - 1
                by = {n: at[self.names[n].node] for n in self.leaves}
                found = adjoints(graph, output, by.values())
            except MixedRows as fault:
                from gradcli.api import mixed_rows

                raise mixed_rows(self.model, fault) from None
            zero = graph.constant(0.0)
            adjoint = {n: found.get(node, zero) for n, node in by.items()}
            witness, places = graph, list(range(last + 1))
            if EXPANDED & set(graph.ops[: last + 1]):
                witness, places = expanded(graph, last)
            self._shapes[columns] = _Shape(graph, output, by, adjoint, last, witness, places[output],
                                           {n: places[node] for n, node in by.items()})  # fmt: skip
        return self._shapes[columns]

    def _sweep(self, shape: _Shape, numbers: list[Any], values: dict[str, Any], digits: int = DIGITS) -> Sweep:
        if shape.witness is not shape.graph:
            nodes = [n for n, mark in enumerate(shape.witness.reachable([shape.witness_output])) if mark]
            numbers = [None] * len(shape.witness)
            for node, value in zip(nodes, evaluate(shape.witness, nodes, values, digits), strict=True):
                numbers[node] = value
        m, real = real_numbers(numbers[: shape.witness_output + 1], digits)
        return Sweep(shape.witness, shape.witness_output, real, m, digits)

    def _floats(self, point: Point) -> dict[str, Number | None]:
        given = {n: v for n, v in point.items() if self.names[n].kind in ("leaf", "free", "const")}
        result = self.program.run(given, threads=1)
        return dict(result.gradients)

    def _judge(self, name: str, verdict: _Verdict, shape: _Shape, sweep: Sweep, numbers: list[Any], gradient: Number | None,
               point: Point, values: dict[str, Any]) -> None:
        engine, slopes, sizes = self._both(name, shape, sweep, numbers)
        verdict.points += 1
        odd = [row for row, e in enumerate(engine) if not near(e, slopes[row], sizes[row])]
        for digits in (MORE, MOST):
            if not odd:
                break
            # a witness that cancels, such as 1 - tanh(x)^2 in the tail, comes right with more digits
            again = self._numbers(shape, values, digits)
            engine, slopes, sizes = self._both(name, shape, self._sweep(shape, again, values, digits), again)
            odd = [row for row in odd if not near(engine[row], slopes[row], sizes[row])]
        for row in odd:
            if not self._settle(name, verdict, shape, engine[row], slopes[row], sizes[row], row, point, values):
                return
        if gradient is not None:
            self._count_digits(verdict, engine, sizes, gradient)

    def _both(self, name: str, shape: _Shape, sweep: Sweep, numbers: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Engine, witness, and the size of the witness's terms, row by row."""
        zero = [sweep.m.num(0)]
        node = shape.witness_by[name]
        engine = rows_of(numbers[shape.adjoint[name]])
        slopes = [v.value for v in sweep.adjoint.get(node, zero)]
        sizes = [v.value for v in sweep.size.get(node, zero)]
        rows = max(len(engine), len(slopes))
        engine, slopes, sizes = (x if len(x) == rows else x * rows for x in (engine, slopes, sizes))
        return engine, slopes, sizes

    def _settle(self, name: str, verdict: _Verdict, shape: _Shape, engine: Any, slope: Any, size: Any, row: int,
                point: Point, values: dict[str, Any]) -> bool:
        """The function itself says who is right; one-sided slopes that differ are a kink. False ends this leaf."""
        left, right = one_sided(shape, name, row, values)
        if is_nan(left) and is_nan(right):
            verdict.doubt = f"the witness and the function have no slope at {point_text(point)}"
            return True
        sides = [s for s in (left, right) if not is_nan(s)]
        low, high = min(sides), max(sides)
        between = low <= engine <= high or any(near(engine, s, size, 12) for s in sides)
        kink = not near(low, high, size, 12) if abs(low) != math.inf and abs(high) != math.inf else low != high
        if (kink or len(sides) == 1) and between:
            verdict.kink = f"a kink at {point_text(point)}: slopes {spell(left, 6)} and {spell(right, 6)}"
            return True
        if near(engine, low, size, 12) and near(engine, high, size, 12) and not near(slope, low, size, 12):
            verdict.doubt = f"the symbolic witness differs at {point_text(point)}: {spell(slope)}"
            return True
        who = "the engine's rule is the odd one out" if near(slope, low, size, 12) else "engine and witness differ"
        verdict.wrong = {"point": point, "left": spell(engine), "right": spell(slope), "hint": who}
        return False

    def _count_digits(self, verdict: _Verdict, engine: Sequence[Any], sizes: Sequence[Any], gradient: Number) -> None:
        numbers = np.atleast_1d(gradient)
        for row, truth in enumerate(engine):
            value = float(numbers[row if len(numbers) > 1 else 0])
            if is_nan(truth) or not math.isfinite(value) or abs(truth) == math.inf:
                continue
            scale = abs(truth) if truth else sizes[row]
            error = float(abs(value - truth) / scale) if scale else float(abs(value - truth))
            if 0 < abs(truth) < 2.3e-308:
                continue  # a subnormal number has fewer digits to be right
            verdict.digits = min(verdict.digits, -math.log10(error) if error > 0 else _FLOAT_DIGITS)

    def _check(self, name: Name, verdict: _Verdict) -> Check:
        names = self.names
        span = names[self.output].span
        _, line, column = span.source.locate(span.start)
        wrong = verdict.wrong
        state = "wrong" if wrong else "undecided" if verdict.points == 0 or (verdict.doubt and verdict.points == 1) else "agrees"
        point = wrong["point"] if wrong else None
        return Check(
            kind="derivative", name=f"d({self.output}, {name.label})", text=f"d({self.output}, {name.label})", line=line,
            column=column, end_column=column + span.end - span.start, verdict=state, points=verdict.points,
            digits=max(0.0, round(verdict.digits, 1)), seed=self.seed, output=self.output, by=name.label,
            counterexample={n: repr(v) for n, v in point.items()} if point else None,
            left=wrong["left"] if wrong else None, right=wrong["right"] if wrong else None,
            hint=wrong["hint"] if wrong else None,
            replay=f"d({self.output}, {name.label})" if wrong else None,
            note=verdict.kink or verdict.doubt, branches=self.branches.count,
        )  # fmt: skip


def expanded(graph: Graph, last: int) -> tuple[Graph, list[int]]:
    """The same function with reductions such as var and norm written out, for the witness."""
    from gradcli.primitives import new_graph

    plain = new_graph()
    at: list[int] = []
    for node in range(last + 1):
        op = graph.ops[node]
        arguments = [at[a] for a in graph.arguments(node)]
        if op == "leaf":
            at.append(plain.leaf(graph.labels[node], bool(graph.columns[node])))
        elif op == "constant":
            at.append(plain.constant(*graph.numbers[node]))
        elif op == "name":
            at.append(plain.name(arguments[0], graph.labels[node]))
        elif op in EXPANDED:
            at.append(expand(plain, op, arguments))
        else:
            at.append(plain.add(op, *arguments))
    return plain, at


def one_sided(shape: _Shape, name: str, row: int, values: dict[str, Any]) -> tuple[Any, Any]:
    """The slopes of the function to the left and right of a point, by differences at more than twice the digits."""
    import mpmath

    with mpmath.workdps(MORE + 20):
        given = values[name]
        many = isinstance(given, list)
        centre = mpmath.mpf(given[row if len(given) > 1 else 0] if many else given)
        step = (abs(centre) or mpmath.mpf(1)) * mpmath.mpf(10) ** -(AGREE - 5)
        results = []
        column_output = bool(shape.graph.columns[shape.output])
        for moved in (centre - step, centre, centre + step):
            changed = list(given) if many else moved
            if many:
                changed[row if len(given) > 1 else 0] = moved
            value = exact(shape.graph, [shape.output], {**values, name: changed}, MORE)[0]
            results.append(value[row] if column_output and len(value) > 1 else value[0])
        low, middle, high = results
        return (middle - low) / step, (high - middle) / step


def point_text(point: Point) -> str:
    return " ".join(f"{n}={v if isinstance(v, float) else '[...]'}" for n, v in list(point.items())[:6])


__all__ = ["Column", "DerivativeCheck"]
