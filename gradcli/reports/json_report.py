"""Checks as JSON: one object a check for `check --json`, one document for `--report json:PATH`."""

from __future__ import annotations

import json
from typing import Any

from gradcli.reports.checks import Entry, Report

_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def record(entry: Entry) -> dict[str, Any]:
    """One check. Numbers of the sides are texts, with as many digits as tell them apart."""
    check = entry.check
    found: dict[str, Any] = {
        "schema": 1, "model": entry.model, "line": check.line, "column": check.column, "kind": check.kind,
        "name": check.name, "text": check.text, "verdict": check.verdict, "passed": entry.passed,
        "symbolic": check.symbolic, "points": check.points, "digits": check.digits, "seed": check.seed,
    }  # fmt: skip
    if check.part and check.part != entry.model:
        found["part"] = check.part
    if check.kind in ("derivative", "against"):
        found |= {"output": check.output, "by": check.by}
    optional = {"conditioning": check.conditioning, "bound": check.bound, "row": check.row, "note": check.note}
    found |= {key: value for key, value in optional.items() if value is not None}
    if check.branches is not None:
        found["branches"] = list(check.branches)
    if check.verdict == "wrong":
        point = {n: _strict(v) for n, v in (check.counterexample or {}).items()}
        sides = [None if side is None else _WORDS.get(side, side) for side in (check.left, check.right)]
        found |= {
            "counterexample": point,
            "left": sides[0],
            "right": sides[1],
            "hint": check.hint,
            "replay": entry.replay,
        }
    return found


def _strict(value: float | list[float]) -> Any:
    if isinstance(value, list):
        return [_strict(v) for v in value]
    return _WORDS.get(repr(value), value)


def summary(report: Report) -> dict[str, Any]:
    return {"schema": 1, "kind": "summary", **report.summary()}


def render(report: Report) -> str:
    """The whole run as one document."""
    faults = [{"model": model, "message": d.sentence(), "help": d.help} for model, d in report.faults]
    document = {"schema": 1, "tool": f"gradcli {report.version}", "checks": [record(e) for e in report.entries],
                "errors": faults, "summary": report.summary()}  # fmt: skip
    return json.dumps(document, indent=1, allow_nan=False) + "\n"
