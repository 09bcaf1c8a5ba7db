"""The same bits for any block size and number of threads, one order of sums, and nothing that escapes."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import gradcli
from gradcli.engine.execute import BLOCK, block_rows, kernel
from gradcli.primitives import callable_rows

TILE = 4096
EDGES = (1, TILE - 1, TILE, TILE + 1, 3 * TILE + 5)
BLOCKS = (4096, 8192, 16384, 32768, 65536)
REDUCTIONS = ("sum", "mean", "prod", "var", "std", "norm", "logsumexp", "min", "max")
ROWS = {p.name: p for p in callable_rows().values() if not p.reduction and p.name != "d"}


def column(rows: int, seed: int = 0, low: float = 0.5, high: float = 1.5) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, rows)


def numbers(result) -> list:
    """Everything a result holds, in one order."""
    return [result.value, *result.gradients.values(), *result.retained.values(), *result.values.values()]


def bits(number) -> bytes:
    return np.ascontiguousarray(number, dtype=np.float64).tobytes()


def all_bits(result) -> list[bytes]:
    return [bits(n) for n in numbers(result) if n is not None]


def program(text: str, **options):
    return gradcli.parse(text).compile(**options)


@contextmanager
def refusal(word: str):
    """Either what stands inside holds, or it is refused in a sentence with `word` in it."""
    try:
        yield
    except (ValueError, gradcli.GradcliError) as refused:
        if word not in str(refused):
            raise


def in_a_tree(name: str, values: np.ndarray) -> float:
    """The one order of sums: tiles of 4096 rows, then neighbours; an odd last one goes up as it is."""
    function = getattr(np, name)
    level = [float(function.reduce(values[low : low + TILE])) for low in range(0, len(values), TILE)]
    while len(level) > 1:
        level = [
            float(function(*level[i : i + 2])) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)
        ]
    return level[0]


# ---- the same bits ----

MIXED = """
p = tanh(x*w + b); q = where(p > 0.2, sqrt(abs(y)), exp(-x)); m = max(x, y) - min(p, 0.3); c = clip(q, 0.2, 0.9)
o = p*q + m/c + x^3 - y^-2
"""


@pytest.mark.parametrize("rows", [*EDGES, 200_000])
def test_a_column_has_the_same_bits_for_any_block_and_threads(rows):
    run = program(MIXED, retain=["p"], show=["q"]).run
    values = {"x": column(rows), "y": column(rows, 1, -1, 1), "w": 0.7, "b": -0.3}
    want = all_bits(run(values, threads=1, block=BLOCKS[0]))
    configurations = [(1, 65536), (2, 4096), (3, 8192), (4, 16384), (4, 32768), (None, None)]
    for threads, block in configurations:
        assert all_bits(run(values, threads=threads, block=block)) == want, (threads, block)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("rows", EDGES)
def test_a_reduction_has_the_same_bits_for_any_block_and_threads(name, rows):
    run = program(f"o = {name}(x*w + y)").run
    values = {"x": column(rows), "y": column(rows, 1), "w": 1.25}
    want = all_bits(run(values, threads=1, block=TILE))
    for block in BLOCKS:
        for threads in (1, 2, 3, 4):
            assert all_bits(run(values, threads=threads, block=block)) == want, (threads, block)


def test_all_reductions_of_many_rows_have_the_same_bits_for_any_block_and_threads():
    text = "; ".join(f"o{i} = {name}(x*w + y)" for i, name in enumerate(REDUCTIONS))
    terms = " + ".join(f"o{i}" for i in range(len(REDUCTIONS)))
    run = program(f"{text}; o = {terms} + dot(x, y) + sum(softmax(x)*y)").run
    values = {"x": column(200_000), "y": column(200_000, 1, -0.5, 0.5), "w": 0.5}
    want = all_bits(run(values, threads=1, block=TILE))
    for threads, block in [(2, 4096), (4, 8192), (3, 16384), (2, 65536), (None, None)]:
        assert all_bits(run(values, threads=threads, block=block)) == want, (threads, block)


def inside(name: str, rows: int) -> dict[str, np.ndarray]:
    """Values in the domain of a function, with the odd one far out."""
    values = {}
    for seed, (argument, (low, high)) in enumerate(zip("abc", ROWS[name].domain, strict=False)):
        low, high = max(low, -20.0), min(high, 20.0)
        values[argument] = column(rows, seed, low + 1e-3 * (high - low), high - 1e-3 * (high - low))
        values[argument][::97] = np.resize(
            [-0.0, 1e300, -1e-310, 1e9, np.inf, -np.inf, np.nan], len(values[argument][::97])
        )
        values[argument][5::89] *= 1e-6
    if name.startswith(("bessel", "polygamma")):
        values["a"] = np.random.default_rng(9).integers(0, 4, rows).astype(float)
    return values


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_function_has_the_same_bits_in_any_block_and_alone(name):
    values = inside(name, TILE + 9)
    run = program(f"o = {name}({', '.join(values)})").run
    whole = run(values, threads=1, block=TILE)
    assert all_bits(run(values, threads=2, block=2 * TILE)) == all_bits(whole)
    columns = [n for n in numbers(whole) if n is not None]
    for row in (0, 1, 5, 96, 97, 98, 1000, TILE - 1, TILE, TILE + 8):
        alone = run({label: float(v[row]) for label, v in values.items()})
        np.testing.assert_array_equal([n for n in numbers(alone) if n is not None], [c[row] for c in columns])
        short = run({label: v[row : row + 1] for label, v in values.items()})
        np.testing.assert_array_equal([n[0] for n in numbers(short) if n is not None], [c[row] for c in columns])


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -5e-324, 1.0, -1e308])


@pytest.mark.parametrize("out", ["new", "a", "b"])
@pytest.mark.parametrize("yes", ["column", 0.0, -0.0, 2.5, np.nan])
@pytest.mark.parametrize("no", ["column", 0.0, -0.0, 2.5, np.nan])
def test_a_choice_has_the_bits_of_what_is_chosen(yes, no, out):
    a, b = (np.resize(SPECIAL, 90) if number == "column" else np.asarray(number) for number in (yes, no))
    b = b[::-1].copy() if b.ndim else b
    conditions = np.arange(90) // 10 % 2 == 1
    want = bits(np.where(conditions, a, b))
    target = {"a": a, "b": b}.get(out, np.empty(90))
    target = target if target.ndim else np.full(90, np.nan)
    kernel("where")(conditions, a, b, target)
    assert bits(target) == want
    for condition, chosen in ((np.asarray(1.0), a), (np.asarray(0.0), b)):
        target = np.empty(90)
        kernel("where")(condition, chosen, chosen, target)
        assert bits(target) == bits(np.broadcast_to(chosen, 90))


def test_a_program_of_many_registers_takes_less_rows_at_a_time():
    terms = [f"sin(x*{i})" for i in range(1, 400)]  # all are needed again, in the opposite order
    machine = program(f"({' * '.join(terms)}) + y").machine(frozenset("xy"))
    assert machine.float_count > 300
    assert block_rows(machine, 10**6, 2) == TILE


@pytest.mark.parametrize("rows", [0, 1, 4096, 16_384, 70_000, 100_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("workers", [1, 2, 3, 64])
def test_blocks_are_whole_tiles_and_shared_evenly(rows, workers):
    machine = program("x*y").machine(frozenset("xy"))
    block = block_rows(machine, rows, workers)
    assert block % TILE == 0
    assert TILE <= block <= BLOCK
    count = -(-rows // block)
    assert rows < workers * 4 * TILE or count >= workers
    if workers * BLOCK < rows:  # the last round of blocks is nearly full
        assert -(-count // workers) * workers * block < 1.2 * rows


@pytest.mark.parametrize("block", [1000, 5000])
def test_a_block_that_is_no_multiple_of_a_tile_is_refused_or_changes_no_sum(block):
    run = program("o = sum(x)").run
    x = column(3 * TILE + 5)
    want = run({"x": x}).value
    with refusal("block"):
        assert run({"x": x}, block=block).value == want


# ---- the order of sums ----


@pytest.mark.parametrize("rows", [*EDGES, 2 * TILE, 5 * TILE + 1, 200_000])
def test_sums_go_by_tiles_in_a_tree(rows):
    x, y = column(rows, 2, -1, 1), column(rows, 3)
    assert program("sum(x)").run({"x": x}).value == in_a_tree("add", x)
    assert program("dot(x, y)").run({"x": x, "y": y}).value == in_a_tree("add", x * y)
    assert program("mean(x)").run({"x": x}).value == in_a_tree("add", x) / rows
    assert program("norm(x)").run({"x": x}).value == np.sqrt(in_a_tree("add", x * x))
    assert program("prod(y)").run({"y": y}).value == in_a_tree("multiply", y)
    assert program("max(x)").run({"x": x}).value == x.max()
    assert program("min(x)").run({"x": x}).value == x.min()


def test_the_gradient_of_a_shared_number_is_summed_in_the_same_order():
    x = column(3 * TILE + 5, 4, -1, 1)
    assert program("sum(w*x)").run({"x": x, "w": 2.0}).gradients["w"] == in_a_tree("add", x)


def test_a_strided_column_gives_the_bits_of_a_contiguous_one():
    x = column(2 * (2 * TILE + 3), 5)
    run = program("o = sum(exp(x)*w)").run
    assert all_bits(run({"x": x[::2], "w": 3.0})) == all_bits(run({"x": x[::2].copy(), "w": 3.0}))
    assert all_bits(run({"x": x[::-1], "w": 3.0})) == all_bits(run({"x": x[::-1].copy(), "w": 3.0}))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_is_numpys_to_rounding(name):
    x = column(3 * TILE + 5, 6, 0.9, 1.1)
    want = {
        "sum": x.sum(),
        "mean": x.mean(),
        "prod": x.prod(),
        "var": x.var(ddof=1),
        "std": x.std(ddof=1),
        "norm": np.sqrt((x * x).sum()),
        "logsumexp": np.log(np.exp(x).sum()),
        "min": x.min(),
        "max": x.max(),
    }[name]
    assert program(f"{name}(x)").run({"x": x}).value == pytest.approx(want, rel=1e-11)


# ---- who owns what ----


def test_results_are_written_into_the_arrays_given():
    run = program("o = x*y").run
    values = {"x": column(9000), "y": column(9000, 1)}
    out = [np.full(9000, 7.0) for _ in range(3)]
    result = run(values, out=out)
    assert result.value is out[0]
    assert result.gradients["x"] is out[1]
    assert result.gradients["y"] is out[2]
    np.testing.assert_array_equal(out[0], values["x"] * values["y"])
    np.testing.assert_array_equal(out[1], values["y"])


def test_only_columns_take_an_array_given():
    out = [np.zeros(3)]
    result = program("o = sum(x*w)").run({"x": [1.0, 2.0, 3.0], "w": 2.0}, out=out)
    assert result.gradients["x"] is out[0]
    assert result.gradients["w"] == 6.0
    np.testing.assert_array_equal(out[0], [2, 2, 2])


def test_a_nan_of_a_scalar_output_reaches_the_arrays_given():
    out = [np.zeros(2)]
    result = program("sum(log(x))").run({"x": [-1.0, 2.0]}, out=out)
    assert result.gradients["x"] is out[0]
    assert np.isnan(out[0]).all()


def test_a_nan_of_a_row_reaches_the_arrays_given():
    out = [np.zeros(2), np.zeros(2)]
    program("log(x)").run({"x": [-1.0, 2.0]}, out=out)
    np.testing.assert_array_equal(out[1], [np.nan, 0.5])


@pytest.mark.parametrize("row", [0, 4095, 4096, 69_999, 70_000, 149_999])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_nan_in_any_block_reaches_its_row_and_no_other(row, threads):
    x = column(150_000)
    x[row] = -1.0
    run = program("x*log(x)*w", engine="numpy").run
    result = run({"x": x, "w": x + 2.0}, threads=threads)
    for found in (result.value, result.gradients["x"], result.gradients["w"]):
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(found)), [row])
    x[row] = 1.0
    assert not any(np.isnan(found).any() for found in numbers(run({"x": x, "w": x + 2.0}, threads=threads)))


def test_a_nan_of_one_phase_reaches_the_gradients_of_another():
    x = column(9000)
    x[7] = np.nan
    result = program("w = x*log(x/mean(detach(x))); w", engine="numpy").run({"x": x}, threads=2)
    assert np.isnan(result.value).all()
    assert np.isnan(result.gradients["x"]).all()


@pytest.mark.parametrize(
    "out",
    [
        [],
        [np.zeros(2)],
        [np.zeros(2), np.zeros(3)],
        [np.zeros(2), np.zeros(2, dtype=np.float32)],
        [np.zeros(2), np.zeros((2, 1))],
    ],
    ids=["none", "too few", "wrong length", "float32", "two dimensions"],
)
def test_arrays_that_do_not_fit_are_refused(out):
    with pytest.raises((gradcli.GradcliError, ValueError, TypeError), match="out"):
        program("x*x").run({"x": [1.0, 2.0]}, out=out)


@pytest.mark.parametrize("text", ["o = x", "o = x + 0", "o = [1, 2, 3]; w = x; p = o*w"])
def test_a_result_shares_no_memory_with_an_input_or_an_earlier_result(text):
    model = gradcli.parse(text)
    compiled = model.compile(show=["x"])
    x = np.array([1.0, 2.0, 3.0])
    first = compiled.run({"x": x})
    kept = all_bits(first)
    arrays = [n for n in numbers(first) if isinstance(n, np.ndarray)]
    assert not any(np.shares_memory(a, x) for a in arrays)
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in arrays[i + 1 :])
    for a in arrays:
        a[:] = 99
    assert all_bits(compiled.run({"x": x})) == kept
    np.testing.assert_array_equal(x, [1, 2, 3])


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_a_result_that_is_held_is_not_written_by_the_next_run(engine):
    compiled = program("x*x*y", engine=engine)
    values = [{"x": column(50_000, i), "y": column(50_000, i + 9)} for i in range(4)]
    results = [compiled.run(v) for v in values]
    views = [r.gradients["x"][10:20] for r in results]
    fresh = [all_bits(r) for r in results]
    kept = [bits(v) for v in views]
    del results
    for v, expected in zip(values, fresh, strict=True):
        assert all_bits(compiled.run(v)) == expected
    assert [bits(v) for v in views] == kept


def test_programs_in_turn_on_one_thread_do_not_mix():
    """The registers of a thread are kept: two programs of different size, in turn, give what they give alone."""
    small, large = program("sin(x)*x"), program("exp(sin(x)*w)*tanh(x*w)/(x + w)^2")
    values = {"x": column(70_000), "w": column(70_000, 1)}
    alone = all_bits(large.run(values, threads=1))
    assert all_bits(small.run({"x": values["x"]}, threads=1)) == all_bits(small.run({"x": values["x"]}, block=4096))
    assert all_bits(large.run(values, threads=1)) == alone


def test_an_input_is_never_written():
    x = column(9000)
    x.flags.writeable = False
    program(MIXED).run({"x": x, "y": x, "w": 1.0, "b": 0.0}, threads=2)


# ---- edges ----


def test_no_rows_give_columns_of_no_rows():
    result = program("o = exp(x)*w").run({"x": [], "w": 2.0})
    assert result.value.shape == (0,)
    assert result.gradients["w"].shape == (0,)
    assert result.rows == 0


def test_reductions_of_no_rows_are_those_of_an_empty_set():
    def at_none(text):
        return program(text).run({"x": [], "w": 2.0}).value

    assert at_none("sum(x*w)") == 0.0
    assert at_none("prod(x*w)") == 1.0
    assert at_none("norm(x*w)") == 0.0
    assert np.isnan(at_none("mean(x*w)"))
    assert np.isnan(at_none("max(x*w)"))
    assert program("sum(x*w)").run({"x": [], "w": 2.0}).gradients["w"] == 0.0


def test_one_row_is_a_column_of_one_row():
    result = program("o = x*w").run({"x": [3.0], "w": 2.0})
    np.testing.assert_array_equal(result.value, [6.0])
    np.testing.assert_array_equal(result.gradients["w"], [3.0])


def test_one_row_and_many_are_different_lengths():
    with pytest.raises(gradcli.BindingError, match="different lengths"):
        program("o = x*y").run({"x": [3.0], "y": [1.0, 2.0]})


# ---- threads ----


def test_one_program_runs_in_four_threads_at_once():
    compiled = program(MIXED + "; s = sum(o*x)", of="s", retain=["p"])
    inputs = [{"x": column(30_000, k), "y": column(30_000, k + 50, -1, 1), "w": 0.1 * k, "b": 0.2} for k in range(8)]
    want = [all_bits(compiled.run(values, threads=1)) for values in inputs]
    together = threading.Barrier(4)

    def work(k):
        if k < 4:
            together.wait(timeout=30)
        return all_bits(compiled.run(inputs[k], threads=2))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == want


def test_a_program_compiled_by_many_threads_is_compiled_once_for_each_shape():
    compiled = program("o = sum(x*w)")
    together = threading.Barrier(8)

    def work(k):
        together.wait(timeout=30)
        return compiled.machine(frozenset(("x",) if k % 2 else ()))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(map(id, pool.map(work, range(8))))) == 2


@pytest.mark.parametrize("threads", [0, -1])
def test_a_number_of_threads_below_one_is_refused_or_means_the_default(threads):
    run = program("o = sum(x)").run
    x = column(3 * TILE)
    with refusal("threads"):
        assert run({"x": x}, threads=threads).value == in_a_tree("add", x)


# ---- no warning escapes ----

FAULTS = (
    "o = log(x) + 1/x + exp(x*1e6) + sqrt(x) + x^x + acos(x)*atanh(x) + max(x, 1e308)*10 + clip(x, -1, 1) + mod(x, 0)"
)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("rows", [0, 1, 20_000])
def test_no_warning_escapes_and_no_fault_is_raised(threads, rows):
    x = np.resize([0.0, -1.0, 1e308, 1e-308, np.inf, -np.inf, np.nan, 5.0], rows)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        program(FAULTS).run({"x": x}, threads=threads, block=TILE)
        program(FAULTS.replace("o =", "q =") + "; o = sum(q) + var(x) + prod(x) + logsumexp(x)").run(
            {"x": x}, threads=threads
        )


@pytest.mark.parametrize("name", sorted(ROWS))
def test_no_warning_escapes_from_a_function(name):
    specials = np.array([0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e308, -1e308, 1e-310, 30.0])
    labels = "abc"[: len(ROWS[name].domain)]
    values = {label: np.roll(specials, 5 * i) for i, label in enumerate(labels)}
    compiled = program(f"o = {name}({', '.join(labels)})")
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        compiled.run(values)
        for row in range(len(specials)):
            compiled.run({label: float(v[row]) for label, v in values.items()})


def test_no_warning_escapes_from_numbers_of_the_text():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        model = gradcli.parse("a = 1/0; b = [1e308*10, 0/0, log(-1)]; y = sum(a*b)*exp(1e9)")
        assert np.isnan(model.compile().run().value)


def test_no_warning_escapes_from_values_given():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert program("sum(x)").run({"x": np.array([np.longdouble("1e400")])}).value == np.inf


@pytest.mark.parametrize("state", ["warn", "raise", "ignore", "print"])
def test_the_callers_error_state_is_left_alone(state):
    with np.errstate(all=state):
        before = np.geterr()
        program(FAULTS).run({"x": np.zeros(20_000)}, threads=4, block=TILE)
        program(FAULTS).run({"x": 0.0})
        assert np.geterr() == before


def test_a_fault_is_a_value():
    result = program("log(x)/y").run({"x": [0.0, -1.0, 1.0], "y": [1.0, 1.0, 0.0]})
    np.testing.assert_array_equal(result.value, [-np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(result.gradients["x"], [np.inf, np.nan, np.nan])
