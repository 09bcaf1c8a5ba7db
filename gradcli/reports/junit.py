"""Checks as JUnit XML: one test case a check, with its file and line, seed and point as properties."""

from __future__ import annotations

from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from gradcli.errors import Diagnostic
from gradcli.reports.checks import Entry, Report, values_of


def render(report: Report) -> str:
    failed = sum(not e.passed for e in report.entries)
    cases = len(report.entries) + len(report.faults)
    counts = f'tests="{cases}" failures="{failed}" errors="{len(report.faults)}"'
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuites name="gradcli" {counts}>']
    for model, group in groupby(report.entries, key=lambda e: e.model):
        entries = list(group)
        bad = sum(not e.passed for e in entries)
        lines.append(
            f' <testsuite name={_value(model)} tests="{len(entries)}" failures="{bad}" errors="0" skipped="0">'
        )
        lines += [_case(e) for e in entries]
        lines.append(" </testsuite>")
    for model, fault in report.faults:
        lines.append(f' <testsuite name={_value(model)} tests="1" failures="0" errors="1" skipped="0">')
        lines.append(_error(model, fault))
        lines.append(" </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _case(entry: Entry) -> str:
    check = entry.check
    head = f"  <testcase classname={_value(entry.model)} name={_value(f'{check.kind} {check.name}')}"
    head += f' file={_value(entry.path)} line="{check.line}" time="0">'
    given = {"verdict": check.verdict, "seed": check.seed, "points": check.points, "digits": check.digits,
             "bound": check.bound, "note": check.note, "replay": entry.replay}  # fmt: skip
    properties = {k: str(v) for k, v in given.items() if v is not None}
    properties |= {f"point {name}": value for name, value in values_of(check).items()}
    rows = [f"    <property name={_value(k)} value={_value(v)}/>" for k, v in properties.items()]
    lines = [head, "   <properties>", *rows, "   </properties>"]
    if not entry.passed:
        text = "\n".join(filter(None, (entry.message, f"help: {entry.help}" if entry.help else "")))
        lines.append(
            f"   <failure type={_value(check.verdict)} message={_value(entry.message)}>{_text(text)}</failure>"
        )
    return "\n".join([*lines, "  </testcase>"])


def _error(model: str, fault: Diagnostic) -> str:
    line = fault.span.line if fault.span else 1
    head = f'  <testcase classname={_value(model)} name="model" file={_value(model)} line="{line}" time="0">'
    body = f"   <error message={_value(fault.message)}>{_text(fault.render())}</error>"
    return "\n".join([head, body, "  </testcase>"])


def _value(text: str) -> str:
    return quoteattr(printable(text))


def _text(text: str) -> str:
    return escape(printable(text))


def printable(text: str) -> str:
    """What XML 1.0 forbids, written as an escape that a person sees."""
    return "".join(c if _allowed(ord(c)) else c.encode("unicode_escape").decode("ascii") for c in text)


def _allowed(code: int) -> bool:
    return (
        code in (9, 10, 13) or 0x20 <= code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code > 0xFFFF
    )
