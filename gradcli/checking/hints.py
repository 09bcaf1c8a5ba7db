"""How a wrong formula differs from the right one, where a few numbers give it away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from gradcli.api import Model
from gradcli.calculus.exact import evaluate
from gradcli.calculus.specialise import specialise
from gradcli.checking.branches import Branches, side_name
from gradcli.checking.exactly import DIGITS, is_nan, leaves, near, rows_of
from gradcli.checking.names import quoted
from gradcli.checking.points import Point
from gradcli.graph import Graph
from gradcli.language.lower import ClaimLine
from gradcli.reports.formula import formula

_SAME = 1e-25
_PARTS = 60  # parts of a claim that are tried as the missing factor or term
_LARGEST = 400  # operations of a claim beyond which its parts are not looked at
_LONGEST = 60  # characters of a part that a hint shows
_COMMUTE = frozenset(
    ("add", "mul", "max", "min", "eq", "ne", "and", "or", "hypot", "logaddexp", "beta", "logbeta", "d", "dot")
)


@dataclass(frozen=True)
class Seen:
    """Both sides of a claim at a point, the sides of `where` and the like that it took; `own`: at the file's point."""

    point: Point
    left: Any
    right: Any
    equal: bool
    sides: frozenset[tuple[int, int]] = frozenset()
    own: bool = False


def hint(model: Model, claim: ClaimLine, first: Seen, seen: Sequence[Seen], branches: Branches) -> str | None:
    """One sentence from both sides at a few points, or None."""
    if is_nan(first.left) != is_nan(first.right):
        side = "left" if is_nan(first.left) else "right"
        return f"the {side} side is not defined here: restrict the claim with `if`, or give a `domain`"
    usable = [s for s in seen if all(isfinite(v) and not is_nan(v) for v in (s.left, s.right))]
    wrong, right = [s for s in usable if not s.equal], [s for s in usable if s.equal]
    if wrong and right:
        return _where(model, wrong, right, branches) or (
            f"the sides differ at {len(wrong)} of {len(usable)} points only: on one branch, or for one sign"
        )
    if len(wrong) < 2:
        return None
    parts = _parts(model, claim, wrong)
    return _factor(wrong, parts) or _swapped(model, claim, wrong) or _term(wrong, parts)


def _where(model: Model, wrong: Sequence[Seen], right: Sequence[Seen], branches: Branches) -> str | None:
    """The one branch, or the one sign of a leaf, at which the sides differ."""
    for node, count in branches.sides.items():
        for side in range(count):
            mine = (node, side)
            if all(mine in s.sides for s in wrong) and not any(mine in s.sides for s in right):
                span = model.resolved.node_span(node)
                text = f"`{span.text[:60]}`" if span else f"`{model.resolved.graph.ops[node]}`"
                op = model.resolved.graph.ops[node]
                return f"the sides differ only on {side_name(op, side)} of {text}"
    for label in wrong[0].point:
        signs = [{_sign(s.point[label]) for s in group} for group in (wrong, right)]
        if all(len(s) == 1 for s in signs) and signs[0] != signs[1] and 0 not in signs[0] | signs[1]:
            word = "negative" if signs[0] == {-1} else "positive"
            return f"the sides differ only where `{label}` is {word}: restrict the claim with `if`, or give a `domain`"
    return None


def _sign(value: object) -> int:
    return (value > 0) - (value < 0) if isinstance(value, float) else 0


def _close(a: Any, b: Any) -> bool:
    return bool(a == b or abs(a - b) <= _SAME * max(abs(a), abs(b)))


def _constant(numbers: Sequence[Any]) -> Any:
    """The common value of numbers that are all the same, or None."""
    return numbers[0] if all(_close(numbers[0], n) for n in numbers[1:]) else None


def _parts(model: Model, claim: ClaimLine, seen: Sequence[Seen]) -> list[tuple[str, list[Any]]]:
    """What the sides and their derivatives are made of, names first, with its number at each point."""
    text = model.resolved.graph
    if text.lists or any(isinstance(v, list) for s in seen for v in s.point.values()):
        return []
    graph, at = specialise(text, (), (claim.left, claim.right))
    marks = graph.reachable([at[claim.left], at[claim.right]])
    nodes = [n for n, mark in enumerate(marks) if mark and n not in graph.numbers]
    if len(nodes) > _LARGEST:
        return []
    nodes.sort(key=lambda n: n not in graph.labels)
    nodes = nodes[:_PARTS]
    columns = [evaluate(graph, nodes, leaves(model.resolved, s.point, s.own), DIGITS) for s in seen]
    found = []
    for i, node in enumerate(nodes):
        numbers = [c[i] for c in columns]
        if all(isfinite(v) and v for v in numbers) and _constant(numbers) is None:
            label = graph.labels.get(node)
            spelled = formula(graph, node) if label is None else quoted(label)
            if len(spelled) <= _LONGEST:
                found.append((f"`{spelled}`", numbers))
    return found


