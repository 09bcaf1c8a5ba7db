"""Every way to write it wrong: where the error is marked, what it says, and which remedy it offers.

The span is marked inside the bad text, as in patsy's tests, with `«` and `»` because `<` and `>` are operators.
"""

from __future__ import annotations

import pytest

from gradcli.errors import Diagnostic
from gradcli.language.parser import parse
from gradcli.source import Source

FUNCTIONS = frozenset({"sin", "cos", "exp"})


def bad(marked: str) -> Diagnostic:
    """The only error of a text, whose span must be the marked one."""
    start = marked.index("«")
    end = marked.index("»") - 1
    text = marked.replace("«", "").replace("»", "")
    _, diagnostics = parse(Source.of(text), FUNCTIONS)
    assert [d.message for d in diagnostics if d.span is None] == []
    assert len(diagnostics) == 1, [d.render() for d in diagnostics]
    span = diagnostics[0].span
    assert span is not None
    assert text[: span.start] + "«" + text[span.start : span.end] + "»" + text[span.end :] == marked
    assert (span.start, span.end) == (start, end)
    return diagnostics[0]


ERRORS = [
    # an operand is missing
    ("x+«»", "the expression ended after `+`", None),
    ("x +«» ", "the expression ended after `+`", None),
    ("y =«» # note", "the expression ended after `=`", None),
    ("x *«/» y", "an operand is missing between `*` and `/`", None),
    ("«*»x", "an operand is missing before `*`", None),
    ("a and «or» b", "an operand is missing between `and` and `or`", None),
    ("«=» 3", "an operand is missing before `=`", None),
    ("«()»", "empty brackets", None),
    ("y = «[]»", "empty list", None),
    ("f(a,«,»b)", "an argument is missing before `,`", None),
    ("f(«,»b)", "an argument is missing before `,`", None),
    ("f(a«,»)", "nothing behind the last `,`", "remove it"),
    ("(a +«)»", "the expression ended after `+`", None),
    # brackets
    ("sin(x)«)»", "closing `)` without an opening one", "remove it"),
    ("«)»", "closing `)` without an opening one", "remove it"),
    ("sin«(»x", "`(` is never closed", None),
    ("(x«]»", "`]` closes a bracket opened with `(`", "write `)`"),
    ("[x«)»", "`)` closes a bracket opened with `[`", "write `]`"),
    ("[«[»1]]", "a list inside a list", "a list holds numbers: `[1, 2, 3]`"),
    ("(1«,» 2)", "`,` in brackets that are no call", "a list is written `[a, b]`"),
    ("1«,» 2", "unexpected `,`", "separate them by `;`"),
    # no implicit multiplication
    ("5«X»", "missing operator between `5` and `X`", "write `5*X`"),
    ("3«(»x+1)", "missing operator between `3` and `(x+1)`", "write `3*(x+1)`"),
    ("1/(4)«(»2)", "missing operator between `(4)` and `(2)`", "write `(4)*(2)`"),
    ("a «b» + 1", "missing operator between `a` and `b`", "write `a*b`"),
    ("(a) «b»", "missing operator between `(a)` and `b`", "write `(a)*b`"),
    ("cos «x» sin y", "missing operator between `cos` and `x`", "write `cos(x)`"),
    ("g «x»", "missing operator between `g` and `x`", "write `g*x`"),
    ("2 «2»", "missing operator between `2` and `2`", "in cmd.exe an unquoted `^`"),
    ("x «2»", "missing operator between `x` and `2`", "`**`"),
    ("x«[»0]", "missing operator between `x` and `[0]`", "a name has no parts"),
    ("x «if» 1 else 2", "missing operator between `x` and `if`", "where(condition, a, b)"),
    ("[x «for» x in (1,2)]", "missing operator between `x` and `for`", "no word of the language"),
    ("x «AND» y", "missing operator between `x` and `AND`", "small letters"),
    ("cosnt «g» = 3", "missing operator between `cosnt` and `g`", "did you mean `const`?"),
    # other languages
    ("(lambda«:» 0)()", "unexpected `:`", "`f(x) = ...`"),
    ("lambda «x»: x", "missing operator between `lambda` and `x`", "`f(x) = ...`"),
    ("-3«!»", "`!` is not an operator", "gamma(x + 1)"),
    ("a «&&» b", "`&&` is not an operator", "write `and`"),
    ("x«:=»1", "`:=` is not an operator", "`=` in a definition"),
    ("x «?» 1 : 2", "`?` is not an operator", "where(c, a, b)"),
    ('«"a"»*9', 'text in quotes is not part of the language: `"a"`', None),
    ('open(«"f"»)', 'text in quotes is not part of the language: `"f"`', None),
    ("f«'»(x)", "unexpected `'`", "d(f, x)"),
    ("x«.»__class__", "unexpected `.`", "no attributes"),
    ("(1)«.»__class__", "unexpected `.`", "no attributes"),
    ("\tx + «$»", "unexpected `$`", None),
    ("x«@»1", "unexpected `@`", "`output`"),
    ("5 «−» x", "unexpected character U+2212 MINUS SIGN", "write `-`"),
    ("x«²»*3", "unexpected character U+00B2 SUPERSCRIPT TWO", "write `^2`"),
    ("«2.5.1»*x", "malformed number `2.5.1`: more than one decimal point", None),
    ("y = «2e»", "malformed number `2e`: the exponent has no digits", "write `2*e`"),
    ("«``» = 3", "empty name in backquotes", None),
    ("a + «not» b", "`not` binds more loosely than the operator before it", "write `(not ...)`"),
    # definitions
    ("«and» = 3", "`and` is a reserved word", "`` `and` ``"),
    ("«x+1» = 3", "`x+1` is not a name, so `=` cannot define it", "write `==`"),
    ("«2» = x", "`2` is not a name, so `=` cannot define it", "write `x = 2`"),
    ("a = b «=» 3", "the statement is complete, but `=` follows", "write `==`"),
    ("f(x «=» 3)", "`=` inside an expression", "write `==`"),
    ("f(x, «x») = 1", "the parameter `x` is there twice", None),
    ("f(x, «2») = 1", "the parameters of `f` must be names, but `2` is there", None),
    ("f(x«+»1) = 2", "the parameters of `f` must be names, but `+` is there", None),
    # worded statements
    ("const «3»", "`const` takes a name", "const g = 9.81"),
    ("const g«,» h", "expected `=` or the end behind `const g`", "const a; const b"),
    ("output x «+» 1", "`output` takes names, but `+` follows", "a name first"),
    ("output «(»x)", "`output` takes names", None),
    ("output a «b»", "`output` takes names, but `b` follows", "commas"),
    ("retain a,«»", "a name is missing behind the last `,`", None),
    ("retain x@«0»", "a whole number from 1 must follow `@`", None),
    ("domain x «=» 3", "the statement is complete, but `=` follows", "write `==`"),
    ("claim a == b«»", "`claim` needs `=` and a right side", "single `=`"),
    ("claim a«»", "`claim` needs `=` and a right side", "claim a = b"),
    ("claim«:» a = b", None, None),
    ("claim slope-1«:» a = b", "unexpected `:`", "backquotes"),
    ("expect a = b «rounded»", "`rounded` needs a plain number on the right side", "within"),
    ("expect a = 1 within «x»", "a number must follow `within`", "5%"),
    ("expect a = 1 within«»", "a number must follow `within`", "5%"),
    ("expect a = 1 within 1e-3 «y»", "the statement is complete, but `y` follows", None),
    # order
    ("«x + 1»; y = 2", "an expression without a name, and not the last one, has no effect", "name it"),
]


@pytest.mark.parametrize(("marked", "message", "help"), ERRORS, ids=[marked for marked, _, _ in ERRORS])
def test_error_is_marked_and_explained(marked: str, message: str | None, help: str | None) -> None:
    diagnostic = bad(marked)
    assert diagnostic.help
    if message is not None:
        assert diagnostic.message == message
    if help is not None:
        assert help in (diagnostic.help or "")


def test_open_bracket_is_the_cause_of_an_error_in_a_later_line() -> None:
    assert bad("a = «(»1 + sin(2)\nb*2\nc*3").message == "`(` is never closed"


def test_closed_bracket_over_lines_is_not_blamed() -> None:
    assert bad("a = (1\n «2»)").message == "missing operator between `1` and `2`"


def test_message_about_a_giant_expression_is_short() -> None:
    _, (diagnostic,) = parse(Source.of("x + " * 250_000 + "y" * 300_000 + " z"))
    assert diagnostic.span is not None
    assert diagnostic.span.start == 1_300_001
    assert len(diagnostic.render()) < 1000
