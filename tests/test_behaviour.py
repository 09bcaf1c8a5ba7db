"""What people reported of other tools: the rows of `cases/behaviour.tsv`, areas a, b and d, that need `grad`, `explain`
or `functions` alone. Each test bears the id of its row and repeats its facts; the report stands in the comment.

Rows of these areas that are about data files, batch jobs or verification are tested beside those commands.
"""

from __future__ import annotations

import math
import os
import pty
import signal
import subprocess
import sys
import unicodedata

import pytest
from conftest import ROOT, command, taken

close = pytest.approx


def value(grad, text, *arguments, name="value"):
    found = grad(text, *arguments)
    assert found.status == 0, found.err
    return found.value(name)


def refused(found, *words):
    """A message on stderr that has all of these words, nothing on stdout, status 2."""
    assert found.status == 2
    assert found.out == ""
    for word in words:
        assert word in found.err
    return found


# ---- a: expressions --------------------------------------------------------------------------------------------------


def test_pa01_power_binds_before_the_sign(grad):  # pieterderycke/Jace#33
    assert value(grad, "-5^2") == -25
    assert value(grad, "(-5)^2") == 25


def test_pa02_gaussian_bump_has_both_minus_signs_alike(grad):  # Morpho-lang/morpho#5
    found = grad("exp(-x^2-y^2)", "x=1", "y=0.5")
    assert found.value() == close(0.2865047968601901, rel=1e-12)
    assert found.slope("x") == close(-0.5730095937203802, rel=1e-12)
    assert found.slope("y") == close(-0.2865047968601901, rel=1e-12)


def test_pa03_powers_group_from_the_right(grad):  # microsoft/calculator#2004
    assert value(grad, "2^2^3") == 256
    assert value(grad, "2**2**3") == 256


def test_pa04_signed_exponent_in_a_chain(grad):  # inexorabletash/jsbasic#25
    assert value(grad, "9^2^-1") == close(3, rel=1e-15)


def test_pa05_signed_exponent(grad):  # josdejong/mathjs#172
    found = grad("x^-2", "x=4")
    assert (found.value(), found.slope("x")) == (0.0625, -0.03125)


def test_pa06_signed_exponent_after_a_sum(grad):  # bugwheels94/math-expression-evaluator#95
    assert value(grad, "2+4^-1") == 2.25


@pytest.mark.parametrize(("text", "want"), [("4---1", 3), ("2+-3", -1), ("+-+5", -5)])
def test_pa07_stacked_signs(grad, text, want):  # ISibboI/evalexpr#183
    assert value(grad, text) == want


def test_pa08_juxtaposed_brackets_are_refused(grad):  # Qalculate/libqalculate#690
    refused(grad("1/(4)(2)"), "-e:1:6:", "`(4)*(2)`")


def test_pa09_products_of_brackets_are_refused(grad):  # josdejong/mathjs#621
    refused(grad("(3)(4)+(2)(5)"), "-e:1:4:", "`(3)*(4)`")


def test_pa10_variable_before_a_bracket_is_no_call(grad):  # josdejong/mathjs#2230
    refused(grad("x(y+2)", "x=3", "y=1"), "-e:1:1:", "`x` is a variable, not a function", "`x*(...)`")


@pytest.mark.parametrize(("text", "column"), [("a b + 1", 3), ("2 a b", 3)])
def test_pa11_names_side_by_side(grad, text, column):  # google/mathsteps#133
    refused(grad(text, "a=2", "b=3"), f"-e:1:{column}:", "missing operator")


def test_pa12_functions_need_brackets(grad):  # cortex-js/compute-engine#154
    refused(grad("cos x sin y", "x=0", "y=1"), "-e:1:5:", "`cos(x)`")


def test_pa13_capital_exponent(grad):  # axiacore/py-expression-eval#32
    found = grad("1.5E3*x", "x=2")
    assert (found.value(), found.slope("x")) == (3000, 1500)


