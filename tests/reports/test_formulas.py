"""Formulas in every notation, run where they can be run and compared with the engine."""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess

import numpy as np
import pytest

import gradcli
from gradcli.calculus.tidy import BOLD, PLAIN, SAFE
from gradcli.derivation import _page, derive, sheet, written_derivatives
from gradcli.errors import GradcliError
from gradcli.primitives import callable_rows
from gradcli.readback import Witness
from gradcli.reports import FORMULAS
from gradcli.reports.formula import render

ROWS = {p.name: p for p in callable_rows().values() if not p.reduction and p.name != "where"}
ORDERED = ("besselj", "bessely", "besseli", "besselk", "polygamma")
COMPILER = shutil.which("cc") or shutil.which("gcc")


def page(text, notation="text", order=1, wrt=None):
    model = gradcli.parse(text)
    room = FORMULAS[notation]
    return room.load()(sheet(derive(model, model.outputs, wrt, order), room.with_values))


def grown(seed: int, rows=None, signs="+-*/%") -> str:
    """A random expression over rows of the table."""
    rng = random.Random(seed)
    rows = rows or ROWS

    def tree(depth: int) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.12:
            return rng.choice(("x", "y", "z", "x", "y", "2", "0.5", "3", "pi", "1e-3", "7"))
        if kind < 0.4:
            return f"({tree(depth - 1)} {rng.choice(signs)} {tree(depth - 1)})"
        if kind < 0.5:
            return f"({tree(depth - 1)})^{rng.choice(('2', '3', '-1', '0.5', '1.5', '(1/3)', '-2', 'y'))}"
        if kind < 0.55:
            return f"-({tree(depth - 1)})"
        if kind < 0.63:
            test = f"{tree(depth - 1)} {rng.choice(('<', '>=', '==', '!='))} {tree(depth - 1)}"
            return f"where({test}, {tree(depth - 1)}, {tree(depth - 1)})"
        name = rng.choice(sorted(rows))
        first = [str(rng.randrange(4))] if name in ORDERED else []
        count = len(rows[name].arguments) - len(first) + (rows[name].variadic and rng.random() < 0.3)
        return f"{name}({', '.join([*first, *(tree(depth - 1) for _ in range(count))])})"

    return f"0*x + {tree(rng.choice((1, 2, 3, 4)))}"


# ---- the language ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(150))
def test_text_reads_back_as_the_same_numbers(seed):
    """Each level of each random derivative, where it says nothing else, is a model that agrees with the engine."""
    model = gradcli.parse(grown(seed))
    found = derive(model, model.outputs)
    witness = Witness(found)
    assert witness.objection(_page(found, PLAIN, False), True) is None
    assert witness.objection(sheet(found), False) is None or witness.objection(_page(found, SAFE, False), False)


@pytest.mark.parametrize("seed", range(40))
def test_text_of_second_derivatives_reads_back(seed):
    model = gradcli.parse(grown(1000 + seed))
    found = derive(model, model.outputs, None, 2)
    assert Witness(found).objection(sheet(found), True) is None


@pytest.mark.parametrize("seed", range(100))
def test_text_agrees_with_the_gradient_of_the_engine(seed):
    """Independent of the project's own check: parse, run, compare at points of the test."""
    text = grown(2000 + seed)
    model = gradcli.parse(text)
    names = [n for n in model.leaves if n in "xyz"]
    points = {n: np.random.default_rng(seed + i).uniform(0.2, 2.0, 7) for i, n in enumerate(names)}
    want = model.compile(wrt=["x"]).run(points)
    printed = gradcli.parse("y_ = 0*(" + "+".join(names) + ")\n" + page(text, wrt=["x"]))
    have = printed.compile(wrt=[]).run({n: v for n, v in points.items() if n in printed.names}).value
    valid = np.isfinite(want.value) & np.isfinite(want.gradients["x"])
    have = np.broadcast_to(have, valid.shape)
    np.testing.assert_allclose(have[valid], want.gradients["x"][valid], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`Total price`*w", "`dvalue_dTotal price` = w\ndvalue_dw = `Total price`"),
        ("x = 1; x = 2*x; y = x^2", "8*`x@1`"),
        ("pi = 2; x*pi^2", "pi = 2\ndvalue_dpi = 2*pi*x\ndvalue_dx = pi^2"),
        ("const e; x*e^2", "const e\ne^2"),
        ("x = [1, 2, 3]; w = 2; sum(x*w)", "dvalue_dx = w\ndvalue_dw = sum(x)"),
        ("x = [1, 2]; mean((x - [3, 0.5])^3)*w", "dvalue_dx = 3*w*(x - [3, 0.5])^2/sum(x^0)\n"
         "dvalue_dw = mean((x - [3, 0.5])^3)"),
        ("x = [1, 2]; y = [3, 4]; dot(x, y)", "dvalue_dx = y\ndvalue_dy = x"),
        ("x = [1, 2]; norm(x)", "where(norm(x) != 0, x/norm(x), 0)"),
        ("x = [1, 2]; max(x)", "where(x == max(x), 1/sum(x == max(x)), 0)"),
        ("x = [1, 2]; logsumexp(x)", "softmax(x)"),
        ("x = [1, 2]; var(x)", "2*(x - mean(x))/(sum(x^0) - 1)"),
        ("f(u) = u^3; f(x*y)", "dvalue_dx = 3*x^2*y^3\ndvalue_dy = 3*x^3*y^2"),
        ("x*detach(x)", "detach(x)"),
        ("do_dx = 3; o = do_dx^2*x", "do_ddo_dx = 2*do_dx*x\ndo_dx_ = do_dx^2"),
        ("x = 1; y = 2; z = detach(y)*x", "dz_dx = detach(y)\ndz_dy = 0"),
    ],
)  # fmt: skip
def test_text_is_the_language(text, expected):
    if "rows" in callable_rows():
        expected = expected.replace("sum(x^0)", "rows(x)")
    assert page(text) == expected
    gradcli.parse(page(text))


