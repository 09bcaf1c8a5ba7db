"""PyTorch's rules for leaves, requires_grad and retention: the numbered facts of `anchors-ad.md` section 2, and each
row of its table of reasons for `.grad is None` that can arise in a language without mutation.

Impossible here by construction: turning requires_grad off on a tensor that exists (4), accumulation (7), a second
backward pass (10), retaining after it (12, row 6), hooks (13), an operation without a gradient of its own (row 7).
Of these, what a user could mistake for it is tested.
"""

from __future__ import annotations

import pytest

import gradcli
from gradcli.errors import GradientError

GOLDEN = """
x1 = 2.0
x2 = 0.0
w1 = -3.0
w2 = 1.0
b = 6.8813735870195432
n = x1*w1 + x2*w2 + b
o = tanh(n)
"""


def told(text: str, name: str, **flags: object) -> gradcli.Explanation:
    from gradcli.explain import explain

    return explain(gradcli.parse(text), [name], None, {}, **flags)[0]  # type: ignore[arg-type]


def flags_of(text: str, name: str) -> tuple[bool, bool, bool]:
    found = told(text, name)
    return found.is_leaf, found.requires_grad, found.retains_grad


# ---- leaf and requires_grad ------------------------------------------------------------------------------------------


def test_01_without_requires_grad_it_is_a_leaf_by_convention():
    assert flags_of("const c = 2; y = c*3; x = 1; o = x*y", "y") == (True, False, False)
    assert flags_of("x = 1; y = detach(x); o = x*y", "y") == (True, False, False)


def test_02_with_requires_grad_only_what_the_user_made_is_a_leaf():
    assert flags_of("x = 1; o = x*2", "x") == (True, True, False)
    assert flags_of("x = 1; y = x + 0; o = y*2", "y") == (False, True, False)


def test_02_alias_is_the_same_leaf():
    assert flags_of("x = 1; y = x; o = y*2", "y") == (True, True, False)
    assert gradcli.parse("x = 1; y = x; o = y*2").gradient() == {"x": 2.0}


def test_03_comparisons_never_require_grad():
    assert flags_of("x = 1; c = x > 0; o = x*c", "c") == (True, False, False)


@pytest.mark.parametrize("step", ["floor", "round", "trunc", "ceil", "sign"])
def test_03_steps_require_grad_and_give_zero(step):
    text = f"x = 1.5; s = {step}(x); o = s*1"
    assert flags_of(text, "s") == (False, True, False)
    assert gradcli.parse(text).gradient() == {"x": 0.0}


def test_03_output_requires_grad_iff_an_operand_does():
    assert flags_of("const c = 2; x = 1; o = c*x", "o")[1] is True
    assert flags_of("const c = 2; const k = 1; o = c*k", "o")[1] is False


def test_04_requires_grad_of_an_intermediate_cannot_be_switched_off(cli):
    found = cli("grad", "-e", "x = 1; n = x*2; o = n*3", "--no-grad", "n")
    assert (found.status, found.out) == (2, "")
    assert "`n` is computed: only a leaf's requires_grad can be switched off" in found.err
    assert "`detach(n)`" in found.err


def test_05_detach_keeps_the_value_and_has_no_history():
    model = gradcli.parse("x = 3; y = detach(x); o = x*y")
    assert model.compile(show=["y"]).run({}).values["y"] == 3.0
    assert model.gradient() == {"x": 3.0}
    assert told("x = 3; y = detach(x); o = x*y", "y").reason == "`detach` on line 1 cuts it off"


# ---- .grad -----------------------------------------------------------------------------------------------------------


def test_06_paths_times_zero_give_zero_and_unreachable_leaves_none():
    text = "x = 1; y = 2; z = 3; o = 0*x + y"
    assert gradcli.parse(text).gradient() == {"x": 0.0, "y": 1.0, "z": None}


def test_07_nothing_accumulates():
    model = gradcli.parse("x = 2; n = x*3; o = n^2; retain n")
    program = model.compile(retain=["n"])
    assert program.run({}) == program.run({})
    assert program.run({}).retained == {"n": 12.0}


def test_07_scalar_used_in_many_rows_receives_the_sum():
    found = gradcli.parse("x = [1, 2, 3]; a = 2; o = sum(a*x)").gradient()
    assert found["a"] == 6.0
    assert list(found["x"]) == [2, 2, 2]  # type: ignore[arg-type]


