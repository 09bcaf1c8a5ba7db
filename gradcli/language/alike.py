"""A long text in stretches: runs of lines that are written like others, and the rest, which the parser reads.

What stands between the words of a line tells how it is written. Nothing here looks at a line by itself, but at one of
each form: the text is cut into words once, and the rest is done with whole arrays.
"""

from __future__ import annotations

import string
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from gradcli.language.syntax import Definition
from gradcli.language.templates import ANY, NAME, NUMBER, WORD, Template, kind_of, template

_PIECE = 1 << 18  # characters that are cut into words at once
_LONGEST = 100  # words of a line
_ALIKE = 8  # lines that are written alike from which on one of them is parsed for all
_RUN = 50  # lines in a row from which on they are a run
_BLANKS = " \t\r\n"
_UNKNOWN, _COMMENT = -1, -2  # instead of the number of a template
_LETTER, _DIGIT, _POINT = 1, 2, 3  # kinds of characters
_RESERVED = 3  # characters of the longest word that is no name


@dataclass(frozen=True)
class Run:
    """Definitions in consecutive lines, as numbers: `ids` of their words in the vocabulary, one line after the other,
    where the words of each line start in `ids`, where the first one starts in the text, and its template. `kinds`: what
    each word of the vocabulary may be; `widths`: its characters."""

    vocabulary: Sequence[str]
    kinds: Any
    widths: Any
    templates: Sequence[Template]
    ids: Any
    firsts: Any
    offsets: Any
    forms: Any

    def __len__(self) -> int:
        return len(self.firsts)

    def __getitem__(self, number: int) -> Definition:
        """A definition, made anew."""
        form, first, start = (int(numbers[number]) for numbers in (self.forms, self.firsts, self.offsets))
        model = self.templates[form]
        words = [self.vocabulary[i] for i in self.ids[first : first + len(model.kinds)].tolist()]
        return model.definition(words, start)

    def __iter__(self) -> Iterator[Definition]:
        return map(self.__getitem__, range(len(self)))

    @property
    def start(self) -> int:
        """Where the first one starts in the text."""
        return int(self.offsets[0])

    def names(self) -> list[str]:
        """What is defined, in order."""
        words = self.vocabulary
        return [words[i] for i in self.ids[self.firsts].tolist()]


def stretches(text: str) -> Iterator[Run | tuple[int, int]]:
    """The runs of a text in order, and between them where the rest starts and ends. To the rest belongs the line behind
    it, at which an unfinished statement ends."""
    lines = _Lines(text)
    behind = 0
    for low, high in lines.runs():
        if lines.start(low) > behind:
            low += 1
            yield behind, lines.start(low)
        yield lines.run(low, high)
        behind = lines.end(high - 1)
    if behind < len(text):
        yield behind, len(text)


class _Words(NamedTuple):
    """A text as words and the gaps around them, by their numbers; one gap more than words."""

    ids: Any
    gaps: Any
    vocabulary: list[str]
    between: list[str]


def _cut(text: str) -> _Words:
    words: defaultdict[str, int] = defaultdict(count().__next__)
    gaps: defaultdict[str, int] = defaultdict(count().__next__)
    ids, between = array("i"), array("i")
    rest, at = "\n", 0  # every line has a line break before it and one behind it
    while at < len(text):
        end = text.find("\n", at + _PIECE) + 1 or len(text)
        parts = WORD.split(text[at:end])
        parts[0] = rest + parts[0]
        rest, at = parts.pop(), end
        between.extend(map(gaps.__getitem__, parts[::2]))
        ids.extend(map(words.__getitem__, parts[1::2]))
    between.append(gaps[rest + "\n"])
    return _Words(np.frombuffer(ids, np.intc), np.frombuffer(between, np.intc), list(words), list(gaps))


_CHARACTERS = np.zeros(256, np.uint8)
_CHARACTERS[[ord(c) for c in string.ascii_letters + "_"]] = _LETTER
_CHARACTERS[[ord(c) for c in string.digits]] = _DIGIT
_CHARACTERS[ord(".")] = _POINT


def _kinds(vocabulary: list[str], widths: Any) -> Any:
    """As `kind_of` of each word: nearly all are letters and digits, or digits with a point."""
    if not vocabulary:
        return np.zeros(0, np.uint8)
    what = _CHARACTERS[np.frombuffer("".join(vocabulary).encode("ascii"), np.uint8)]
    starts = np.cumsum(widths) - widths
    letters, digits, points = (np.add.reduceat(what == k, starts, dtype=np.intc) for k in (_LETTER, _DIGIT, _POINT))
    kinds = np.full(len(widths), ANY, np.uint8)
    kinds[(what[starts] == _LETTER) & (letters + digits == widths) & (widths > _RESERVED)] = NAME
    kinds[(digits > 0) & (points <= 1) & (digits + points == widths)] = NUMBER
    rest = np.flatnonzero(kinds == ANY)
    kinds[rest] = [kind_of(vocabulary[i]) for i in rest.tolist()]
    return kinds


