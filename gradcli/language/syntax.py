"""What the parser makes: statements, and expressions as flat postfix code.

Postfix instead of a tree: a million operations are one tuple, no walk over them recurses, and a stack of values is
all a reader needs. Offsets count characters of `Source.text`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Item: TypeAlias = tuple[str, Any, int, int]
"""`(kind, value, start, end)`; start to end is the whole sub-expression that ends here, with brackets around it.

    ("number", text)                                    as written, without underscores
    ("name", name)                                      normalised (NFC), without backquotes
    ("call", (name, arguments, name_start, name_end))   takes that many operands
    ("list", count)                                     `[1, 2]`
    ("op", row)                                         add sub mul div floordiv mod pow neg not and or
    ("chain", rows)                                     `0 < x <= 1` is ("lt", "le"): one operand more than rows
"""


class Expression(NamedTuple):
    """One expression; `start` to `end` are its characters."""

    code: tuple[Item, ...]
    start: int
    end: int

    @property
    def bare_name(self) -> str | None:
        """The name when the expression is one name and nothing else."""
        kind, value, _, _ = self.code[0]
        return value if len(self.code) == 1 and kind == "name" else None


class NameRef(NamedTuple):
    """A name in `retain` or `output`; `x@1` keeps its number: the first definition of `x`."""

    name: str
    start: int
    end: int


class Definition(NamedTuple):
    """`name = expression`."""

    name: str
    name_start: int
    name_end: int
    expression: Expression
    start: int
    end: int


class Function(NamedTuple):
    """`name(a, b) = expression`."""

    name: str
    name_start: int
    name_end: int
    parameters: tuple[str, ...]
    parameter_spans: tuple[tuple[int, int], ...]
    expression: Expression
    start: int
    end: int


class Bare(NamedTuple):
    """An expression without a name."""

    expression: Expression
    start: int
    end: int


class Const(NamedTuple):
    """`const name = expression`, or `const name`."""

    name: str
    name_start: int
    name_end: int
    expression: Expression | None
    start: int
    end: int


class Retain(NamedTuple):
    """`retain n, m`."""

    names: tuple[NameRef, ...]
    start: int
    end: int


class Output(NamedTuple):
    """`output o, p`."""

    names: tuple[NameRef, ...]
    start: int
    end: int


class Domain(NamedTuple):
    """`domain 0 < x <= 5`."""

    expression: Expression
    start: int
    end: int


class Claim(NamedTuple):
    """`claim name: left = right if condition`."""

    name: str | None
    left: Expression
    right: Expression
    condition: Expression | None
    start: int
    end: int


class Tolerance(NamedTuple):
    """`kind` is default, absolute, percent or rounded; `text` the number of `within`, as written."""

    kind: str = "default"
    text: str = ""


class Expect(NamedTuple):
    """`expect left = right within …`; `text` is the right side when that is a number (`-1.50`), else None."""

    left: Expression
    right: Expression
    text: str | None
    tolerance: Tolerance
    start: int
    end: int


Statement: TypeAlias = Definition | Function | Bare | Const | Retain | Output | Domain | Claim | Expect


class File(NamedTuple):
    """All statements that parsed; `broken` are the names whose definitions did not: no later pass shall miss them."""

    statements: tuple[Statement, ...]
    broken: frozenset[str]
