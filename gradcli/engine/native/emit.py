"""The text of LLVM functions over vectors of doubles: values are numbered, so equal work is written once.

The project writes LLVM's own text rather than building its objects: a tenth of the time, and nothing to import.
No flag allows a fast or contracted form anywhere: what is written is what IEEE 754 gives.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_TYPES = {"f": "double", "i": "i64", "c": "i1"}
_METADATA = '!0 = !{!"branch_weights", i32 1, i32 1000000}\n!1 = !{i32 1}\n'


@dataclass(frozen=True, slots=True)
class Value:
    """A vector in a register: kind f(loats), i(ntegers of 64 bits) or c(onditions)."""

    code: Body
    name: str
    kind: str

    def _floats(self, op: str, other: Value | float, swap: bool = False) -> Value:
        pair = (self.code.value(other), self) if swap else (self, self.code.value(other))
        return self.code.emit("f", op + " {t} {0}, {1}", *pair)

    def __add__(self, other: Value | float) -> Value:
        return self._floats("fadd", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._floats("fsub", other)

    def __mul__(self, other: Value | float) -> Value:
        return self._floats("fmul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._floats("fdiv", other)

    def __radd__(self, other: float) -> Value:
        return self._floats("fadd", other, True)

    def __rsub__(self, other: float) -> Value:
        return self._floats("fsub", other, True)

    def __rmul__(self, other: float) -> Value:
        return self._floats("fmul", other, True)

    def __rtruediv__(self, other: float) -> Value:
        return self._floats("fdiv", other, True)

    def __neg__(self) -> Value:
        return self.code.emit("f", "fneg {t} {0}", self)

    def compare(self, predicate: str, other: Value | float) -> Value:
        """Floats: `olt`, `une`, ... as LLVM names them; integers: `slt`, `ne`, ..."""
        word = "fcmp" if self.kind == "f" else "icmp"
        return self.code.emit("c", f"{word} {predicate} {{{self.kind}}} {{0}}, {{1}}", self, self._like(other))

    def __lt__(self, other: Value | float) -> Value:
        return self.compare("olt", other)

    def __gt__(self, other: Value | float) -> Value:
        return self.compare("ogt", other)

    def __le__(self, other: Value | float) -> Value:
        return self.compare("ole", other)

    def __ge__(self, other: Value | float) -> Value:
        return self.compare("oge", other)

    def is_nan(self) -> Value:
        return self.compare("uno", self)

    def __and__(self, other: Value) -> Value:
        return self.code.emit(self.kind, f"and {{{self.kind}}} {{0}}, {{1}}", self, other)

    def __or__(self, other: Value) -> Value:
        return self.code.emit(self.kind, f"or {{{self.kind}}} {{0}}, {{1}}", self, other)

    def __invert__(self) -> Value:
        return self.code.emit("c", "xor {c} {0}, {1}", self, self.code.truth(True))

    def select(self, yes: Value | float, no: Value | float) -> Value:
        """`yes` where this condition holds, else `no`."""
        kind = yes.kind if isinstance(yes, Value) else no.kind if isinstance(no, Value) else "f"
        pair = [v if isinstance(v, Value) else self.code.number(v, kind) for v in (yes, no)]
        return self.code.emit(kind, f"select {{c}} {{0}}, {{{kind}}} {{1}}, {{{kind}}} {{2}}", self, *pair)

    def fma(self, factor: Value | float, term: Value | float) -> Value:
        """self*factor + term with one rounding: only where a function is built on it."""
        return self.code.intrinsic("fma", self, self.code.value(factor), self.code.value(term))

    def sqrt(self) -> Value:
        return self.code.intrinsic("sqrt", self)

    def floor(self) -> Value:
        return self.code.intrinsic("floor", self)

    def __abs__(self) -> Value:
        return self.code.intrinsic("fabs", self)

    def copysign(self, sign: Value | float) -> Value:
        return self.code.intrinsic("copysign", self, self.code.value(sign))

    def bits(self) -> Value:
        """The 64 bits of each double as an integer."""
        return self.code.emit("i", "bitcast {f} {0} to {i}", self)

    def double(self) -> Value:
        """The double that has these bits."""
        return self.code.emit("f", "bitcast {i} {0} to {f}", self)

    def plus(self, other: Value | int) -> Value:
        return self._integers("add", other)

    def minus(self, other: Value | int) -> Value:
        return self._integers("sub", other)

    def shifted_left(self, places: int) -> Value:
        return self._integers("shl", places)

    def shifted_right(self, places: int) -> Value:
        """Towards the low end, zeros coming in."""
        return self._integers("lshr", places)

    def masked(self, mask: int) -> Value:
        return self._integers("and", mask)

    def _integers(self, op: str, other: Value | int) -> Value:
        return self.code.emit("i", op + " {i} {0}, {1}", self, self._like(other))

    def _like(self, other: Value | float) -> Value:
        return other if isinstance(other, Value) else self.code.number(other, self.kind)


class Module:
    """What the functions of one program share: the width of a vector, declarations, helper functions."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.types = {kind: f"<{width} x {text}>" for kind, text in _TYPES.items()}
        self.types["t"] = self.types["f"]
        self.declared: dict[str, str] = {}  # by name: a declaration or a whole function

    def declare(self, name: str, arguments: int, scalar: bool = False, extra: str = "") -> str:
        """A function of doubles to a double, vectors or scalars; its name in the text."""
        kind = "double" if scalar else self.types["f"]
        takes = ", ".join([kind] * arguments) + extra
        self.declared.setdefault(name, f"declare {kind} @{name}({takes})\n")
        return f"@{name}"

    def each(self, name: str, arguments: int, extra: str = "", given: str = "") -> str:
        """A function over vectors that calls a scalar one for each of the lanes; its name in the text."""
        own = f"each.{name}"
        if own not in self.declared:
            called = self.declare(name, arguments, True, extra)
            vector = self.types["f"]
            lines, result = [], "undef"
            for lane in range(self.width):
                taken = []
                for i in range(arguments):
                    lines.append(f"  %x{i}.{lane} = extractelement {vector} %x{i}, i64 {lane}")
                    taken.append(f"double %x{i}.{lane}")
                lines.append(f"  %y{lane} = call double {called}({', '.join(taken)}{given})")
                lines.append(f"  %r{lane} = insertelement {vector} {result}, double %y{lane}, i64 {lane}")
                result = f"%r{lane}"
            takes = ", ".join(f"{vector} %x{i}" for i in range(arguments))
            body = "\n".join([*lines, f"  ret {vector} {result}"])
            self.declared[own] = f"define internal {vector} @{own}({takes}) noinline {{\n{body}\n}}\n"
        return f"@{own}"

    def text(self, functions: list[str]) -> str:
        return "".join([*self.declared.values(), *functions, _METADATA])


