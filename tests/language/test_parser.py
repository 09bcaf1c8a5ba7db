"""The parser: what text means as statements and postfix code, recovery, depth."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.language import alike, parser
from gradcli.language.parser import parse, parse_expression
from gradcli.language.syntax import (
    Bare,
    Claim,
    Const,
    Definition,
    Domain,
    Expect,
    Expression,
    File,
    Function,
    NameRef,
    Output,
    Retain,
    Tolerance,
)
from gradcli.source import Part, Source

FUNCTIONS = frozenset({"sin", "cos", "exp"})


def good(text: str) -> File:
    file, diagnostics = parse(Source.of(text), FUNCTIONS)
    assert diagnostics == []
    return file


def statement(text: str) -> Any:
    (found,) = good(text).statements()
    return found


def shown(expression: Expression) -> str:
    """The expression with all its brackets, rebuilt from the postfix code."""
    stack: list[str] = []
    for kind, value, _, _ in expression.code:
        count = {"number": 0, "name": 0, "list": value, "op": 1 if value in ("neg", "not") else 2}.get(kind)
        if kind in ("call", "chain"):
            count = value[1] if kind == "call" else len(value) + 1
        assert isinstance(count, int)
        operands = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        name = value[0] if kind == "call" else " ".join(value) if kind == "chain" else str(value)
        stack.append(
            name if kind in ("number", "name") else f"{kind if kind == 'list' else name}({', '.join(operands)})"
        )
    (whole,) = stack
    return whole


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("-x^2", "neg(pow(x, 2))"),
        ("(-5)^2", "pow(neg(5), 2)"),
        ("2^2^3", "pow(2, pow(2, 3))"),
        ("2**2^3", "pow(2, pow(2, 3))"),
        ("9^2^-1", "pow(9, pow(2, neg(1)))"),
        ("2^-x*3", "mul(pow(2, neg(x)), 3)"),
        ("2^-x^y", "pow(2, neg(pow(x, y)))"),
        ("2^+x*3", "mul(pow(2, x), 3)"),
        ("4---1", "sub(4, neg(neg(1)))"),
        ("+-+5", "neg(5)"),
        ("-a*b", "mul(neg(a), b)"),
        ("a*-b*c", "mul(mul(a, neg(b)), c)"),
        ("a-b-c", "sub(sub(a, b), c)"),
        ("a+b*c//d%e/f", "add(a, div(mod(floordiv(mul(b, c), d), e), f))"),
        ("a < b + 1 <= c != d", "lt le ne(a, add(b, 1), c, d)"),
        ("(a < b) < c", "lt(lt(a, b), c)"),
        ("not a == b", "not(eq(a, b))"),
        ("not not a", "not(not(a))"),
        ("a or b and not c > 0 or d", "or(or(a, and(b, not(gt(c, 0)))), d)"),
        ("f(a, -b)^2", "pow(f(a, neg(b)), 2)"),
        ("f()", "f()"),
        ("f(\n)", "f()"),
        ("log2(8)*x", "mul(log2(8), x)"),
        ("x(y + 1)", "x(add(y, 1))"),
        ("-[1, 2]", "neg(list(1, 2))"),
        ("sum([1, -2, pi])", "sum(list(1, neg(2), pi))"),
        ("(a\n+ b # note\n)*c", "mul(add(a, b), c)"),
        ("a \\\n + b", "add(a, b)"),
        ("if + within*rounded", "add(if, mul(within, rounded))"),
        ("1.5E3*x", "mul(1.5E3, x)"),
        ("x1e5*temp2e", "mul(x1e5, temp2e)"),
    ],
)
def test_precedence(text: str, meaning: str) -> None:
    assert shown(statement(text).expression) == meaning


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("a + b*c", ["a", "b", "c", "b*c", "a + b*c"]),
        ("(a + b)*c", ["a", "b", "(a + b)", "c", "(a + b)*c"]),
        ("-f(x, 2)", ["x", "2", "f(x, 2)", "-f(x, 2)"]),
        ("0 < x <= 1", ["0", "x", "1", "0 < x <= 1"]),
        ("[1, 2]", ["1", "2", "[1, 2]"]),
    ],
)
def test_every_item_spans_its_whole_operation(text: str, spans: list[str]) -> None:
    assert [text[start:end] for _, _, start, end in statement(text).expression.code] == spans


def test_call_knows_its_arguments_and_its_name() -> None:
    assert statement("y = sin(x)").expression.code[-1] == ("call", ("sin", 1, 4, 7), 4, 10)


def test_bare_name_is_the_name_of_an_alias() -> None:
    assert statement("y = x").expression.bare_name == "x"
    assert statement("y = (x)").expression.bare_name == "x"
    assert statement("y = -x").expression.bare_name is None
    assert statement("y = 2").expression.bare_name is None


def test_statements_end_at_newline_or_semicolon() -> None:
    names = [
        s.name
        for s in good("a = 1; b = 2;;\r\nc = 3\n\n# note\nd = 4 # e = 5").statements()
        if isinstance(s, Definition)
    ]
    assert names == ["a", "b", "c", "d"]


def test_definition_knows_its_places() -> None:
    found = statement("  n = a*b # product")
    assert found == Definition("n", 2, 3, found.expression, 2, 9)


def test_function_knows_its_parameters() -> None:
    found = statement("f(a, `b c`) = a + 1")
    assert (found.name, found.parameters, found.parameter_spans) == ("f", ("a", "b c"), ((2, 3), (5, 10)))
    assert (found.name_start, found.name_end, found.start, found.end) == (0, 1, 0, 19)


def test_const_with_and_without_value() -> None:
    found = statement("const g = 9.81")
    assert (found.name, found.name_start, found.name_end, found.end) == ("g", 6, 7, 14)
    assert statement("const g") == Const("g", 6, 7, None, 0, 7)


def test_retain_and_output_list_names() -> None:
    assert statement("retain n, `a b`") == Retain((NameRef("n", 7, 8), NameRef("a b", 10, 15)), 0, 15)
    assert statement("output x@1, x") == Output((NameRef("x@1", 7, 10), NameRef("x", 12, 13)), 0, 13)


def test_domain_may_begin_with_sign_bracket_or_not() -> None:
    assert shown(statement("domain -3 < x < 3").expression) == "lt lt(neg(3), x, 3)"
    assert isinstance(statement("domain (x > 0)"), Domain)
    assert isinstance(statement("domain(x > 0)"), Domain)
    assert isinstance(statement("domain not x > 0"), Domain)


def test_claim_with_name_and_condition() -> None:
    found = statement("claim slope: d(o, x) = w*(1 - o^2) if x > 0")
    assert isinstance(found, Claim)
    assert found.name == "slope"
    assert shown(found.left) == "d(o, x)"
    assert shown(found.right) == "mul(w, sub(1, pow(o, 2)))"
    assert found.condition is not None
    assert shown(found.condition) == "gt(x, 0)"
    assert found.end == 43


def test_claim_needs_neither_name_nor_condition() -> None:
    found = statement("claim (x) = `if`")
    assert (found.name, shown(found.left), shown(found.right), found.condition) == (None, "x", "if", None)


@pytest.mark.parametrize(
    ("text", "written", "tolerance"),
    [
        ("expect f = 1.50", "1.50", Tolerance()),
        ("expect f = -1_0.50 rounded", "-10.50", Tolerance("rounded")),
        ("expect f = -+-3", "3", Tolerance()),
        ("expect f = 1 within 1e-12", "1", Tolerance("absolute", "1e-12")),
        ("expect f = 1 within 5%", "1", Tolerance("percent", "5")),
        ("expect f = 2*pi within 5 %", None, Tolerance("percent", "5")),
        ("expect f = -inf", None, Tolerance()),
    ],
)
def test_expect_keeps_the_written_number(text: str, written: str | None, tolerance: Tolerance) -> None:
    found = statement(text)
    assert isinstance(found, Expect)
    assert (found.text, found.tolerance, found.end) == (written, tolerance, len(text))


@pytest.mark.parametrize("word", ["const", "retain", "output", "domain", "claim", "expect"])
def test_statement_words_are_names_elsewhere(word: str) -> None:
    assert isinstance(statement(f"{word} = 3"), Definition)
    assert isinstance(statement(f"{word}*2"), Bare)
    assert isinstance(statement(word), Bare)
    assert isinstance(statement(f"y = {word} + 1"), Definition)
    assert isinstance(statement(f"`{word}` - 1"), Bare)
    assert isinstance(statement(f"{word}(a) = a + 1"), Function)


def test_bare_expression_may_be_followed_by_statements_that_compute_nothing() -> None:
    assert len(good("x^2\ndomain x > 0\nf(a) = a\nconst g\nexpect x = 1").blocks[0]) == 5


def test_parts_of_a_source_are_lines_of_one_text() -> None:
    file, diagnostics = parse(Source([Part("a.expr", "a = 1"), Part("-e", "a*2")]))
    assert (len(file.blocks[0]), diagnostics) == (2, [])


def test_carriage_return_is_part_of_nothing() -> None:
    assert shown(statement("x^2\r\n").expression) == "pow(x, 2)"
    assert len(good("\ufeffa = 1\rb = 2\r\nc = 3").blocks[0]) == 3


def test_every_statement_reports_its_own_error() -> None:
    file, diagnostics = parse(Source.of("a = 1 +\nb = 2\nc = (3))\nd = 4; e = $"))
    assert [d.span.place for d in diagnostics if d.span] == ["-e:1:8", "-e:3:8", "-e:4:12"]
    assert [s.name for s in file.statements() if isinstance(s, Definition)] == ["b", "d"]
    assert file.broken == {"a", "c", "e"}


def test_broken_function_and_const_are_known() -> None:
    file, _ = parse(Source.of("f(x) = x +\nconst g = *\ng2(x, 1) = 3"))
    assert file.broken == {"f", "g", "g2"}


@pytest.mark.parametrize("behind", ["b = 2", "f(a) = 2", "claim x = x", "const g", "domain 0 < x"])
def test_open_bracket_ends_before_a_line_that_begins_a_statement(behind: str) -> None:
    file, diagnostics = parse(Source.of(f"a = sin((1)\n{behind}"))
    assert [d.message for d in diagnostics] == ["`(` is never closed"]
    assert [d.span.place for d in diagnostics if d.span] == ["-e:1:8"]
    assert len(file.blocks[0]) == 1


def test_lone_expression() -> None:
    expression, diagnostics = parse_expression(Source.of("[1, 2, pi/4]\n"))
    assert diagnostics == []
    assert expression is not None
    assert shown(expression) == "list(1, 2, div(pi, 4))"


@pytest.mark.parametrize("text", ["", "\n", "1; 2", "1\n2", "x = 3", "(1", "1 2", "# note", "+", ")"])
def test_lone_expression_is_one_expression(text: str) -> None:
    expression, diagnostics = parse_expression(Source.of(text))
    assert expression is None
    assert len(diagnostics) == 1


DEEP = 100_000


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("(" * DEEP + "x" + ")" * DEEP, 1),
        ("sin(" * DEEP + "x" + ")" * DEEP, DEEP + 1),
        ("x" + " + x" * DEEP, 2 * DEEP + 1),
        ("x^" * DEEP + "x", 2 * DEEP + 1),
        ("x^-" * DEEP + "x", 3 * DEEP + 1),
        ("-" * DEEP + "x", DEEP + 1),
        ("+" * DEEP + "x", 1),
        ("not " * DEEP + "x", DEEP + 1),
        ("x<" * DEEP + "x", DEEP + 2),
        ("f(" + "x," * DEEP + "x)", DEEP + 2),
        ("[" + "1," * DEEP + "1]", DEEP + 2),
        ("(x+\n" * DEEP + "x" + ")" * DEEP, 2 * DEEP + 1),
    ],
    ids=[
        "brackets",
        "calls",
        "terms",
        "powers",
        "signed",
        "minus",
        "plus",
        "not",
        "chain",
        "arguments",
        "list",
        "lines",
    ],
)
def test_depth_is_limited_by_memory_only(text: str, items: int) -> None:
    assert len(statement(text).expression.code) == items


@pytest.mark.parametrize(
    "text", ["(" * DEEP, ")" * DEEP, "sin(\n" * DEEP, "(x\n" * DEEP, "[" * DEEP, "f(a,\n" * DEEP, ";" * DEEP]
)
def test_deep_nonsense_is_one_error_at_the_most(text: str) -> None:
    _, diagnostics = parse(Source.of(text))
    assert len(diagnostics) <= 1


def test_many_broken_statements_are_many_errors() -> None:
    _, diagnostics = parse(Source.of("a = (\n" * 20_000))
    assert len(diagnostics) == 20_000


def test_literal_of_5000_digits_is_kept() -> None:
    assert statement("9" * 5000 + " + x").expression.code[0][1] == "9" * 5000


VOCABULARY = """
    x y 1 2.5 .5 1e-3 2x + - * / // % ^ ** ( ) [ ] , ; : = == < <= and or not if within rounded
    const retain output domain claim expect @ ! ' " ` `a` `` \\ $ . # ² − sin f( g(a)= lambda