def test_pa14_negative_exponent_of_a_number(grad):  # jlawrence11/eos#3
    assert value(grad, "100*2e-9") == close(2e-07, rel=1e-12)


@pytest.mark.parametrize(("text", "want"), [("10e-3", 0.01), (".5e1", 5), ("7.e2", 700)])
def test_pa15_mantissas_of_all_kinds(grad, text, want):  # ISibboI/evalexpr#87
    assert value(grad, text) == want


def test_pa16_two_points_in_a_number(grad):  # LTplus-AG/ifc-lite#5193
    refused(grad("2.5.1*x", "x=1"), "-e:1:1:", "`2.5.1`")


def test_pa17_letters_behind_digits(grad):  # monome/teletype#31
    refused(grad("5X"), "-e:1:2:", "`X`", "`5*X`")


def test_pa18_names_that_begin_like_constants(grad):  # silentmatt/expr-eval#33
    found = grad("PITCH+EPS0", "PITCH=3", "EPS0=2")
    assert found.rows == {"value": ("5.0", "none"), "PITCH": ("3.0", "1.0"), "EPS0": ("2.0", "1.0")}


def test_pa19_names_that_look_like_exponents(grad):  # pyomeca/biorbd#7
    found = grad("x1e5*temp2e", "x1e5=2", "temp2e=3")
    assert (found.value(), found.slope("x1e5"), found.slope("temp2e")) == (6, 3, 2)


def test_pa20_digit_before_a_bracket_belongs_to_the_name(grad):  # MathosProject/Mathos-Parser#27
    found = grad("log2(8)*x+atan2(0,1)", "x=2")
    assert (found.value(), found.slope("x")) == (6, 3)


def test_pa21_capital_e_is_a_name(grad):  # silentmatt/expr-eval#178
    found = grad("C+D+E+F", "C=1", "D=2", "E=30", "F=4")
    assert (found.value(), found.slope("E")) == (37, 1)


def test_pa22_letters_of_the_symbolic_library_are_names(grad):  # sympy/sympy#12835
    found = grad("S*N+Q*O+I", "S=2", "N=3", "Q=5", "O=7", "I=11")
    assert found.value() == 52
    assert [found.slope(n) for n in "SNQOI"] == [3, 2, 7, 5, 1]


def test_pa23_names_of_special_functions_are_names(grad):  # sympy/sympy#25050
    found = grad("beta*gamma+zeta^2", "beta=2", "gamma=3", "zeta=5")
    assert (found.value(), *map(found.slope, ("beta", "gamma", "zeta"))) == (31, 3, 2, 10)


def test_pa24_real_minus_sign_is_named(grad):  # davedelong/DDMathParser#30
    refused(grad("5 \u2212 x", "x=2"), "-e:1:3:", "U+2212 MINUS SIGN", "`-`")


def test_pa25_superscript_is_named(grad):  # sharkdp/insect#53
    refused(grad("x²*3", "x=3"), "-e:1:2:", "U+00B2 SUPERSCRIPT TWO", "`^2`")


def test_pa26_micro_sign_and_mu_show_their_code_points(grad):  # elixir-lang/elixir#11750
    refused(grad("2*\u00b5", "\u03bc=4"), "U+00B5", "U+03BC")


def test_pa27_composed_and_decomposed_names_are_one(grad):  # JuliaLang/julia#5462
    decomposed, composed = "x_e\u0301", "x_\u00e9"
    assert unicodedata.normalize("NFC", decomposed) == composed
    for text, given in ((decomposed, composed), (composed, decomposed), (decomposed, decomposed)):
        found = grad(f"{text} + 1", f"{given}=2", "--json").json
        assert (found["value"], found["gradients"]) == (3, {composed: 1})


