"""What the programming languages have in common: numbers that are floats, names that are identifiers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from gradcli.errors import GradcliError
from gradcli.reports.sheet import Sheet

VALUES = {"pi": "3.141592653589793", "tau": "6.283185307179586", "e": "2.718281828459045"}


def number(text: str, named: dict[str, str]) -> str:
    """A float literal; `named` has infinity and nan, and constants that the language names."""
    if text in named:
        return named[text]
    if text.lstrip("-") in named:
        return f"-{named[text.lstrip('-')]}"
    text = VALUES.get(text, text)
    return text if any(c in text for c in ".e") else f"{text}.0"


class Identifiers:
    """Names of the model as identifiers of a language: its words and each other's are avoided."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self.reserved = set(reserved)
        self.given: dict[str, str] = {}

    def __getitem__(self, label: str) -> str:
        if label not in self.given:
            name = re.sub(r"\W", "_", label, flags=re.ASCII)
            name = name if re.match(r"[A-Za-z]", name) else f"v{name}" if name[:1].isdigit() else f"v_{name.strip('_')}"
            while name in self.reserved or name in self.given.values():
                name += "_"
            self.given[label] = name
        return self.given[label]


def refuse(sheet: Sheet, known: Collection[str], language: str, remedy: str) -> None:
    """Raise an error that names the functions a language does not have."""
    plain = {"gather": "sum", "min_rows": "min", "max_rows": "max", "prod_rows": "prod", "logsumexp_rows": "logsumexp"}
    marks = sheet.graph.reachable(line.node for line in (*sheet.definitions, *sheet.results, *sheet.values))
    used = {op for op, mark in zip(sheet.graph.ops, marks, strict=True) if mark}
    missing = sorted({plain.get(op, op) for op in used if op not in known})
    if missing:
        names = ", ".join(f"`{n}`" for n in missing)
        raise GradcliError.of(f"{language} has no {names}", help=remedy)