def test_08_inputs_fill_only_those_and_may_be_intermediates():
    found = gradcli.parse(GOLDEN).compile(wrt=["n", "x1"]).run({}).gradients
    assert list(found) == ["n", "x1"]
    assert found["n"] == pytest.approx(0.5, rel=5e-16)


def test_09_the_output_has_gradient_one_if_retained(cli):
    text = "x = 2; o = x^2"
    assert cli("grad", "-e", text, "--retain", "o", "--print", "o.grad").out == "1.0\n"
    found = cli("grad", "-e", text, "--print", "o.grad")
    assert (found.status, found.out) == (1, "none\n")
    assert "its gradient is 1 and not kept" in found.err


def test_09_output_without_history_is_explained():
    assert told("const c = 2; o = c*3", "o").reason == "it depends only on `const` `c` on line 1"


def test_10_a_program_runs_again_and_again():
    program = gradcli.parse("x = 2; o = exp(x)*x").compile()
    assert program.run({}).gradients == program.run({}).gradients


# ---- retain_grad -----------------------------------------------------------------------------------------------------


def test_11_retaining_a_leaf_has_no_effect(cli):
    found = cli("grad", "-e", "x = 2; o = x^2", "--retain", "x", "--print", "x.grad", "--print", "x.retains_grad")
    assert (found.status, found.out) == (0, "4.0\nfalse\n")
    assert "note: `x` is a leaf" in found.err


@pytest.mark.parametrize(
    ("text", "flags", "cause"),
    [
        ("const c = 2; x = 1; n = c*3; o = n*x", [], "`const` `c` on line 1"),
        ("x = 1; n = detach(x)*2; o = n*x", [], "`detach` on line 1"),
        ("x = 1; y = 2; n = x*2; o = n*y", ["--no-grad", "x"], "`--no-grad x`"),
    ],
)
def test_11_retaining_without_requires_grad_names_the_cause(cli, text, flags, cause):
    found = cli("grad", "-e", text, "--retain", "n", *flags)
    assert (found.status, found.out) == (2, "")
    assert "`n` does not require grad" in found.err
    assert cause in found.err
    with pytest.raises(GradientError):
        gradcli.parse(text).compile(retain=["n"], no_grad=flags[1:])


def test_11_retaining_twice_is_harmless_and_can_be_undone(cli):
    text = "x = 2; n = x*3; o = n^2; retain n"
    assert cli("grad", "-e", text, "--retain", "n", "--print", "n.grad").out == "12.0\n"
    assert cli("grad", "-e", text, "--no-retain", "n", "--print", "n.grad").out == "none\n"


def test_12_retention_is_never_too_late(cli):
    for text in ("retain n; x = 2; n = x*3; o = n^2", "x = 2; n = x*3; o = n^2; retain n"):
        assert cli("grad", "-e", text, "--print", "n.grad").out == "12.0\n"


def test_13_retained_value_is_the_whole_gradient():
    model = gradcli.parse("x = 2; n = x*3; o = n^2 + n*x + sin(0*n)")
    assert model.compile(retain=["n"]).run({}).retained == {"n": 14.0}
    assert model.compile(wrt=["n"]).run({}).gradients == {"n": 14.0}


def test_golden_example(cli):
    found = cli("grad", "-e", GOLDEN, "--retain", "n")
    want = {"x1": -1.4999999999999998, "x2": 0.5, "w1": 1.0, "w2": 0.0, "b": 0.5, "n": 0.5}
    assert found.value("o") == pytest.approx(0.7071067811865476, rel=4.5e-16)
    assert found.value("n") == pytest.approx(0.8813735870195432, rel=4.5e-16)
    for name, slope in want.items():
        assert found.slope(name) == pytest.approx(slope, rel=4.5e-16)
    assert found.err == ""


def test_warning_names_the_variable_its_line_and_both_remedies_once(cli):
    found = cli("grad", "-e", GOLDEN.strip(), "--print", "n.grad", "--print", "n.grad")
    assert (found.status, found.out) == (1, "none\nnone\n")
    assert found.err.count("warning:") == 1
    for part in ("-e:6:1:", "`n.grad` is none", "line 6", "`--retain n`", "`x1`, `x2`, `w1`, `w2`, `b`"):
        assert part in found.err


