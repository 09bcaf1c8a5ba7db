"""Checks as annotations of GitHub Actions, on the line of the claim: at most ten, and a summary."""

from __future__ import annotations

from collections.abc import Mapping

from gradcli.reports.checks import Report, relative
from gradcli.source import visible

_MOST = 10  # annotations of a kind that a step shows


def render(report: Report) -> str:
    lines = []
    for entry in report.entries:
        if not entry.passed:
            check = entry.check
            place: dict[str, object] = {"line": check.line, "col": check.column, "endColumn": check.end_column}
            message = "\n".join(filter(None, (entry.message, entry.help)))
            lines.append(
                _command("error", _file(entry.path) | place | {"title": f"{check.kind} {check.name}"}, message)
            )
    for model, fault in report.faults:
        part, line, column = fault.span.source.locate(fault.span.start) if fault.span else (model, 1, 1)
        place = {"line": line, "col": column, "title": "gradcli"}
        message = "\n".join(filter(None, (fault.message, fault.help)))
        lines.append(_command("error", _file(part) | place, message))
    counts = report.summary()
    said = f"gradcli: {counts['passed']} passed, {counts['failed']} failed"
    said += f", {counts['errors']} could not be checked" if report.faults else ""
    if len(lines) > _MOST:
        said += f"; {len(lines) - _MOST} more than the {_MOST} that are annotated, see the log"
    return "\n".join([*lines[:_MOST], _command("notice", {}, said)]) + "\n"


def _file(path: str) -> dict[str, object]:
    return {} if path in ("-e", "-") else {"file": relative(path)}


def _command(kind: str, properties: Mapping[str, object], message: str) -> str:
    given = ",".join(f"{k}={_property(str(v))}" for k, v in properties.items() if v is not None)
    return f"::{kind}{' ' if given else ''}{given}::{_escaped(message)}"


def _escaped(text: str) -> str:
    text = "\n".join(visible(line) for line in text.split("\n"))
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
