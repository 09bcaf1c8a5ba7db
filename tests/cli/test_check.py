"""`gradcli check` from outside: what people reported of other checkers (`cases/behaviour.tsv`, areas e and d)."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run


@pytest.fixture
def check(cli):
    def call(text, *arguments):
        return cli("check", "-e", text, *arguments)

    return call


@pytest.fixture
def table(tmp_path):
    """A CSV file of a header and one line."""

    def make(header, *lines):
        path = tmp_path / "theirs.csv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return str(path)

    return make


# ---- area e: verification -------------------------------------------------------------------------------------------


def test_pe01_nan_is_no_agreement(check, table):  # assertpy/assertpy#155
    found = check("y = log(x)", "--against", table("x,dy_dx", "-1,123"))
    assert found.status == 1
    assert "got 123.0, expected nan" in found.err


def test_pe02_nothing_checked_is_a_status_of_its_own(check, cli, table, tmp_path):  # pytest-dev/pytest#812
    found = check("y = x^2", "--against", table("x,dy_dx"))
    assert (found.status, "has no rows: nothing was checked" in found.err) == (4, True)
    found = check("const g = 9.81; y = 2*g")
    assert (found.status, "nothing was checked" in found.err) == (4, True)
    assert cli("check", str(tmp_path / "gone.expr")).status == 2


def test_pe03_summary_has_a_denominator(check):  # tempoxyz/mpp-tools#59
    summary = check("x = 1; y = x^2; claim d(y, x) = x", "--json").records[-1]
    assert {k: summary[k] for k in ("checked", "passed", "failed", "undecided", "status")} == {
        "checked": 2, "passed": 1, "failed": 1, "undecided": 0, "status": "failed"}  # fmt: skip
    assert check("const g = 9.81; y = 2*g", "--json").records[-1]["status"] == "nothing checked"


def test_pe04_small_wrong_slope_fails(check, table):  # numpy/numpy#10161
    text = "x = 1; y = 1e-10*x^2"
    assert check(f"{text}; claim d(y, x) = 3e-10*x").status == 1
    assert check(text, "--against", table("x,dy_dx", "1,3e-10")).status == 1


def test_pe05_both_tolerances_are_printed(check, table):  # pytest-dev/pytest#5737
    found = check("y = x^2", "--against", table("x,dy_dx", "0,1e-6"), "--atol", "1e-5")
    assert found.status == 0
    assert "rtol 0, atol 1e-05" in found.out


def test_pe06_relative_is_relative(check, table):  # pytest-dev/pytest#3695
    assert check("y = 1e6*x", "--against", table("x,dy_dx", "1,1000500"), "--rtol", "1e-3").status == 0
    assert check("y = 1e-6*x", "--against", table("x,dy_dx", "1,5.01e-4"), "--rtol", "1e-3").status == 1


@pytest.mark.parametrize("text", ["x = 1e9; y = x^2", "x = 1e6; y = sin(x)"])
def test_pe07_large_inputs(check, text):  # climate-analytics-lab/jax-gcm#820
    assert check(text).status == 0


def test_pe08_no_seed_makes_it_fail(check):  # elixir-nx/nx#270
    assert {check("y = asin(x)", "--seed", str(s), "--points", "4").status for s in range(60)} == {0}


@pytest.mark.parametrize("extra", ["domain a > 0 and abs(x) < a", "x = 0.3; a = 2; domain a > 0"])
def test_pe09_numbers_decide(check, extra):  # sympy/sympy#27224
    text = f"{extra if extra.startswith('x') else ''}\ny = x*sqrt(a^2-x^2)+a^2*asin(x/a)"
    claim = f"claim d(y, x) = 2*sqrt(a^2-x^2)\n{extra if extra.startswith('domain') else 'domain a > 0'}"
    assert check(f"{text}\n{claim}").status == 0


def test_pe10_simplification_cannot_hang(check):  # sympy/sympy#26453
    terms = " + ".join(f"sin({k}*x)^{k % 5 + 1}*cos({k + 1}*x+y)" for k in range(1, 61))
    found = check(f"x = 0.3; y = 0.2; f = {terms}; claim f = f*1.0 + 0*x", "--symbolic", "--time-limit", "2", "--json")
    assert found.records[-2]["verdict"] == "agrees"
    assert found.records[-2]["symbolic"] in ("zero", "unknown")


@pytest.mark.parametrize(("x", "slope"), [(7, "1"), (-2, "-1")])
def test_pe11_abs_is_real(check, x, slope):  # sympy/sympy#17810
    found = check(f"x = {x}; y = abs(x); expect d(y, x) = {slope}")
    assert (found.status, "Derivative" in found.out + found.err) == (0, False)


def test_pe13_status_is_the_same_however_it_is_said(cli, tmp_path):  # giampaolo/psutil#2652
    text = "x = 1; y = x^2; claim a: d(y, x) = 2*x; claim b: d(y, x) = x; claim c: d(y, x, x) = 2"
    path = tmp_path / "m.expr"
    path.write_text(text)
    only = ["--only", "a", "--only", "b", "--only", "c"]
    for words in ([], ["--json"], ["--quiet"], ["--verbose"], ["--report", f"junit:{tmp_path / 'j.xml'}"]):
        assert cli("check", str(path), *only, *words).status == 1
    assert cli("check", str(path), *only).out == f"{path}: 2 passed, 1 failed\n"


@pytest.mark.parametrize(("theirs", "status"), [("inf", 0), ("-inf", 1), ("1e308", 1)])
def test_pe14_infinities(check, table, theirs, status):  # pytest-dev/pytest#1441
    found = check("y = sqrt(x)", "--against", table("x,dy_dx", f"0,{theirs}"))
    assert found.status == status
    assert "nan" not in found.err


# ---- area d: what must not take the machine -------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "x = 2; y = 9**9**9**9*x",
    "x = 2; y = x^(3^(2^31))",
    "y = gamma(1e7)*x",
    "y = 1e1000000000*x",
    "y = 1e-1000000000*x",
    "x = 0; y = x + " + "9" * 5000,
    "x = 1; y = x; claim 9^9^9*x = 9^9^9*x",
    "x = 1; y = x; claim 1e1000000000*x = 1e1000000000*x",
    "x = 1; y = x^(10^9); claim d(y, x) = 10^9*x^(10^9 - 1)",
    "x = 1; y = (((9^64)^64)^64)^64*x; claim d(y, x) = (((9^64)^64)^64)^64",
    f"x = 1; y = x; claim x*{'7' * 5000} = {'7' * 5000}*x",
])  # fmt: skip
@pytest.mark.parametrize("symbolic", [False, True], ids=["numbers", "symbolic"])
def test_huge_numbers_end(check, text, symbolic):
    found = check(text, *(["--symbolic", "--time-limit", "3"] if symbolic else []))
    assert found.status in (0, 1), found.err
    assert "internal" not in found.err


def test_pd10_three_hundred_nested_sines(check):
    text = "x"
    for _ in range(300):
        text = f"sin({text})"
    assert check(f"x = 1; y = {text}; expect d(y, x) = 0.0007434791440167603").status == 0


# ---- what can be said on the command line ---------------------------------------------------------------------------


def test_one_line_a_file_when_all_is_well(cli, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = cli("check", "samples/neuron.expr")
    assert found.status == 0
    assert found.out.startswith("samples/neuron.expr: 5 derivatives, 1 claim, 1 expectation agree, ")
    assert found.out.endswith(" digits at least\n")
    assert found.err == ""


def test_replay_lines_show_the_failure(check, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m 1.expr").write_text("`Total price` = 3\nw = 2\ny = sin(`Total price`*w)\nclaim d(y, w) = cos(y)\n")
    for words in (["m 1.expr"], ["-e", Path("m 1.expr").read_text()], ["m 1.expr", "-e", "claim y = w"]):
        found = cli("check", *words, "--json")
        wrong = [r for r in found.records if r.get("verdict") == "wrong"]
        assert wrong
        for record in wrong:
            program, *again = shlex.split(record["replay"])
            assert program == "gradcli"
            shown = cli(*again)
            assert shown.status == 0, shown.err
            difference = float(record["left"]) - float(record["right"])
            assert shown.value() == pytest.approx(difference, rel=1e-9)


def test_replay_of_a_derivative_prints_it(check, cli, table):
    found = check("y = x^2*w", "--against", table("x,w,dy_dx,dy_dw", "3,2,12.5,9"), "--json")
    record = next(r for r in found.records if r.get("verdict") == "wrong")
    shown = cli(*shlex.split(record["replay"])[1:])
    assert shown.slope("x") == float(record["right"]) == 12.0


def test_json_of_each_check(check):
    text = "x = 0.5; y = x^2; claim slope: d(y, x) = x"
    derivative, claim, summary = check(text, "--json").records
    assert derivative["kind"] == "derivative"
    assert (derivative["output"], derivative["by"], derivative["name"]) == ("y", "x", "d(y, x)")
    assert set(derivative) >= {"model", "line", "column", "text", "verdict", "symbolic", "points", "digits", "seed"}
    assert claim["name"] == "slope"
    assert claim["counterexample"] == {"x": 0.5}
    assert (claim["left"], claim["right"]) == ("1.0", "0.5")
    assert "2 times" in claim["hint"]
    assert summary["kind"] == "summary"


def test_only_names_checks(check):
    text = "x = 0.5; w = 2; y = w*x^2; claim slope: d(y, x) = 2*w*x; expect y = 0.5"
    assert [r["name"] for r in check(text, "--json", "--only", "d(y, x)").records[:-1]] == ["d(y, x)"]
    assert [r["name"] for r in check(text, "--json", "--only", "s*").records[:-1]] == ["slope"]
    found = check(text, "--only", "slop")
    assert (found.status, "`slop`" in found.err) == (4, True)


def test_max_failures_says_how_many_are_left(check):
    text = "x = 0.5; y = x^2; claim y = x; claim y = 2*x; claim y = 3*x"
    found = check(text, "--max-failures", "1")
    assert found.err.count(": error:") == 1
    assert "2 more failures are not shown" in found.err


def test_min_digits_is_a_gate_and_names_the_cause(check):
    cancels = "x = 1e-9; y = (1 - cos(x))/x"
    found = check(cancels, "--min-digits", "12")
    assert (found.status, "rewrite the expression where it cancels" in found.err) == (1, True)
    assert check("x = 0.5; y = sin(x)", "--min-digits", "12").status == 0


def test_conditioning_is_named(check):
    found = check("x = 0.3; y = sin(1e12*x)", "--min-digits", "12")
    assert "its conditioning leaves" in found.err


def test_require_claims(check):
    assert check("x = 1; y = x^2", "--require-claims").status == 1
    assert check("x = 1; y = x^2; expect y = 1", "--require-claims").status == 0


def test_exit_zero_for_failures_alone(check):
    assert check("x = 1; y = x; claim y = 2", "--exit-zero").status == 0
    assert check("x = 1; y = ", "--exit-zero").status == 2


def test_undecided_does_not_pass(check):
    found = check("x = -1; y = log(x - 1000) + sqrt(-1 - x^2)")
    assert found.status == 1
    assert "undecided" in found.err
    found = check("x = 1; y = x; claim y = 2*y if x > 5 and x < 4")
    assert (found.status, "its condition holds at no point" in found.err) == (1, True)


@pytest.mark.parametrize("text", ["domain x > 3 and x < 2; y = x^2", "x = -2; y = log(x); domain x < 0"])
def test_domain_without_a_valid_point_is_an_error_in_its_place(check, text):
    found = check(text)
    assert found.status == 2
    assert f"-e:1:{text.index('domain') + 1}: error: the domain contains no" in found.err


def test_sides_with_other_rows_are_an_error(check):
    found = check("x = [1, 2, 3]; y = sum(x); claim x = [1, 2]")
    assert (found.status, "columns of different lengths" in found.err) == (2, True)
    assert "1 derivative agrees" in found.out  # the rest was checked all the same


def test_claim_of_a_text_appended_has_the_place_of_that_text(cli, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = cli("check", "samples/neuron.expr", "-e", "claim o = n", "--only", "line 1")
    assert "-e:1:1: error: claim is wrong" in found.err


def test_bad_model_beside_good_ones(cli, tmp_path):
    (tmp_path / "a.expr").write_text("x = 1; y = x^2")
    (tmp_path / "b.expr").write_text("y = 2 +")
    found = cli("check", str(tmp_path))
    assert found.status == 2
    assert "a.expr: 1 derivative agrees" in found.out


# ---- other programs -------------------------------------------------------------------------------------------------

PROGRAM = """
import csv, math, sys, time
rows = list(csv.DictReader(sys.stdin))
MODE
out = csv.writer(sys.stdout)
out.writerow(["o", "do_dx", "do_dw"])
for r in rows:
    x, w = float(r["x"]), float(r["w"])
    out.writerow([math.sin(w*x), w*math.cos(w*x)*FACTOR, x*math.cos(w*x)])
