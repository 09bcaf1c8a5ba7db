"""Definitions that are written alike are parsed once.

How a definition is read depends on the kinds of its tokens and on its operators, not on its names and numbers. So what
is written like one before needs no parser: it is the same steps over other tokens.
"""

from __future__ import annotations

from gradcli.language.expressions import Tokens
from gradcli.language.syntax import Definition, Expression, Form, Statement

_LONGEST = 100  # tokens of a definition whose form may come again


class Templates:
    """The forms of the definitions of one text."""

    def __init__(self, at: Tokens) -> None:
        self.at = at
        self.forms = [token[3] for token in at.tokens]
        self.seen: dict[tuple[str, ...], tuple[int, Expression]] = {}
        self.known: dict[tuple[str, ...], Form] = {}

    def read(self, i: int) -> tuple[Definition, int] | None:
        """The definition that starts at token `i` and the index behind it, where one like it was seen before."""
        written = self._written(i)
        form = self.known.get(written)
        if form is None:
            if written not in self.seen:
                return None
            before, model = self.seen[written]
            form = self.known[written] = [(*step[:2], *[k - before for k in step[2:]]) for step in model.form]
        tokens, starts = self.at.tokens, self.at.starts
        _, name, width, _ = tokens[i]
        start, last = starts[i], i + form[-1][4]
        end = starts[last] + tokens[last][2]
        expression = Expression(form, tokens, starts, i, starts[i + 2], end)
        return Definition(name, start, start + width, expression, start, end), i + len(written)

    def keep(self, i: int, statement: Statement, end: int) -> None:
        """Remember how tokens `i` to `end` were read."""
        if isinstance(statement, Definition) and i + len(written := self._written(i)) == end:
            self.seen[written] = i, statement.expression

    def _written(self, i: int) -> tuple[str, ...]:
        """Kinds and operators up to the end of the line; empty where it is too long."""
        try:
            return tuple(self.forms[i : self.forms.index("newline", i, i + _LONGEST)])
        except ValueError:
            return ()
