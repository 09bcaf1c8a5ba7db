"""What a check has to say: the message of a failure with its place, both sides, the point, and how to see it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gradcli.checking.names import point_text, replay
from gradcli.errors import Diagnostic, shown
from gradcli.reports.checks import Entry
from gradcli.source import Source, Span
from gradcli.verdicts import Check

_KINDS = {
    "derivative": ("derivative", "derivatives"),
    "claim": ("claim", "claims"),
    "expect": ("expectation", "expectations"),
    "against": ("number of another program", "numbers of another program"),
}
_FEW = 10.0  # digits below which it is said what the conditioning leaves
_DOMAIN = "give a `domain` in which it is defined"


def entry(path: str, source: Source, check: Check, min_digits: float | None = None) -> Entry:
    """A check as reports want it."""
    passed = check.verdict == "agrees" and not too_few(check, min_digits)
    if passed:
        return Entry(path, check, True)
    again = replay(source, path, check)
    message, remedy = _said(check, min_digits)
    return Entry(path, check, False, message, remedy or (f"see it with `{again}`" if again else None), again)


def too_few(check: Check, min_digits: float | None) -> bool:
    return min_digits is not None and check.kind == "derivative" and (check.digits or 0.0) < min_digits


def _said(check: Check, min_digits: float | None) -> tuple[str, str | None]:
    """The sentence, and a remedy where that is not to run it again."""
    what = _KINDS[check.kind][0]
    named = check.kind == "claim" and not check.name.startswith("line ")
    name = f" {shown(check.name)}" if named or check.kind != "claim" else ""
    if check.verdict == "undecided":
        return f"{what}{name} is undecided: {check.note or 'no point was tested'}", _DOMAIN
    if check.verdict == "agrees":
        fact = f"{what}{name} has only {check.digits} right digits in float64, {min_digits} are asked for"
        if (
            check.conditioning is not None
            and check.conditioning < (min_digits or 0)
            and check.conditioning < _near(check)
        ):
            return fact, f"its conditioning leaves {check.conditioning} digits there: no formula does better in float64"
        return fact, "rewrite the expression where it cancels"
    if check.left is None:
        return f"{what}{name} cannot be judged: {check.hint}", "run the program by hand with a table of points"
    at = f" at {point_text(check.counterexample, 8)}" if check.counterexample else ""
    sides = f"{check.left} on the left, {check.right} on the right" if check.kind == "claim" else (
        f"got {check.left}, expected {check.right}")  # fmt: skip
    return f"{what}{name} is wrong{at}: {sides}{f'; {check.hint}' if check.hint else ''}", None


def _near(check: Check) -> float:
    """What is right, and a digit more: up to there the loss is due to conditioning."""
    return (check.digits or 0.0) + 1.5


def diagnostic(source: Source, found: Entry) -> Diagnostic:
    return Diagnostic(found.message, span_of(source, found.check), found.help)


def note(source: Source, check: Check) -> Diagnostic | None:
    """What is remarkable about a check that passed: a kink, a branch that no point took."""
    if check.verdict != "agrees" or not check.note:
        return None
    return Diagnostic(f"{shown(check.name)}: {check.note}", span_of(source, check), severity="note")


def span_of(source: Source, check: Check) -> Span | None:
    """The place of a check in its source again."""
    offset = 0
    for part in source.parts:
        if part.name == check.part or (not check.part and part is source.parts[0]):
            at = offset
            for _ in range(check.line - 1):
                at = source.line_bounds(at)[1] + 1
            start = at + check.column - 1
            if source.locate(min(start, len(source.text)))[1] != check.line:
                return None
            return Span(source, start, start + max(1, (check.end_column or 0) - check.column))
        offset += len(part.text) + 1
    return None


def well(checks: Sequence[Check]) -> str:
    """`5 derivatives, 1 claim, 1 expectation agree, 15.7 digits at least`."""
    counts = Counter(c.kind for c in checks)
    parts = [f"{n} {_KINDS[kind][n > 1]}" for kind, n in counts.items()]
    verb = "agrees" if sum(counts.values()) == 1 else "agree"
    tail = ""
    counted = [c for c in checks if c.kind == "derivative" and c.digits is not None]
    if counted:
        worst = min(counted, key=lambda c: c.digits or 0.0)
        tail = f", {worst.digits} digits at least"
        if worst.conditioning is not None and (worst.digits or 0.0) < _FEW:
            tail += f" (its conditioning leaves {worst.conditioning})"
    sides = [c.branches for c in checks if c.branches is not None and c.branches[0] < c.branches[1]]
    tail += f", branches {sides[0][0]}/{sides[0][1]}" if sides else ""
    bounds = dict.fromkeys(c.bound for c in checks if c.bound)
    tail += "".join(f", held to {b}" for b in bounds)
    return f"{', '.join(parts)} {verb}{tail}"
