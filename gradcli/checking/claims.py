"""Claims and expectations: identities judged by numbers alone, on the decimals as written.

A claim agrees when, at every sampled point where its condition holds, both sides are defined and equal to forty digits;
it is wrong at a point where they differ or where exactly one side is defined. A constant written with fifteen or more
significant digits is taken as rounded: the claim is then judged to that precision.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from gradcli.calculus.adjoint import MixedRows
from gradcli.calculus.exact import evaluate
from gradcli.calculus.specialise import specialise
from gradcli.checking.exactly import DIGITS, MORE, is_nan, leaves, near, rows_of, spell
from gradcli.checking.hints import hint
from gradcli.checking.points import Branches, Point, Sampler, seed_of
from gradcli.errors import BindingError, Diagnostic
from gradcli.graph import Graph
from gradcli.language.lower import ClaimLine, ExpectLine, Name
from gradcli.reports.formula import formula
from gradcli.results import Check

if TYPE_CHECKING:
    from gradcli.api import Model

_ROUNDED = 15  # significant digits from which a constant counts as rounded
_MOST_ROUNDED = 24  # constants whose rounding is followed up


def needed_names(model: Model, nodes: Sequence[int]) -> list[Name]:
    """The leaves, constants and free names that nodes are computed from."""
    marks = model.resolved.graph.reachable(nodes)
    return [n for n in model.resolved.names.values() if n.kind != "intermediate" and marks[n.node]]


class ClaimCheck:
    """One claim at seeded points."""

    def __init__(self, model: Model, claim: ClaimLine, count: int, seed: int) -> None:
        self.model, self.claim, self.count = model, claim, count
        self.nodes = [claim.left, claim.right, *([claim.condition] if claim.condition is not None else [])]
        graph = model.resolved.graph
        text = " = ".join(formula(graph, n) for n in self.nodes) if len(graph) < 20000 else claim.span.text
        self.seed = seed_of(text, seed)
        names = needed_names(model, [*self.nodes, *(d.node for d in model.resolved.domains)])
        self.sampler = Sampler(model.resolved, model.point, names, self.seed)
        self.branches = Branches()
        self._graphs: dict[frozenset[str], tuple[Graph, list[int]]] = {}
        self.judged: float | None = None
        self.seen: list[tuple[Point, Any, Any]] = []

    def run(self) -> Check:
        """Raises BindingError where the domain and the condition leave no point."""
        points, undefined = 0, 0
        own = self.sampler.own
        candidates = self.sampler.stream()
        tries = 0
        point: Point | None = own if own is not None else next(candidates, None)
        is_own = own is not None
        while point is not None:
            verdict = self._visit(point, is_own)
            if verdict == "wrong":
                return self._wrong(point, points + 1)
            points += verdict == "equal"
            undefined += verdict == "undefined"
            tries += 1
            enough = points >= self.count and (self.branches.complete or tries >= self.count * 3)
            if enough or tries >= self.count * 12:
                break
            is_own, point = False, next(candidates, None)
        if tries == 0:
            self._empty("the domain contains no point")
        return self._check("agrees" if points else "undecided", points,
                           note=None if points else "neither side is defined at any point that was tried")  # fmt: skip

    def _empty(self, fact: str) -> None:
        domains = self.model.resolved.domains
        span = domains[0].span if domains else self.claim.span
        raise BindingError(Diagnostic(f"{fact} for this claim", span, "widen the `domain`"))

    def _graph(self, columns: frozenset[str]) -> tuple[Graph, list[int]]:
        if columns not in self._graphs:
            resolved = self.model.resolved
            literal = {resolved.graph.labels[n] for n in resolved.graph.lists}
            try:
                graph, at = specialise(resolved.graph, columns | literal, self.nodes)
            except MixedRows as fault:
                from gradcli.api import mixed_rows

                raise mixed_rows(self.model, fault) from None
            self._graphs[columns] = graph, [at[n] for n in self.nodes]
        return self._graphs[columns]

    def _visit(self, point: Point, own: bool) -> str:
        """equal, wrong, undefined (no side has a value) or skipped (the condition does not hold), over all rows."""
        graph, nodes = self._graph(frozenset(n for n, v in point.items() if isinstance(v, list)))
        values = leaves(self.model.resolved, point, own)
        numbers = self._numbers(graph, nodes, values)
        left, right, holds = (rows_of(v) for v in (*numbers, True)[:3])
        rows = max(len(left), len(right), len(holds))
        if len(left) != len(right) and min(len(left), len(right)) > 1:
            raise BindingError(Diagnostic(f"the sides have {len(left)} and {len(right)} rows", self.claim.span))
        left, right, holds = (v * rows if len(v) == 1 else v for v in (left, right, holds))
        outcome = "skipped"
        for row in range(rows):
            if not holds[row] or is_nan(holds[row]):
                continue
            if is_nan(left[row]) and is_nan(right[row]):
                outcome = "undefined" if outcome == "skipped" else outcome
                continue
            if not self._equal(graph, nodes, values, left[row], right[row], row):
                self.seen.append((point, left[row], right[row]))
                return "wrong"
            outcome = "equal"
        return outcome

    def _numbers(self, graph: Graph, nodes: Sequence[int], values: dict[str, Any]) -> list[Any]:
        """Both sides and the condition; the sides of every `where` are noted on the way."""
        if not self.branches.sides:
            for node in nodes[:2]:
                self.branches.watch(graph, node, len(graph))
        watched = sorted({a for node in self.branches.sides for a in graph.arguments(node)})
        found = evaluate(graph, [*nodes, *watched], values, DIGITS)
        at = {a: [float(v) for v in rows_of(value)] for a, value in zip(watched, found[len(nodes) :], strict=True)}
        self.branches.record(graph, at)
        return found[: len(nodes)]

    def _equal(self, graph: Graph, nodes: Sequence[int], values: dict[str, Any], left: Any, right: Any, row: int) -> bool:
        if near(left, right, 0):
            return True
        if is_nan(left) or is_nan(right) or math.inf in (abs(left), abs(right)):
            return False
        again = evaluate(graph, nodes[:2], values, MORE)
        more_left, more_right = (rows_of(v)[row if len(rows_of(v)) > 1 else 0] for v in again)
        gap, more_gap = abs(left - right), abs(more_left - more_right)
        if more_gap <= gap * type(gap)(10) ** -(MORE - DIGITS) * 10**20:
            return True  # what differs is rounding at fifty digits: it goes when there are more
        slack = self._slack(graph, nodes, values, row)
        if slack and more_gap <= slack:
            size = max(abs(more_left), abs(more_right))
            digits = float(-_log10(slack / size)) if size else 15.0
            self.judged = min(self.judged or 99.0, round(digits, 1))
            return True
        return False

    def _slack(self, graph: Graph, nodes: Sequence[int], values: dict[str, Any], row: int) -> Any:
        """How far half a unit in the last digit of each rounded constant can move the difference of the sides."""
        marks = graph.reachable(nodes[:2])
        rounded = [(n, t) for n, (_, t) in graph.numbers.items() if marks[n] and significant(t) >= _ROUNDED]
        total: Any = 0
        for node, text in rounded[:_MOST_ROUNDED]:
            with nudged(graph, node, text):
                moved = [rows_of(v)[row if len(rows_of(v)) > 1 else 0] for v in evaluate(graph, nodes[:2], values, MORE)]
            base = [rows_of(v)[row if len(rows_of(v)) > 1 else 0] for v in evaluate(graph, nodes[:2], values, MORE)]
            total = total + abs((moved[0] - moved[1]) - (base[0] - base[1]))
        return total * 1.01 if total else total

    def _wrong(self, point: Point, points: int) -> Check:
        _, left, right = self.seen[-1]
        others = self._others(point)
        return self._check("wrong", points, point, left, right, hint(self.model, self.claim, others, self.branches))

    def _others(self, first: Point) -> list[tuple[Point, Any, Any]]:
        """Both sides at a few more points, for the hint."""
        found = list(self.seen)
        for tries, point in enumerate(self.sampler.stream()):
            if tries >= 12 or len(found) >= 5:
                break
            graph, nodes = self._graph(frozenset(n for n, v in point.items() if isinstance(v, list)))
            values = leaves(self.model.resolved, point, own=False)
            left, right = (rows_of(v)[0] for v in evaluate(graph, nodes[:2], values, DIGITS))
            if not is_nan(left) and not is_nan(right):
                found.append((point, left, right))
        return found

    def _check(self, verdict: str, points: int, point: Point | None = None, left: Any = None, right: Any = None,
               told: str | None = None, note: str | None = None) -> Check:
        claim = self.claim
        _, line, column = claim.span.source.locate(claim.span.start)
        text = f"{claim.left_span.text} = {claim.right_span.text}"
        replay = f"({claim.left_span.text}) - ({claim.right_span.text})" if verdict == "wrong" else None
        return Check(
            kind="claim", name=claim.name or f"line {line}", text=text, line=line, column=column,
            end_column=column + len(claim.span.text.split("\n")[0]), verdict=verdict, points=points,
            digits=self.judged if self.judged is not None else 40.0 if verdict == "agrees" else None, seed=self.seed,
            counterexample={n: repr(v) for n, v in point.items()} if point is not None else None,
            left=None if left is None else spell(left), right=None if right is None else spell(right), hint=told,
            replay=replay, note=note, branches=self.branches.count,
        )  # fmt: skip


def significant(text: str) -> int:
    """How many significant digits a decimal was written with; 0 for what is no decimal."""
    mantissa = re.split("[eE]", text)[0].lstrip("+-").replace(".", "")
    return len(mantissa.lstrip("0")) if mantissa.isdigit() else 0


def uncertainty(text: str) -> Decimal:
    """How far a rounded constant may be off: half a unit in its last digit, or, where the digits are those of a double
    (seventeen at most, or its own longer expansion), one unit of the double."""
    number = Decimal(text)
    half = Decimal(5).scaleb(int(number.as_tuple().exponent) - 1)
    digits, double = significant(text), float(text)
    if digits <= 17 or number == Context(prec=digits).create_decimal(Decimal(double)):
        return max(half, Decimal(math.ulp(double)))
    return half


@contextmanager
def nudged(graph: Graph, node: int, text: str) -> Iterator[None]:
    """A constant moved by what its rounding may hide, for the time of an evaluation."""
    value, _ = graph.numbers[node]
    moved = Context(prec=significant(text) + 40).add(Decimal(text), uncertainty(text))
    graph.numbers[node] = (value, str(moved))
    try:
        yield
    finally:
        graph.numbers[node] = (value, text)


def _log10(number: Any) -> Any:
    import mpmath

    return mpmath.log10(number)


def check_expect(model: Model, line: ExpectLine) -> Check:
    """An expectation at the file's own point. Raises BindingError for names without a value."""
    names = needed_names(model, [line.left, line.right])
    missing = [n for n in names if n.label not in model.point]
    if missing:
        raise BindingError(*[Diagnostic(f"`{n.label}` has no value for this expectation", line.span,
                                        f"give it one: `{n.label}=VALUE`") for n in missing])  # fmt: skip
    point: Point = {n.label: _plain(model.point[n.label]) for n in names}
    resolved = model.resolved
    columns = {n for n, v in point.items() if isinstance(v, list)} | {resolved.graph.labels[n] for n in resolved.graph.lists}
    graph, at = specialise(resolved.graph, columns, [line.left, line.right])
    found = evaluate(graph, [at[line.left], at[line.right]], leaves(resolved, point, own=True), DIGITS)
    left, right = rows_of(found[0]), rows_of(found[1])[0]
    bad = next((v for v in left if not _within(v, right, line)), None)
    verdict = "agrees" if bad is None else "wrong"
    _, row, column = line.span.source.locate(line.span.start)
    text = line.span.text.split("\n")[0]
    return Check(
        kind="expect", name=line.left_span.text, text=text, line=row, column=column, end_column=column + len(text),
        verdict=verdict, points=1, counterexample=None if bad is None else {n: repr(v) for n, v in point.items()},
        left=None if bad is None else spell(bad), right=None if bad is None else spell(right),
        hint=None if bad is None else f"off by {spell(bad - right, 3)}", replay=line.left_span.text if bad is not None else None,
    )  # fmt: skip


def _plain(value: Any) -> float | list[float]:
    return value if isinstance(value, float) else [float(v) for v in value]


def _within(value: Any, wanted: Any, line: ExpectLine) -> bool:
    """Whether a value is as expected: relative 1e-9 by default (absolute where 0 is expected)."""
    if is_nan(value) or is_nan(wanted):
        return is_nan(value) and is_nan(wanted)
    if value == wanted:
        return True
    if abs(value) == math.inf or abs(wanted) == math.inf:
        return False
    kind, text = line.tolerance.kind, line.tolerance.text
    number = type(wanted)
    if kind == "absolute":
        limit = number(text)
    elif kind == "percent":
        limit = abs(wanted) * number(text) / 100
    elif kind == "rounded":
        exponent = int(Decimal(line.text or "0").as_tuple().exponent)
        limit = number(5) * number(10) ** (exponent - 1)
    else:
        limit = number("1e-9") * (abs(wanted) or 1)
    return bool(abs(value - wanted) <= limit * (1 + number("1e-30")))
