"""What the parser makes: statements, and expressions as flat postfix code.

Postfix instead of a tree: a million operations are one tuple, no walk over them recurses, and a stack of values is
all a reader needs. Offsets count characters of `Source.text`.

Annotations are evaluated here: a named tuple compiles each one that is a text, 0.2 ms for these.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from gradcli.language.alike import Run

UNARY = ("neg", "not")  # operators with one operand

Item: TypeAlias = tuple[str, Any, int, int]
"""`(kind, value, start, end)`; start to end is the whole sub-expression that ends here, with brackets around it.

    ("number", text)                                    as written, without underscores
    ("name", name)                                      normalised (NFC), without backquotes
    ("call", (name, arguments, name_start, name_end))   takes that many operands
    ("list", count)                                     `[1, 2]`
    ("op", row)                                         add sub mul div floordiv mod pow neg not and or
    ("chain", rows)                                     `0 < x <= 1` is ("lt", "le"): one operand more than rows
"""

Step: TypeAlias = tuple[str, Any, int, int, int]
"""`(kind, value, token, first, last)`: an item by its tokens, so that expressions which are written alike share it.

`token` is that of a number, a name or the name of a call; the value of a call is how many operands it takes.
"""

Form: TypeAlias = Sequence[Step]


class Expression(NamedTuple):
    """One expression; its form counts tokens from number `at` on. `start` to `end` are its characters."""

    form: Form
    tokens: Sequence[tuple[str, str, int, str]]
    starts: Sequence[int]
    at: int
    start: int
    end: int

    @property
    def code(self) -> list[Item]:
        """The items, made anew each time."""
        form, tokens, starts, at, _, _ = self
        code: list[Item] = []
        for kind, value, token, first, last in form:
            _, text, width, _ = tokens[at + token]
            if kind == "call":
                value = (text, value, starts[at + token], starts[at + token] + width)
            elif value is None:
                value = text
            code.append((kind, value, starts[at + first], starts[at + last] + tokens[at + last][2]))
        return code

    @property
    def bare_name(self) -> str | None:
        """The name when the expression is one name and nothing else."""
        kind, _, token, _, _ = self.form[0]
        return self.tokens[self.at + token][1] if kind == "name" and len(self.form) == 1 else None


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
    """What parsed, in order: statements in blocks, of which those of a long text may be runs of definitions that make
    them when they are asked for. `broken` are the names whose definitions did not parse: no later pass shall miss them.
    """

    blocks: "tuple[tuple[Statement, ...] | Run, ...]"
    broken: frozenset[str]

    def statements(self) -> Iterator[Statement]:
        """All of them, one after the other."""
        return chain.from_iterable(self.blocks)