def test_pa28_three_thousand_names(grad):  # matthewwardrop/formulaic#78
    names = [f"x{i}" for i in range(3000)]
    found = grad("+".join(names), *(f"{n}=1" for n in names), "--json").json
    assert found["value"] == 3000
    assert found["gradients"] == dict.fromkeys(names, 1)


def test_pa29_four_hundred_brackets(grad):  # python-parsy/parsy#86
    found = grad("(" * 400 + "x" + ")" * 400 + "*1", "x=2")
    assert (found.value(), found.slope("x")) == (2, 1)


def test_pa30_four_thousand_factors(grad):  # jkitchin/discopt#1198
    found = grad("*".join(["x"] * 4000), "x=1")
    assert (found.value(), found.slope("x")) == (1, 4000)


def test_pa31_tab_counts_as_one_column(grad):  # lark-parser/lark#663
    found = refused(grad("\tx + $"), "-e:1:6:")
    _, line, caret, *_ = found.err.splitlines()
    assert line.index("$") == caret.index("^")


def test_pa32_extra_closing_bracket(grad):  # python/cpython#102312
    found = refused(grad("sin(x))", "x=1"), "-e:1:7:", "`)`")
    _, line, caret, *_ = found.err.splitlines()
    assert len(caret) <= len(line)


def test_pa33_file_with_crlf(cli, tmp_path):  # klimov-kn/TMC_Suite_Linux_Console#11
    path = tmp_path / "m.expr"
    path.write_bytes(b"x^2\r\n")
    found = cli("grad", str(path), "x=3")
    assert (found.value(), found.slope("x")) == (9, 6)


def test_pa34_half_an_expression(grad):  # wxMaxima-developers/wxmaxima#808
    found = refused(grad("x+", "x=1"), "-e:1:3:", "ended after `+`")
    _, line, caret, *_ = found.err.splitlines()
    assert caret == " " * len(line) + "^"


def test_pa35_wrong_numbers_of_arguments(grad):  # sys27/xFunc#235
    refused(grad("sin(x, 2)", "x=1"), "-e:1:1:", "`sin` takes 1 argument, got 2")
    refused(grad("cos()"), "-e:1:1:", "`cos` takes 1 argument, got 0")
    assert grad("sin(x, 2)+cos()", "x=1").out == ""


def test_pa36_factorial_is_named(grad):  # josdejong/mathjs#497
    refused(grad("-3!"), "-e:1:3:", "`!`", "gamma(x + 1)")


def test_pa37_modulo_is_floored(grad):  # nushell/nushell#8642
    for text in ("mod(a,b)", "a % b"):
        found = grad(text, "a=-8", "b=3")
        assert (found.value(), found.slope("a"), found.slope("b")) == (1, 1, 3)
    assert value(grad, "-8 % 3") == 1


def test_pa38_log_is_natural(grad, cli):  # Qalculate/libqalculate#430
    assert value(grad, "log(1000)") == value(grad, "ln(1000)") == close(6.907755278982137, rel=1e-15)
    assert value(grad, "log10(1000)") == close(3, rel=1e-15)
    assert "atural" in cli("functions", "log").out


def test_pa39_whole_numbers_divide_as_floats(grad):  # ISibboI/evalexpr#176
    assert value(grad, "7/2*x", "x=1") == 3.5
    assert value(grad, "1/4") == 0.25


def test_pa41_negative_base(grad):  # tenstorrent/tt-metal#54440
    found = grad("x^3", "x=-2")
    assert (found.value(), found.slope("x"), found.err) == (-8, 12, "")


def test_pa42_power_at_base_zero(grad):  # pytorch/pytorch#27134
    found = grad("x^n", "x=0", "n=2")
    assert (found.value(), found.slope("x"), found.slope("n")) == (0, 0, 0)


def test_pa43_abs_has_slope_zero_at_zero(grad):  # HIPS/autograd#100
    found = grad("abs(x)", "x=[-2, 0, 3]", "--json")
    assert found.json["gradients"]["x"] == [-1, 0, 1]
    assert found.err == ""


