"""`gradcli grad --data`: its flags, its text and its JSON."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the copy of the rows


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


# ---- as without --data -----------------------------------------------------------------------------------------------

LISTS = "x=[1, 2, 3]", "y=[2, 3, 5]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s = sum(x); t = sum(y)*a; output s, t", ("a=2",)),
        ("s = sum(x); t = sum(y)*a; output s, t", ("a=2", "--retain", "s")),
        ("m = sum(x); n = m*a", ("a=2", "--wrt", "m,a")),
        ("m = sum(x); n = m*a", ("a=2", "--wrt", "m,a", "--retain", "m,n")),
        ("gelu(x) = x; s = sum(x)*gelu(a); t = sum(y); output s, t", ("a=2", "-v")),
    ],
)
def test_data_give_the_text_and_the_json_of_lists(grad, over, text, words):
    """But for the columns, which have no gradient with --data."""
    given = LISTS if "y" in text else LISTS[:1]
    plain = [row for row in grad(text, *words, *given).out.splitlines() if not row.startswith(("x\t", "y\t"))]
    assert over(text, *words).out.splitlines() == plain
    listed, streamed = (call(text, *words, *more, "--json").records for call, more in ((grad, given), (over, ())))
    for one, other in zip(listed, streamed, strict=True):
        for part in ("point", "gradients", "reasons"):
            one[part] = {n: v for n, v in one[part].items() if n not in ("x", "y")}
        assert {k: v for k, v in other.items() if k not in ("data", "rows")} == one


def test_json_has_the_notes_of_each_output(over):
    found = over("s = sum(x); t = sum(y)*a; output s, t", "a=2", "--json", "-q", rows=("1,2", "nan,3"))
    assert found.err == ""
    first, second = (r["warnings"] for r in found.records)
    assert len(first) == 1
    assert first[0].startswith("`s` is nan: column `x` is not finite in 1 row, first in data row 2")
    assert second == []


def test_gradient_that_is_not_finite_gets_a_note(over):
    found = over("sqrt(a)*sum(x)", "a=0")
    assert found.rows["a"] == ("0.0", "inf")
    assert "note: `a.grad` is inf" in found.err


def test_several_models_have_titles_that_can_be_printed(cli, tmp_path):
    (tmp_path / "d.csv").write_text("x\n1\n2\n")
    for name in ("a\x1b[31m", "b"):
        (tmp_path / f"{name}.expr").write_text("a = 1; sum(x)*a")
    found = cli("grad", str(tmp_path), "--data", str(tmp_path / "d.csv"))
    assert (found.status, found.out.count("# "), "\x1b" in found.out) == (0, 2, False)
