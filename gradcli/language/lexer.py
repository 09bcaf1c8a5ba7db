"""Text to tokens.

One regular expression cuts the text into words without a gap, each with the blanks and the comment behind it; each
distinct word is classified once. Names take in every character beyond ASCII, so that a pasted minus sign is found
where it stands and can be named. All quantifiers that could backtrack are possessive: time is linear in the text.
What only messages need is compiled once there is something to say: each pattern takes 0.1 ms at start-up.

Blanks are the space, tab, form feed, vertical tab and the spaces of Unicode, the no-break space included.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from itertools import accumulate
from typing import NamedTuple, TypeAlias

Token: TypeAlias = tuple[str, str, int, str]
"""`(kind, text, width, form)`: characters of the token; the form is the text of an operator, else the kind.

Kinds: name, number, op (arithmetic), compare, logic (`and`, `or`), not, newline, end, bad, and for each of
`( ) [ ] , ; : = @` itself. The text of a name is normalised and without backquotes, of a number without underscores.
"""

_BLANK = r" \t\x0b\x0c\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_SPACE = r"(?:[^\S\n\r\x1c-\x1f\x85](?<![\u2028\u2029]))"  # one of these: slower to match, 0.07 ms less to build
_BREAK = r"(?:\r\n?|\n)"
_COMMENT = r"(?:\#[^\r\n]*+)?"
_CONTINUED = rf"(?:\\{_SPACE}*+(?:{_BREAK}|\Z){_SPACE}*+)*+"
_TAIL = rf"{_CONTINUED}{_COMMENT}"
_DIGITAL = r"[0-9] [\w.]*+ (?:(?<=[eE])[+-](?=[0-9]) [\w.]*+)?"
_WORD = rf"""(?:
    {_DIGITAL} | \.{_DIGITAL}                 # a number, right or wrong; the first character tells alternatives apart
  | [^\x00-/:-@\[-^`{{-\x7f{_BLANK}]++             # a name
  | [(),;\[\]]
  | [-+*/%^]= | -> | \*\*=? | //=? | <=> | [=!]== | [<>=!]= | <> | => | =< | := | && | \|\|
  | (?:{_BREAK}[ \t]*+(?:{_SPACE}|\ufeff)*+{_COMMENT})++
  | `[^`\r\n]*+`?
  | "[^"\r\n]*+"?
  | .
)"""
_CORE = f"(?xs){_WORD}"
_TOKEN = re.compile(rf"{_WORD}[{_BLANK}]*+{_TAIL}", re.VERBOSE | re.DOTALL)
_SEAM = re.compile(r"[A-Za-z_0-9)\]]\r?\n(?=[A-Za-z_])")  # where one token surely ends and another begins
_PIECE = 1 << 16  # characters
_LEADING = re.compile(rf"\ufeff?{_SPACE}*+{_TAIL}")

_DIGITS = r"[0-9]++(?:_[0-9]++)*+"
_MANTISSA = rf"(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})"
_NUMBER = rf"{_MANTISSA}(?:[eE][+-]?{_DIGITS})?"
_ORDINARY = rf"(?:(?P<name>[A-Za-z_][A-Za-z_0-9]*+)|(?P<number>{_NUMBER}))(?={_SPACE}|[#\\]|\Z)"
_UNFINISHED = rf"{_MANTISSA}[eE]"
_PREFIXED = r"0(?:[xX][0-9a-fA-F_]++|[oO][0-7_]++|[bB][01_]++)"

_FIXED = {
    **dict.fromkeys(("+", "-", "*", "/", "//", "%", "^", "**"), "op"),
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), "compare"),
    **dict.fromkeys(("and", "or"), "logic"),
    **{text: text for text in ("not", "(", ")", "[", "]", ",", ";", ":", "=", "@")},
}

# What other languages write, and what this one writes instead.
_FOREIGN = {
    "!": "write `!=` for unequal, `not x` for a negation, `gamma(x + 1)` for a factorial",
    "&&": "write `and`",
    "&": "write `and`",
    "||": "write `or`; for an absolute value `abs(x)`",
    "|": "write `or`; for an absolute value `abs(x)`",
    "~": "write `not`",
    "<>": "write `!=`",
    "!==": "write `!=`",
    "===": "write `==`",
    "=>": "write `>=`",
    "=<": "write `<=`",
    ":=": "write `=` in a definition, `==` to compare",
    "?": "write `where(c, a, b)` for a choice",
    "'": "a derivative is written `d(f, x)`; there is no text in quotes",
    ".": "there are no attributes; a product is written `*`",
    "{": "group with `(` and `)`",
    "}": "group with `(` and `)`",
    "$": "names are written without `$`",
    "\\": "a backslash continues a line, and only as the last character in it",
}
_OPERATORS = "the operators are `+ - * / // % ^ < <= > >= == != and or not`"
_CONFUSABLE = {
    **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63", "-"),
    **dict.fromkeys("\u00d7\u00b7\u22c5\u2219\u2217\u2022\u2715\u2716\u2a2f", "*"),
    **dict.fromkeys("\u00f7\u2215\u2044\u2236", "/"),
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2260": "!=",
    "\u2227": "and",
    "\u2228": "or",
    "\u00ac": "not",
    "\u221e": "inf",
    "\u221a": "sqrt(...)",
    "\u2032": "d(f, x)",
    "\u207b": "^-",
    "\u207a": "^+",
}
_SUPERSCRIPTS = "[\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+"
_LONGEST_QUOTE = 40


class Problem(NamedTuple):
    """What is wrong with a bad token, and where in it."""

    message: str
    help: str | None
    offset: int
    width: int


class _Words(dict[str, Token]):
    """Tokens by word: whatever is written twice is classified once."""

    def __missing__(self, word: str) -> Token:
        token = self[word] = _classify(word)
        return token


def tokenize(text: str, first: int = 0, last: int | None = None) -> tuple[list[Token], array[int]]:
    """All tokens of a text, or of the lines of it between two places, closed by an `end`, and where each starts. Wrong
    text becomes `bad` tokens: see `explain`."""
    last = len(text) if last is None else last
    leading = _LEADING.match(text, first, last)
    first = leading.end() if leading else first
    tokens: list[Token] = []
    starts = array("q", (first,))
    while first < last:  # in pieces, so that the words of a long text are never all there
        seam = _SEAM.search(text, first + _PIECE, last)
        end = seam.end() if seam else last
        words = _TOKEN.findall(text, first, end)
        tokens += map(_Words().__getitem__, words)
        starts.pop()
        starts.extend(accumulate(map(len, words), initial=first))
        first = end
    tokens.append(("end", "", 0, "end"))
    return tokens, starts


def is_decimal(text: str) -> bool:
    """Whether a text is a number as written in nearly all files: without underscores."""
    return "_" not in text and re.fullmatch(_NUMBER, text) is not None


def quoted(text: str) -> str:
    """Text in backquotes for a message, its middle left out when it is long."""
    if len(text) > _LONGEST_QUOTE:
        half = _LONGEST_QUOTE // 2
        text = f"{text[:half]}...{text[-half:]}"
    return f"`{text}`"


def _classify(word: str) -> Token:
    if word.isascii():  # nearly all are quick to tell
        text = word.partition("#")[0].rstrip(" ")
        if kind := _FIXED.get(text):
            return kind, text, len(text), text
        if text.isidentifier():
            return "name", text, len(text), "name"
        if text.replace(".", "", 1).isdigit():
            return "number", text, len(text), "number"
    if word[0] in "\r\n" and "\\" not in word:
        return "newline", "", len(word), "newline"
    ordinary = re.match(_ORDINARY, word)
    if ordinary:
        width = ordinary.end()
        text = word[:width]
        if ordinary.lastgroup == "number":
            return "number", text.replace("_", "") if "_" in text else text, width, "number"
        word_kind = _FIXED.get(text, "name")
        return word_kind, text, width, text if word_kind == "logic" else word_kind
    core = re.match(_CORE, word)
    width = core.end() if core else len(word)
    text = word[:width]
    if kind := _FIXED.get(text):
        return kind, text, width, text
    first = text[0]
    if first in "\r\n":
        return "newline", "", width, "newline"
    if first == "`" and width > 2 and text[-1] == "`":
        return "name", unicodedata.normalize("NFC", text[1:-1]), width, "name"
    # NFC, never NFKC: that would turn an x with a superscript two into the name x2.
    name = text if text.isascii() else unicodedata.normalize("NFC", text)
    known = "name" if name.isidentifier() else "bad"
    return known, name, width, known


def explain(text: str) -> Problem:
    """Say what is wrong with the characters of a bad token."""
    first = text[0]
    if first == "`":
        if text == "``":
            return Problem("empty name in backquotes", "write the name between them", 0, 2)
        return Problem(f"backquote without an end: {quoted(text[1:])}", "close it in the same line", 0, len(text))
    if first == '"':
        remedy = "names are written without quotes, or in backquotes"
        return Problem(f"text in quotes is not part of the language: {quoted(text)}", remedy, 0, len(text))
    if first.isascii() and (first.isdigit() or (len(text) > 1 and first == "." and text[1].isdigit())):
        return _explain_number(text)
    if not text.isascii():
        return _explain_character(text)
    if len(text) > 1 and text[-1] == "=" and text[0] in "+-*/%^":
        return Problem(f"{quoted(text)} is not an operator", f"write `x = x {text[:-1]} ...`", 0, len(text))
    if not first.isprintable():
        return Problem(f"unexpected character U+{ord(first):04X}", "remove it", 0, 1)
    message = f"unexpected {quoted(text)}" if first in "$.'{}\\" else f"{quoted(text)} is not an operator"
    return Problem(message, _FOREIGN.get(text, _OPERATORS), 0, len(text))


def _explain_number(text: str) -> Problem:
    def malformed(reason: str, help: str | None = None) -> Problem:
        return Problem(f"malformed number {quoted(text)}: {reason}", help, 0, len(text))

    if re.fullmatch(_PREFIXED, text):
        digits = text.replace("_", "")
        decimal = f"write `{int(digits, 0)}`" if 2 < len(digits) <= 18 else None
        return malformed("numbers are decimal", decimal)
    if re.fullmatch(_UNFINISHED, text):
        product = quoted(f"{text[:-1]}*{text[-1]}")
        return malformed("the exponent has no digits", f"write {product} if a product is meant")
    number = re.match(_NUMBER, text)
    name = text[number.end() :] if number else ""
    if number and name[:1] != "_" and (word := re.match(r"\w+", name)) and word[0].isidentifier():
        message = f"missing operator between {quoted(number[0])} and {quoted(name)}"
        return Problem(message, f"write {quoted(f'{number[0]}*{name}')}", number.end(), len(name))
    for at, character in enumerate(text):
        if not character.isascii():
            return _explain_at(text, at)
    if "_" in text:
        plain = re.sub("_+", "_", text).strip("_")
        remedy = f"write {quoted(plain)}" if re.fullmatch(_NUMBER, plain) else None
        return malformed("a single `_` may stand between two digits, nowhere else", remedy)
    if text.count(".") > 1:
        return malformed("more than one decimal point", "keep one; a product is written `*`")
    return malformed("digits and letters are mixed", "a name begins with a letter; a product is written `*`")


def _explain_character(text: str) -> Problem:
    """Find the first character that cannot stand in a name."""
    for at, character in enumerate(text):
        if not ("a" + character if at else character).isidentifier():
            return _explain_at(text, at)
    return Problem(f"{quoted(text)} is not a name", "put it in backquotes", 0, len(text))


def _explain_at(text: str, at: int) -> Problem:
    character = text[at]
    point = f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
    if character.isdecimal():
        found = re.match(r"[\d.]+", text[at:])
        run = found[0] if found else character
        ascii_run = "".join(str(unicodedata.decimal(c, c)) for c in run)
        message = f"malformed number {quoted(run)}: {point} is not one of the digits 0 to 9"
        return Problem(message, f"write {quoted(ascii_run)}", at, len(run))
    width, remedy = 1, _CONFUSABLE.get(character)
    powers = re.match(_SUPERSCRIPTS, text[at:])
    if powers:
        width = len(powers[0])
        remedy = "^" + "".join(str(unicodedata.digit(c)) for c in powers[0])
    elif remedy is None:
        folded = unicodedata.normalize("NFKC", character)
        remedy = folded if folded.isascii() and folded.isprintable() and folded != " " else None
    help = f"write {quoted(remedy)}" if remedy else "remove it, or put the name in backquotes"
    return Problem(f"unexpected character {point}", help, at, width)
