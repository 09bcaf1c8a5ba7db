"""Tables of other libraries as columns by name: polars and pandas frames, Arrow tables and batches, none imported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np


def by_name(table: Any, known: Collection[str]) -> Mapping[str, Any]:
    """A mapping as it is; of a table the columns that the model knows, a missing value as nan.

    Raises TypeError for what is neither.
    """
    if isinstance(table, Mapping):
        return table
    arrow = hasattr(table, "column_names")
    names = getattr(table, "column_names" if arrow else "columns", None)
    if names is None or not hasattr(table, "__getitem__"):
        raise TypeError(f"columns must be a mapping or a table, not {type(table).__name__}")
    return {n: _array(table.column(n) if arrow else table[n]) for n in names if n in known}


def _array(column: Any) -> Any:
    """One float64 array: `to_numpy` of polars and pandas, of Arrow where it may copy."""
    try:
        found = column.to_numpy(zero_copy_only=False)
    except TypeError:
        found = column.to_numpy()
    if found.dtype == object:  # integers or booleans with None among them
        found = np.array([np.nan if v is None or v != v else v for v in found.tolist()], dtype=np.float64)
    return np.ascontiguousarray(found, dtype=np.float64)
