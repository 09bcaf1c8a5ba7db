"""The native engine: the columns of a program as machine code, by way of LLVM (`gradcli[native]`).

Each phase becomes one function over a range of rows (`machine_code`): a straight line of vector instructions
(`operations`, `vectormath`) whose values never leave the processor's registers, so that a row costs its inputs and
outputs on the way to memory and little else. Scalars and the order of sums are those of `execute`.

The same bits for any block size and number of threads: every lane depends on itself alone, and the last rows that do
not fill a vector go through the same code, padded.
"""

from gradcli.engine.native.passes import available, refusal, run

__all__ = ["available", "refusal", "run"]
