"""Names become nodes: leaves, aliases, shadowing, constants, functions, derivatives, checks, and every error."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcli
from gradcli.api import Model
from gradcli.errors import BindingError, ModelError
from gradcli.language.inline import canonical
from gradcli.language.lower import Resolved, _Lowerer, lower
from gradcli.source import Part, Source


def resolve(text: str, **bindings: str) -> Resolved:
    return lower(Source.of(text), bindings)


def kinds(text: str, **bindings: str) -> dict[str, str]:
    return {name.label: name.kind for name in resolve(text, **bindings).names.values()}


def value(text: str, **bindings: str) -> object:
    return Model(resolve(text, **bindings)).compile().run({}).value


def gradient(text: str) -> dict[str, object]:
    return gradcli.parse(text).gradient()


def errors(marked: str) -> list[str]:
    """The messages of a text in which `«` and `»` mark the places of its errors, in order."""
    places, text = [], ""
    for piece in marked.split("»"):
        before, mark, inside = piece.partition("«")
        text += before
        if mark:
            places.append((len(text), len(text) + len(inside)))
            text += inside
    with pytest.raises(ModelError) as caught:
        resolve(text)
    found = caught.value.diagnostics
    assert [(d.span.start, d.span.end) for d in found if d.span] == places
    return [d.message for d in found]


# ---- leaves ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", ["2.0", "2*pi", "-[1, 2]", "e", "sin(3)", "(1 + 2)/7", "inf", "twice(3)"])
def test_right_side_of_numbers_makes_a_leaf(right):
    assert kinds(f"twice(a) = 2*a; x = {right}; y = x*1")["x"] == "leaf"


@pytest.mark.parametrize("right", ["x*1", "x + 0", "detach(x)", "-x", "+x*1", "d(x, x)", "q*0"])
def test_right_side_with_a_name_makes_an_intermediate(right):
    assert kinds(f"x = 1; y = {right}")["y"] == "intermediate"


def test_what_depends_on_constants_only_is_an_intermediate():
    assert kinds("const g = 2; y = g*3") == {"g": "const", "y": "intermediate"}


def test_bare_name_is_an_alias_of_the_same_node():
    found = resolve("x = 1; y = x; z = y; o = z*2")
    assert list(found.names) == ["x", "o"]
    assert found.find("z") is found.find("y") is found.find("x")
    assert found.names["x"].aliases == ("y", "z")


def test_alias_of_a_constant_is_a_leaf_of_its_own():
    assert kinds("x = pi; y = x*2") == {"x": "leaf", "y": "intermediate"}


def test_twins_stay_two():
    assert gradient("x = 2; y = 3; u = x*y; v = x*y; f = u*v") == {"x": 36.0, "y": 24.0}
    model = gradcli.parse("x = 2; y = 3; u = x*y; v = x*y; f = u + v")
    assert model.compile(wrt=["u", "v"]).run({}).gradients == {"u": 1.0, "v": 1.0}


def test_free_name_needs_a_value():
    assert kinds("y = x^2") == {"x": "free", "y": "intermediate"}
    with pytest.raises(BindingError, match="`x` has no value"):
        gradcli.parse("y = x^2").gradient()


def test_const_without_a_value():
    assert kinds("const g; y = g*x") == {"g": "const", "x": "free", "y": "intermediate"}
    assert value("const g; y = g*2", g="3") == 6


def test_bound_const_stays_a_const():
    found = resolve("const g = 1; x = 2; y = g*x", g="5")
    assert found.names["g"].kind == "const"
    assert Model(found).gradient() == {"x": 5.0}


# ---- shadowing -------------------------------------------------------------------------------------------------------


def test_later_definition_shadows():
    found = resolve("x = 1; x = x*2; x = x + 5; y = x")
    assert list(found.names) == ["x@1", "x@2", "x"]
    assert value("x = 1; x = x*2; x = x + 5; y = x*1") == 7


def test_last_definition_may_be_asked_for_by_its_number():
    found = resolve("x = 1; x = x*2; output x@2, x@1")
    assert found.outputs == ["x", "x@1"]
    assert found.find("x@3") is None


def test_names_in_claims_mean_that_line_and_in_domains_the_last():
    found = resolve("x = 1; claim x = 1; x = x*2; y = x*1; domain x < 9")
    graph = found.graph
    assert found.claims[0].left == found.names["x@1"].node
    assert found.names["x"].node in graph.arguments(found.domains[0].node)


def test_binding_of_an_earlier_definition():
    assert value("x = 1; x = x*2; y = x*1", **{"x@1": "5"}) == 10
    assert value("x = 1; x = x*2; y = x*1", **{"x@2": "5"}) == 5


# ---- functions -------------------------------------------------------------------------------------------------------


def test_function_sees_names_as_of_the_calling_line():
    assert value("a = 2; f(x) = x*a; p = f(1); a = 3; q = f(1); o = 10*p + q") == 23


def test_function_never_sees_parameters_of_its_caller():
    assert value("a = 2; f(x) = x*a; g(a) = f(1) + 0*a; o = g(100)") == 2
    assert kinds("f(x) = x*a; g(a) = f(1)*a; o = g(100)")["a"] == "free"


def test_parameter_hides_a_name_of_the_file():
    assert value("x = 100; f(x) = x + 1; o = f(2)*1") == 3


def test_function_and_variable_of_one_name_live_side_by_side():
    assert value("f = 3; f(x) = x*f; d = 2; o = f(d)*d") == 12


def test_function_that_replaces_a_built_in_gets_a_note():
    found = resolve("gelu(x) = 2*x; o = gelu(x)", x="3")
    assert [d.message for d in found.notes] == ["`gelu` replaces the built-in function of that name in this file"]
    assert [d.severity for d in found.notes] == ["note"]
    assert Model(found).compile().run({}).value == 6


@pytest.mark.parametrize("name", ["d", "detach"])
def test_d_and_detach_cannot_be_redefined(name):
    assert errors(f"«{name}»(x) = x; o = 1") == [f"`{name}` cannot be redefined"]


def test_direct_recursion():
    assert errors("f(x) = x + «f»(x - 1); o = f(1)") == ["function `f` calls itself"]


def test_indirect_recursion():
    assert errors("f(x) = g(x); g(x) = «f(x)»; o = f(1)") == ["function `f` calls itself through other functions"]


def test_function_called_above_its_definition():
    assert errors("o = «f»(1); f(x) = x") == ["function `f` is called above its definition on line 1"]


def test_errors_of_a_body_are_found_without_a_call():
    assert errors("f(x) = «sin(x, 1)»; o = 1") == ["`sin` takes 1 argument, got 2"]
    assert errors("f(x) = «sni»(x); o = 1") == ["unknown function `sni`"]


def test_wrong_number_of_arguments_of_a_users_function():
    assert errors("f(x, y) = x*y; o = «f(1)»") == ["`f` takes 2 arguments, got 1"]


def test_broken_function_is_reported_once():
    assert errors("f(x) = x +« »; g(x) = f(x); o = g(1)".replace("«", "").replace(" »", "«»")) == [
        "the expression ended after `+`"
    ]


def test_function_differentiates_by_its_parameter():
    assert value("slope(x) = d(x^3, x); o = slope(2)") == 12
    assert value("slope(x) = d(x^3, x); y = 2; o = slope(y + 1)") == 27


# ---- derivatives -----------------------------------------------------------------------------------------------------


def test_d_by_leaf_and_by_intermediate():
    assert value("x = 3; y = x^2; o = d(y^3, x)") == 6 * 3**5
    assert value("x = 3; y = x^2; o = d(y^3, y)") == 3 * 9**2


def test_d_of_several_names_is_nested():
    assert value("x = 2; y = 5; o = d(x^2*y^3, x, y)") == value("x = 2; y = 5; o = d(d(x^2*y^3, x), y)") == 300


def test_d_ignores_requires_grad_and_stops_at_detach():
    assert value("const g = 2; o = d(g^2, g)") == 4
    assert value("x = 2; o = d(detach(x)*x, x)") == 2


def test_d_without_dependence_is_zero():
    assert value("x = 2; y = 3; o = d(y^2, x)") == 0


def test_d_takes_a_name():
    assert errors("x = 1; o = «d(x^2, 2*x)»") == ["`d` differentiates by a name"]
    assert errors("x = 1; o = «d(x^2)»") == ["`d` takes a function and at least one name, got 1 argument"]


# ---- outputs ---------------------------------------------------------------------------------------------------------


def outputs(*texts: str) -> list[str]:
    return lower(Source([Part("m.expr", texts[0]), *(Part("-e", text) for text in texts[1:])])).outputs


def test_output_is_the_last_definition_or_expression():
    assert outputs("x = 1; y = x*2") == ["y"]
    assert outputs("x = 1; y = x*2; y + 1") == ["value"]
    assert outputs("x = 1; y = x*2; x") == ["x"]
    assert outputs("x = 1; y = x*2; output x, y") == ["x", "y"]
    assert outputs("x = 1; y = x*2; y + 1; output y") == ["y"]


def test_appended_expression_is_the_output():
    assert outputs("x = 1; o = x*2; output o", "d(o, x)*x") == ["value"]
    assert outputs("x = 1; x^2", "d(value, x)") == ["value"]
    assert outputs("x = 1; o = x*2", "output x") == ["x"]
    assert outputs("x = 1; o = x*2; output o", "q = 3*o") == ["o"]
    assert outputs("x = 1; o = x*2", "q = 3*o") == ["q"]


def test_expression_is_called_value_unless_the_text_has_that_name():
    assert kinds("x = 1; x + 1; expect value = 2") == {"x": "leaf", "value": "intermediate"}
    assert kinds("value*2", value="3") == {"value": "free", "value@2": "intermediate"}


def test_two_expressions_of_one_text():
    assert errors("x = 1; «x + 1»; x + 2") == ["an expression without a name, and not the last one, has no effect"]


# ---- values from the command line ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "want"), [("pi/4", 0.7853981633974483), ("-3", -3), ("2^-1", 0.5), ("+1e3", 1000)])
def test_value_is_a_constant_expression(text, want):
    assert value("x", x=text) == want


def test_value_may_be_a_column():
    assert list(value("x*1", x="[1, 2, 3]")) == [1, 2, 3]  # type: ignore[call-overload]


@pytest.mark.parametrize("text", ["y", "x", "", "1+", "f(1)", "[1, y]", "1 2", "1=2", "d(1, 1)", "[]"])
def test_value_that_is_no_number(text):
    with pytest.raises(BindingError, match="in `x="):
        resolve("x*y", x=text)


def test_value_uses_the_built_in_constants_whatever_is_bound():
    assert value("x*pi", x="pi", pi="2") == pytest.approx(6.283185307179586)


def test_binding_beats_a_constant():
    assert value("e*2", e="3") == 6
    assert kinds("e*2", e="3")["e"] == "free"


def test_binding_cuts_an_intermediate_with_a_note():
    found = resolve("x = 1; n = x*2; o = n*3", n="5")
    assert found.names["n"].kind == "leaf"
    assert [d.message for d in found.notes] == ["`n` is computed here, but `n=` on the command line replaces it"]


def test_binding_that_nothing_uses_is_not_used():
    assert resolve("x = 1; y = x*2", x="1", q="2").used == {"x"}


# ---- checks ----------------------------------------------------------------------------------------------------------


def test_claims_keep_their_spans_and_conditions():
    (claim,) = resolve("x = 1; y = x^2; claim slope: d(y, x) = 2*x if x > 0").claims
    assert (claim.name, claim.span.text) == ("slope", "claim slope: d(y, x) = 2*x if x > 0")
    assert (claim.left_span.text, claim.right_span.text) == ("d(y, x)", "2*x")
    assert claim.condition is not None


def test_expectations_keep_the_number_as_written():
    (expect,) = resolve("x = 1; y = x^2; expect d(y, x) = 2.00 rounded").expects
    assert (expect.text, expect.tolerance.kind, expect.left_span.text) == ("2.00", "rounded", "d(y, x)")


def test_domains_are_kept():
    (domain,) = resolve("x = 1; domain 0 < x <= 5; y = x*2").domains
    assert domain.span.text == "domain 0 < x <= 5"


@pytest.mark.parametrize("line", ["claim «q» = 1", "expect «q» = 1", "domain «q» > 1", "retain «q»", "output «q»"])
def test_name_that_only_a_check_has_is_unknown(line):
    assert errors(f"x = 1; y = x*2; {line}") == ["unknown name `q`"]


def test_name_that_a_check_has_first_may_be_free():
    assert kinds("claim sin(x)^2 + cos(x)^2 = 1; y = x*2")["x"] == "free"


def test_failed_claim_leaves_later_lines_alone():
    assert errors("x = 1; claim «sni»(x) = 1; y = x*q") == ["unknown function `sni`"]


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_use_above_the_definition_names_both_lines():
    assert errors("y = «x»*2\n\nx = 1") == ["`x` is used on line 1 but defined on line 3"]


def test_use_in_its_own_definition():
    assert errors("x = «x» + 1") == ["`x` is used in its own definition"]


def test_const_that_depends_on_names():
    assert errors("x = 1; const c = «2*x»; y = c") == ["the value of const `c` depends on other names"]


def test_list_of_names():
    assert errors("x = 1; y = «[x, 2]»") == ["a list holds numbers only"]


def test_unknown_function_offers_the_nearest():
    with pytest.raises(ModelError) as caught:
        resolve("y = taanh(x)")
    assert "did you mean `tanh`?" in (caught.value.diagnostics[0].help or "")


def test_logarithm_of_two_arguments_is_refused():
    assert errors("x = 2; y = «log(x, 10)»") == ["`log` takes 1 argument, got 2"]


def test_all_errors_of_a_text_in_one_run():
    text = "x = 1\ny = 2«x»\nz = «foo»(x)\nw = «sin(x, 2)»\nv = x +«»\noutput «q»\nclaim «p» = 1\no = y + z"
    assert errors(text) == [
        "missing operator between `2` and `x`",
        "unknown function `foo`",
        "`sin` takes 1 argument, got 2",
        "the expression ended after `+`",
        "unknown name `q`",
        "unknown name `p`",
    ]


def test_names_of_broken_lines_are_not_missed():
    assert errors("x = 2 +«»\ny = x*2\nz = y + x") == ["the expression ended after `+`"]


def test_twenty_errors_are_enough():
    with pytest.raises(ModelError) as caught:
        resolve("\n".join(f"y{i} = f{i}(x)" for i in range(500)))
    assert len(caught.value.diagnostics) == 21
    assert caught.value.diagnostics[-1].message == "480 more errors are not shown"


@pytest.mark.parametrize("text", ["", "  ", "\n\n", "# only a comment", ";", "\ufeff"])
def test_text_without_an_expression(text):
    with pytest.raises(ModelError, match="holds no expression"):
        resolve(text)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_lines_are_counted_whatever_ends_them(ends):
    with pytest.raises(ModelError) as caught:
        resolve(ends.join(["x = 1", "y = x^2", "z = x +", ""]))
    (found,) = caught.value.diagnostics
    assert found.span is not None
    assert found.span.place == "-e:3:8"
    assert found.render().splitlines()[1:3] == ["    z = x +", "           ^"]


# ---- size ------------------------------------------------------------------------------------------------------------


def ends(text: str) -> None:
    """A pass that is quadratic would take hours."""
    gc.disable()  # as the command does
    try:
        result = gradcli.parse(text).compile().run({"x": 1.0})
    finally:
        gc.enable()
    assert isinstance(result.gradients["x"], float)


def test_a_hundred_thousand_brackets():
    ends("(" * 100_000 + "x" + ")" * 100_000 + " + 1")


def test_a_chain_of_a_hundred_thousand_definitions():
    ends("y0 = x*1\n" + "\n".join(f"y{i} = y{i - 1} + 1" for i in range(1, 100_000)))


def test_a_sum_of_a_hundred_thousand_terms():
    ends(" + ".join(["x"] * 100_000))


def test_twenty_thousand_nested_sines():
    ends("sin(" * 20_000 + "x" + ")" * 20_000)


def test_a_thousand_chained_functions():
    text = "f0(x) = x + 1\n" + "\n".join(f"f{i}(x) = f{i - 1}(x) + 1" for i in range(1, 1000))
    assert value(f"{text}\nf999(0)") == 1000


@pytest.mark.parametrize("argument", ["x", "x*1", "2*x", "x*k"])
def test_functions_that_call_twice_do_not_explode(argument):
    """Sixty doublings are 2^60 calls, unless the same call is made once."""
    lines = [f"f{i}(x) = f{i - 1}({argument}) + f{i - 1}({argument})" for i in range(1, 61)]
    model = gradcli.parse("\n".join(["k = 1", "f0(x) = x", *lines, "o = f60(x)"]))
    scale = 2.0**60 if argument == "2*x" else 1.0
    assert (
        model.gradient(x=1.0) == {"k": 60.0 * 2**60, "x": 2.0**60}
        if argument == "x*k"
        else {
            "k": None,
            "x": 2.0**60 * scale,
        }
    )


def test_functions_that_differentiate_twice_do_not_explode():
    lines = [f"f{i}(x) = d(x^2, x) + f{i - 1}(2*x) + f{i - 1}(2*x)" for i in range(1, 31)]
    gradcli.parse("\n".join(["f0(x) = x", *lines, "o = f30(x)"]))


def test_thousands_of_unknown_names_are_no_square_of_work():
    with pytest.raises(ModelError):
        resolve("\n".join(f"y{i} = nofunction{i}(x) + sin(x, {i})" for i in range(20_000)))


@given(st.from_regex(r"(?:[0-9]{1,4}(?:\.[0-9]{0,4})?|\.[0-9]{1,4})(?:[eE][+-]?[0-9]{1,2})?", fullmatch=True))
def test_a_decimal_as_a_key_is_the_same_number(text):
    key = canonical(text)
    assert float(key) == float(text)
    assert key == canonical(key)
    if "e" not in text.lower():
        more = text + ("0" if "." in text else ".0")
        assert key == canonical("0" + text) == canonical(more)


def test_what_was_read_is_gone_without_a_collection(monkeypatch):
    made = []
    monkeypatch.setattr(
        "gradcli.language.lower._Lowerer", lambda *given: made.append(weakref.ref(it := _Lowerer(*given))) or it
    )
    gc.disable()
    try:
        resolve("x = 2; y = x^2; expect y = 4", x="3")
        assert made[0]() is None
    finally:
        gc.enable()


def test_a_name_is_found_by_its_number():
    """The last definition keeps the bare name; an expression that was asked before has its number as its label."""
    source = Source.of("x = 2; y = x; z = 3*x; z = z + 1").plus("x^2").plus("x^3")
    model = lower(source)
    found = {label: record and record.label for label in ("x@1", "y@1", "z@1", "z@2", "value@1", "value", "free@1")
             for record in (model.find(label),)}  # fmt: skip
    assert found == {
        "x@1": "x", "y@1": "x", "z@1": "z@1", "z@2": "z", "value@1": "value@1", "value": "value", "free@1": None,
    }  # fmt: skip
    assert lower(Source.of("y = w^2")).find("w@1") is None