"""
WORD = st.sampled_from([*VOCABULARY.split(), "\n", "\r\n", "\r", "\ufeff", "\u00a0"])


@given(
    st.one_of(st.text(max_size=60), st.lists(WORD, max_size=25).map(" ".join), st.lists(WORD, max_size=25).map("".join))
)
def test_no_text_makes_the_parser_raise(text: str) -> None:
    source = Source.of(text)
    for diagnostics in (parse(source, FUNCTIONS)[1], parse_expression(source)[1]):
        for diagnostic in diagnostics:
            assert diagnostic.span is not None
            assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)
            assert diagnostic.message[0].islower() or diagnostic.message[0] == "`"
            assert not diagnostic.message.endswith(".")
            diagnostic.render()


@given(st.lists(WORD, max_size=25).map(" ".join))
def test_items_nest_in_postfix_order(text: str) -> None:
    for found in parse(Source.of(text))[0].statements():
        if isinstance(found, Definition | Bare | Domain):
            shown(found.expression)
            assert all(start < end for _, _, start, end in found.expression.code)
            assert found.expression.code[-1][3] <= found.expression.end


# ---- definitions that are written alike ----


ALIKE = [
    "{a} = {m}*sin({b}*{n} + {c})",
    "{a} = ({b})",
    "{a} = +(-{b})^{m}  # {c}",
    "{a} = where(0 < {b} <= {m}, [{m}, {n}], not {c} or {b} == {n})",
    "{a} = ((({b} - {c}))) // `{c}`",
    "{a} = f()",
]


@pytest.mark.parametrize("line", ALIKE)
def test_what_is_written_alike_is_read_alike(line, monkeypatch):
    for module, name, value in ((parser, "_MANY", 1), (alike, "_ALIKE", 2), (alike, "_RUN", 1)):
        monkeypatch.setattr(module, name, value)
    words = [{"a": f"y{k}", "b": "x" * (k + 1), "c": f"z{k % 2}", "m": str(k), "n": f"{k}.5e-{k}"} for k in range(4)]
    lines = [line.format(**w) for w in words]
    together, _ = parse(Source.of("\n".join(lines)))
    assert isinstance(together.blocks[0], alike.Run) == ("`" not in line)  # a name in backquotes may be anything
    offset = 0
    for one, statement_ in zip(lines, together.statements(), strict=True):
        alone = statement(" " * offset + one)
        assert statement_.expression.code == alone.expression.code
        assert statement_[:3] + statement_[4:] == alone[:3] + alone[4:]
        assert statement_.expression[-2:] == alone.expression[-2:]
        assert statement_.expression.bare_name == alone.expression.bare_name
        offset += len(one) + 1


@pytest.mark.parametrize(
    "text", ["a = 1\nb = 2 +\nc = 3", "a = b + 1\n c = d - 1", "a = (1\n+ 2)\nb = (3\n- 4)", "a = 1; b = 2"]
)
def test_what_is_not_written_alike_is_read_on_its_own(text):
    file, _ = parse(Source.of(text))
    for one in file.statements():
        alone = statement(" " * one.start + text[one.start : one.end])
        assert one.expression.code == alone.expression.code


def test_a_fault_after_definitions_written_alike_has_its_place():
    _, (first, second) = parse(Source.of("a = x*2\nb = x*3\nc = x**\nd = x*4\ne = x x\nf = x*5"))
    assert (first.span.start, second.span.start) == (23, 38)


def test_many_definitions_in_one_line_are_read_in_linear_time():
    begin = time.process_time()
    assert len(good(";".join(f"a{k} = {k}*2" for k in range(20_000))).blocks[0]) == 20_000
    assert time.process_time() - begin < 5
