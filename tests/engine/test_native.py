"""Native code against numpy and 60 digits: special values, accuracy, the same bits whatever surrounds a row."""

from __future__ import annotations

import gc
import math
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gradcli
from gradcli.calculus.exact import Numbers
from gradcli.engine import execute, native
from gradcli.engine.execute import TILE
from gradcli.engine.memory import ALIGNMENT, PAGE, SMALL, Memory, address
from gradcli.engine.native import host, machine_code, passes
from gradcli.engine.native.machine_code import PROGRAMS
from gradcli.engine.program import Phase, Program
from gradcli.primitives import BOOLEAN, TABLE

pytestmark = pytest.mark.skipif(native.available() is not None, reason=f"no native code here: {native.available()}")

# What the engine may meet: every row that a ufunc computes elementwise.
ROWS = [name for name, row in TABLE.items() if row.ufunc and not row.ufunc.endswith(".reduce")]
SCIPY = [name for name in ROWS if str(TABLE[name].ufunc).startswith("special.") and name != "erf"]
NO_NATIVE_FORM = {"_zeta"}  # scipy has no C function for it
EXACT = {"floor", "ceil", "round", "trunc", "sign", "copysign", "fmod", "mod", "floordiv", "sqrt", "abs", "neg"}
EXACT |= {"add", "sub", "mul", "div", "_minimum", "_maximum", "_number", "where", *BOOLEAN}
ROUNDED = [name for name in ROWS if name not in EXACT and name not in SCIPY]
CANCELS = {"_logaddexp"}  # near its zeros in ulp of the larger argument, which it is a sum with
BOUND = 2.6  # ulp; the C library's asin, atan and atan2 are the worst
SPECIAL = [0.0, 5e-324, 1e-310, 2.3e-308, 1e-300, 1e-20, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 30.5, 709.78, 710.4]
SPECIAL += [711.0, 745.0, 746.0, 1e5, 2.0**29, 1e15 + 0.5, 1e22, 1e300, 1.7e308, math.inf]
SPECIAL = [*SPECIAL, *[-x for x in SPECIAL], math.nan]
RUNS = (1, 2, 3, 7, 8, 9, 31, TILE - 1, TILE, TILE + 1, 3 * TILE + 5)
WIDTHS = [w for w in (8, 4, 2) if (found := native.available() is None and host.host(w)) and found.width == w]


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Each width of vectors that this machine has, with programs compiled anew."""
    machine = host.host(request.param)
    monkeypatch.setattr(host, "host", lambda widest=8: machine)
    return request.param


def one(op: str) -> Program:
    """A program of one operation on columns."""
    count = len(TABLE[op].arguments)
    kind = op in BOOLEAN  # its result is a condition, then a number
    code = ((op, count + kind, tuple(range(count))),) + ((("_number", count, (count + 1,)),) if kind else ())
    phase = Phase((), code, (), ())
    labels = tuple("abc"[:count])
    return Program((), (), labels, -1, (phase,), ((True, 0),), (-1,), 0, 1, 0, int(kind), len(code))


def on(program: Program, columns: list[np.ndarray], **options) -> np.ndarray:
    values = dict(zip(program.column_inputs, columns, strict=True))
    return native.run(program, values, len(columns[0]), **options)[0]


def by_numpy(program: Program, columns: list[np.ndarray]) -> np.ndarray:
    return execute.run(program, dict(zip(program.column_inputs, columns, strict=True)), len(columns[0]))[0]


def machine(text: str, columns: list[str], **options) -> Program:
    return gradcli.parse(text).compile(**options).machine(frozenset(columns))


def special_columns(op: str) -> list[np.ndarray]:
    count = len(TABLE[op].arguments)
    values = SPECIAL if count < 3 else SPECIAL[::6]
    return [c.ravel().copy() for c in np.meshgrid(*[np.array(values)] * count)]


def bits(numbers: np.ndarray) -> bytes:
    return np.where(np.isnan(numbers), np.nan, numbers).tobytes()  # a nan is a nan


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [op for op in ROWS if op not in SCIPY])
def test_special_values_are_those_of_numpy(op: str, width: int) -> None:
    columns = special_columns(op)
    ours, theirs = on(one(op), columns), by_numpy(one(op), columns)
    with np.errstate(all="ignore"):
        terms = [np.abs(c) for c in columns] if op in CANCELS else []
        near = np.abs(ours - theirs) <= 6 * np.spacing(np.maximum.reduce([np.abs(theirs), *terms]))
    if op in EXACT:
        near[:] = False
    same = (ours == theirs) & (np.signbit(ours) == np.signbit(theirs)) | (np.isnan(ours) & np.isnan(theirs)) | near
    assert [(*[float(c[i]) for c in columns], ours[i], theirs[i]) for i in np.flatnonzero(~same)] == []


@pytest.mark.parametrize("op", SCIPY)
def test_special_functions_are_those_of_scipy(op: str) -> None:
    program = one(op)
    if op in NO_NATIVE_FORM:
        assert native.refusal(program) == f"`{op}` has no native form here"
        return
    rng = np.random.default_rng(0)
    columns = [
        rng.uniform(0.01, 0.99, 500) * (1 if i or op == "erfinv" else 3) for i in range(len(program.column_inputs))
    ]
    np.testing.assert_array_max_ulp(on(program, columns), by_numpy(program, columns), 2)


def numbers(low: float, high: float, rng: random.Random) -> list[float]:
    found = [math.ldexp(s * (1 + rng.random()), e) for e in range(-1020, 1020, 40) for s in (1, -1)]
    found += [
        edge + s * 10.0**-k * (1 + rng.random()) for edge in (1, -1, 0.5, 0.0) for k in range(1, 17) for s in (1, -1)
    ]
    found += [math.nextafter(k * math.pi / 2, s * math.inf) for k in (1, 2, 3, 8, 101, 10**5) for s in (1, -1)]
    for size, count in ((1, 60), (4, 60), (40, 40), (700, 30), (1e9, 10)):
        found += [rng.uniform(-size, size) for _ in range(count)]
    return [x for x in found if low < x < high]


@pytest.mark.parametrize("op", ROUNDED)
def test_accuracy(op: str, width: int) -> None:
    m, rng = Numbers(60), random.Random(op)
    lists = [numbers(*interval, rng) for interval in TABLE[op].domain]
    points = [(x,) for x in lists[0]]
    if len(lists) > 1:
        points = [tuple(rng.choice(column) for column in lists) for _ in range(400)]
        points += [(x, x * (1 + rng.uniform(-1e-3, 1e-3))) for x in rng.sample(lists[0], 60)]
    got = on(one(op), [np.array(column) for column in zip(*points, strict=True)])
    worst = (0.0, points[0], 0.0)
    for point, number in zip(points, got.tolist(), strict=True):
        want = m.raw(TABLE[op].exact(m, *[m.num(x) for x in point]))
        if 2.3e-308 < abs(float(want)) < 1.7e308:
            unit = math.ulp(max(map(abs, [float(want), *(point if op in CANCELS else ())])))
            worst = max(worst, (float(abs(m.context.mpf(number) - want)) / unit, point, number))
    assert worst[0] <= BOUND, worst


# ---- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [op for op in ROWS if op not in NO_NATIVE_FORM])
def test_a_row_does_not_depend_on_its_neighbours(op: str, width: int) -> None:
    program = one(op)
    columns = [c[: 3 * width] for c in special_columns(op)]
    if op in SCIPY:
        columns = [np.linspace(0.1, 0.9, 3 * width)] * len(columns)
    together = on(program, columns)
    alone = [on(program, [c[i : i + 1].copy() for c in columns])[0] for i in range(3 * width)]
    backwards = on(program, [c[::-1].copy() for c in columns])[::-1]
    assert bits(together) == bits(np.array(alone)) == bits(backwards)


TEXTS = {
    "a column": "y = exp(-x^2/2)/sqrt(2*pi) + sin(x*w)*tanh(w) + where(x > w, x % w, atan2(x, w)) + 1e9*cos(1e9*x)",
    "sums": "y = sum(x*w) + mean(tanh(x)) + max(x) - min(w) + prod(0.9 + 0.1*x)",
    "phases": "m = mean(x); y = sum((x - m)^2*w/sum(w)) + logsumexp(x*w)",
    "softmax": "y = dot(softmax(x), w)",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_blocks_threads_and_streaming_give_the_same_bits(
    text: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    for rows in RUNS:
        x, w = rng.uniform(-1.5, 1.5, rows), rng.uniform(0.5, 1.5, rows)
        program = machine(text, ["x", "w"])
        first = native.run(program, {"x": x, "w": w}, rows)
        for options in ({"threads": 1}, {"threads": 3}, {"block": 1}, {"block": 8192, "threads": 2}):
            again = native.run(program, {"x": x, "w": w}, rows, **options)
            assert [bits(np.asarray(a)) for a in again] == [bits(np.asarray(a)) for a in first]
        for past in (True, False):
            with monkeypatch.context() as patch:
                patch.setattr(passes, "beyond_cache", lambda _, past=past: past)
                again = native.run(program, {"x": x, "w": w}, rows)
            assert [bits(np.asarray(a)) for a in again] == [bits(np.asarray(a)) for a in first]


def test_the_last_cache_is_the_largest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, size in enumerate(("48K", "2048K", "32M", "unknown")):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(size + "\n")
    monkeypatch.setattr(host, "_CACHES", tmp_path)
    assert host.last_cache.__wrapped__() == 32 << 20
    monkeypatch.setattr(host, "_CACHES", tmp_path / "none")
    assert host.last_cache.__wrapped__() == 0


@pytest.mark.parametrize(("cache", "stays"), [(0, 32), (16, 32), (32, 32), (480, 240)])
def test_results_that_fit_half_of_the_cache_stay_in_it(cache: int, stays: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "last_cache", lambda: cache << 20)
    assert not passes.beyond_cache(stays << 20)
    assert passes.beyond_cache((stays << 20) + 1)


ARITHMETIC = {
    "rational": "y = (x - w)*(x + 3)/(1 + x^2*w)^3 - sqrt(w + 2)/(x*w + 4)",
    "steps": "y = abs(x)*floor(3*x) + round(w)*max(x, w, 0) - where(x < w and not x == 1, x % w, x // w)",
    "sums": "y = sum(x*w)/sum(w) - max(x)*min(w) + norm(x - w) + var(w) + prod(0.9 + 0.1*x)",
    "scalars": "a = 3; y = a*x + (a^2 - 1)/w - a",
}


@pytest.mark.parametrize("text", ARITHMETIC.values(), ids=ARITHMETIC)
def test_arithmetic_has_the_bits_of_numpy(text: str, width: int) -> None:
    rng = np.random.default_rng(1)
    for rows in RUNS:
        values = {"x": rng.uniform(-1.5, 1.5, rows), "w": rng.uniform(0.5, 1.5, rows), "a": 3.0}
        program = machine(text, ["x", "w"])
        ours, theirs = (engine(program, values, rows) for engine in (native.run, execute.run))
        assert [bits(np.asarray(a)) for a in ours] == [bits(np.asarray(a)) for a in theirs]


def test_where_an_output_is_nan_its_gradients_are(width: int) -> None:
    for text in ("y = log(x) + w*x", "y = sum(log(x)*w)", "y = log(x) + detach(sum(w))"):
        values = {"x": np.linspace(-1, 1, 21), "w": np.linspace(1, 2, 21)}
        program = machine(text, ["x", "w"])
        for ours, theirs in zip(native.run(program, values, 21), execute.run(program, values, 21), strict=True):
            assert (np.isnan(ours) == np.isnan(theirs)).all()
            np.testing.assert_allclose(ours, theirs, rtol=1e-14)


# ---- the machinery ---------------------------------------------------------------------------------------------------


def test_no_rows() -> None:
    values = {"x": np.empty(0)}
    assert native.run(machine("y = exp(x)", ["x"]), values, 0)[0].shape == (0,)
    assert native.run(machine("y = sum(x)", ["x"]), values, 0)[0] == 0.0


def test_results_go_into_the_arrays_of_the_caller_and_nothing_else_is_written() -> None:
    for rows in (3, 8, 4101):
        x = np.linspace(0, 1, rows)
        x.flags.writeable = False
        room = np.full((2, rows + 2), 7.0)
        found = native.run(machine("y = exp(x)", ["x"]), {"x": x}, rows, out=[r[1:-1] for r in room])
        assert found[0].base is room
        assert (room[:, [0, -1]] == 7.0).all()
        np.testing.assert_allclose(room[:, 1:-1], [np.exp(x)] * 2, rtol=1e-15)


def test_inputs_may_begin_anywhere() -> None:
    raw = np.zeros(8 * 5001 + 3, dtype=np.uint8)
    x = np.frombuffer(raw[3:], dtype=np.float64)
    x[:] = np.linspace(0, 1, 5001)
    np.testing.assert_allclose(native.run(machine("y = exp(x)", ["x"]), {"x": x}, 5001)[0], np.exp(x), rtol=1e-15)


def test_a_program_is_compiled_once_also_by_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    compiled = machine_code.Native._compiled
    monkeypatch.setattr(machine_code.Native, "_compiled", lambda self, s: made.append(s) or compiled(self, s))
    program, x, start = machine("y = exp(x)*sin(x)", ["x"]), np.linspace(0, 1, 1000), threading.Barrier(8)

    def work(_: int) -> bytes:
        start.wait()
        return native.run(program, {"x": x}, 1000)[0].tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(work, range(8)))) == 1
    assert made == [False]


def test_the_first_run_of_a_process_may_be_on_many_threads() -> None:
    """What all programs share is made once: a second one would take the code of the first from under its callers."""
    script = """
