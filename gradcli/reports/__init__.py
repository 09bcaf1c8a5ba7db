"""Results, graphs and the table as text. One file per report; none knows another.

`FORMULAS` is the corridor of the reports on formulas: `gradcli diff --to NAME`. Each has `render(sheet) -> str`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradcli.reports.sheet import Sheet


@dataclass(frozen=True)
class Room:
    """A report on formulas. `with_values`: it returns the outputs too; `comment`: how a title is written."""

    module: str
    doc: str
    with_values: bool = False
    comment: str = "# {}"

    def load(self) -> Callable[[Sheet], str]:
        render: Callable[[Sheet], str] = import_module(f"gradcli.reports.{self.module}").render
        return render


FORMULAS = {
    "text": Room("formula", "the language of gradcli"),
    "latex": Room("latex", "LaTeX, without the dollars", comment="% {}"),
    "python": Room("numpy_script", "a numpy function", with_values=True),
    "c": Room("c_code", "a C99 function", with_values=True, comment="/* {} */"),
    "sql": Room("sql", "expressions for DuckDB and PostgreSQL", comment="-- {}"),
}
