"""Long stretches of nodes that no rule of the simplifier touches, copied by whole arrays.

A few questions are asked of each node of a graph, and nearly always the answer is to copy it. Here they are asked of
thousands at once, up to the first node where the answer is another one, or may be: a rule, a column, a node that is
there already. That one is left to the loop of the simplifier, so what comes out is the same, node for node.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import repeat
from typing import Any

import numpy as np

from gradcli.arrays import hashes, known, of_operations, put, told
from gradcli.calculus.looks import ASK, COMMUTES, CONSTANT, COPIED, NOTICED, OTHER, SCALAR, look_of_number
from gradcli.graph import Graph

# What there is to know of an operation; nothing where it goes by rules.
_NUMBER, _LEAF, _NAME, _COPIED, _BINARY, _COMMUTES, _NOTICED, _ASKS = (1 << i for i in range(8))
_NEW = _COPIED | _NUMBER | _LEAF
_KINDS = {"constant": _NUMBER, "leaf": _LEAF, "name": _NAME} | {
    op: _COPIED
    | _BINARY * (count == 2)
    | _COMMUTES * (op in COMMUTES)
    | _NOTICED * (op in NOTICED)
    | _ASKS * (op in ASK)
    for op, count in COPIED.items()
}


class Stretches:
    """From `source` to `target`, whose table has room for all that is needed. `looks`: what the nodes of the target are
    to the rules; `at`: where those of the source are."""

    def __init__(self, source: Graph, needed: bytearray, target: Graph, looks: bytearray, at: array[int]) -> None:
        self.source, self.needed, self.target, self.looks, self.at = source, needed, target, looks, at

    def copy(self, low: int, high: int) -> int:
        """Copy nodes from `low` on, but none from `high` on. Returns the first that is left to the loop, or `high`."""
        ops, first, flat = self.source.layout()
        nodes = low + np.flatnonzero(np.frombuffer(self.needed, np.bool_)[low:high])
        kinds = np.fromiter(map(_KINDS.get, ops[low:high], repeat(0)), np.uint8, high - low)[nodes - low]
        places = np.frombuffer(first, np.intc)[nodes]
        x, y = (np.frombuffer(flat, np.intc).take(places + i, mode="clip") for i in (0, 1))
        places, values, texts = self._numbers(nodes, kinds, x)
        kinds[(kinds == _LEAF) & np.frombuffer(self.source.columns, np.bool_)[nodes]] = 0
        looks = np.where(kinds & _NOTICED, np.uint8(OTHER), np.uint8(SCALAR))
        looks[places] = list(map(look_of_number, values))
        looks = looks[kinds & _NEW > 0]
        a, b = self._placed(nodes, kinds, x, y)
        stop = _first((kinds == 0) | self._ruled(kinds, a, b, looks))
        where = np.flatnonzero(kinds[:stop] & _COPIED)
        a, b = _ordered(kinds[where], a[where], b[where])
        keys = _hashes(ops, nodes[where], kinds[where] & _BINARY > 0, a, b)
        end = min(_first(_repeated(keys)), self._known(keys, a, b))
        stop = int(where[end]) if end < len(where) else stop
        self._append(nodes[:stop], kinds[:stop], a[:end], b[:end], keys[:end])
        self.looks += looks[: len(self.target) - len(self.looks)].tobytes()
        count = int(np.searchsorted(places, stop))
        self._enter_numbers(nodes[places[:count]], values[:count], texts[:count])
        self._enter_leaves(nodes[:stop][kinds[:stop] == _LEAF])
        return int(nodes[stop]) if stop < len(nodes) else high

    def _numbers(self, nodes: Any, kinds: Any, x: Any) -> tuple[Any, list[float], list[str]]:
        """Where there are numbers, and these; one that is negated is a number. What is there already is left to the
        loop."""
        numbers, given = self.source.numbers, kinds == _NUMBER
        negated = np.flatnonzero(kinds == _KINDS["neg"])
        kinds[negated[[a in numbers for a in x[negated].tolist()]]] = _NUMBER
        places = np.flatnonzero(kinds == _NUMBER)
        given = given[places]
        at = np.frombuffer(numbers.places, np.intc)[np.where(given, nodes[places], x[places])].tolist()
        values, texts = [numbers.floats[i] for i in at], [numbers.texts[i] for i in at]
        for i in np.flatnonzero(~given).tolist():
            values[i] = -values[i]
            texts[i] = repr(values[i])
        left = known(self.target, texts) >= 0
        if len(set(texts)) < len(texts):
            counts = Counter(texts)
            left |= np.array([counts[text] > 1 for text in texts])
        kinds[places[left]] = 0
        return places, values, texts

    def _placed(self, nodes: Any, kinds: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """The two operands in the target, if all that is not left to the loop is copied and new."""
        at, new, names = np.frombuffer(self.at, np.intc), kinds & _NEW > 0, kinds == _NAME
        at[nodes[new]] = np.arange(new.sum()) + len(self.target)
        for node, inner in zip(nodes[names].tolist(), x[names].tolist(), strict=True):  # of names, too
            self.at[node] = self.at[inner]
        a = at[x]
        return a, np.where(kinds & _BINARY, at[y], a)

    def _ruled(self, kinds: Any, a: Any, b: Any, looks: Any) -> Any:
        """Where a rule may apply to an operation, or a column is made."""
        before = len(self.looks)
        self.looks += looks.tobytes()
        look = np.frombuffer(self.looks, np.uint8)
        first, second = look.take(a, mode="clip"), look.take(b, mode="clip")
        del look, self.looks[before:]
        total = first + np.where(kinds & _BINARY, second, np.uint8(SCALAR))
        return (kinds & _COPIED > 0) & (total + (kinds & _ASKS > 0) > CONSTANT)

    def _known(self, keys: Any, a: Any, b: Any) -> int:
        """The first operation that the target has already, or may have, being one on the same operands."""
        first, flat = np.frombuffer(self.target._first, np.intc), np.frombuffer(self.target._flat, np.intc)
        table = np.frombuffer(self.target.table, np.intc)
        slots, left, found = keys & len(table) - 1, np.arange(len(keys)), len(keys)
        while len(left) and len(flat):
            taken = table[slots] >= 0
            slots, left = slots[taken], left[taken]
            node = table[slots]
            same = (flat.take(first[node], mode="clip") == a[left]) & (flat[first[node + 1] - 1] == b[left])
            found = min(found, *left[same][:1].tolist(), len(keys))
            slots = slots + 1 & len(table) - 1
        return found

    def _append(self, nodes: Any, kinds: Any, a: Any, b: Any, keys: Any) -> None:
        """The nodes up to the first that is left to the loop, operations with their place in the table."""
        target, new, base = self.target, kinds & _NEW > 0, len(self.target)
        kinds = kinds[new]
        copied, binary = kinds & _COPIED > 0, kinds & _BINARY > 0
        target.ops += map(self.source.ops.__getitem__, nodes[new].tolist())
        counts = np.cumsum(copied.astype(np.intc) + binary, dtype=np.intc) + np.intc(len(target._flat))
        target._first.frombytes(counts.tobytes())
        both = np.stack((np.ones(len(a), bool), binary[copied]), 1)
        target._flat.frombytes(np.stack((a, b), 1)[both].tobytes())
        target.columns += bytes(len(kinds))
        put(np.frombuffer(target.table, np.intc), base + np.flatnonzero(copied), keys)

    def _enter_numbers(self, origins: Any, values: list[float], texts: list[str]) -> None:
        """Enter the numbers that were appended, by where they come from."""
        target, nodes = self.target, np.frombuffer(self.at, np.intc)[origins]
        for node in nodes.tolist():
            target.ops[node] = "constant"  # it may be a negated one
        told(target.numbers, nodes, texts)
        target.numbers.floats.extend(values)
        put(np.frombuffer(target.table, np.intc), nodes, hashes(texts))

    def _enter_leaves(self, leaves: Any) -> None:
        """Enter the leaves that were appended, by where they come from."""
        target, nodes = self.target, np.frombuffer(self.at, np.intc)[leaves]
        labels = [self.source.labels[leaf] for leaf in leaves.tolist()]
        told(target.labels, nodes, labels)
        target._leaves |= zip(labels, nodes.tolist(), strict=True)


def _first(marks: Any) -> int:
    """The first place that is marked, or how many there are."""
    return int(marks.argmax()) if marks.any() else len(marks)


def _ordered(kinds: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Operands that commute in the order of their birth."""
    flipped = (a > b) & (kinds & _COMMUTES > 0)
    return np.where(flipped, b, a), np.where(flipped, a, b)


def _hashes(ops: list[str], nodes: Any, binary: Any, a: Any, b: Any) -> Any:
    """The hash of each operation, as `Graph.intern` takes it."""
    found = np.empty(len(nodes), np.int64)
    for alike, operands in ((~binary, (a,)), (binary, (a, b))):
        names = map(ops.__getitem__, nodes[alike].tolist())
        found[alike] = of_operations(names, [each[alike] for each in operands])
    return found


def _repeated(keys: Any) -> Any:
    """Marks for what has the hash of an earlier one."""
    marks, ordered = np.zeros(len(keys), bool), np.sort(keys)
    if (ordered[1:] == ordered[:-1]).any():  # seldom, and it takes several times as long to see where
        order = np.argsort(keys, kind="stable")
        marks[order[1:][keys[order[1:]] == keys[order[:-1]]]] = True
    return marks
