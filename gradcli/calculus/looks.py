"""What the rules of the simplifier look at, for its loop and for whole arrays."""

from __future__ import annotations

from gradcli.primitives import BOOLEAN, TABLE

TAKES_CONDITIONS = frozenset(("and", "or", "not", "_number"))
# What a node is to the rules: a scalar, a constant, a column that no rule looks at, or anything else.
SCALAR, CONSTANT, COLUMN, OTHER = 0, 1, 3, 9
# The sums of these over the operands of an operation that stays what it is; from COLUMN on its result is a column.
STAYS = frozenset((SCALAR, CONSTANT, COLUMN, COLUMN + CONSTANT, 2 * COLUMN))
UNSEEN = frozenset((SCALAR, COLUMN))
WITH_CONSTANT = frozenset((CONSTANT, COLUMN + CONSTANT))
ASK = frozenset(("neg", "div"))  # operations whose rules look at any constant
COMMUTES = frozenset(("add", "mul", "and", "or", "eq", "ne"))
NOTICED = BOOLEAN | {"neg", "spread"}  # operations whose results the rules look at
# The number of operands of the operations that may be copied unseen, unless a rule looks at one of these.
COPIED = {
    name: len(primitive.arguments)
    for name, primitive in TABLE.items()
    if primitive.ufunc and len(primitive.arguments) <= 2 and not primitive.reduction
    and name not in TAKES_CONDITIONS | {"eq", "ne"}
}  # fmt: skip


def look_of_number(value: float) -> int:
    """The rules look at 0, at 1 and at -1."""
    return OTHER if value in (0.0, 1.0, -1.0) else CONSTANT
