"""`gradcli check`: verifies derivatives, claims and expectations; the CI command."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gradcli.cli import options
from gradcli.cli.output import FAILED, NOTHING, WRONG, Console, json_line
from gradcli.errors import Diagnostic, did_you_mean
from gradcli.source import Span

if TYPE_CHECKING:
    from gradcli.checking.run import Outcome
    from gradcli.results import Check
    from gradcli.source import Source

_PLURAL = {"derivative": "derivatives", "claim": "claims", "expect": "expectations", "against": "gradients"}
_SINGULAR = {"derivative": "derivative", "claim": "claim", "expect": "expectation", "against": "gradient"}


@click.command("check", cls=options.Command)
@options.models
@click.option("--of", multiple=True, metavar="NAME", help="Which output; repeatable.")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Only these checks: a claim's name, `d(o, x)`, a glob; repeatable."
)
@click.option("--points", default=8, show_default=True, type=click.IntRange(1, 10_000), help="How many points a check.")
@click.option("--seed", default=0, show_default=True, type=int, help="Move all points.")
@click.option("--min-digits", type=float, metavar="N", help="Fail where fewer digits of a float64 gradient are right.")
@click.option("--max-failures", type=click.IntRange(1), metavar="N", help="Say no more than N failures.")
@click.option("--require-claims", is_flag=True, help="A model without a claim or an expectation fails.")
@click.option(
    "-j", "--jobs", type=click.IntRange(1), metavar="N", help="Processes (default: as many as there is work for)."
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 although checks failed, for a step that uploads a report.")
@options.talk
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    expressions: tuple[str, ...],
    of: tuple[str, ...],
    only: tuple[str, ...],
    points: int,
    seed: int,
    min_digits: float | None,
    max_failures: int | None,
    require_claims: bool,
    jobs: int | None,
    exit_zero: bool,
    as_json: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
    color: str,
) -> int:
    """Verify every derivative, claim and expectation of the models, to forty digits, without a step size or tolerance.

    \b
    gradcli check samples/neuron.expr
    gradcli check models/ --json
    """
    from gradcli.checking.run import Options, check_all

    console = Console(quiet, verbose, strict, color)
    request = options.gather(ctx, words, expressions, console)
    chosen = Options(points, seed, only, tuple(options.split_names(of)), min_digits)
    jobs = jobs or min(os.cpu_count() or 1, 1 + len(request.sources) // 8)
    report = _Report(console, as_json, min_digits, max_failures, require_claims)
    sources = [source for _, source in request.sources]
    used: set[str] = set()
    known: dict[str, None] = {}
    outcomes = check_all(sources, request.bindings, chosen, jobs)
    for (path, source), outcome in zip(request.sources, outcomes, strict=True):
        used |= outcome.used
        known.update(dict.fromkeys(outcome.known))
        report.add(path, source, outcome)
    for name in request.bindings:
        if name not in used and not report.broken:
            console.tell(
                Diagnostic(f"`{name}` is no name that a model uses", None, did_you_mean(name, known) or "leave it out")
            )
            console.worst(WRONG)
    report.close()
    return 0 if exit_zero and console.status in (FAILED, NOTHING) else console.status


class _Report:
    """Prints as outcomes arrive, counts, and settles the exit status."""

    def __init__(self, console: Console, as_json: bool, min_digits: float | None, max_failures: int | None,
                 require_claims: bool) -> None:  # fmt: skip
        self.console, self.as_json, self.min_digits = console, as_json, min_digits
        self.left = max_failures
        self.require_claims = require_claims
        self.counts: Counter[str] = Counter()
        self.models = 0
        self.broken = False

    def add(self, path: str, source: Source, outcome: Outcome) -> None:
        console = self.console
        self.models += 1
        console.tell(*outcome.notes)
        if outcome.faults:
            self.broken = True
            console.tell(*outcome.faults)
            console.worst(WRONG)
            return
        checks = outcome.checks
        for check in checks:
            self.counts[check.verdict] += 1
            if self.as_json:
                console.data(json_line(record(path, check)))
        if not checks:
            console.tell(
                Diagnostic(f"{path} has nothing to check", None, "give it a claim, or an output with a leaf", "warning")
            )
            console.worst(NOTHING)
        elif self.require_claims and not any(c.kind in ("claim", "expect") for c in checks):
            console.tell(Diagnostic(f"{path} has no claim and no expectation", None, "add one: `claim A = B`"))
            console.worst(FAILED)
        bad = [c for c in checks if c.verdict != "agrees" or self.too_few(c)]
        for check in bad:
            self.fail(path, source, check)
        if checks and not bad and not self.as_json and not console.quiet:
            console.data(f"{path}: {well(checks)}")
        elif bad and not self.as_json:
            console.data(f"{path}: {len(bad)} of {len(checks)} checks failed")

    def too_few(self, check: Check) -> bool:
        return self.min_digits is not None and check.kind == "derivative" and (check.digits or 0) < self.min_digits

    def fail(self, path: str, source: Source, check: Check) -> None:
        self.console.worst(FAILED)
        if self.left is not None:
            if self.left == 0:
                return
            self.left -= 1
        self.console.tell(explained(path, source, check, self.min_digits))

    def close(self) -> None:
        total = sum(self.counts.values())
        if self.as_json:
            self.console.data(json_line({"schema": 1, "kind": "summary", "models": self.models, "checked": total,
                                         "agrees": self.counts["agrees"], "wrong": self.counts["wrong"],
                                         "undecided": self.counts["undecided"]}))  # fmt: skip
        if not total and not self.broken:
            self.console.tell(Diagnostic("nothing was checked", None, "see `gradcli check --help`", "warning"))
            self.console.worst(NOTHING)


def well(checks: Sequence[Check]) -> str:
    """`5 derivatives, 1 claim, 1 expectation agree, 15.7 digits at least`."""
    counts = Counter(c.kind for c in checks)
    parts = [f"{n} {_SINGULAR[kind] if n == 1 else _PLURAL[kind]}" for kind, n in counts.items()]
    digits = [c.digits for c in checks if c.kind == "derivative" and c.digits is not None]
    verb = "agrees" if sum(counts.values()) == 1 else "agree"
    tail = f", {min(digits)} digits at least" if digits else ""
    sides = [c.branches for c in checks if c.branches is not None and c.branches[0] < c.branches[1]]
    tail += f", branches {sides[0][0]}/{sides[0][1]}" if sides else ""
    return f"{', '.join(parts)} {verb}{tail}"


def explained(path: str, source: Source, check: Check, min_digits: float | None) -> Diagnostic:
    """A check that did not pass, as a message with its place, both sides, the point, and how to see it again."""
    span = span_of(source, check)
    what = {"derivative": "derivative", "claim": "claim", "expect": "expectation", "against": "gradient"}[check.kind]
    name = f" `{check.name}`" if not check.name.startswith("line ") else ""
    if check.verdict == "undecided":
        return Diagnostic(f"{what}{name} is undecided: {check.note or 'no point was tested'}", span,
                          "give a `domain` in which it is defined")  # fmt: skip
    if check.verdict == "agrees":
        return Diagnostic(f"{what}{name} has only {check.digits} right digits in float64, {min_digits} are asked for", span,
                          "rewrite the expression where it cancels")  # fmt: skip
    point = " ".join(f"{n}={v}" for n, v in list((check.counterexample or {}).items())[:8])
    at = f" at {point}" if point else ""
    sides = f"{check.left} on the left, {check.right} on the right" if check.kind == "claim" else \
        f"got {check.left}, expected {check.right}"  # fmt: skip
    told = f"; {check.hint}" if check.hint else ""
    return Diagnostic(f"{what}{name} is wrong{at}: {sides}{told}", span, replay(path, check))


def replay(path: str, check: Check) -> str:
    """A one-liner that shows the failure again."""
    values = "".join(f" {n}={v}".replace(", ", ",") for n, v in (check.counterexample or {}).items())
    model = "" if path == "-e" else f"{path} "
    return f"see it with `gradcli grad {model}-e '{check.replay}'{values}`" if check.replay else f"seed {check.seed}"


def span_of(source: Source, check: Check) -> Span | None:
    """The place of a check in its source again."""
    text, wanted = source.text, (check.line, check.column)
    offset = 0
    for part in source.parts:
        lines = part.text.split("\n")
        if len(lines) >= wanted[0]:
            start = offset + sum(len(x) + 1 for x in lines[: wanted[0] - 1]) + wanted[1] - 1
            width = (check.end_column or wanted[1] + 1) - wanted[1]
            if start <= len(text):
                return Span(source, start, start + max(1, width))
        offset += len(part.text) + 1
    return None


def record(path: str, check: Check) -> dict[str, Any]:
    """The JSON of one check."""
    found: dict[str, Any] = {
        "schema": 1, "model": path, "line": check.line, "column": check.column, "kind": check.kind, "name": check.name,
        "text": check.text, "verdict": check.verdict, "symbolic": check.symbolic, "points": check.points,
        "digits": check.digits, "seed": check.seed,
    }  # fmt: skip
    if check.kind in ("derivative", "against"):
        found |= {"output": check.output, "by": check.by}
    if check.branches is not None:
        found["branches"] = list(check.branches)
    if check.note:
        found["note"] = check.note
    if check.verdict == "wrong":
        found |= {"counterexample": dict(check.counterexample or {}), "left": check.left, "right": check.right,
                  "hint": check.hint, "replay": replay(path, check)}  # fmt: skip
    return found
