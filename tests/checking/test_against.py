"""Other programs' numbers: how they are read, and what they are held to."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import gradcli
from gradcli.checking.against import Tolerance, check_table
from gradcli.checking.rounding import UNITS, bound
from gradcli.checking.shapes import shape_of
from gradcli.checking.table import Table, parse_csv, read_table


def verdicts(model, function, **options):
    return {c.name: c.verdict for c in gradcli.check(gradcli.parse(model), function, **options)}


TEXT = "x = 0.5; w = 2; y = sin(w*x)"


def test_function_by_names_in_order_and_with_a_value():
    def named(x, w):
        return {"x": w * math.cos(w * x), "w": x * math.cos(w * x)}

    assert verdicts(TEXT, named) == {"d(y, x)": "agrees", "d(y, w)": "agrees"}
    assert verdicts(TEXT, lambda x, w: list(named(x, w).values())) == {"d(y, x)": "agrees", "d(y, w)": "agrees"}
    assert verdicts(TEXT, lambda x, w: (math.sin(w * x), named(x, w)))["y"] == "agrees"
    assert verdicts(TEXT, lambda x, w: np.array([w, x]) * np.cos(w * x))["d(y, x)"] == "agrees"


def test_function_that_is_slightly_wrong():
    found = verdicts(TEXT, lambda x, w: {"x": w * math.cos(w * x) * (1 + 1e-12), "w": x * math.cos(w * x)})
    assert found == {"d(y, x)": "wrong", "d(y, w)": "agrees"}
    found = verdicts(TEXT, lambda x, w: {"x": w * math.cos(w * x) * (1 + 1e-12)}, rtol=1e-9)
    assert found == {"d(y, x)": "agrees"}


def test_function_of_another_form_is_an_error():
    with pytest.raises(gradcli.BindingError, match="2 leaves"):
        verdicts(TEXT, lambda x, w: [1.0])
    with pytest.raises(gradcli.BindingError, match="`z`, which is no leaf"):
        verdicts(TEXT, lambda x, w: {"z": 1.0})
    with pytest.raises(gradcli.BindingError, match="no number"):
        verdicts(TEXT, lambda x, w: {"x": None})


def test_right_double_arithmetic_is_within_the_bound():
    """The engine's own float64 gradients, as another program's: none is off."""
    text = "x = 1; w = 2; b = 0.5; y = log(1 + exp(tanh(x*w + b)*3 - w^2))/(1 + x^2) + sqrt(x^2 + w^2)"
    model = gradcli.parse(text)
    generator = np.random.default_rng(1)
    columns = {n: generator.normal(0, 2, 60) for n in "xwb"}
    found = model.compile().run(columns)
    table = Table("engine", {**columns, **{f"dy_d{n}": found.gradients[n] for n in "xwb"}, "y": found.value})
    checks = check_table(model, "y", table, Tolerance())
    assert [c.verdict for c in checks] == ["agrees"] * 4
    assert {c.points for c in checks} == {60}


def test_bound_is_small_where_nothing_cancels_and_large_where_it_does():
    def size(text):
        model = gradcli.parse(text)
        shape = shape_of(model, "y", ["x"], frozenset())
        numbers = shape.values({"x": 1e-6}, 50)
        return bound(shape.graph, numbers, shape.output, UNITS["float64"])[0] / abs(float(numbers[shape.output].value))

    assert size("x = 1; y = sin(x)*x") < 1e-14
    assert size("x = 1; y = (1 - cos(x))/x") > 1e-6


def test_kink_accepts_what_lies_between():
    table = Table("theirs", {"x": [0.0, 0.0], "dy_dx": ["0.5", "1"]})
    (check,) = check_table(gradcli.parse("x = 1; y = relu(x)"), "y", table, Tolerance())
    assert check.verdict == "agrees"
    assert "a kink at x=0.0" in check.note
    table = Table("theirs", {"x": [0.0], "dy_dx": [1.0000001]})
    (check,) = check_table(gradcli.parse("x = 1; y = relu(x)"), "y", table, Tolerance())
    assert check.verdict == "wrong"


@pytest.mark.parametrize(("cell", "half"), [
    ("0.84", 0.005), ("-3e-10", 0.5e-10), ("12", 0.5), ("0.00", 0.005), ("0", 0.0), ("0.0", 0.0), ("nan", 0.0),
    ("0.841470984807897", 0.0), ("1.50e3", 5.0), ("inf", 0.0),
])  # fmt: skip
def test_half_a_unit_in_the_last_digit(cell, half):
    assert Table("t", {"g": [cell]}).halves("g") == [pytest.approx(half, rel=1e-12)]


def test_table_faults_have_their_line():
    with pytest.raises(gradcli.FileError, match=r"t\.csv:3: `oops` is no number in column `x`"):
        parse_csv(b"x,y\n1,2\noops,3\n", "t.csv").numbers("x")
    with pytest.raises(gradcli.FileError, match="two columns are called `x`"):
        parse_csv(b"x,x\n1,2\n", "t.csv")
    with pytest.raises(gradcli.FileError, match="no number in column `y`"):
        parse_csv(b"x,y\n1,2\n4,\n", "t.csv").numbers("y")


def test_table_that_is_not_there(tmp_path):
    (tmp_path / "theirs.csv").write_text("x\n1\n")
    with pytest.raises(gradcli.FileError, match=r"did you mean `theirs\.csv`"):
        read_table(str(tmp_path / "theres.csv"))


@pytest.mark.skipif(sys.platform == "win32", reason="make and cc")
def test_samples_of_other_programs(tmp_path, process):
    import os
    import shutil
    import subprocess

    from conftest import ROOT

    if not (shutil.which("cc") and shutil.which("make")):
        pytest.skip("no C compiler")
    folder = shutil.copytree(ROOT / "samples" / "against", tmp_path / "against")
    words = ["make", "check", f"GRADCLI={sys.executable} -m gradcli", f"PYTHON={sys.executable}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("4 numbers of another program agree") == 2
    (folder / "potential.c").write_text(
        (folder / "potential.c").read_text().replace("s6 - 2 * s12", "s6 - 2.001 * s12")
    )
    found = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "`d(v, r)` is wrong" in found.stderr
