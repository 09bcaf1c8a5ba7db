"""The plugin for pytest: opt-in, one test a check, failures that a person can read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from conftest import ROOT

BAD = "x = 0.5\ny = x^2\nclaim slope: d(y, x) = x\nclaim twice: d(y, x, x) = 2\n"


@pytest.fixture
def pytester_run(tmp_path):
    """pytest in a folder of its own, with the plugin loaded as its entry point would load it."""

    def call(*arguments, cwd=tmp_path):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PY_COLORS": "0"}
        environment.pop("PYTEST_ADDOPTS", None)
        words = [sys.executable, "-m", "pytest", "-p", "gradcli.pytest_plugin", *arguments]
        return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)

    return call


def test_samples_pass_through_the_plugin(pytester_run, tmp_path):
    samples = sorted(map(str, (ROOT / "samples").glob("*.expr")))
    junit = tmp_path / "junit.xml"
    found = pytester_run(
        "--gradcli",
        "-q",
        "-c",
        os.devnull,
        "-p",
        "no:cacheprovider",
        f"--junitxml={junit}",
        *samples,
        cwd=ROOT / "samples",
    )
    assert found.returncode == 0, found.stdout + found.stderr
    passed = int(re.search(r"(\d+) passed", found.stdout)[1])
    assert passed >= 2 * len(samples)
    assert len(list(ElementTree.parse(junit).getroot().iter("testcase"))) == passed


def test_nothing_is_collected_without_being_asked(pytester_run, tmp_path):
    (tmp_path / "m.expr").write_text(BAD)
    assert pytester_run("-q").returncode == 5
    (tmp_path / "pytest.ini").write_text("[pytest]\ngradcli = true\n")
    assert pytester_run("-q").returncode == 1


def test_failure_is_a_message_without_a_traceback(pytester_run, tmp_path):
    (tmp_path / "m.expr").write_text(BAD)
    found = pytester_run("--gradcli")
    assert "1 failed, 2 passed" in found.stdout
    assert "m.expr:3:1: error: claim `slope` is wrong at x=0.5: 1.0 on the left, 0.5 on the right" in found.stdout
    assert "Traceback" not in found.stdout
    assert "pytest_plugin.py" not in found.stdout


def test_k_selects_and_lf_repeats(pytester_run, tmp_path):
    (tmp_path / "m.expr").write_text(BAD)
    assert "1 passed, 2 deselected" in pytester_run("--gradcli", "-k", "twice").stdout
    assert "1 failed, 2 passed" in pytester_run("--gradcli").stdout
    assert re.search(r"= 1 failed(, 2 deselected)? in", pytester_run("--gradcli", "--lf").stdout)


def test_xdist(pytester_run, tmp_path):
    pytest.importorskip("xdist")
    for i in range(3):
        (tmp_path / f"m{i}.expr").write_text(BAD)
    found = pytester_run("--gradcli", "-p", "xdist", "-n", "2", "-q")
    assert "3 failed, 6 passed" in found.stdout


def test_broken_models_and_empty_ones_fail(pytester_run, tmp_path):
    (tmp_path / "broken.expr").write_text("y = 2 +\n")
    (tmp_path / "empty.expr").write_text("const g = 9.81\ny = 2*g\n")
    found = pytester_run("--gradcli")
    assert "2 failed" in found.stdout
    assert "broken.expr:1:" in found.stdout
    assert "empty.expr has nothing to check" in found.stdout


def test_nothing_heavy_is_imported_until_then():
    code = "import sys, gradcli.pytest_plugin; print({'numpy', 'sympy', 'click', 'polars'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_entry_point_is_declared():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"gradcli": "gradcli.pytest_plugin"}