# ---- the table of reasons for none -----------------------------------------------------------------------------------


def none(text: str, name: str, **flags: object) -> str:
    found = told(text, name, **flags)
    assert found.gradient is None
    assert found.help
    assert f"line {found.line}" in found.reason or found.line
    return found.reason


def test_none_1_intermediate_not_retained():
    assert none("x = 1; n = x*2; o = n*3", "n") == "`n` on line 1 is an intermediate and not retained"


def test_none_2_leaf_not_marked_or_fed_by_such_only():
    assert none("const c = 1\nx = 2\no = c*x", "c") == "`const` on line 1 switched it off"
    assert none("const c = 1\nn = c*2\nx = 2\no = n*x", "n") == "it depends only on `const` `c` on line 1"
    assert none("x = 1; y = 2; o = x*y", "x", no_grad=["x"]) == "`--no-grad x` switched it off"
    assert none("x = 1; y = 2; n = 2*x; o = n*y", "n", no_grad=["x"]) == (
        "no leaf that feeds it requires grad: `--no-grad x`"
    )


def test_none_3_produced_by_detach_or_by_a_condition():
    assert none("x = 1\nn = detach(x)\no = n*x", "n") == "`detach` on line 2 cuts it off"
    assert none("x = 1\nn = x > 0\no = n*x", "n") == (
        "it goes only into a comparison or condition on line 2, which carries no gradient"
    )


def test_none_4_output_does_not_depend_on_it():
    assert none("x = 1; y = 2; o = x*2", "y") == "it is unused: `o` does not depend on it"
    assert none("x = 1\ny = 2\no = x*2 + detach(y)\n", "y") == "every path to `o` is detached by `detach` on line 3"
    assert none("x = 1\ny = 2\np = detach(y)\no = x*p +\\\ndetach(y*2)", "y") == (
        "every path to `o` is detached by `detach` on lines 3, 5"
    )
    assert none("x = 1; y = 2; o = where(y > 0, x, 2*x)", "y") == (
        "it goes only into a comparison or condition on line 1, which carries no gradient"
    )


def test_none_4_order_arguments_carry_no_gradient():
    for text in ("besselj(n, x)", "polygamma(n, x)"):
        reason = none(f"n = 1; x = 2; o = {text}", "n")
        assert reason.startswith("it goes only into the order `")
        assert reason.endswith("on line 1, which carries no gradient")


def test_none_5_restricted_by_the_inputs_asked_for():
    assert none("x = 1; y = 2; o = x*y", "y", wrt=["x"]) == "it is not among the names of `--wrt`"


# ---- zeros -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("x = 1.5\no = floor(x)*2", "`floor(x)` on line 2 is a step"),
        ("x = -1\no = where(x > 0, x, 1)", "`where(x > 0, x, 1)` on line 2 does not select it"),
        ("x = 1\no = max(x, 3)", "`max(x, 3)` on line 2 does not select it"),
        ("x = 9\no = clip(x, 0, 1)", "`clip(x, 0, 1)` on line 2 does not select it"),
        ("x = 0\no = abs(x)", "`abs(x)` on line 2 is at its corner"),
        ("x = 0\no = relu(x)", "`relu(x)` on line 2 is at its corner"),
        ("x = -2\no = relu(x)", "`relu(x)` on line 2 is flat"),
        ("x = 0\no = max(x, -x)", "`max(x, -x)` is at a tie or corner"),
        ("x = 2; w = 0\no = x*w", "multiplied by `w`, which is 0 here"),
        ("x = 2; w = 0\no = x*sin(w)", "multiplied by `sin(w)`, which is 0 here"),
        ("x = 0\no = cos(x)", "the slope of `cos(x)` on line 2 is 0"),
        ("x = 1; y = 2\no = x*y - 2*x", "cancels"),
        ("x = [1.5, 2.5]\no = sum(floor(x))", "`floor(x)` on line 2 is a step"),
    ],
)
def test_zero_has_a_cause_with_its_line(text, cause):
    found = told(text, "x")
    assert cause in found.reason
    assert found.reason.startswith("zero: ")


def test_explain_works_without_values():
    found = told("o = x*y", "x")
    assert (found.is_leaf, found.requires_grad, found.gradient) == (True, True, None)
    assert "`x` has no value" in found.reason
    assert found.help is not None
    assert "`x=VALUE`" in found.help
