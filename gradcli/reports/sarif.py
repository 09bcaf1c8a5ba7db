"""Checks as SARIF 2.1.0, for code scanning: stable rules, paths and fingerprints."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

from gradcli.errors import Diagnostic
from gradcli.reports.checks import Entry, Report, relative

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "docs/verification.md"
RULES = {
    "derivative": "A derivative of the engine differs from the function's own slope.",
    "claim": "The two sides of a claim differ, or exactly one of them is defined.",
    "expect": "A value is not what the file expects.",
    "against": "A number of another program is wrong.",
    "undecided": "A check tested no point.",
    "digits": "A gradient in float64 has fewer right digits than are asked for.",
    "model": "A model could not be checked.",
}


def render(report: Report) -> str:
    results = [_result(e) for e in report.entries if not e.passed]
    results += [_fault(model, d) for model, d in report.faults]
    rules = [
        {"id": f"gradcli/{k}", "shortDescription": {"text": v}, "help": {"text": f"See {_HOME}."}}
        for k, v in RULES.items()
    ]
    driver = {"name": "gradcli", "version": report.version, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "the root of the repository"}}},
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def rule_of(entry: Entry) -> str:
    verdict = entry.check.verdict
    return entry.check.kind if verdict == "wrong" else "undecided" if verdict == "undecided" else "digits"


def _result(entry: Entry) -> dict[str, Any]:
    check = entry.check
    region = {"startLine": check.line, "startColumn": check.column}
    if check.end_column:
        region["endColumn"] = check.end_column
    extra = {"seed": check.seed, "points": check.points, "counterexample": _texts(entry), "replay": entry.replay}
    text = "\n".join(filter(None, (entry.message, entry.help)))
    return _entry(rule_of(entry), text, entry.path, region, f"{check.kind} {check.name} {check.text}") | {
        "properties": {k: v for k, v in extra.items() if v}
    }


def _texts(entry: Entry) -> dict[str, str]:
    return {n: repr(v) for n, v in (entry.check.counterexample or {}).items()}


def _fault(model: str, fault: Diagnostic) -> dict[str, Any]:
    part, line, column = fault.span.source.locate(fault.span.start) if fault.span else (model, 1, 1)
    text = "\n".join(filter(None, (fault.message, fault.help)))
    return _entry("model", text, part, {"startLine": line, "startColumn": column}, fault.message)


def _entry(rule: str, text: str, path: str, region: dict[str, int], identity: str) -> dict[str, Any]:
    where = relative(path)
    artifact = {"uri": quote(where), "uriBaseId": "SRCROOT"}
    mark = hashlib.sha256(f"{rule} {where} {identity}".encode()).hexdigest()[:32]
    return {
        "ruleId": f"gradcli/{rule}",
        "ruleIndex": list(RULES).index(rule),
        "level": "error",
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
        "partialFingerprints": {"gradcliCheck/v1": mark},
    }
