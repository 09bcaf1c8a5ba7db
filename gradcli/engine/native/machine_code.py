"""A program becomes machine code: for each phase one function over rows, all its registers values of LLVM.

    rows(columns, scalars, low, high)              rows low to high, a multiple of the vector width
    share(columns, scalars, next, rows, chunk)     chunks of rows, taken from a counter that threads share

`columns` points to the addresses of the inputs, the outputs and the columns to be reduced, `scalars` to the scalar
registers. Both run without the interpreter lock.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gradcli.engine.native import host
from gradcli.engine.native.emit import Code, Module, Value
from gradcli.engine.native.operations import Missing, apply
from gradcli.engine.program import Phase, Program

Rows = Callable[[int, int, int, int], None]
Share = Callable[[int, int, int, int, int], None]
MOST_OPERATIONS = 4000  # LLVM's time grows faster than the code
_OPTIMISE = 2

_ROWS = """define void @rows{n}(ptr %columns, ptr %scalars, i64 %low, i64 %high) {{
start:
{entry}
  br label %loop
loop:
  %i = phi i64 [%low, %start], [%next, %{label}]
{body}
  %next = add i64 %i, {width}
  %more = icmp ult i64 %next, %high
  br i1 %more, label %loop, label %done
done:
  ret void
}}
define void @share{n}(ptr %columns, ptr %scalars, ptr %counter, i64 %rows, i64 %chunk) {{
start:
  br label %take
take:
  %low = atomicrmw add ptr %counter, i64 %chunk seq_cst
  %end = add i64 %low, %chunk
  %over = icmp ugt i64 %end, %rows
  %high = select i1 %over, i64 %rows, i64 %end
  %left = icmp ult i64 %low, %rows
  br i1 %left, label %work, label %done
work:
  call void @rows{n}(ptr %columns, ptr %scalars, i64 %low, i64 %high)
  br label %take
done:
  ret void
}}
"""


class _Writer:
    """The function of one phase."""

    def __init__(self, module: Module, program: Program, phase: Phase) -> None:
        self.module, self.program, self.phase = module, program, phase
        self.code = Code(module, "loop")
        self.entry: list[str] = []
        self.body: list[str] = []
        self.registers: dict[int, Value] = {}
        self.tainted: set[int] = set()
        self.first_output = program.scalar_count + len(program.column_inputs)

    def text(self, number: int) -> str:
        outputs: dict[int, Value] = {}
        for op, out, arguments in self.phase.columns:
            self.registers[out] = value = apply(self.code, op, [self.read(a) for a in arguments])
            if 0 <= out - self.first_output < self.program.output_count:
                outputs[out - self.first_output] = value
        for source, output in self.phase.stores:
            outputs[output] = self.read(source)
        self._taint(outputs)
        for output, value in outputs.items():
            self._store(len(self.program.column_inputs) + output, value)
        place = len(self.program.column_inputs) + self.program.output_count
        for i, (_, source, _) in enumerate(self.phase.reductions):
            self._store(place + i, self.read(source))
        return _ROWS.format(
            n=number,
            entry="\n".join(self.entry),
            body="\n".join(self.code.lines),
            label=self.code.label,
            width=self.module.width,
        )

    def read(self, register: int) -> Value:
        found = self.registers.get(register)
        if found is None:
            inputs = register - self.program.scalar_count
            found = self.registers[register] = self._load(inputs) if inputs >= 0 else self._scalar(register)
        return found

    def _taint(self, outputs: dict[int, Value]) -> None:
        """Where an output is nan, its gradients of the same phase are nan."""
        plain = dict(outputs)
        for (column, number), source in zip(self.program.roots, self.program.taints, strict=True):
            if source < 0 or not column or number not in plain:
                continue
            from_column, output = self.program.roots[source]
            if from_column and output in plain:
                outputs[number] = apply(self.code, "_taint", [plain[number], plain[output]])
                self.tainted.add(number)

    def _scalar(self, register: int) -> Value:
        width, name = self.module.width, f"%s{register}"
        self.entry += [
            f"  {name}.p = getelementptr double, ptr %scalars, i64 {register}",
            f"  {name}.x = load double, ptr {name}.p",
            f"  {name}.v = insertelement <{width} x double> undef, double {name}.x, i64 0",
            f"  {name} = shufflevector <{width} x double> {name}.v, <{width} x double> undef, "
            f"<{width} x i32> zeroinitializer",
        ]
        return Value(self.code, name, "f")

    def _address(self, column: int) -> str:
        """The address of a column in row i."""
        self.entry += [
            f"  %c{column}.p = getelementptr ptr, ptr %columns, i64 {column}",
            f"  %c{column} = load ptr, ptr %c{column}.p",
        ]
        return f"getelementptr double, ptr %c{column}, i64 %i"

    def _load(self, column: int) -> Value:
        address = self._address(column)
        self.code.lines += [
            f"  %c{column}.i = {address}",
            f"  %c{column}.v = load {self.module.types['f']}, ptr %c{column}.i, align 1",
        ]
        return Value(self.code, f"%c{column}.v", "f")

    def _store(self, column: int, value: Value) -> None:
        address = self._address(column)
        self.code.lines += [
            f"  %c{column}.i = {address}",
            f"  store {self.module.types['f']} {value.name}, ptr %c{column}.i, align 1",
        ]


@dataclass(frozen=True)
class Compiled:
    """The functions of the phases that pass over rows, by number of the phase.

    `rest` says which nans are yet to be shared, if any; `engine` keeps the code alive.
    """

    width: int
    rows: dict[int, Rows]
    share: dict[int, Share]
    rest: Program | None
    engine: Any


def has_columns(phase: Phase) -> bool:
    return bool(phase.columns or phase.stores or phase.reductions)


def source(program: Program, width: int) -> tuple[str, set[int]]:
    """The LLVM text of a program, and the outputs that share their nans within it. Raises Missing."""
    module, functions, tainted = Module(width), [], set()
    for k, phase in enumerate(program.phases):
        if has_columns(phase):
            writer = _Writer(module, program, phase)
            functions.append(writer.text(k))
            tainted |= writer.tainted
    return module.text(functions), tainted


def _untainted(program: Program, tainted: set[int]) -> Program | None:
    """The program with the nans that its code does not share by itself."""
    taints = tuple([
        -1 if column and number in tainted else taint
        for (column, number), taint in zip(program.roots, program.taints, strict=True)
    ])  # fmt: skip
    return replace(program, taints=taints) if max(taints, default=-1) >= 0 else None


def _target() -> Any:
    """One for each program: its engine takes it over."""
    llvm, machine = host.binding(), host.host()
    assert machine is not None
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=machine.processor, features=machine.features, opt=_OPTIMISE
    )


def _compiled(program: Program) -> Compiled:
    llvm, machine = host.binding(), host.host()
    assert machine is not None
    text, tainted = source(program, machine.width)
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, _target())
    engine.finalize_object()
    rows_type = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
    share_type = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
    phases = [k for k, phase in enumerate(program.phases) if has_columns(phase)]
    return Compiled(
        machine.width,
        {k: rows_type(engine.get_function_address(f"rows{k}")) for k in phases},
        {k: share_type(engine.get_function_address(f"share{k}")) for k in phases},
        _untainted(program, tainted),
        engine,
    )


class Cache:
    """Compiled programs, each once and as long as its program lives. LLVM's context is used by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._found: dict[int, tuple[weakref.ref[Program], Compiled | str]] = {}

    def get(self, program: Program) -> Compiled | str:
        """The code of a program, or why it has none."""
        key = id(program)
        found = self._found.get(key)
        if found is None or found[0]() is not program:
            with self._lock:
                found = self._found.get(key)
                if found is None or found[0]() is not program:
                    found = self._found[key] = (weakref.ref(program, lambda _: self._forget(key)), self._make(program))
        return found[1]

    def _make(self, program: Program) -> Compiled | str:
        operations = sum(len(phase.columns) for phase in program.phases)
        if operations > MOST_OPERATIONS:
            return f"{operations} operations take LLVM too long"
        try:
            return _compiled(program)
        except Missing as fault:
            return f"`{fault}` has no native form here"

    def _forget(self, key: int) -> None:
        with self._lock:
            entry = self._found.get(key)
            if entry is not None and entry[0]() is None:
                del self._found[key]


@cache
def programs() -> Cache:
    return Cache()
