"""What a run returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # numpy.typing alone takes a tenth of the time that numpy takes
    import numpy as np
    from numpy.typing import NDArray

Column: TypeAlias = "NDArray[np.float64]"
Number: TypeAlias = "float | Column"


@dataclass(frozen=True)
class Result:
    """One evaluation. Each number is a float, or a float64 array of shape (rows,); with many digits a decimal text.

    `gradients` has every name that was asked for; None where there is none (`reasons` of the program says why).
    `retained` has the gradients of retained intermediates, `values` the value of every name that was asked for.
    """

    output: str
    value: Number
    gradients: Mapping[str, Number | None]
    retained: Mapping[str, Number | None] = field(default_factory=dict)
    values: Mapping[str, Number] = field(default_factory=dict)
    hessian: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    rows: int = 1

    @property
    def finite(self) -> bool:
        """Whether the value and all gradients are finite."""
        numbers = [n for n in (self.value, *self.gradients.values(), *self.retained.values()) if n is not None]
        columns = [n for n in numbers if not isinstance(n, float) and n.size]
        return all(isfinite(n) for n in numbers if isinstance(n, float)) and all(
            isfinite(n.min()) and isfinite(n.max()) for n in columns
        )
