"""Runs of definitions to nodes, with whole arrays instead of one definition after the other.

The nodes are those that the `Inliner` would make, in the same order but for the numbers, which come first. A definition
that is no plain formula of names above ends what is done at once; the `Inliner` reads it.

Until all is known, a node that is still to be made has a number behind those of the graph: each definition has room for
its operations and its name. What turns out to be there already gives its number up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradcli.arrays import append, decimals, find
from gradcli.graph import is_simple
from gradcli.language.alike import Run
from gradcli.language.inline import Inliner, canonical
from gradcli.language.syntax import UNARY
from gradcli.language.templates import NAME, NUMBER, Anchor, Constant, Operand, Operation
from gradcli.primitives import CONSTANTS

_FEW = 32  # definitions that are not worth it
_FIRST, _MOST = 1 << 10, 1 << 14  # definitions looked at at once: twice as many while nothing stops them
_MANY_TIMES = 8  # as many words of a text as places of a run, from which on these are sorted
_BITS = 28  # of the number of a node
_BUILTIN = CONSTANTS.keys() - {"inf", "nan"}  # these may have to be explained


class BulkReader:
    """Reads what it can of one run. Words are numbers here: `nodes` of those that are names above what is read next.

    `label` gives the next label to a name that is defined.
    """

    def __init__(self, inliner: Inliner, run: Run, label: Callable[[str], str]) -> None:
        self.inliner, self.scope, self.graph, self.run, self.label = inliner, inliner.scope, inliner.graph, run, label
        used, self.ids = _used(run.ids, len(run.vocabulary))
        self.words = [run.vocabulary[i] for i in used.tolist()]
        self.widths = run.widths[used]
        self.heads = self.ids[run.firsts]
        self.lines = np.sort(self.heads * len(run) + np.arange(len(run)))  # by what they define
        self.often = np.zeros(len(used), bool)  # words that are defined more than once
        self.often[self.heads] = [self.scope.counts[self.words[i]] > 1 for i in self.heads.tolist()]
        self.defined = np.full(len(used), -1)  # by which line
        self.defined[self.heads] = np.arange(len(run))
        self.nodes = np.full(len(used), -1)
        above = (run.kinds[used] == NAME) & ((self.defined < 0) | self.often)
        self.builtin = np.zeros(len(used), bool)
        for i in np.flatnonzero(above).tolist():
            self.know(i)
        bound = {part for label in self.scope.bindings for part in (label, label.partition("@")[0])}
        self.bound = np.array([word in bound for word in self.words])
        self.numbers = np.full(len(used), -1)  # the nodes of those that are decimals
        self.simple = np.zeros(len(used), bool)  # those that are folded
        self.rows: list[str] = ["name"]
        self.window = _FIRST
        self.known = 0  # the definition up to which all names are

    def know(self, word: int) -> None:
        """Look for what is defined above, or built in."""
        name, scope = self.words[word], self.scope
        self.nodes[word] = node = scope.nodes.get(name, -1)
        known = node >= 0 or name in scope.counts or name in scope.bindings or name in scope.broken
        self.builtin[word] = name in _BUILTIN and not known

    def meant(self, words: Any, lines: Any) -> Any:
        """The line above that defines a word; -1 where none of the run does."""
        found = self.defined[words]
        found[found >= lines] = -1
        often = self.often[words]
        if often.any():
            keys = words[often] * len(self.run) + lines[often]
            at = np.searchsorted(self.lines, keys) - 1
            word, line = np.divmod(self.lines[at], len(self.run))
            found[often] = np.where((at >= 0) & (word == words[often]), line, -1)
        return found

    def row(self, name: str) -> int:
        """The number of a row of the table."""
        if name not in self.rows:
            self.rows.append(name)
        return self.rows.index(name)

    def name(self, number: int) -> str:
        """What a definition defines, by its label."""
        return self.graph.labels[int(self.nodes[self.heads[number]])]

    def read(self, begin: int) -> int:
        """Define what the definitions from this one on define, and return the number of the first that was left."""
        if self.scope.only_checked or self.scope.checking:
            return begin
        firsts = self.run.firsts
        for word in np.unique(self.ids[firsts[self.known] : firsts[begin]]).tolist():  # what the inliner has read since
            self.know(word)
        self.known = begin
        end = min(begin + self.window, len(self.run))
        parts = [_Part(self, form, begin, end) for form in sorted(set(self.run.forms[begin:end].tolist()))]
        stop = min(part.stop for part in parts)
        self.window = min(2 * self.window, _MOST) if stop == end else _FIRST
        size = sum(part.size * len(part.lines) for part in parts)
        if stop - begin < min(_FEW, len(self.run) - begin) or len(self.graph) + 2 * size >= 1 << _BITS:
            return begin
        _Nodes(self, [part for part in parts if part.until(stop)], begin, stop).make()
        self.scope.version += stop - begin
        self.known = stop
        return stop


class _Part:
    """The definitions of one template among some of a run: their numbers, and their words, a row each."""

    def __init__(self, reader: BulkReader, form: int, begin: int, end: int) -> None:
        self.reader, self.template = reader, reader.run.templates[form]
        self.size = len(self.template.operations) + 1
        self.lines = begin + np.flatnonzero(reader.run.forms[begin:end] == form)
        self.words = reader.ids[reader.run.firsts[self.lines][:, None] + np.arange(len(self.template.kinds))]
        bad = self.lines[~self._plain(begin)]
        self.stop = int(bad[0]) if len(bad) else end

    def _plain(self, begin: int) -> Any:
        """Which of the definitions are plain: of names above and functions of the table, and not replaced."""
        reader = self.reader
        plain = ~reader.bound[self.words[:, 0]]
        named = np.zeros(len(plain), bool)
        for slot in self.names():
            words = self.words[:, slot]
            above = (reader.nodes[words] >= 0) | (reader.meant(words, self.lines) >= begin)
            named |= above & ~reader.builtin[words]
            plain &= above | reader.builtin[words]
        for operation in self.template.operations:
            if operation.slot >= 0:
                plain &= self.rows_of(operation) >= 0
        return plain & named

    def names(self) -> list[int]:
        """The words that are variables."""
        operands = [operand for operation in self.template.operations for operand in operation.operands]
        return sorted({slot for what, slot in operands if what == "word"})

    def rows_of(self, operation: Operation) -> Any:
        """For each definition the number of the row that a function means; -1 where that has to be looked at."""
        reader, scope = self.reader, self.reader.scope
        used, places = np.unique(self.words[:, operation.slot], return_inverse=True)
        found = []
        for name in [reader.words[i] for i in used.tolist()]:
            row = reader.inliner.rows.get((name, len(operation.operands)))
            unusual = row is None or (row == "where" and not operation.chooses) or name in scope.function_lines
            found.append(-1 if unusual else reader.row(str(row)))
        return np.array(found)[places]

    def numbers(self) -> list[int]:
        """The words that are decimals."""
        return [slot for slot, kind in enumerate(self.template.kinds) if kind == NUMBER]

    def constants(self) -> list[int]:
        """The constants that are needed."""
        operations = self.template.operations
        operands = [i for operation in operations for what, i in operation.operands if what == "constant"]
        return sorted({*operands, *(o.folded for o in operations if o.folded >= 0)})

    def until(self, stop: int) -> bool:
        """Leave out the definitions from this one on; whether there are others."""
        count = int(np.searchsorted(self.lines, stop))
        self.lines, self.words = self.lines[:count], self.words[:count]
        return count > 0

    def ends(self) -> Any:
        """Where in the text each word ends."""
        widths = self.reader.widths[self.words]
        widths[:, 0] += self.reader.run.offsets[self.lines]
        widths[:, 1:] += np.array(self.template.gaps[1:], np.intc)
        return np.cumsum(widths, axis=1, dtype=np.intc)


class _Nodes:
    """The nodes of the definitions from number `begin` to `stop`."""

    def __init__(self, reader: BulkReader, parts: list[_Part], begin: int, stop: int) -> None:
        self.reader, self.parts, self.begin, self.stop = reader, parts, begin, stop
        self.old = len(reader.graph)
        self.ends = [part.ends() for part in parts]
        self._builtin()
        self._numbers()
        self.folds = False  # whether operations on numbers alone were made on the way
        self.constants = self._constants()
        self.base = len(reader.graph)
        sizes = np.zeros(stop - begin + 1, np.int64)
        for part in parts:
            sizes[part.lines - begin + 1] = part.size
        self.at = np.cumsum(sizes)  # where the nodes of each definition start, behind the base
        count = int(self.at[-1])
        width = max(len(operation.operands) for part in parts for operation in part.template.operations)
        self.node, self.row = self.base + np.arange(count), np.zeros(count, np.int64)
        self.operands = np.full((count, max(width, 2)), -1)
        self.start, self.end = np.zeros(count, np.intc), np.zeros(count, np.intc)

    def make(self) -> None:
        for level in range(1 + max(o.level for part in self.parts for o in part.template.operations)):
            self._level(level)
        self._names()
        self._append()

    def _builtin(self) -> None:
        """The constants that are known by name."""
        reader = self.reader
        for part, ends in zip(self.parts, self.ends, strict=True):
            for slot in part.names():
                lines = np.flatnonzero(reader.builtin[part.words[:, slot]])
                for word, i in zip(*np.unique(part.words[lines, slot], return_index=True), strict=True):
                    name, end = reader.words[word], int(ends[lines[i], slot])
                    reader.graph.place = end - len(name), end
                    reader.nodes[word] = reader.graph.constant(CONSTANTS[name], name)

    # Numbers.

    def _numbers(self) -> None:
        """All decimals of the definitions, each where it is written first."""
        reader = self.reader
        pairs = list(zip(self.parts, self.ends, strict=True))
        slots = [(part.words[:, slot], ends[:, slot]) for part, ends in pairs for slot in part.numbers()]
        if not slots:
            return
        words, behind = (np.concatenate(both) for both in zip(*slots, strict=True))
        order = np.argsort(behind)
        used, chosen = np.unique(words[order], return_index=True)
        new = reader.numbers[used] < 0
        used, behind = used[new], behind[order][chosen[new]]
        texts = [canonical(reader.words[i]) for i in used.tolist()]
        reader.numbers[used] = decimals(reader.graph, texts, behind - reader.widths[used], behind)
        reader.simple[used] = [is_simple(float(text)) for text in texts]

    def _constants(self) -> list[dict[int, Any]]:
        """The nodes of the constants of each part, one for each definition; -1 where it is an operation instead."""
        found: list[dict[int, Any]] = [{} for _ in self.parts]
        for number, part in enumerate(self.parts):
            for k in part.constants():
                constant = part.template.constants[k]
                words = part.words[:, constant.slots]
                if len(constant.steps) == 1:
                    found[number][k] = self.reader.numbers[words[:, 0]]
                else:
                    found[number][k] = self._folded(constant, words, self.ends[number])
        return found

    def _folded(self, constant: Constant, words: Any, ends: Any) -> Any:
        """What is done to numbers, once for each different ones."""
        nodes, lines = np.full(len(words), -1), np.arange(len(words))
        if constant.is_sign:  # `-2` is a number, where `-0.3` is an operation on one
            lines = lines[self.reader.simple[words[:, 0]]]
        else:
            self.folds = True
        used, chosen, places = np.unique(words[lines], axis=0, return_index=True, return_inverse=True)
        numbers = self.reader.numbers[used].tolist()
        found = [self._evaluated(constant, n, ends[i]) for n, i in zip(numbers, lines[chosen], strict=True)]
        nodes[lines] = np.array(found, np.int64)[places.ravel()]
        return nodes

    def _evaluated(self, constant: Constant, numbers: Iterable[int], ends: Any) -> int:
        """The node of operations on numbers."""
        inliner, graph, rest = self.reader.inliner, self.reader.graph, iter(numbers)
        stack: list[int] = []
        for step in constant.steps:
            if step.slot >= 0:
                stack.append(next(rest))
                continue
            operands = [stack.pop() for _ in range(1 if step.row in UNARY else 2)][::-1]
            graph.place = int(_place(ends, step.start)), int(_place(ends, step.end))
            stack.append(inliner.operation(step.row, operands))
        return stack[0]

    # Operations.

    def _level(self, level: int) -> None:
        """The operations whose operands are all known by now; what is the same is done once."""
        made = [
            self._operation(number, k, operation)
            for number, part in enumerate(self.parts)
            for k, operation in enumerate(part.template.operations)
            if operation.level == level
        ]
        if made:
            self._merge(np.sort(np.concatenate(made)), self.base if level == 0 and self.folds else self.old)

    def _operation(self, number: int, k: int, operation: Operation) -> Any:
        """An operation of all definitions of a part; where those nodes are that are no numbers."""
        part, ends, operands = self.parts[number], self.ends[number].T, operation.operands
        at = self.at[part.lines - self.begin] + k
        self.row[at] = part.rows_of(operation) if operation.slot >= 0 else self.reader.row(operation.row)
        for i, operand in enumerate(operands):
            self.operands[at, i] = self._operand(number, operand)
        self.start[at], self.end[at] = _place(ends, operation.start), _place(ends, operation.end)
        if operation.folded < 0:
            return at
        folded = self.constants[number][operation.folded]
        self.node[at[folded >= 0]] = folded[folded >= 0]
        return at[folded < 0]

    def _operand(self, number: int, operand: Operand) -> Any:
        part, (what, k) = self.parts[number], operand
        if what == "constant":
            return self.constants[number][k]
        if what == "operation":
            return self.node[self.at[part.lines - self.begin] + k]
        words = part.words[:, k]
        lines = np.maximum(self.reader.meant(words, part.lines) - self.begin, -1)
        return np.where(lines >= 0, self.base + self.at[lines + 1] - 1, self.reader.nodes[words])

    def _merge(self, at: Any, old: int) -> None:
        """Give equal operations the number of the first of them, or of a node that is in the graph: that may be where
        all operands have numbers below `old`."""
        row, (first, second, *others) = self.row[at], self.operands[at].T
        keys = (row << 2 * _BITS) | (first << _BITS) | (second + 1)
        for other in others:
            if (other >= 0).any():
                keys = (np.unique(keys, return_inverse=True)[1] << _BITS) | (other + 1)
        _, chosen, places = np.unique(keys, return_index=True, return_inverse=True)
        nodes, operands, rows = self.node[at[chosen]], self.operands[at[chosen]], self.reader.rows
        counts = np.where((operands < old).all(axis=1), (operands >= 0).sum(axis=1), 0)
        for count in np.unique(counts[counts > 0]).tolist():
            asked = np.flatnonzero(counts == count)
            names = [rows[i] for i in row[chosen[asked]].tolist()]
            found = find(self.reader.graph, names, list(operands[asked, :count].T))
            nodes[asked[found >= 0]] = found[found >= 0]
        self.node[at] = nodes[places]

    def _names(self) -> None:
        """The last node of each definition: its name, of what is computed last."""
        for part, ends in zip(self.parts, self.ends, strict=True):
            at, whole = self.at[part.lines - self.begin] + part.size - 1, part.template.operations[-1]
            self.operands[at, 0] = self.node[at - 1]
            self.start[at], self.end[at] = _place(ends.T, whole.start), _place(ends.T, whole.end)

    # The end.

    def _append(self) -> None:
        """Number what is new, and append it."""
        reader, begin, stop = self.reader, self.begin, self.stop
        new = self.node == self.base + np.arange(len(self.node))
        numbers = self.base - 1 + np.cumsum(new)
        operands = self.operands[new]
        later = operands >= self.base
        operands[later] = numbers[operands[later] - self.base]
        names = numbers[self.at[1:] - 1]
        reader.nodes[reader.heads[begin:stop]] = names
        words = [reader.words[i] for i in reader.heads[begin:stop].tolist()]
        labels = [reader.label(word) for word in words] if reader.often.any() else words
        ops = [reader.rows[i] for i in self.row[new].tolist()]
        counts = (operands >= 0).sum(axis=1)
        append(reader.graph, ops, counts, operands[operands >= 0], self.start[new], self.end[new], names, labels)
        reader.scope.nodes.update(zip(words, names.tolist(), strict=True))
        offsets = reader.run.offsets[begin:stop]
        reader.scope.model.names.extend(labels, names.astype(np.intc).tobytes(), offsets.astype(np.intc).tobytes())


def _used(ids: Any, size: int) -> tuple[Any, Any]:
    """Which of so many numbers are used, in order, and for each place how many of these are smaller than its own."""
    if size > _MANY_TIMES * len(ids):  # a short run of a long text
        return np.unique(ids, return_inverse=True)
    marks = np.zeros(size, bool)
    marks[ids] = True
    return np.flatnonzero(marks), (np.cumsum(marks) - 1)[ids]


def _place(ends: Any, anchor: Anchor) -> Any:
    """A place in the text, by where words end."""
    word, more = anchor
    return ends[word] + more