def test_names_that_are_used_again_are_kept_in_short_formulas():
    text = "n = x1*w1 + x2*w2 + b; o = tanh(n)"
    assert page(text, wrt=["w1"]) == "x1*sech(x1*w1 + x2*w2 + b)^2"
    assert page(text, wrt=["w1", "b"]).startswith("n = x1*w1 + x2*w2 + b\ndo_dw1 = x1*sech(n)^2")


def test_a_name_differentiated_by_is_kept():
    assert page("n = x^2; o = n*x + sin(n)", wrt=["n"]) == "n = x^2\nx + cos(n)"


def test_twins_stay_apart():
    assert page("u = x*y; v = x*y; f = u^2 + v", wrt=["u", "v"]) == "u = x*y\ndf_du = 2*u\ndf_dv = 1"


def test_twenty_nested_sines_are_cut_into_definitions():
    text = "sin(" * 20 + "x" + ")" * 20
    lines = page(text).splitlines()
    assert len(lines) > 3
    assert all(len(line) < 500 for line in lines)
    model = gradcli.parse(page(text))
    want = gradcli.parse(text).gradient(x=0.7)["x"]
    assert model.compile(wrt=[]).run({"x": 0.7}).value == pytest.approx(want, rel=1e-12)


def test_a_long_model_is_printed_per_definition():
    lines = ["x = 0.3"] + [f"y{i + 1} = sin(y{i})*w{i} + x/2" for i in range(300)]
    lines[1] = lines[1].replace("y0", "x")
    text = "\n".join(lines)
    printed = page(text)
    assert len(printed) < 12 * len(text)
    assert "y5 = sin(y4)*w4 + x/2" in printed
    assert "dy300_dy" in printed


def test_mixed_derivatives_as_they_are_written():
    for text in (
        "d(x^2*y^3, x, y)",
        "f = x^2*y^3; d(f, x, y)",
        "f = x^2*y^3; d(d(f, y), x)",
        "g(u) = u^2*y^3; d(g(x), x, y)",
    ):
        model = gradcli.parse(text)
        found = written_derivatives(model, model.outputs)
        assert found is not None
        assert render(sheet(found)) == "6*x*y^2"
    model = gradcli.parse("x^2")
    assert written_derivatives(model, model.outputs) is None


# ---- the guard ------------------------------------------------------------------------------------------------------


def test_a_form_that_is_another_number_at_a_special_point_is_not_printed():
    assert page("x = 0; y = x*x^0.5") == "x^0.5 + x*x^(-0.5)/2"  # the engine has nan at 0
    assert page("x = 2; y = x*x^0.5") == "1.5*sqrt(x)"  # right at 0, too, where the engine has none
    assert page("1/(1/x)") == "1"
    assert page("where(x == 0, 5, x*x^2/x)") == "where(x != 0, 2*x, 0)"


def test_a_wrong_formula_is_noticed():
    model = gradcli.parse("x^2*sin(x)")
    found = derive(model, model.outputs)
    other = gradcli.parse("x^2*sin(x)*1.0000001")
    wrong = _page(derive(other, other.outputs), BOLD, False)
    assert Witness(found).objection(wrong, False) == "dvalue_dx"
    assert Witness(found).objection(wrong, True) == "dvalue_dx"