import numpy, sys
sys.setswitchinterval(1e-6)
import gradcli
x = numpy.linspace(0, 1, 400_000)
print(gradcli.parse("y = sin(x)*exp(x)").compile(engine="native").run({"x": x}, threads=4).value[-1])
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) == pytest.approx(math.sin(1) * math.e, rel=1e-15)


def test_the_code_of_a_program_goes_with_it() -> None:
    program = machine("y = exp(x)*cos(x)", ["x"])
    native.run(program, {"x": np.ones(9)}, 9)
    key = id(program)
    assert key in PROGRAMS._found
    del program
    gc.collect()
    assert key not in PROGRAMS._found


def test_very_large_programs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "MOST_OPERATIONS", 3)
    program = machine("y = exp(x)*(x + 1)", ["x"])
    reason = native.refusal(program)
    assert reason is not None
    assert "too long to compile" in reason
    with pytest.raises(ValueError, match="too long"):
        native.run(program, {"x": np.ones(1)}, 1)


def test_large_programs_have_the_same_bits_as_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"x": np.linspace(-3, 3, 101)}
    program = machine("y = " + " + ".join(f"sin(x*{k})*exp(-x/{k})" for k in range(1, 60)), ["x"])
    quickly = native.run(program, values, 101)
    monkeypatch.setattr(machine_code, "_OPTIMISED", 10**6)
    carefully = native.run(replace(program), values, 101)
    assert [bits(a) for a in quickly] == [bits(b) for b in carefully]


