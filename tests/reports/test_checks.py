"""Reports of checks that other tools read: JUnit XML, annotations of GitHub, SARIF, JSON."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

GOOD = "x = 0.5\ny = x^2\nclaim slope: d(y, x) = 2*x\n"
BAD = "x = 0.5\ny = x^2\nclaim slope: d(y, x) = x\nexpect y = 0.25\n"


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A repository with a good model and one whose claim is wrong."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "good.expr").write_text(GOOD)
    (tmp_path / "models" / "bad, one.expr").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_junit_keeps_file_and_line_seed_and_point(models, cli):
    assert cli("check", "models", "--report", "junit:out.xml").status == 1
    root = ElementTree.parse(models / "out.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "1", "0")
    (failed,) = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert (failed.get("name"), failed.get("file"), failed.get("line")) == ("claim slope", "models/bad, one.expr", "3")
    properties = {p.get("name"): p.get("value") for p in failed.iter("property")}
    assert properties["point x"] == "0.5"
    assert properties["seed"].isdigit()
    assert properties["replay"].startswith("gradcli grad 'models/bad, one.expr' -e")
    assert "is wrong at x=0.5" in failed.find("failure").get("message")


def test_junit_replaces_forbidden_characters_visibly(models, cli):  # pe12, schemathesis/schemathesis#4794
    path = models / "odd.expr"
    path.write_bytes(b"`a\x12b` = 1\ny = `a\x12b`^2\nclaim `t\xc2\x85`: y = 2 # \x1b\n")
    cli("check", str(path), "--report", "junit:out.xml")
    data = (models / "out.xml").read_bytes()
    assert not set(data) & (set(range(32)) - {9, 10, 13})
    root = ElementTree.fromstring(data)
    assert int(root.get("failures")) + int(root.get("errors")) >= 1


def test_junit_has_models_that_cannot_be_read(models, cli):
    (models / "models" / "broken.expr").write_text("x = 1\ny = 2 +\n")
    assert cli("check", "models", "--report", "junit:out.xml").status == 2
    root = ElementTree.parse(models / "out.xml").getroot()
    (error,) = root.iter("error")
    assert root.get("errors") == "1"
    assert "broken.expr" in error.text


def test_github_annotates_the_line_of_the_claim(models, cli):
    assert cli("check", "models", "--report", "github:out.txt").status == 1
    first, last = (models / "out.txt").read_text().splitlines()
    assert first.startswith(
        "::error file=models/bad%2C one.expr,line=3,col=1,endColumn=25,title=claim slope::claim `slope`"
    )
    assert "%0Asee it with `gradcli grad" in first
    assert last == "::notice::gradcli: 4 passed, 1 failed"


def test_github_path_is_relative_to_the_repository(models, cli, monkeypatch):
    monkeypatch.chdir(models / "models")
    found = cli("check", "bad, one.expr", "--report", "github:-")
    assert "::error file=models/bad%2C one.expr," in found.out


def test_github_shows_ten_and_a_summary(models, cli):
    text = "x = 0.5\ny = x^2\n" + "".join(f"claim y = {k}*x\n" for k in range(1, 16))
    (models / "many.expr").write_text(text)
    found = cli("check", "many.expr", "--report", "github:-", "--json")
    lines = found.err.splitlines()
    assert sum(line.startswith("::error ") for line in lines) == 10
    assert any(re.fullmatch(r"::notice::gradcli: 1 passed, 15 failed; 5 more than the 10 .*", line) for line in lines)
    assert len(found.records) == 17  # stdout stays JSON


def test_sarif_is_valid_and_stable(models, cli):
    cli("check", "models", "--report", "sarif:a.sarif")
    bad = models / "models" / "bad, one.expr"
    bad.write_text("# a line more\n" + bad.read_text())
    cli("check", "models", "--report", "sarif:b.sarif")
    one, two = (json.loads((models / f"{n}.sarif").read_text()) for n in "ab")
    valid(one)
    (first,), (second,) = one["runs"][0]["results"], two["runs"][0]["results"]
    assert first["ruleId"] == "gradcli/claim"
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "models/bad%2C%20one.expr"
    assert place["region"] == {"startLine": 3, "startColumn": 1, "endColumn": 25}
    assert first["partialFingerprints"] == second["partialFingerprints"]
    assert second["locations"][0]["physicalLocation"]["region"]["startLine"] == 4


def valid(log):
    """What the schema of SARIF 2.1.0 requires of the objects that are written, and the types of what they hold."""
    assert log["version"] == "2.1.0"
    assert set(log) <= {"$schema", "version", "runs"}
    for run in log["runs"]:
        assert set(run) <= {"tool", "results", "columnKind", "originalUriBaseIds"}
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        driver = run["tool"]["driver"]
        assert isinstance(driver["name"], str)
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(set(ids)) == len(ids)
        for result in run["results"]:
            assert isinstance(result["message"]["text"], str)
            assert result["level"] in ("none", "note", "warning", "error")
            assert ids[result["ruleIndex"]] == result["ruleId"]
            assert all(isinstance(v, str) for v in result["partialFingerprints"].values())
            for location in result["locations"]:
                region = location["physicalLocation"]["region"]
                assert all(isinstance(v, int) and v >= 1 for v in region.values())
                base = location["physicalLocation"]["artifactLocation"]["uriBaseId"]
                assert base in run["originalUriBaseIds"]


def test_json_document(models, cli):
    cli("check", "models", "--report", "json:out.json", "--report", "junit:out.xml")
    found = json.loads((models / "out.json").read_text())
    assert found["summary"]["failed"] == 1
    assert [c["verdict"] for c in found["checks"]].count("wrong") == 1
    assert (models / "out.xml").exists()


@pytest.mark.parametrize(("target", "said"), [
    ("junit:no/such/folder/a.xml", "cannot write `no/such/folder/a.xml`"),
    ("junit:models", "cannot write `models`"),
    ("junti:a.xml", "did you mean `junit`?"),
    ("junit", "names no file"),
])  # fmt: skip
def test_report_that_cannot_be_written_is_said_before_the_work(models, cli, target, said):
    found = cli("check", "models", "--report", target)
    assert found.status == 2
    assert said in found.err
    assert found.out == ""


def test_exit_zero_still_writes(models, cli):
    assert cli("check", "models", "--report", "sarif:a.sarif", "--exit-zero").status == 0
    assert (models / "a.sarif").exists()