def test_when_no_form_agrees_nothing_is_printed(monkeypatch):
    monkeypatch.setattr(Witness, "objection", lambda *_: "do_dx")
    model = gradcli.parse("x^2")
    with pytest.raises(ArithmeticError, match="do_dx"):
        sheet(derive(model, model.outputs))


# ---- LaTeX ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x^2*sin(x)", r"2 x \sin\left(x\right) + x^{2} \cos\left(x\right)"),
        ("sqrt(x_1)", r"\frac{1}{2 \sqrt{x_{1}}}"),
        ("t^2*rho_max*alpha", None),
        ("sin(theta)^3", r"3 \sin^{2}\left(\theta\right) \cos\left(\theta\right)"),
        (
            "max(x, 0)",
            r"\begin{cases} 1 & \text{if } x > 0 \\ 0.5 & \text{if } x = 0 \\ 0 & \text{otherwise} \end{cases}",
        ),
        ("x^y", None),
        ("2*pi*sqrt(L)", r"\frac{\pi}{\sqrt{L}}"),
        ("besselj(1, x)", r"\frac{J_{0}\left(x\right) - J_{2}\left(x\right)}{2}"),
        ("1e-20*x", r"1 \cdot 10^{-20}"),
        ("abs(x)*floor(x)", r"\left\lfloor x\right\rfloor \operatorname{sgn}\left(x\right)"),
        ("exp(x)^2", r"2 e^{x \cdot 2}"),
        ("`50% {x}`^2", r"2 \text{50\% \{x\}}"),
        ("αβ^2", r"2 \mathrm{αβ}"),
        ("λ^2", r"2 \lambda"),
        ("x_max1^2", r"2 x_{\mathrm{max}_{1}}"),
    ],
)
def test_latex(text, expected):
    found = page(text, "latex", wrt=None if expected else ["x" if "x" in text.split("*")[0] else "t"])
    assert found.count("{") == found.count("}")
    assert found.count(r"\left") - found.count(r"\leftarrow") == found.count(r"\right")
    assert expected is None or found == expected


def test_latex_titles_are_partial_derivatives():
    assert page("o = x_1^2*y", "latex", 2, ["x_1", "y"]).splitlines()[:2] == [
        r"\frac{\partial^{2} o}{\partial x_{1}^{2}} = 2 y",
        r"\frac{\partial^{2} o}{\partial x_{1} \partial y} = 2 x_{1}",
    ]


# ---- programs, run and compared -------------------------------------------------------------------------------------

POINT = {"x": 0.7, "y": 1.3, "z": 0.4}
NOT_IN_C = {"digamma", "polygamma", "erfcx", "erfinv", "besselj", "bessely", "besseli", "besselk"}
SIMPLE = {n: p for n, p in ROWS.items() if n not in NOT_IN_C}


def expected(text):
    model = gradcli.parse(text)
    names = [n for n in model.leaves if n in POINT]
    result = model.compile().run({n: POINT[n] for n in names})
    return names, result.value, [result.gradients[n] or 0.0 for n in names]


def printed(text, notation):
    """The page, or None where a function has no counterpart there."""
    try:
        return page(text, notation)
    except GradcliError:
        return None


