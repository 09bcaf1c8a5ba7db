"""Verification without tolerances: engine, witness and function are evaluated to fifty digits at the same points.

`points` chooses where, `witness` differentiates again without the project's rules, `derivatives` and `claims` judge,
`hints` says how a wrong formula differs from the right one; `against` and `program` judge other programs' numbers.
"""
