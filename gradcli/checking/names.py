"""What checks say about names and points: which names are sampled, how points and calls are written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradcli.api import Model
from gradcli.checking.points import Point, Value
from gradcli.errors import BindingError, Diagnostic
from gradcli.language.lower import Name
from gradcli.source import Source, Span
from gradcli.verdicts import Check

_RESERVED = frozenset(("and", "or", "not"))


def sampled_names(model: Model, nodes: Iterable[int]) -> list[Name]:
    """The leaves, constants and free names that nodes and the domain are computed from."""
    marks = model.resolved.graph.reachable([*nodes, *(d.node for d in model.resolved.domains)])
    return [n for n in model.resolved.names.inputs() if marks[n.node]]


def common_rows(model: Model, names: Sequence[Name], nodes: Sequence[int], span: Span) -> int:
    """The number of rows that columns have. Raises BindingError where they differ."""
    resolved = model.resolved
    sizes: dict[int, str] = {}
    for name in names:
        value = model.point.get(name.label)
        if value is not None and not isinstance(value, float):
            sizes.setdefault(len(value), f"`{name.label}`")
    marks = resolved.graph.reachable(nodes)
    for node, items in resolved.graph.lists.items():
        if marks[node]:
            sizes.setdefault(len(items), "a list")
    if len(sizes) > 1:
        (a, first), (b, second) = list(sizes.items())[:2]
        fact = f"columns of different lengths: {first} has {a} rows, {second} has {b} rows"
        raise BindingError(Diagnostic(fact, span, "give all columns the same number of rows"))
    return next(iter(sizes), 1)


def placed(span: Span) -> dict[str, Any]:
    """The place of a check: what of it is on its first line."""
    part, line, column = span.source.locate(span.start)
    return {"part": part, "line": line, "column": column, "end_column": column + len(span.text.split("\n")[0])}


def quoted(label: str) -> str:
    """A name as it is written in an expression."""
    return label if label.isidentifier() and label not in _RESERVED else f"`{label}`"


def call(output: str, *by: str) -> str:
    return f"d({', '.join(map(quoted, (output, *by)))})"


def value_text(value: Value) -> str:
    return repr(value) if isinstance(value, float) else f"[{','.join(map(repr, value))}]"


def point_text(point: Mapping[str, Value], most: int = 6) -> str:
    """`x=1.0 w=2.0`, without the rest of a long one."""
    parts = []
    for name, value in list(point.items())[:most]:
        text = value_text(value)
        parts.append(f"{name}={text if len(text) < 60 else text[:40] + '...]'}")
    more = len(point) - most
    return " ".join(parts) + (f" and {more} more" if more > 0 else "")


def binding_text(name: str, value: Value) -> str:
    """`NAME=VALUE` as a word of a shell; a name with odd characters in backquotes, a numbered one as it is."""
    plain = re.fullmatch(r"(.*)@[1-9][0-9]*", name, re.DOTALL)
    bare, tail = (plain[1], name[len(plain[1]) :]) if plain else (name, "")
    return word(f"{bare if bare.isidentifier() else f'`{bare}`'}{tail}={value_text(value)}")


def word(text: str) -> str:
    """A text as one word of a shell; control characters are spelled, since a message shows them so."""
    if text.isprintable():
        return shlex.quote(text)
    spelled = "".join(c if c.isprintable() else _octal(c) for c in text.replace("\\", "\\\\").replace("'", "\\'"))
    return f"$'{spelled}'"


def _octal(character: str) -> str:
    octal = "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
    return "\\t" if character == "\t" else octal


def command(source: Source, path: str) -> list[str]:
    """The words of a command line that name a model again, each line of a text by an option of its own."""
    bare = path != "-" and not path.startswith(".") and not Path(path).is_absolute()
    taken = bare and ("=" in path or path.startswith("-"))  # for a value, or for an option
    words = [] if path == "-e" else [f"./{path}" if taken else path]
    texts = source.parts if path == "-e" else source.parts[1:]
    return words + [w for part in texts for w in options(part.text)]


def options(text: str) -> list[str]:
    """A text of several lines as options that are joined to it again."""
    return [w for line in text.split("\n") if line.strip() for w in ("-e", line.rstrip("\r"))]


def replay(source: Source, path: str, check: Check) -> str | None:
    """A one-liner that shows a failure again: the difference of the sides, or the value or gradient that is wrong."""
    if check.verdict != "wrong":
        return None
    words = ["gradcli", "grad", *command(source, path)]
    if check.kind in ("derivative", "against"):
        words += ["--of", check.output or "", "--wrt", check.by or ""]
    elif check.replay:
        words += options(check.replay)
    line = " ".join(map(word, words))
    return " ".join([line, *(binding_text(n, v) for n, v in (check.counterexample or {}).items())])


def empty_domain(model: Model, fact: str, span: Span) -> BindingError:
    domains = model.resolved.domains
    return BindingError(Diagnostic(fact, domains[0].span if domains else span, "widen the `domain`"))


def plain_point(model: Model, names: Sequence[Name]) -> Point:
    """The file's own values of names."""
    found: Point = {}
    for name in names:
        value = model.point[name.label]
        found[name.label] = value if isinstance(value, float) else [float(v) for v in value]
    return found