"""


@pytest.fixture
def program(tmp_path):
    def make(mode="", factor="1"):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.replace("MODE", mode).replace("FACTOR", factor))
        return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"

    return make


def test_program_is_judged(check, program):
    assert check("o = sin(w*x)", "--against-command", program()).status == 0
    found = check("o = sin(w*x)", "--against-command", program(factor="(1 + 1e-9)"))
    assert (found.status, "`d(o, x)` is wrong" in found.err) == (1, True)


@pytest.mark.parametrize(("mode", "said"), [
    ("sys.exit('no luck')", "ended with status 1: no luck"),
    ("time.sleep(60)", "no answer within 1 s"),
    ("rows = rows[:3]", "3 rows for 9 points"),
    ("print('o,do_dx'); print(*['1,2'] * len(rows), sep='\\n'); sys.exit()", "no column `do_dw`"),
    ("sys.exit()", "answered nothing"),
])  # fmt: skip
def test_program_that_fails_is_a_clear_failure(check, program, mode, said):
    found = check("o = sin(w*x)", "--against-command", program(mode), "--time-limit", "1" if "sleep" in mode else "30")
    assert found.status == 1
    assert said in found.err


def test_program_that_does_not_exist(check):
    found = check("o = sin(x)", "--against-command", "./no-such-program")
    assert (found.status, "cannot run `./no-such-program`" in found.err) == (2, True)


def test_short_numbers_are_accepted_within_their_last_digit(check, table):
    assert check("y = sin(x)", "--against", table("x,dy_dx", "0.5,0.87758")).status == 0
    assert check("y = sin(x)", "--against", table("x,dy_dx", "0.5,0.87757")).status == 1
    # beside a number with all its digits a short one is exact
    assert check("y = x/3", "--against", table("x,dy_dx", "1,0.3333333333333333", "2,0.33")).status == 1


def test_single_precision(check, table):
    path = table("x,dy_dx", "0.1,9.950041770935058594e-1")
    assert check("y = sin(x)", "--against", path).status == 1
    found = check("y = sin(x)", "--against", path, "--precision", "float32")
    assert (found.status, "float32" in found.out) == (0, True)


def test_columns_by_other_names_and_formats(check, tmp_path):
    path = tmp_path / "theirs.ndjson"
    path.write_text(json.dumps({"x": 0.5, "slope": 0.8775825618903728}) + "\n")
    assert check("y = sin(x)", "--against", str(path), "--column", "x=slope").status == 0
    found = check("y = sin(x)", "--against", str(path), "--column", "x=slop")
    assert (found.status, "did you mean `slope`?" in found.err) == (2, True)
    found = check("y = sin(x)", "--against", str(path))
    assert (found.status, "`dy_dx` would be" in found.err) == (2, True)


def test_parquet(check, tmp_path):
    import polars as pl

    path = tmp_path / "theirs.parquet"
    pl.DataFrame({"x": [0.5, 1.0], "dy_dx": [0.8775825618903728, 0.5]}).write_parquet(path)
    found = check("y = sin(x)", "--against", str(path))
    assert (found.status, "row 2 of" in found.err) == (1, True)


def test_seeds_do_not_depend_on_comments_or_files(cli, tmp_path):
    (tmp_path / "a.expr").write_text("x = 0.5\ny = x^2\nclaim d(y, x) = 2*x\n")
    (tmp_path / "b.expr").write_text("# about\nx   = 0.5   # half\n\ny = x^2\nz1 = 3\noutput y\nclaim d(y,x)=2 * x\n")
    seeds = [[r["seed"] for r in cli("check", str(p), "--json").records[:-1]] for p in sorted(tmp_path.iterdir())]
    assert seeds[0] == seeds[1]


def test_several_processes_give_the_same(cli, tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.expr").write_text(
            f"x = 0.{i + 1}; y = sin(x)^{i + 2}; claim d(y, x) = {i + 2}*sin(x)^{i + 1}*cos(x)"
        )
    one, two = (cli("check", str(tmp_path), "--json", "-j", n) for n in "12")
    assert (one.status, one.out) == (two.status, two.out)
    assert one.status == 0


def test_run_is_the_command():
    assert run(["check", "-e", "x = 1; y = 2*x"]) == 0


# ---- options that are numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "-1"])
@pytest.mark.parametrize("option", ["--min-digits", "--time-limit", "--rtol", "--atol"])
def test_limit_that_limits_nothing_is_a_usage_error(check, option, word):
    found = check("x = 2; y = x^2", option, word)
    assert (found.status, found.out) == (2, "")
    assert f"`{option}`" in found.err


@pytest.mark.parametrize(("option", "word"), [("--min-digits", "17.5"), ("--time-limit", "1e300"), ("--points", "0")])
def test_limit_that_nothing_can_reach_is_a_usage_error(check, option, word):
    assert check("x = 2; y = x^2", option, word).status == 2


def test_limits_at_the_ends_of_their_ranges(check):
    assert check("x = 2; y = x^2", "--min-digits", "0", "--rtol", "0", "--atol", "0").status == 0
    assert check("x = 2; y = x^2", "--min-digits", "17", "--time-limit", "1e6").status in (0, 1)


# ---- what is said --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["-m.expr", "run=3.expr", "-run=3.expr"])
def test_replay_names_a_file_that_looks_like_an_option_or_a_value(cli, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("x = 2; y = x^2; claim d(y, x) = 3*x")
    assert f"`gradcli grad ./{name} -e" in cli("check", f"./{name}").err
    assert f"`gradcli grad ./{name} -e" in cli("check", ".").err
    if "=" not in name:
        assert f"`gradcli grad ./{name} -e" in cli("check", "--", name).err


def test_replay_of_an_absolute_path_is_that_path(cli, tmp_path):
    path = tmp_path / "run=3.expr"
    path.write_text("x = 2; y = x^2; claim d(y, x) = 3*x")
    assert f"gradcli grad {shlex.quote(str(path))} " in cli("check", str(path)).err


@pytest.mark.parametrize("program", ["", "  "])
def test_command_of_no_words_is_a_usage_error(check, program):
    found = check("x = 2; y = x^2", "--against-command", program)
    assert (found.status, found.out) == (2, "")
    assert "`--against-command` names no program" in found.err


def test_report_that_cannot_be_written_has_the_remedy_of_its_reason(check, tmp_path):
    for place, reason, remedy in (
        (tmp_path / "gone" / "r.xml", "no such file", "name a file in a folder that exists"),
        (tmp_path, "is a directory", "name a file, not a folder"),
        ("/dev/full", "no space left", "make room, or name a file elsewhere"),
    ):
        if place == "/dev/full" and not Path(place).exists():
            continue
        found = check("x = 2; y = x^2", "--report", f"junit:{place}")
        assert found.status == 2
        assert reason in found.err
        assert found.err.endswith(f"help: {remedy}\n")
