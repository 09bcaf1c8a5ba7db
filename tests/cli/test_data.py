"""`gradcli grad --data`: its flags, its text and its JSON."""

from __future__ import annotations

import pytest


@pytest.fixture
def over(grad, tmp_path):
    """`over("sum(x)*a", "a=2")` asks for a text over the columns x = 1, 2, 3 and y = 2, 3, 5."""

    def call(text, *arguments, rows=("1,2", "2,3", "3,5")):
        path = tmp_path / "d.csv"
        path.write_text("\n".join(["x,y", *rows]) + "\n")
        return grad(text, *arguments, "--data", str(path))

    return call


# ---- flags -----------------------------------------------------------------------------------------------------------


def test_retaining_a_column_by_name_is_an_error(over):
    for text in ("z = x*2; n = sum(z)*a; output n", "z = x*2; n = sum(x)*a; output n"):
        for words in ((), ("--json",), ("--retain-all",)):
            found = over(text, "a=2", "--retain", "z", *words)
            assert (found.status, found.out) == (2, "")
            assert "-e:1:1: error: the gradient of `z` has a number for each row" in found.err
            assert "help: retain scalars only" in found.err


def test_retaining_by_a_glob_skips_columns(over):
    text = "z = x*2; m = sum(z); n = m*a; output n"
    for words in (("--retain", "*"), ("--retain-all",), ("--retain", "m")):
        found = over(text, "a=2", "--json", *words)
        assert (found.status, found.err) == (0, "")
        assert found.json["retained"]["m"] == {"value": 12.0, "gradient": 2.0}
        assert "z" not in found.json["retained"]


def test_retain_of_the_text_gets_a_note_where_it_is_a_column(over):
    found = over("z = x*2; retain z; n = sum(z)*a; output n", "a=2")
    assert (found.status, found.rows) == (0, {"n": ("24.0", "none"), "a": ("2.0", "12.0")})
    assert "note: the gradient of `z` has a number for each row, `retain z` has no effect" in found.err
    assert over("z = x*2; retain z; n = sum(z)*a; output n", "a=2", "--no-retain", "z").err == ""


@pytest.mark.parametrize(
    "words",
    [("--rename", "x=y"), ("--in-format", "csv"), ("--data-missing", "skip"), ("--data-missing", "error")],
)
def test_flags_about_data_need_data(grad, over, words):
    found = grad("x^2", "x=1", *words)
    assert (found.status, found.out) == (2, "")
    assert f"`{words[0]}` goes with --data" in found.err
    assert over("sum(x)*a", "a=2", *words).status == 0