def test_pa44_tie_is_counted_once(grad):  # Theano/Theano#6470
    found = grad("max(x,y)", "x=2", "y=2")
    assert (found.slope("x"), found.slope("y")) == (0.5, 0.5)


def test_pa45_branch_not_chosen_adds_nothing(grad):  # HIPS/autograd#802
    found = grad("where(x>=0, x, sqrt(-x))", "x=[4, -4]", "--json")
    assert found.json["value"] == [4, 2]
    assert found.json["gradients"]["x"] == [1, -0.25]
    assert found.err == ""


def test_pa46_sigmoid_far_out(grad):  # jeshraghian/snntorch#427
    found = grad("1/(1+exp(-x))", "x=[-1000, 0, 1000]", "--json", "-q")
    assert found.json["value"] == [0, 0.5, 1]
    assert found.json["gradients"]["x"] == [0, 0.25, 0]
    assert (found.status, found.err) == (0, "")


def test_pa47_atan2_on_the_axis(grad):  # coin-or/CppAD#120
    found = grad("atan2(y,x)", "y=0", "x=2")
    assert (found.value(), found.slope("y"), abs(found.slope("x"))) == (0, 0.5, 0)


def test_pa48_root_of_a_negative_number_is_nan_with_a_reason(grad):  # mariuszgromada/MathParser.org-mXparser#68
    found = grad("(-64)^(1/3)")
    assert math.isnan(found.value())
    assert "`value` is nan" in found.err
    assert "(-64)^(1/3)" in found.err


def test_pa49_constant_rule_keeps_nan(grad):  # stan-dev/stan#857
    found = grad("floor(x)", "x=[nan, 2.5]", "--json").json
    assert found["value"] == ["NaN", 2]
    assert found["gradients"]["x"] == ["NaN", 0]


def test_pa50_simplified_constant_stays_a_column(grad):  # sympy/sympy#24036
    found = grad("x/x", "x=[1, 2, 5]", "--json").json
    assert found["value"] == [1, 1, 1]
    assert found["gradients"]["x"] == [0, 0, 0]


# ---- b: the command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["-x^2+1", "-5^2", "-q^2", "-.5", "-1", "-(x)", "-sin(x)"])
def test_pb01_expression_that_begins_with_a_minus(cli, word):  # pallets/click#555
    refused(cli("grad", word, "x=2"), f"`{word}`", "-e")
    refused(cli("grad", "-e", "x", word, "x=2"), f"`{word}`", "-e")
    refused(cli(word), f"`{word}`", "gradcli grad -e")


def test_pb01_an_expression_of_e_may_begin_with_a_minus(grad):
    found = grad("-x^2+1", "x=2")
    assert (found.value(), found.slope("x")) == (-3, -4)


def test_pb02_after_two_dashes_nothing_is_an_option(cli, grad):  # ReimuNotMoe/ydotool#304
    refused(cli("grad", "--", "-h*2", "h=3"), "`-h*2`", "-e")
    found = grad("-h*2", "h=3")
    assert (found.value(), found.slope("h")) == (-6, -2)


def test_pb03_negative_number_as_last_word(grad):  # vllm-project/vllm#58096
    assert value(grad, "a*b", "a=1", "b=-0.5") == -0.5