class Body:
    """The body of a loop, growing line by line. `label` is the block that the next line goes to."""

    def __init__(self, module: Module, label: str) -> None:
        self.module, self.label = module, label
        self.lines: list[str] = []
        self._known: dict[tuple[str, ...], Value] = {}
        self._numbers: dict[tuple[str, bytes], Value] = {}

    def emit(self, kind: str, template: str, *operands: Value) -> Value:
        """The value of an instruction, or of the equal one that is there already."""
        key = (template, *[o.name for o in operands])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Value(self, f"%v{len(self._known)}", kind)
            types = self.module.types
            self.lines.append(f"  {found.name} = {template.format(*[o.name for o in operands], **types)}")
        return found

    def number(self, number: float, kind: str = "f") -> Value:
        """The same number in every lane."""
        if kind == "f":
            image = struct.pack(">d", number)
            text = "double 0x" + image.hex().upper()
        else:
            image = struct.pack(">q", int(number))
            text = f"i64 {int(number)}"
        key = (kind, image)
        if key not in self._numbers:
            self._numbers[key] = Value(self, f"<{', '.join([text] * self.module.width)}>", kind)
        return self._numbers[key]

    def truth(self, truth: bool) -> Value:
        return Value(self, f"<{', '.join(['i1 true' if truth else 'i1 false'] * self.module.width)}>", "c")

    def value(self, operand: Value | float) -> Value:
        return operand if isinstance(operand, Value) else self.number(operand)

    def intrinsic(self, name: str, *operands: Value) -> Value:
        return self.call(self.module.declare(f"llvm.{name}.v{self.module.width}f64", len(operands)), *operands)

    def call(self, function: str, *operands: Value) -> Value:
        takes = ", ".join([f"{{t}} {{{i}}}" for i in range(len(operands))])
        return self.emit("f", f"call {{t}} {function}({takes})", *operands)

    def unlikely(self, condition: Value, usual: Value, function: str, *operands: Value) -> Value:
        """`usual`, but the result of a function in the lanes where a condition holds; not called when it holds nowhere.

        Each lane depends on itself alone, so a row has the same bits whatever its neighbours are.
        """
        key = ("unlikely", condition.name, usual.name, function)
        if key in self._known:
            return self._known[key]
        n, types, width = len(self._known), self.module.types, self.module.width
        vector, taken = types["f"], ", ".join([f"{types['f']} {o.name}" for o in operands])
        result = self._known[key] = Value(self, f"%v{n}", "f")
        self.lines += [
            f"  %any{n} = bitcast {types['c']} {condition.name} to i{width}",
            f"  %some{n} = icmp ne i{width} %any{n}, 0",
            f"  br i1 %some{n}, label %rare{n}, label %join{n}, !prof !0",
            f"rare{n}:",
            f"  %called{n} = call {vector} {function}({taken})",
            f"  %mixed{n} = select {types['c']} {condition.name}, {vector} %called{n}, {vector} {usual.name}",
            f"  br label %join{n}",
            f"join{n}:",
            f"  {result.name} = phi {vector} [{usual.name}, %{self.label}], [%mixed{n}, %rare{n}]",
        ]
        self.label = f"join{n}"
        return result
