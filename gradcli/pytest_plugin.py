"""A plugin for pytest, opt-in: `pytest --gradcli` (or `gradcli = true` in its ini) collects *.expr files as tests.

One test for each derivative, each claim and each expectation: `-k`, `--lf`, `-x` and xdist work on them. Nothing but
pytest is imported before a file is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradcli.api import Model
    from gradcli.source import Source


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradcli", "verify derivatives, claims and expectations in *.expr files")
    group.addoption("--gradcli", action="store_true", default=False, help="collect *.expr files as tests")
    group.addoption("--gradcli-points", type=int, default=None, help="how many points a check (default 8)")
    group.addoption("--gradcli-seed", type=int, default=None, help="move all points (default 0)")
    parser.addini("gradcli", "collect *.expr files as tests", type="bool", default=False)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ModelFile | None:
    wanted = parent.config.getoption("gradcli") or parent.config.getini("gradcli")
    if not wanted or file_path.suffix != ".expr":
        return None
    return ModelFile.from_parent(parent, path=file_path)


class Failed(Exception):
    """A check that did not pass, as the text that is shown."""


class ModelFile(pytest.File):
    """One model. What cannot be read fails as a test of its own, so that the others still run."""

    def collect(self) -> Iterator[pytest.Item]:
        from gradcli.api import Model, read_source
        from gradcli.checking.run import names_of
        from gradcli.errors import GradcliError
        from gradcli.language.lower import lower

        try:
            source = read_source(self.path)
            model = Model(lower(source))
        except GradcliError as fault:
            yield Broken.from_parent(self, name="model", fault=fault)
            return
        found = names_of(model)
        if not found:
            yield Broken.from_parent(self, name="model", fault=Failed(f"{self.path.name} has nothing to check"))
        for name, line in found:
            yield CheckItem.from_parent(self, name=name, line=line, model=model, source=source)


class Broken(pytest.Item):
    """A file that holds no model, or one with nothing to check."""

    def __init__(self, *, fault: Exception, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.fault = fault

    def runtest(self) -> None:
        raise Failed(str(self.fault))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return _shown(self, excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, 0, self.name


class CheckItem(pytest.Item):
    """One check of a model, by the name that `--only` knows."""

    def __init__(self, *, line: int, model: Model, source: Source, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.line, self.model, self.source = line, model, source

    def runtest(self) -> None:
        from gradcli.checking.messages import diagnostic, entry
        from gradcli.checking.run import Options, collect
        from gradcli.errors import GradcliError

        points, seed = (self.config.getoption(f"gradcli_{n}") for n in ("points", "seed"))
        options = Options(points or 8, seed or 0, exactly=self.name)
        try:
            checks, faults = collect(self.model, options)
        except GradcliError as fault:
            raise Failed(str(fault)) from None
        texts = [d.render() for d in faults]
        for check in checks:
            found = entry(str(self.path), self.source, check)
            if not found.passed:
                texts.append(diagnostic(self.source, found).render())
            self.user_properties += [("seed", check.seed), ("points", check.points)]
        if texts or not checks:
            raise Failed("\n".join(texts) or f"{self.name} tested nothing")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return _shown(self, excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, self.line - 1, f"{self.path.name}::{self.name}"


def _shown(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    """The message alone for what a check says; a traceback for anything else."""
    if isinstance(excinfo.value, Failed):
        return str(excinfo.value)
    return pytest.Item.repr_failure(item, excinfo)