def test_functions_that_the_library_lacks_are_computed_lane_by_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "has_symbol", lambda name: not name.startswith("_ZGV"))
    x = np.linspace(0.1, 0.9, 1001)
    for op in ("asin", "atan2", "_power", "log2", "cbrt"):
        columns = [x, x[::-1].copy()][: len(TABLE[op].arguments)]
        np.testing.assert_array_max_ulp(on(one(op), columns), by_numpy(one(op), columns), 4)


def test_a_machine_without_llvmlite_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(host, "import_module", missing)
    for function in (host.binding, host.refusal):
        function.cache_clear()
    try:
        assert native.available() == "llvmlite is not installed (pip install 'gradcli[native]')"
    finally:
        for function in (host.binding, host.refusal):
            function.cache_clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    program, values = machine("y = exp(x)", ["x"]), {"x": np.linspace(0, 1, 100_000)}
    want = native.run(program, values, 100_000, threads=2)[0].tobytes()
    child = os.fork()
    if child == 0:
        os._exit(native.run(program, values, 100_000, threads=2)[0].tobytes() != want)
    assert os.waitpid(child, 0)[1] == 0


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_of_dropped_results_is_used_again_and_that_of_held_ones_is_not() -> None:
    memory, rows = Memory(), SMALL + 5
    first, second = memory.columns(2, rows)
    first[:], second[:] = 1.0, 2.0
    place, part = address(first), second[5:]
    del first, second
    gc.collect()
    third, fourth = memory.columns(2, rows)
    assert address(third) == place
    fourth[:] = 3.0
    assert (part == 2.0).all()


