"""`gradcli explain` and `gradcli functions`."""

from __future__ import annotations

from gradcli.primitives import callable_rows

MODEL = "x = 2\nconst c = 3\nn = x*c\nu = 1\no = n^2"


def test_a_line_for_each_name(cli):
    found = cli("explain", "-e", MODEL)
    assert found.out.splitlines() == [
        "x\tis_leaf=true\trequires_grad=true\tretains_grad=false\tgrad=36.0\t`o` depends on it (line 1)",
        "c\tis_leaf=true\trequires_grad=false\tretains_grad=false\tgrad=none\t"
        "`const` on line 2 switched it off; write `c = ...` without `const`",
        "n\tis_leaf=false\trequires_grad=true\tretains_grad=false\tgrad=none\t`n` on line 3 is an intermediate and not "
        "retained; retain it with `--retain n`, or read the leaves that feed it: `x`",
        "u\tis_leaf=true\trequires_grad=true\tretains_grad=false\tgrad=none\t"
        "it is unused: `o` does not depend on it (line 4); use `u` on the way to `o`",
        "o\tis_leaf=false\trequires_grad=true\tretains_grad=false\tgrad=none\t`o` on line 5 is the output, which is "
        "not retained: its gradient is 1 and not kept; retain it with `--retain o`",
    ]


def test_names_behind_the_model(cli, tmp_path):
    path = tmp_path / "m.expr"
    path.write_text(MODEL)
    assert [line.split("\t")[0] for line in cli("explain", str(path), "n", "x").out.splitlines()] == ["n", "x"]
    assert cli("explain", str(path), "zz").status == 2
    assert cli("explain", str(path), "x=5", "x").out.split("\t")[4] == "grad=90.0"


def test_flags_mean_what_they_mean_in_grad(cli):
    def grads(*flags):
        return {r["name"]: r["grad"] for r in cli("explain", "-e", MODEL, "--json", *flags).records}

    assert grads("--retain", "n")["n"] == 12
    assert grads("--wrt", "n") == {"x": None, "c": None, "n": 12, "u": None, "o": None}
    assert grads("--no-grad", "x")["x"] is None
    assert grads("--of", "n")["x"] == 3


def test_json(cli):
    found = cli("explain", "-e", MODEL, "c", "--json").json
    assert found == {
        "schema": 1,
        "model": "-e",
        "output": "o",
        "name": "c",
        "is_leaf": True,
        "requires_grad": False,
        "retains_grad": False,
        "grad": None,
        "reason": "`const` on line 2 switched it off",
        "help": "write `c = ...` without `const`",
        "line": 2,
    }


def test_missing_values_are_no_error(cli):
    found = cli("explain", "-e", "x*y", "x=2")
    assert found.status == 0
    assert "there is no number: `y` has no value" in found.out


def test_retain_that_fails_is_a_warning(cli):
    found = cli("explain", "-e", "x = 1; m = detach(x); o = x*m; retain m", "m")
    assert found.status == 0
    assert "warning: `m` does not require grad" in found.err
    assert "`detach` on line 1 cuts it off" in found.out


# ---- functions -------------------------------------------------------------------------------------------------------


def test_every_row_is_listed(cli):
    listed = {record["name"] for record in cli("functions", "--json").records}
    assert listed == {primitive.name for primitive in callable_rows().values()}


def test_record_of_a_function(cli):
    found = next(r for r in cli("functions", "tanh", "--json").records if r["name"] == "tanh")
    assert found["arguments"] == ["x"]
    assert found["derivatives"] == {"x": "sech(x)^2"}
    assert found["domain"] == [["-Infinity", "Infinity"]]
    assert found["doc"]


def test_search_shows_rule_and_domain(cli):
    line = next(line for line in cli("functions", "arctanh").out.splitlines() if line.startswith("atanh"))
    signature, rule, domain, doc = line.split("\t")
    assert (signature, domain) == ("atanh(x)", "-1 <= x <= 1")
    assert rule.startswith("d/dx = 1/")
    assert "Also arctanh." in doc
