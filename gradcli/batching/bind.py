"""Which column gives which name its values.

A value on the command line beats a column, a column beats a default. A column never takes the place of a `const` with a
number, of an intermediate, or, without a word from the user, of a built-in constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradcli.api import Model
from gradcli.errors import BindingError, Diagnostic, did_you_mean
from gradcli.formats.headers import match_key
from gradcli.graph import Graph
from gradcli.language.lower import Resolved, lower
from gradcli.primitives import CONSTANTS
from gradcli.source import Source

_PLACEHOLDER = "0"


@dataclass
class Bound:
    """A model whose leaves are cut where columns come in: label -> number of the column."""

    model: Model
    columns: dict[str, int]
    header: tuple[str, ...]
    notes: list[Diagnostic] = field(default_factory=list)
    absent: tuple[str, ...] = ()

    def unbound(self, values: Mapping[str, str]) -> list[str]:
        """Leaves that keep the value of the model: no column and no one of `values` gives them another."""
        names = self.model.resolved.names.inputs()
        return [n.label for n in names if n.kind == "leaf" and n.label not in self.columns and n.label not in values]

    def name_of(self, label: str) -> str:
        return self.header[self.columns[label]]


def bind(
    source: Source,
    values: Mapping[str, str],
    header: Sequence[str],
    renames: Mapping[str, str],
    optional: bool = False,
) -> Bound:
    """`optional`: a free name without a column gets one that the first row lacks (NDJSON).

    Raises BindingError: a rename that names no column, a column called like a constant that the model uses, two columns
    for one name, a free name that only a near miss of could give a value.
    """
    keys = {match_key(name): i for i, name in reversed(list(enumerate(header)))}
    keys |= {name: i for i, name in enumerate(header)}
    renamed = {label: _column(label, column, keys, header) for label, column in renames.items()}
    first = lower(source, {**dict.fromkeys(renamed, _PLACEHOLDER), **values})
    given = {first.aliases.get(n, n) for n in values}
    found = _Columns(first, header, given)
    for label, index in renamed.items():
        found.rename(label, index)
    for index, name in enumerate(header):
        if index not in renamed.values():
            found.offer(match_key(name), index)
    elsewhere = {match_key(header[i]): label for label, i in renamed.items()}
    absent = _absent(first, found, given, header, optional, elsewhere)
    columns = {**found.columns, **{n: len(header) + i for i, n in enumerate(absent)}}
    second = lower(source, {**dict.fromkeys(columns, _PLACEHOLDER), **values})
    return Bound(Model(second), columns, (*header, *absent), found.notes, absent)


class _Columns:
    """Columns as they are taken by names."""

    def __init__(self, resolved: Resolved, header: Sequence[str], given: set[str]) -> None:
        self.resolved, self.header, self.given = resolved, header, given
        self.columns: dict[str, int] = {}
        self.notes: list[Diagnostic] = []

    def rename(self, label: str, index: int) -> None:
        record = self.resolved.find(label)
        if record is None:
            hint = (
                did_you_mean(label, self.resolved.known()) or "`--rename VAR=COLUMN` gives the name in the model first"
            )
            raise BindingError.of(f"no name `{label}` in {self.resolved.source.name}", help=hint)
        self.take(record.label, index)

    def take(self, label: str, index: int) -> None:
        if label in self.columns:
            one, two = self.header[self.columns[label]], self.header[index]
            raise BindingError.of(
                f"columns `{one}` and `{two}` both give `{label}` its values",
                help=f"say which: `--rename {label}={one}`",
            )
        self.columns[label] = index

    def offer(self, name: str, index: int) -> None:
        """A column called `name`, unless a value or a rename says otherwise."""
        record = self.resolved.find(name)
        if record is None:
            number = CONSTANTS.get(name)
            if number is not None and _uses_constant(self.resolved, name):
                raise BindingError.of(
                    f"column `{name}` is called like the constant `{name}`, which the model uses",
                    help=f"`--rename {name}={name}` takes the column, `{name}={number!r}` the number",
                )
            return
        if record.label in self.given or record.label in self.columns:
            return
        if record.kind == "intermediate":
            self._note(
                f"column `{name}` is not used: `{record.label}` is computed",
                record.span,
                f"`--rename {record.label}={name}` takes the column instead",
            )
        elif record.kind == "const" and record.default is not None:
            self._note(
                f"column `{name}` is not used: `{record.label}` is a const",
                record.span,
                f"leave `const` out, or say `--rename {record.label}={name}`",
            )
        else:
            self.take(record.label, index)

    def _note(self, fact: str, span: object, remedy: str) -> None:
        self.notes.append(Diagnostic(fact, span, remedy, "note"))  # type: ignore[arg-type]


def _column(label: str, column: str, keys: Mapping[str, int], header: Sequence[str]) -> int:
    found = keys.get(column, keys.get(match_key(column)))
    if found is None:
        raise BindingError.of(f"`--rename {label}={column}`: no column `{column}`", help=_like(column, header))
    return found


def _like(name: str, header: Sequence[str]) -> str:
    near = did_you_mean(name, header)
    if near is None:
        shown = ", ".join(f"`{h}`" for h in header[:8])
        return f"the columns are {shown}" + (f" and {len(header) - 8} more" if len(header) > 8 else "")
    return near


def _uses_constant(resolved: Resolved, name: str) -> bool:
    nodes = [n for n, (_, text) in resolved.graph.numbers.items() if text == name]
    roots = [resolved.names[o].node for o in resolved.outputs]
    marks = resolved.graph.reachable(roots) if roots else bytearray(len(resolved.graph))
    return any(marks[n] for n in nodes)


def _absent(
    first: Resolved,
    found: _Columns,
    given: set[str],
    header: Sequence[str],
    optional: bool,
    elsewhere: Mapping[str, str],
) -> tuple[str, ...]:
    """Free names without a column. A near miss among unused columns is an error, of a default a warning.

    `elsewhere` are columns that `--rename` gives to another name.
    """
    unused = [h for i, h in enumerate(header) if i not in found.columns.values()]
    lost: list[Diagnostic] = []
    absent = []
    for record in first.names.inputs():
        label = record.label
        if label in found.columns or label in given:
            continue
        near = _near_miss(label, unused)
        if label in elsewhere and record.kind != "const":
            fact = f"column `{label}` gives `{elsewhere[label]}` its values"
            remedy = f"`--rename {label}={label}` gives them to both"
            if record.default is None:
                lost.append(Diagnostic(f"`{label}` has no value: {fact}", record.span, remedy))
            else:
                fact = f"`{label}` keeps the value of the model: {fact}"
                found.notes.append(Diagnostic(fact, record.span, remedy, "warning"))
        elif record.default is not None:
            if near is not None and record.kind == "leaf":
                fact = f"`{label}` keeps the value of the model: column `{near}`{_points(label, near)} is not used"
                found.notes.append(Diagnostic(fact, record.span, f"`--rename {label}={near}` uses it", "warning"))
        elif near is not None or not optional:
            fact = f"`{label}` has no value: there is no column `{label}`" + (_points(label, near) if near else "")
            lost.append(Diagnostic(fact, record.span, _remedy(label, near, unused, header)))
        else:
            absent.append(label)
    lost = [d for d in lost if d.span is None or _needed(first, d)]
    if lost:
        raise BindingError(*lost)
    return tuple(absent)


def _needed(resolved: Resolved, diagnostic: Diagnostic) -> bool:
    """Whether the name of a diagnostic is one that an output is computed from."""
    roots = [resolved.names[o].node for o in resolved.outputs]
    marks = resolved.graph.reachable(roots) if roots else bytearray(len(resolved.graph))
    return any(n.span == diagnostic.span and marks[n.node] for n in resolved.names.values())


def _near_miss(label: str, unused: Sequence[str]) -> str | None:
    """A column that differs in case or padding only, or in look-alike letters (`µ` and `μ`)."""
    return next((h for h in unused if h.strip(' \t"').casefold() == label.casefold()), None)


def _points(label: str, near: str) -> str:
    """The code points of names that look the same."""
    if label.isascii() and near.isascii():
        return ""
    return " (" + " ".join(f"U+{ord(c):04X}" for c in near) + ")"


def _remedy(label: str, near: str | None, unused: Sequence[str], header: Sequence[str]) -> str:
    if near is not None:
        return f"column `{near}` is near: `--rename {label}={near}`"
    if len(header) == 1 and any(c in header[0] for c in ";\t|"):
        mark = next(c for c in ";\t|" if c in header[0])
        shown = "\\t" if mark == "\t" else mark
        return f"the header is one column, `{header[0]}`: `--delimiter '{shown}'` splits it"
    similar = did_you_mean(label, unused)
    hint = f"{similar} `--rename {label}=COLUMN`, or" if similar else f"`--rename {label}=COLUMN`, or"
    return f"{hint} `{label}=VALUE`; {_like('', header)}"


def reduces(graph: Graph, roots: Sequence[int], leaves: Sequence[int], reductions: frozenset[str]) -> int | None:
    """The first reduction over rows on the way from the leaves to the roots."""
    if not leaves:
        return None
    marks = graph.reachable(roots)
    from_leaf = bytearray(len(graph))
    for node in leaves:
        from_leaf[node] = 1
    for node in range(len(graph)):
        if marks[node] and not from_leaf[node]:
            from_leaf[node] = any(from_leaf[a] for a in graph.arguments(node))
        if marks[node] and from_leaf[node] and graph.ops[node] in reductions:
            return node
    return None