def close(have, want):
    return np.allclose(have, want, rtol=1e-6, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("seed", range(120))
def test_python_function_gives_value_and_gradients(seed):
    text = grown(3000 + seed)
    names, value, gradients = expected(text)
    if not np.isfinite([value, *gradients]).all():
        return
    space: dict = {}
    exec(page(text, "python"), space)  # noqa: S102  our own text
    have, slopes = space["gradient"](**{n: np.float64(POINT[n]) for n in names})
    assert close(have, value)
    assert close([slopes[n] for n in names], gradients)


def test_python_takes_columns_and_odd_names():
    space: dict = {}
    text = page(
        "x = [1, 2, 3]; `lambda` = 2; `a b` = 1; y = sum((x - `a b`)^2*`lambda`)/mean(x) + max(x) + std(x)", "python"
    )
    exec(text, space)  # noqa: S102
    x = np.array([1.0, 2.0, 4.0])
    value, slopes = space["gradient"](x, 3.0, 0.5)
    assert set(slopes) == {"x", "lambda", "a b"}
    model = gradcli.parse("y = sum((x - u)^2*v)/mean(x) + max(x) + std(x)")
    want = model.compile().run({"x": x, "v": 3.0, "u": 0.5})
    assert close(value, want.value)
    assert close(slopes["x"], want.gradients["x"])
    assert close([slopes["lambda"], slopes["a b"]], [want.gradients["v"], want.gradients["u"]])


def test_python_names_outputs_and_orders():
    assert "def gradient_o(x):" in page("o = x^2; p = x^3; output o, p", "python")
    assert '("x", "y"): 2.0 * x,' in page("x^2*y", "python", 2)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_c_functions_give_value_and_gradients(tmp_path):
    """One program of many functions: compiled once, without a warning."""
    cases, sources, calls = [], [], []
    for seed in range(150):
        text = grown(4000 + seed, SIMPLE)
        names, value, gradients = expected(text)
        code = printed(text, "c")
        if code is not None and np.isfinite([value, *gradients]).all():
            body = "\n".join(line for line in code.splitlines() if not line.startswith(("static inline", "#include")))
            helpers = [line for line in code.splitlines() if line.startswith("static inline")]
            sources.append((helpers, body.replace("double gradient(", f"double g{len(cases)}(")))
            arguments = ", ".join(str(POINT[n]) for n in names)
            loop = f"for (int i = 0; i < {len(names)}; i++)"
            calls.append(f"r = g{len(cases)}({arguments}, d);" + r' printf("%.17g", r);')
            calls.append(loop + r' printf(" %.17g", d[i]);' + "\n" + r'printf("\n");')
            cases.append((text, value, gradients))
    helpers = list(dict.fromkeys(h for hs, _ in sources for h in hs))
    program = "\n".join(["#include <math.h>", "#include <stdio.h>", *helpers, *(body for _, body in sources),
                         "int main(void) { double d[9], r;", *calls, "return 0; }"])  # fmt: skip
    (tmp_path / "all.c").write_text(program)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    built = subprocess.run(
        [COMPILER, *flags, "all.c", "-o", "all", "-lm"], cwd=tmp_path, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[:2000]
    out = subprocess.run([str(tmp_path / "all")], capture_output=True, text=True, check=True).stdout
    for (text, value, gradients), line in zip(cases, out.splitlines(), strict=True):
        have = [float(word) for word in line.split()]
        assert close(have, [value, *gradients]), text


def test_c_names_what_it_lacks():
    with pytest.raises(GradcliError, match="C has no `besselj`"):
        page("besselj(2, x)", "c")
    with pytest.raises(GradcliError, match="C has no `sum`"):
        page("x = [1, 2]; sum(x^2)*w", "c", wrt=["w"])


@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="duckdb is not installed")
@pytest.mark.parametrize("seed", range(100))
def test_sql_expressions_in_duckdb(seed):
    import duckdb

    steps = {"round", "mod", "fmod", "floordiv", "floor", "ceil", "trunc"}  # jump where the last digit differs
    partial = {"acosh", "asec", "acsc", "asech", "acoth", "atanh", "asin", "acos", "logit"}  # nan is the largest in SQL
    text = grown(5000 + seed, {n: p for n, p in SIMPLE.items() if n not in steps | partial}, "+-*/")
    _, value, gradients = expected(text)
    if not np.isfinite([value, *gradients]).all():
        return
    code = printed(text, "sql")
    if code is None:
        return
    db = duckdb.connect()
    columns = ", ".join(f"cast({v} as double) as {n}" for n, v in POINT.items())
    db.execute(f"create table data as select {columns}")
    try:
        row = db.execute(code if code.startswith("with") else f"select {code} from data").fetchone()
    except duckdb.OutOfRangeException:
        return  # a branch that is not taken is computed all the same: ln(-1) stops a query
    assert close([float(v) for v in row], gradients), code


def test_sql_is_spelled_for_every_dialect():
    assert page("x^2*sin(`Total price`)", "sql", wrt=["x"]) == '((2.0 * x) * sin("Total price"))'
    assert page("max(x, 0)", "sql") == (
        "(case when (x > 0.0) then 1.0 else (case when (x = 0.0) then 0.5 else 0.0 end) end)"
    )
    assert page("x*y", "sql") == "y as dvalue_dx,\nx as dvalue_dy"
    steps = page("n = x1*w1 + x2*w2 + b; o = tanh(n)", "sql", wrt=["w1", "b"])
    assert steps.startswith("with\n  step1 as (select *, (((x1 * w1) + (x2 * w2)) + b) as n from data)\nselect\n")
    with pytest.raises(GradcliError, match="SQL has no `erf`"):
        page("x*erf(x)", "sql")
