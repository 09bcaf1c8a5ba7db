"""Derivatives you can trust, from a shell, in CI, over a million rows.

>>> import gradcli
>>> gradcli.parse("x = 3; y = x^2").gradient()
{'x': 6.0}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gradcli.api import Model, Program, load, parse
    from gradcli.batching.arrow import arrow_function
    from gradcli.checking.run import check
    from gradcli.errors import BindingError, FileError, GradcliError, GradientError, ModelError
    from gradcli.results import Result
    from gradcli.verdicts import Check, Explanation

_HOMES = {
    "gradcli.api": ("Model", "Program", "load", "parse"),
    "gradcli.batching.arrow": ("arrow_function",),
    "gradcli.errors": ("BindingError", "FileError", "GradcliError", "GradientError", "ModelError"),
    "gradcli.checking.run": ("check",),
    "gradcli.results": ("Result",),
    "gradcli.verdicts": ("Check", "Explanation"),
}
__all__ = [
    "BindingError",
    "Check",
    "Explanation",
    "FileError",
    "GradcliError",
    "GradientError",
    "Model",
    "ModelError",
    "Program",
    "Result",
    "__version__",
    "arrow_function",
    "check",
    "load",
    "parse",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import gradcli` alone loads nothing."""
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(home), name)
    raise AttributeError(f"module 'gradcli' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names too, which are not loaded yet."""
    return sorted({*globals(), *__all__})