class _Lines:
    """The lines of a text that have words. Line k has those from `firsts[k]` to `firsts[k + 1]`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words = _cut(text)
        breaks = np.array([("\n" in gap) for gap in words.between])
        self.firsts = np.flatnonzero(breaks[words.gaps])
        self.counts = np.diff(self.firsts)
        self.widths = np.fromiter(map(len, words.vocabulary), np.intc, len(words.vocabulary))
        self.kinds = _kinds(words.vocabulary, self.widths)
        widths = self.widths[words.ids]
        gap_widths = np.array([len(g) for g in words.between], np.intc)[words.gaps]
        ends = np.cumsum(widths + gap_widths[:-1], dtype=np.intc) - 1  # without the line break put before the text
        self.offsets = (ends - widths)[self.firsts[:-1]]
        self.behind = ends[self.firsts[1:] - 1]
        self.forms = np.full(len(self.counts), _UNKNOWN, np.intc)
        self.templates: list[Template] = []
        self._compare()

    def start(self, line: int) -> int:
        return int(self.offsets[line]) - len(_after(self.words.between[self.words.gaps[self.firsts[line]]]))

    def end(self, line: int) -> int:
        return int(self.behind[line]) + len(_before(self.words.between[self.words.gaps[self.firsts[line + 1]]]))

    def runs(self) -> list[tuple[int, int]]:
        """From which line to which one all have a template, or are comments between those that have."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], self.forms != _UNKNOWN, [False]))))
        found = []
        for low, high in edges.reshape(-1, 2).tolist():
            definitions = low + np.flatnonzero(self.forms[low:high] >= 0)
            if len(definitions) > _RUN:
                found.append((int(definitions[0]), int(definitions[-1]) + 1))
        return found

    def run(self, low: int, high: int) -> Run:
        lines = low + np.flatnonzero(self.forms[low:high] >= 0)
        ids = self.words.ids[self.firsts[low] : self.firsts[high]]
        firsts = self.firsts[lines] - self.firsts[low]
        known = self.words.vocabulary, self.kinds, self.widths, self.templates
        return Run(*known, ids, firsts, self.offsets[lines], self.forms[lines])

    def _compare(self) -> None:
        """Give a template to the lines that are written alike."""
        for lines in self._alike():
            line = int(lines[0])
            model = template(self.text[self.start(line) : self.end(line)])
            if model is None:
                continue
            rows = self.firsts[lines][:, None] + np.arange(len(model.kinds))
            wanted = np.array(model.kinds, np.uint8)
            fits = ((self.kinds[self.words.ids[rows]] == wanted) | (wanted == ANY)).all(axis=1)
            self.forms[lines[fits]] = len(self.templates)
            self.templates.append(model)

    def _alike(self) -> Iterator[Any]:
        """The lines that have the same gaps, form by form."""
        gaps, firsts = self.words.gaps, self.firsts
        heads, tails, clean = self._ends()
        self.forms[clean & self._comments()] = _COMMENT
        keys = self._keys(heads, tails)
        chosen = np.flatnonzero(clean & (self.counts <= _LONGEST))
        order = chosen[np.argsort(keys[chosen], kind="stable")]
        edges = np.flatnonzero(np.diff(keys[order])) + 1
        for low, high in zip([0, *edges.tolist()], [*edges.tolist(), len(order)], strict=True):
            if high - low < _ALIKE:
                continue
            lines = order[low:high]
            inner = firsts[lines][:, None] + np.arange(1, self.counts[lines[0]])
            same = (self.counts[lines] == self.counts[lines[0]]) & (heads[lines] == heads[lines[0]])
            lines, inner = lines[same], inner[same & (tails[lines] == tails[lines[0]])]
            yield lines[(gaps[inner] == gaps[inner[0]]).all(axis=1)]

    def _ends(self) -> tuple[Any, Any, Any]:
        """Numbers of what stands before the first word of each line and behind its last one, and whether there is
        nothing else around it: between the breaks before and behind it are blanks, and none is escaped."""
        between = self.words.between
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        heads = np.array([numbers[_after(gap)] for gap in between], np.intc)
        tails = np.array([numbers[_before(gap)] for gap in between], np.intc)
        clean = np.array([_is_clean(gap) for gap in between])
        around = self.words.gaps[self.firsts]
        return heads[around[:-1]], tails[around[1:]], clean[around[:-1]] & clean[around[1:]]

    def _comments(self) -> Any:
        """Which lines are comments and nothing else."""
        between, gaps, firsts = self.words.between, self.words.gaps, self.firsts
        begins = np.array([_after(gap).lstrip(" \t").startswith("#") for gap in between])[gaps[firsts[:-1]]]
        ended = np.array(["\r" in gap.replace("\r\n", "\n") for gap in between])[gaps]
        return begins & ~np.logical_or.reduceat(ended, firsts[:-1]) & ~ended[firsts[1:]]

    def _keys(self, heads: Any, tails: Any) -> Any:
        """A number for each line that is the same where its gaps are the same."""
        firsts, size = self.firsts, len(self.words.gaps)
        place = np.arange(size, dtype=np.intc) - np.repeat(firsts, np.append(self.counts, 1)).astype(np.intc)
        factors = np.random.default_rng(0).integers(1 << 63, size=_LONGEST + 3, dtype=np.int64)
        parts = factors[np.minimum(place, _LONGEST)]
        parts *= self.words.gaps
        parts[firsts] = 0
        return np.add.reduceat(parts, firsts[:-1]) + heads * factors[-2] + tails * factors[-1]


def _before(gap: str) -> str:
    """What of the text between two lines belongs to the first."""
    return gap.partition("\n")[0]


def _after(gap: str) -> str:
    return gap.rpartition("\n")[2]


def _is_clean(gap: str) -> bool:
    middle = gap[gap.find("\n") : gap.rfind("\n") + 1]
    return not middle.strip(_BLANKS) and "\\" not in gap