def test_pb04_closed_pipe_is_silent(process):  # wireservice/csvkit#150
    producer = subprocess.Popen(
        command("functions", "-v"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert producer.stdout is not None
    producer.stdout.close()
    assert producer.stderr is not None
    assert producer.stderr.read() == b""
    producer.stderr.close()
    assert producer.wait(20) in (0, 141)


def test_pb05_dash_reads_standard_input(process, tmp_path):  # tats/w3m#87
    text = "x = 3; y = x^2\n"
    path = tmp_path / "m.expr"
    path.write_text(text)
    assert process("grad", "-", input=text).stdout == process("grad", str(path)).stdout == "y\t9.0\tnone\nx\t3.0\t6.0\n"


def on_terminal(*arguments, **environment):
    """Run the command with a terminal on every stream: its status, and all that the terminal received."""
    main, side = pty.openpty()
    inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    child = subprocess.Popen(
        command(*arguments),
        stdin=side,
        stdout=side,
        stderr=side,
        env={**inherited, "TERM": "xterm", "PYTHONPATH": str(ROOT), **environment},
    )
    os.close(side)
    seen = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(main)
    return child.wait(20), seen


def test_pb06_terminal_as_standard_input_is_said(cli):  # acornprover/acorn#3
    status, seen = on_terminal("grad", "-")
    assert status == 2
    assert b"standard input is a terminal" in seen
    refused(cli("grad"), "Usage:", "no model")


def test_pb07_standard_input_is_read_once(cli):  # nmfta-repo/pretty_j1939#10
    refused(cli("grad", "-", "-"), "standard input can be read once")


def test_pb08_no_colour_in_a_pipe_or_with_no_color(process):  # colbymchenry/codegraph#1281
    piped = process("grad", "-e", "x+")
    assert "\x1b" not in piped.stdout + piped.stderr
    assert b"\x1b" in on_terminal("grad", "-e", "x+")[1]
    assert b"\x1b" not in on_terminal("grad", "-e", "x+", NO_COLOR="1")[1]


def test_pb09_empty_no_color_does_not_count_and_always_is_kept(process):  # colbymchenry/codegraph#1303
    assert b"\x1b" in on_terminal("grad", "-e", "x+", NO_COLOR="")[1]
    forced = process("grad", "-e", "x+", "--color", "always", environment={"NO_COLOR": "1"})
    assert "\x1b" in forced.stderr
    for data in (["--json"], []):
        found = process("grad", "-e", "1/x", "x=0", "--color", "always", *data)
        assert "\x1b" not in found.stdout
        assert "\x1b" in found.stderr


def test_pb10_rejected_calls_fail(cli, grad):  # zio/zio-cli#146
    refused(cli("grad", "--nonsense"), "no option `--nonsense`")
    refused(grad("x +* 2"))


def test_pb11_no_expression_and_unknown_choice(cli):  # metoppv/improver#1090
    refused(cli("grad"), "Usage:")
    refused(cli("grad", "-e", "x", "x=1", "--color", "sometimes"), "Usage:", "`sometimes`")
    refused(cli("grad", "-e", "x", "x=1", "--ofmt", "%d"), "Usage:", "`%d`")
    refused(cli(), "Usage:", "no command")


def test_pb13_interrupt_is_one_short_line():  # halfline/git-stage-batch#32
    child = subprocess.Popen(
        command("grad", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    child.stdin.write(b"x^2")
    child.stdin.flush()
    taken(child.stdin)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err) == (130, b"", b"interrupted\n")


@pytest.mark.parametrize("arguments", [["σ*2", "σ=3"], ["σ*2", "σ=3", "--json"], ["σ*", "σ=3"], ["σ*2"]])
def test_pb15_console_without_the_letter(process, arguments):  # radis/radis#162
    narrow = process("grad", "-e", *arguments, environment={"PYTHONIOENCODING": "cp1252"}, encoding="cp1252")
    wide = process("grad", "-e", *arguments)
    assert narrow.returncode == wide.returncode
    assert "Traceback" not in narrow.stderr
    assert "\\u03c3" in narrow.stdout + narrow.stderr


@pytest.mark.parametrize("mode", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_pb16_ascii_locale(process, tmp_path, mode):  # pallets/click#448
    environment = {"LC_ALL": "C", **mode}
    path = tmp_path / "σ.expr"
    path.write_text("σ = 3; y = σ*2", encoding="utf-8")
    for arguments in (["-e", "σ*2", "σ=3", "--json"], [str(path), "--json"]):
        found = process("grad", *arguments, environment=environment)
        assert found.returncode == 0, found.stderr
        assert '"value": 6.0' in found.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["grad", "--help"], ["functions", "--help"]])
def test_pb17_help_loads_nothing_heavy(process, arguments):  # pzfreo/draftwright#313
    program = (
        "import sys\nfrom gradcli.cli.group import run\nstatus = run(sys.argv[1:])\n"
        "heavy = {'numpy', 'scipy', 'sympy', 'polars'} & set(sys.modules)\nprint(heavy or 'light', file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert found.stderr == "light\n"


def test_pb18_options_stand_anywhere(cli):  # ajalt/clikt#321
    words = ["-e", "x*y", "x=2", "y=3"]
    want = cli("grad", "--json", *words).out
    assert cli("grad", *words, "--json").out == want
    assert cli("grad", "x=2", "--json", "-e", "x*y", "y=3").out == want


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [["grad", "-e", "x=1; x^2"], ["functions", "-v"], ["--help"], ["--version"]])
def test_pb20_full_device(process, arguments):  # sharkdp/fd#737
    with open("/dev/full", "w") as full:  # noqa: PTH123
        found = process(*arguments, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert found.returncode == 2
    assert found.stderr == "gradcli: error: cannot write: no space left on device\n"


def test_pb22_json_stays_json_where_numbers_are_not_finite(grad):  # liquidctl/liquidctl#530
    found = grad("1/x", "x=0", "--json")
    assert found.json["value"] == "Infinity"
    assert found.json["gradients"] == {"x": "-Infinity"}
    assert "`value` is inf" in found.json["warnings"][0]
    assert "`value` is inf" in found.err


def test_pb23_arguments_are_never_expanded(monkeypatch):  # pallets/click#2359
    """Click expands wildcards itself on Windows unless it is told not to."""
    from gradcli.cli import group

    seen = {}
    monkeypatch.setattr(group.group, "main", lambda *words, **options: seen.update(options) or 0)
    assert group.run(["grad", "-e", "x*y"]) == 0
    assert seen["windows_expand_args"] is False


def test_pb24_lost_power_sign(grad, cli):  # cmderdev/cmder#840
    for found in (grad("2 2"), grad("x2", "x=3")):
        refused(found, "cmd.exe", "`^`", "`**`")
    assert "cmd.exe" in cli("grad", "--help").out


def test_pb25_lines_end_in_lf(process):  # jazzband/Watson#366
    for flags in ([], ["--json"], ["--print", "value"]):
        found = process("grad", "-e", "x=2; x^2", *flags, text=False, encoding=None)
        assert found.stdout.endswith(b"\n")
        assert b"\r" not in found.stdout


# ---- d: hostile input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ('__import__("os").system("touch pwned")', 12),
        ("x.__class__", 2),
        ("(1).__class__", 4),
        ('open("f")', 6),
    ],
)
def test_pd01_python_is_no_expression(grad, tmp_path, monkeypatch, text, column):  # sympy/sympy#10805
    monkeypatch.chdir(tmp_path)
    refused(grad(text, "x=1"), f"-e:1:{column}:")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("[x for x in (1,2)]", 4),
        ("(lambda: 0)()", 8),
        ("x if 1 else 2", 3),
        ("x:=1", 2),
        ('"a"*9', 1),
        ("x[0]", 2),
    ],
)
def test_pd02_python_constructs_are_errors_with_columns(grad, text, column):  # pydata/numexpr#442
    refused(grad(text, "x=1"), f"-e:1:{column}:")