def _factor(seen: Sequence[Seen], parts: Sequence[tuple[str, list[Any]]]) -> str | None:
    if any(s.right == 0 or s.left == 0 for s in seen):
        return None
    ratios = [s.left / s.right for s in seen]
    constant = _constant(ratios)
    if constant is not None:
        if _close(constant, type(constant)(-1)):
            return "the sign is wrong"
        return f"the left side is {_spelled(constant)} times the right side: a constant factor is missing"
    for label, numbers in parts:
        for power, text in ((1, label), (-1, f"1/{label}"), (2, f"{label}^2")):
            factor = _constant([r / n**power for r, n in zip(ratios, numbers, strict=True)])
            if factor is not None:
                scale = "" if _close(factor, type(factor)(1)) else f"{_spelled(factor)} * "
                return f"the left side is {scale}{text} times the right side: a factor is missing"
    return None


def _term(seen: Sequence[Seen], parts: Sequence[tuple[str, list[Any]]]) -> str | None:
    gaps = [s.left - s.right for s in seen]
    constant = _constant(gaps)
    if constant is not None:
        return f"the left side is the right side plus {_spelled(constant)}: a term is missing"
    for label, numbers in parts:
        factor = _constant([g / n for g, n in zip(gaps, numbers, strict=True)])
        if factor is not None:
            scale = "" if _close(factor, type(factor)(1)) else f"{_spelled(factor)} * "
            return f"the left side is the right side plus {scale}{label}: a term is missing"
    return None


def _swapped(model: Model, claim: ClaimLine, seen: Sequence[Seen]) -> str | None:
    """Whether the sides agree once the two arguments of one operation of the claim change places."""
    resolved, graph = model.resolved, model.resolved.graph
    marks = graph.reachable([claim.left, claim.right])
    inside = [
        n for n, m in enumerate(marks)
        if m and len(graph.arguments(n)) == 2 and graph.ops[n] not in _COMMUTE
        and claim.span.start <= graph.starts[n] and graph.ends[n] <= claim.span.end
    ]  # fmt: skip
    if len(graph) > 5000:
        return None
    for node in inside[:12]:
        other, at = swapped(graph, marks, node)
        if all(_agree(other, [at[claim.left], at[claim.right]], leaves(resolved, s.point, s.own)) for s in seen[:4]):
            span = resolved.node_span(node)
            return f"the sides agree with the arguments of `{span.text[:60] if span else graph.ops[node]}` swapped"
    return None


def _agree(text: Graph, sides: Sequence[int], values: dict[str, Any]) -> bool:
    columns = {n for n, v in values.items() if isinstance(v, list)}
    shaped, at = specialise(text, columns, sides)
    left, right = (rows_of(v) for v in evaluate(shaped, [at[n] for n in sides], values, DIGITS))
    return len(left) == len(right) and all(near(a, b, 0) for a, b in zip(left, right, strict=True))


def swapped(graph: Graph, marks: Sequence[int], node: int) -> tuple[Graph, dict[int, int]]:
    """The same text with the arguments of one node in the other order."""
    from gradcli.primitives import new_graph

    other = new_graph(shaped=False)
    at: dict[int, int] = {}
    for n, mark in enumerate(marks):
        if not mark:
            continue
        arguments = [at[a] for a in graph.arguments(n)]
        if graph.ops[n] == "leaf":
            at[n] = other.leaf(graph.labels[n])
        elif graph.ops[n] == "constant":
            at[n] = other.constant(*graph.numbers[n])
        elif graph.ops[n] == "name":
            at[n] = other.name(arguments[0], graph.labels[n])
        else:
            at[n] = other.add(graph.ops[n], *(reversed(arguments) if n == node else arguments))
    return other, at


def _spelled(number: Any) -> str:
    value = float(number)
    if not isfinite(value):
        return repr(value)
    fraction = Fraction(value).limit_denominator(1000)
    if abs(number - type(number)(fraction.numerator) / fraction.denominator) <= 1e-25 * abs(number):
        return str(fraction)
    return f"{value:.17g}"
