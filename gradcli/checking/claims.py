"""Claims: identities judged by numbers alone, on the decimals as written.

A claim agrees when, at every sampled point where its condition holds, both sides are defined and equal to forty digits;
it is wrong at a point where they differ or where exactly one side is defined. A constant written with fifteen or more
significant digits is taken as rounded: the claim is then judged to that precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradcli.api import Model, mixed_rows
from gradcli.calculus.adjoint import MixedRows
from gradcli.calculus.exact import evaluate, evaluate_all
from gradcli.calculus.specialise import specialise
from gradcli.checking.branches import Branches
from gradcli.checking.exactly import DIGITS, MORE, MOST, is_finite, is_nan, leaves, near, rows_of, spell_both
from gradcli.checking.hints import Seen, hint
from gradcli.checking.names import common_rows, empty_domain, placed, sampled_names
from gradcli.checking.points import Floats, Point, Sampler, canonical, seed_of
from gradcli.checking.rounded import ROUNDED, explained, unsettled
from gradcli.checking.rounding import noise
from gradcli.checking.shapes import raw
from gradcli.checking.turns import Turns
from gradcli.errors import BindingError, Diagnostic
from gradcli.graph import Graph
from gradcli.language.lower import ClaimLine
from gradcli.verdicts import Check

_LAST = 1700  # digits after which a point at which all of them cancel is given up
_REFUSED = 400  # points in a row at which a condition does not hold


@dataclass
class _Tally:
    """How the points went."""

    equal: int = 0
    undefined: int = 0
    skipped: int = 0

    @property
    def tries(self) -> int:
        return self.equal + self.undefined + self.skipped

    def note(self) -> str | None:
        if self.equal:
            return None
        if self.undefined:
            return "neither side is defined at any point that was tried"
        return "its condition holds at no point that was tried"


class ClaimCheck:
    """One claim at seeded points."""

    def __init__(self, model: Model, claim: ClaimLine, count: int, seed: int) -> None:
        self.model, self.claim, self.count = model, claim, count
        condition = [claim.condition] if claim.condition is not None else []
        self.nodes = [claim.left, claim.right, *condition]
        resolved = model.resolved
        names = sampled_names(model, self.nodes)
        common_rows(model, names, self.nodes, claim.span)
        self.seed = seed_of(canonical(resolved.graph, self.nodes), seed)
        self.sampler = Sampler(resolved, model.point, names, self.seed, claim.condition)
        self.branches = Branches(resolved, self.nodes)
        self._holds = Floats(resolved, condition) if condition else None
        self._graphs: dict[frozenset[str], tuple[Graph, Sequence[int]]] = {}
        self.judged: float | None = None
        self.seen: list[Seen] = []
        self.agreed: list[Point] = []

    def run(self) -> Check:
        """Raises BindingError where the domain leaves no point, or the sides have different rows."""
        tally = _Tally()
        own = self.sampler.own
        if own is not None and self._visit(own, tally, True) == "wrong":
            return self._wrong(tally)
        for tries, point in enumerate(self._candidates(tally)):
            if tally.equal >= self.count or tries >= self.count * 12:
                break
            if self._visit(point, tally) == "wrong":
                return self._wrong(tally)
            if not point:
                break  # nothing to vary
        if tally.tries == 0:
            raise empty_domain(self.model, "the domain contains no point for this claim", self.claim.span)
        for point in self.branches.unseen(self.sampler):
            if self._visit(point, tally) == "wrong":
                return self._wrong(tally)
        for points in Turns(self.model.resolved, self.nodes).aims(self.sampler, self.agreed, self._met):
            for point in points:
                outcome = self._visit(point, tally)
                if outcome == "wrong":
                    return self._wrong(tally)
                if outcome == "equal":
                    break
        return self._check("agrees" if tally.equal else "undecided", tally.equal, note=tally.note())

    def _candidates(self, tally: _Tally) -> Iterator[Point]:
        """Points of the domain; those at which the condition does not hold in float64 are passed over."""
        refused = 0
        for point in self.sampler.stream():
            if self._met(point):
                refused = 0
                yield point
            else:
                tally.skipped += 1
                refused += 1
                if refused >= _REFUSED:
                    return

    def _met(self, point: Point) -> bool:
        """Whether the condition holds in a row, by float64."""
        holds = self._holds(point) if self._holds else None
        return holds is None or any(map(any, holds))

    def _graph(self, point: Point) -> tuple[Graph, Sequence[int]]:
        """The specialised graph of the claim and where the nodes of the text are in it."""
        columns = frozenset(n for n, v in point.items() if isinstance(v, list))
        if columns not in self._graphs:
            text = self.model.resolved.graph
            try:
                self._graphs[columns] = specialise(text, columns | {text.labels[n] for n in text.lists}, self.nodes)
            except MixedRows as fault:
                raise mixed_rows(self.model, fault) from None
        return self._graphs[columns]

    def _visit(self, point: Point, tally: _Tally, own: bool = False) -> str:
        """equal, wrong, undefined (no side has a value) or skipped (the condition does not hold), over all rows."""
        graph, at = self._graph(point)
        values = leaves(self.model.resolved, point, own)
        watched = self.branches.watched
        found = evaluate(graph, [at[n] for n in (*self.nodes, *watched)], values, DIGITS)
        sides = self.branches.taken(
            {
                n: [float(v) for v in rows_of(v)] for n, v in zip(watched, found[len(self.nodes) :], strict=True)
            }.__getitem__
        )
        left, right, holds = self._rows([*found[: len(self.nodes)], 1])
        outcome = "skipped"
        for row, holding in enumerate(holds):
            if not holding or is_nan(holding):
                continue
            if is_nan(left[row]) and is_nan(right[row]):
                outcome = "undefined" if outcome == "skipped" else outcome
                continue
            equal, one, other = self._equal(point, values, left[row], right[row], row)
            if equal is None:
                outcome = "undefined" if outcome == "skipped" else outcome
                continue
            outcome = "equal" if equal else "wrong"
            if len(self.seen) < 40 or not equal:
                self.seen.append(Seen(point, one, other, equal, frozenset(sides), own))
            if not equal:
                break
        if outcome == "equal":
            self.branches.seen |= sides
            self.agreed.append(point)
        if outcome != "wrong":
            setattr(tally, outcome, getattr(tally, outcome) + 1)
        return outcome

    def _rows(self, found: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Both sides and the condition, as many rows each. Raises BindingError."""
        left, right, holds = (rows_of(v) for v in found[:3])
        rows = max(len(left), len(right), len(holds))
        if any(1 < len(v) < rows for v in (left, right, holds)):
            fact = f"the sides have {len(left)} and {len(right)} rows"
            raise BindingError(Diagnostic(fact, self.claim.span, "give all columns the same number of rows"))
        left, right, holds = (v * rows if len(v) == 1 else v for v in (left, right, holds))
        return left, right, holds

    def _equal(
        self, point: Point, values: dict[str, Any], left: Any, right: Any, row: int
    ) -> tuple[bool | None, Any, Any]:
        """Whether the sides are equal in a row, None where nobody can say; and the sides, with the digits it took."""
        if near(left, right, 0):
            return True, left, right
        graph, at = self._graph(point)
        sides = [at[n] for n in self.nodes[:2]]
        gap = abs(left - right) if is_finite(left) and is_finite(right) else 0
        for digits in (MORE, MOST, _LAST):
            # what differs, or is undefined, may be rounding: it goes when there are more digits
            found = evaluate_all(graph, sides, values, digits)
            left, right = (_at(raw(found[n]), row) for n in sides)
            if not is_finite(left) or not is_finite(right):
                if digits < (MOST if is_nan(left) or is_nan(right) else _LAST):
                    continue
                return None if unsettled(graph, sides, values, row) else False, left, right
            more_gap = abs(left - right)
            if near(left, right, 0) or more_gap <= gap * type(more_gap)(10) ** (DIGITS + 20 - digits):
                return True, left, right
            if more_gap > sum(_at(noise(graph, found, n, digits), row) for n in sides):
                return self._rounded(graph, sides, values, row, digits, left, right), left, right
        return None, left, right  # all digits cancel

    def _rounded(self, graph: Graph, sides: list[int], values: dict[str, Any], row: int, digits: int,
                 left: Any, right: Any) -> bool:  # fmt: skip
        """Whether the rounding of long constants explains that the sides differ."""
        allowed = explained(graph, sides, values, row, digits)
        if not allowed:
            return False
        size = max(abs(left), abs(right))
        digits_left = round(float(-_log10(allowed / size)), 1) if size > allowed else float(ROUNDED)
        self.judged = min(self.judged or 99.0, digits_left)
        return True

    def _wrong(self, tally: _Tally) -> Check:
        first = self.seen[-1]
        self._more()
        return self._check(
            "wrong", tally.equal + 1, first, hint(self.model, self.claim, first, self.seen, self.branches)
        )

    def _more(self) -> None:
        """Both sides at a few more points, for the hint."""
        saved, want = self.branches.seen, len(self.seen) + 5
        self.branches.seen = set(saved)
        for tries, point in enumerate([*_first(self._candidates(_Tally()), 10), *self.branches.unseen(self.sampler)]):
            if tries >= 24 or len(self.seen) >= want or not point:
                break
            self._visit(point, _Tally())
        self.branches.seen = saved

    def _check(self, verdict: str, points: int, seen: Seen | None = None, told: str | None = None,
               note: str | None = None) -> Check:  # fmt: skip
        claim = self.claim
        digits = self.judged if self.judged is not None else 40.0 if verdict == "agrees" else None
        text = f"{claim.left_span.text} = {claim.right_span.text}"
        check = Check(
            kind="claim", name=claim.name or f"line {claim.span.line}", text=text, **placed(claim.span),
            verdict=verdict, points=points, digits=digits,
            seed=self.seed, note=note or (self.branches.untaken() if verdict == "agrees" else None),
            branches=self.branches.count,
        )  # fmt: skip
        if seen is None:
            return check
        left, right = spell_both(seen.left, seen.right)
        return replace(check, counterexample=seen.point, left=left, right=right, hint=told,
                       replay=f"({claim.left_span.text}) - ({claim.right_span.text})")  # fmt: skip


def _first(points: Iterator[Point], count: int) -> list[Point]:
    return [p for p, _ in zip(points, range(count), strict=False)]


def _at(rows: Sequence[Any], row: int) -> Any:
    return rows[row if len(rows) > 1 else 0]


def _log10(number: Any) -> Any:
    import mpmath

    return mpmath.log10(number)
