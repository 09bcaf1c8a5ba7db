"""The lexer: what is one token, where it starts, and what is said of text that is none."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.language.lexer import explain, quoted, tokenize


def kinds(text: str) -> list[tuple[str, str]]:
    return [token[:2] for token in tokenize(text)[0][:-1]]


def only(text: str) -> tuple[str, str]:
    (token,) = kinds(text)
    return token


@pytest.mark.parametrize(
    "text", ["3", ".5", "5.", "1e-3", "1E3", "2.5e+07", "0", "007", "7.e2", ".5e1", "1e1000000000"]
)
def test_number_is_one_token_as_written(text: str) -> None:
    assert only(text) == ("number", text)


def test_number_is_kept_without_underscores() -> None:
    assert only("1_000.000_1e1_0") == ("number", "1000.0001e10")


MALFORMED = ["2e", "1__0", "1_", "0x10", "0b1", "0o7", "1.2.3", "2.5.1", "1_.5", "1._5", "5..", "1e5.5", "1e1_"]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_number_is_named_whole(text: str) -> None:
    assert only(text) == ("bad", text)
    problem = explain(text)
    assert problem.message.startswith(f"malformed number `{text}`: ")
    assert (problem.offset, problem.width) == (0, len(text))


@pytest.mark.parametrize(("text", "run"), [("٣", "٣"), ("１２", "１２"), ("1２", "２"), ("१.५", "१.५")])
def test_digits_of_other_scripts_are_malformed(text: str, run: str) -> None:
    problem = explain(text)
    assert problem.message.startswith(f"malformed number `{run}`: U+{ord(run[0]):04X} ")


@pytest.mark.parametrize("text", ["x", "_", "x1e5", "temp2e", "log2", "é", "Δx", "変数", "µ", "μ"])
def test_unicode_identifier_is_one_name(text: str) -> None:
    assert only(text) == ("name", text)


def test_names_are_normalised_to_nfc_and_no_further() -> None:
    assert only("e\u0301") == ("name", "\u00e9")
    assert only("\u00b5") == ("name", "\u00b5")
    assert only("`e\u0301 1`") == ("name", "\u00e9 1")
    assert only("x\u00b2")[0] == "bad"


def test_backquoted_name_may_hold_comment_and_statement_ends() -> None:
    assert kinds("`a # b; c`+1") == [("name", "a # b; c"), ("op", "+"), ("number", "1")]


def test_reserved_words_are_names_in_backquotes_only() -> None:
    assert [kind for kind, _ in kinds("and or not `and` andy")] == ["logic", "logic", "not", "name", "name"]


@pytest.mark.parametrize(
    ("text", "message"), [("``", "empty name"), ("`a", "backquote without an end"), ("`", "backq")]
)
def test_backquotes_must_close_around_something(text: str, message: str) -> None:
    assert explain(text).message.startswith(message)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_a_newline(end: str) -> None:
    assert kinds(f"x{end}{end}  # note{end}y") == [("name", "x"), ("newline", ""), ("name", "y")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_trailing_backslash_continues_a_line(end: str) -> None:
    assert kinds(f"x +\\  {end}\\{end} y") == [("name", "x"), ("op", "+"), ("name", "y")]


def test_backslash_in_a_comment_continues_nothing() -> None:
    assert [kind for kind, _ in kinds("x # \\\ny")] == ["name", "newline", "name"]


def test_byte_order_mark_is_skipped_at_the_start_of_a_line() -> None:
    assert kinds("\ufeffx\n\ufeffy") == [("name", "x"), ("newline", ""), ("name", "y")]


def test_unicode_spaces_are_blanks() -> None:
    assert kinds("a\u00a0+\u2003b\u3000") == [("name", "a"), ("op", "+"), ("name", "b")]


SPACES = [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace() and c not in "\r\n"]


@pytest.mark.parametrize("character", [*SPACES, "\u180e", "\u200b", "\u2060"], ids=ascii)
def test_a_blank_is_one_wherever_it_stands(character: str) -> None:
    blank = character in "\t\x0b\x0c" or unicodedata.category(character) == "Zs"
    two = [("name", "x"), ("name", "y")]
    assert (kinds(f"x{character}y") == two) is blank
    assert (kinds(f"{character}x y") == two) is blank
    assert (kinds(f"x\\{character}\n{character}y") == two) is blank
    assert (kinds(f"1{character}") == [("number", "1")]) is blank
    assert (kinds(f"x\n{character}y") == [two[0], ("newline", ""), two[1]]) is blank


@pytest.mark.parametrize(
    ("character", "remedy"),
    [
        ("\u2212", "-"),
        ("\u2013", "-"),
        ("\u00d7", "*"),
        ("\u00b7", "*"),
        ("\u22c5", "*"),
        ("\u00f7", "/"),
        ("\u00b2", "^2"),
        ("\u2075", "^5"),
        ("\u207b", "^-"),
        ("\u2264", "<="),
        ("\u2260", "!="),
        ("\uff08", "("),
        ("\uff0b", "+"),
        ("\u201c", None),
        ("\u200b", None),
    ],
)
def test_lookalike_is_named_with_its_ascii_remedy(character: str, remedy: str | None) -> None:
    if character == "\u00b7":  # may stand inside an identifier, as in Catalan; not at its start
        assert only("l\u00b7l") == ("name", "l\u00b7l")
        problem = explain(character)
    else:
        problem = explain(f"x{character}y")
        assert problem.offset == 1
    assert problem.message == f"unexpected character U+{ord(character):04X} {unicodedata.name(character)}"
    assert problem.help == (f"write `{remedy}`" if remedy else "remove it, or put the name in backquotes")


def test_superscript_run_is_one_power() -> None:
    problem = explain("x\u00b9\u2070")
    assert (problem.help, problem.offset, problem.width) == ("write `^10`", 1, 2)


@pytest.mark.parametrize(
    ("text", "product", "offset"), [("5X", "5*X", 1), ("2.5x1", "2.5*x1", 3), ("1e3x", "1e3*x", 3)]
)
def test_number_before_a_name_wants_an_asterisk(text: str, product: str, offset: int) -> None:
    problem = explain(text)
    assert problem.help == f"write `{product}`"
    assert problem.offset == offset


@pytest.mark.parametrize("text", ["!", "&&", "||", "<>", "=>", "=<", ":=", "?", "'", ".", "{", "===", "+=", "**=", "~"])
def test_foreign_operator_is_one_bad_token_with_a_remedy(text: str) -> None:
    assert only(text) == ("bad", text)
    assert explain(text).help


def test_unprintable_character_is_named_by_its_code_point() -> None:
    assert explain("\x1b").message == "unexpected character U+001B"


def test_quoted_text_is_shortened() -> None:
    assert len(quoted("x" * 1_000_000)) < 50
    assert quoted("x") == "`x`"


@pytest.mark.parametrize(
    "text", ["0" * 200_000 + "a", "1_" * 100_000, "1." * 100_000, "é" * 200_000 + "²", "1e" * 100_000]
)
def test_giant_bad_token_is_explained_in_a_short_message(text: str) -> None:
    (token,) = tokenize(text)[0][:-1]
    problem = explain(text)
    assert token[0] == "bad"
    assert len(problem.message) + len(problem.help or "") < 300


@given(st.text(max_size=80))
def test_tokens_cover_the_text_without_gap(text: str) -> None:
    tokens, starts = tokenize(text)
    assert len(starts) == len(tokens)
    assert starts[-1] == len(text)
    for (_, _, width, _), start, after in zip(tokens, starts, starts[1:], strict=False):
        assert 0 < width <= after - start


@given(st.text(min_size=1, max_size=20))
def test_every_bad_token_can_be_explained(text: str) -> None:
    tokens, starts = tokenize(text)
    for (kind, _, width, _), start in zip(tokens, starts, strict=True):
        if kind == "bad":
            problem = explain(text[start : start + width])
            assert 0 <= problem.offset < problem.offset + problem.width <= width


@pytest.mark.parametrize("piece", [0, 1, 7])
@given(
    st.lists(
        st.sampled_from(
            ["x = 2", "y=(a\\\n b)", "# c", " \n", "\n", "\r\n", "`q`", "1e+3", "\\", "z", "f(x)", "\ufeff", "²"]
        )
    )
)
def test_tokens_do_not_depend_on_the_pieces_that_are_read_at_once(piece: int, parts: list[str]) -> None:
    text = "".join(parts) + "\n" + "\n".join(parts)
    whole = tokenize(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradcli.language.lexer._PIECE", piece)
        assert tokenize(text) == whole