def test_pd04_tower_of_powers(grad):  # NilchSearch/nilch#16
    assert value(grad, "9**9**9**9") == math.inf


def test_pd05_huge_exponent(grad):  # mathnet/mathnet-symbolics#64
    assert grad("x^(3^(2^31))", "x=2").value() == math.inf


def test_pd06_factorial_of_a_huge_number(grad):  # QWED-AI/qwed-verification#331
    assert grad("gamma(1e7)").value() == math.inf
    refused(grad("x*(99999999!)", "x=1"), "`!`")


def test_pd07_huge_exponents_of_numbers(grad):  # haskell/attoparsec#63
    assert value(grad, "1e1000000000") == math.inf
    assert value(grad, "1e-1000000000") == 0
    assert value(grad, "x", "x=1e1000000000", name="x") == math.inf


def test_pd08_literal_of_five_thousand_digits(grad):  # python/cpython#96857
    found = grad("9" * 5000 + "+x", "x=0")
    assert found.value() == math.inf
    assert "set_int_max_str_digits" not in found.err
    assert len(found.err) < 2000


def test_pd10_three_hundred_nested_sines(grad):  # JuliaSymbolics/Symbolics.jl#1483
    found = grad("sin(" * 300 + "x" + ")" * 300, "x=1")
    assert found.value() == close(0.09903682969264706, rel=1e-10)
    assert found.slope("x") == close(0.0007434791440167603, rel=1e-10)