def test_memory_is_kept_for_one_size_and_one_run() -> None:
    memory, rows = Memory(), SMALL + 5
    held = [memory.columns(2, rows) for _ in range(3)]
    held.clear()
    gc.collect()
    assert len(memory._free) == 2
    memory.columns(1, rows + 1)
    gc.collect()
    assert {len(block.column) for block in memory._free} == {rows + 1}


def test_the_address_is_that_of_numpy_for_every_array() -> None:
    frozen = np.zeros(9)
    frozen.flags.writeable = False
    for column in (np.zeros(9), np.zeros(9)[2:], frozen, frozen[3:], np.empty(0), np.zeros(18)[::2], np.zeros(9)[::-1]):
        assert address(column) == column.__array_interface__["data"][0]


@pytest.mark.parametrize("rows", [1, 7, 8, 9, SMALL])
def test_columns_begin_at_cache_lines_and_do_not_overlap(rows: int) -> None:
    columns = Memory().columns(3, rows)
    assert [address(c) % ALIGNMENT for c in columns] == [0, 0, 0]
    assert not any(np.shares_memory(a, b) for a in columns for b in columns if a is not b)
    assert {c.shape for c in columns} == {(rows,)}


def test_no_column_begins_where_those_of_the_system_do() -> None:
    """At the same place of a page a read waits for a write of another column."""
    columns = Memory().columns(9, SMALL)
    places = [address(c) % PAGE for c in columns]
    assert len(set(places)) == 9
    assert min(places) >= 1024
    assert max(places) < 3840
