"""A model with all its names resolved: what the text means, as nodes of one graph."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from gradcli.errors import Diagnostic
from gradcli.graph import Graph
from gradcli.language.syntax import Tolerance
from gradcli.source import Source, Span

_NUMBERED = re.compile(r"(.*)@([1-9][0-9]{0,8})", re.DOTALL)


@dataclass(slots=True, eq=False)
class Name:
    """A name of the model. `kind`: leaf, const, free (each without `default` until bound) or intermediate."""

    label: str
    node: int
    kind: str
    span: Span
    default: int | None = None
    bound: bool = False
    aliases: tuple[str, ...] = ()


class Names(Mapping[str, Name]):
    """Names by label, in the order of the file. The intermediates of a long run of definitions are kept as numbers in
    flat arrays, and get a record when somebody asks for it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._found: dict[str, Name | int] = {}
        self._nodes, self._starts = array("i"), array("i")

    def put(self, record: Name) -> None:
        self._found[record.label] = record

    def plus(self, record: Name) -> Names:
        """The same names and one more, once all of the text is read."""
        other = copy(self)
        other._found = {**self._found, record.label: record}
        return other

    def extend(self, labels: Iterable[str], nodes: bytes, starts: bytes) -> None:
        """Add intermediates, with their nodes and where in the text they are defined."""
        base = len(self._nodes)
        self._nodes.frombytes(nodes)
        self._starts.frombytes(starts)
        self._found.update(zip(labels, range(base, len(self._nodes)), strict=True))

    def __getitem__(self, label: str) -> Name:
        found = self._found[label]
        if isinstance(found, int):
            start, name = self._starts[found], label.partition("@")[0]
            span = Span(self.source, start, start + len(name))
            found = self._found[label] = Name(label, self._nodes[found], "intermediate", span)
        return found

    def __contains__(self, label: object) -> bool:
        return label in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def inputs(self) -> list[Name]:
        """What is not computed: leaves, constants and free names."""
        return [n for n in self._found.values() if not isinstance(n, int) and n.kind != "intermediate"]


class Condition(NamedTuple):
    """A `domain` line."""

    node: int
    span: Span


class ClaimLine(NamedTuple):
    """A `claim` line: two nodes that are equal wherever the condition holds."""

    name: str | None
    left: int
    right: int
    condition: int | None
    span: Span
    left_span: Span
    right_span: Span


class ExpectLine(NamedTuple):
    """An `expect` line; `text` is the number as written, where the right side is one."""

    left: int
    right: int
    text: str | None
    tolerance: Tolerance
    span: Span
    left_span: Span


@dataclass(eq=False)
class Resolved:
    """A model with all names resolved. Earlier definitions of `x` are labelled `x@1`, `x@2`; `counts`: how many there
    are where there is more than one. `used` are the bindings that found a name."""

    source: Source
    graph: Graph
    names: Names
    aliases: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    retained: list[tuple[str, Span]] = field(default_factory=list)
    domains: list[Condition] = field(default_factory=list)
    claims: list[ClaimLine] = field(default_factory=list)
    expects: list[ExpectLine] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def find(self, label: str) -> Name | None:
        if label not in self.names and label not in self.aliases:
            label = last_of(label, self._count)
        return self.names.get(self.aliases.get(label, label))

    def _count(self, name: str) -> int:
        """How often a name is defined."""
        found = self.names.get(self.aliases.get(name, name))
        return self.counts.get(name, 0 if found is None or found.kind == "free" else 1)

    def known(self) -> list[str]:
        return [*self.names, *self.aliases]

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)

    def node_span(self, node: int) -> Span | None:
        start = self.graph.starts[node]
        return Span(self.source, start, self.graph.ends[node]) if start >= 0 else None


def last_of(label: str, count: Callable[[str], int | None]) -> str:
    """`x` for `x@2` when `x` has two definitions: the last keeps the bare name, but may be asked for by its number."""
    numbered = _NUMBERED.fullmatch(label)
    if numbered and int(numbered[2]) == count(numbered[1]):
        return numbered[1]
    return label