@pytest.mark.parametrize(
    "arguments",
    [
        ["grad", "-e", "x + \x1b]0;pwned\x07"],
        ["grad", "no\x1b[2Jfile.expr"],
        ["grad", "\x1b[2J", "x=1"],
        ["grad", "--\x1b[2J"],
        ["grad", "-\x1b[2J"],
        ["grad", "-e", "x", "x=\x1b\x9b"],
        ["grad", "-e", "x", "\x1b=1"],
        ["grad", "-e", "x", "x=1", "--of", "\x1b"],
        ["grad", "-e", "x", "x=1", "--retain", "\x1b*"],
        ["grad", "-e", "x", "x=1", "--print", "\x1b.\x07"],
        ["grad", "-e", "x", "x=1", "--ofmt", "\x1b"],
        ["grad", "-e", "x", "x=1", "--color", "\x1b"],
        ["grad", "-e", "`a\x1b\x9b`*2", "`a\x1b\x9b`=3"],
        ["grad", "-e", "`a\x1b\x9b`*2", "`a\x1b\x9b`=3", "--json"],
        ["grad", "-e", "1/`a\x1b\x9b`", "`a\x1b\x9b`=0"],
        ["explain", "-e", "`a\x1b`*2"],
        ["explain", "-e", "x", "\x1b"],
        ["functions", "\x1b[2J"],
        ["\x1b[2J"],
        ["--\x1b"],
    ],
)
def test_pd13_control_characters_never_reach_the_terminal(cli, arguments):  # pallets/click#3832
    found = cli(*arguments)
    for raw in ("\x1b", "\x07", "\x9b"):
        assert raw not in found.out + found.err
    assert "\\x1b" in found.out + found.err or "\\u001b" in found.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["grad", "--" + "a" * 10_000],
        ["grad", "-" + "z" * 10_000],
        ["grad", "a" * 10_000],
        ["grad", "-e", "x", "x=" + "9" * 10_000 + "z"],
        ["grad", "-e", "x", "x=1", "a" * 10_000 + "=1"],
        ["grad", "-e", "x", "x=1", "--of", "a" * 10_000],
        ["grad", "-e", "x", "x=1", "--color", "a" * 10_000],
        ["grad", "-e", "a" * 10_000],
        ["grad", "-e", "a" * 10_000 + "(3)"],
        ["a" * 10_000],
        ["--" + "a" * 10_000],
    ],
)
def test_pd14_long_words_are_not_echoed(cli, arguments):  # openclaw/openclaw#120379
    found = refused(cli(*arguments))
    assert len(found.err) < 2500


def test_pd14_error_at_the_end_of_a_megabyte(cli, tmp_path):
    path = tmp_path / "m.expr"
    path.write_text("1+" * 500_000 + "*")
    found = refused(cli("grad", str(path)), ":1:1000001:")
    assert len(found.err) < 1000
