"""The house of design section 6, read from the imports: one way down, no cycles, small files, no back doors."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import gradcli

HOME = Path(gradcli.__file__).parent
FILES = sorted(HOME.rglob("*.py"))

# From the bottom up. A module may import what stands on a lower floor, and the other files of its own room.
FLOORS = (
    ("source", "errors", "columns", "results", "verdicts"),  # words
    ("descriptors",),  # of open files
    ("sparse",),  # of some nodes of a graph
    ("arrays",),  # of a large graph
    ("graph", "cotangent"),
    ("formulas",),  # of the table
    ("primitives",),
    ("language", "calculus"),
    ("engine",),
    ("formats", "reports", "runners"),  # rooms
    ("values", "leaves"),  # what goes in
    ("explain", "origins", "zeros"),  # why a number is what it is
    ("compiled",),
    ("api",),
    ("checking", "batching", "derivation", "readback", "digits"),  # what a command does with models
    ("cli", "pytest_plugin", "__main__", ""),  # doors; "" is the package itself, which exports lazily
)
HEIGHT = defaultdict(lambda: WORKSHOPS, {room: height for height, rooms in enumerate(FLOORS) for room in rooms})
KNOWN = frozenset(HEIGHT)
TOP = len(FLOORS) - 1
WORKSHOPS = TOP - 1  # also where a new room is taken to be until it has a place above

# The few arrows along a floor.
SIDEWAYS = {
    ("errors", "source"): "a diagnostic has a place",
    ("results", "columns"): "a result is made of columns",
    ("verdicts", "results"): "a gradient is a number",
    ("cotangent", "graph"): "a cotangent is a node and a mask",
    ("explain", "zeros"): "a zero has reasons of its own",
    ("derivation", "readback"): "what is written is read back",
    ("__main__", "cli"): "python -m gradcli is the command",
    ("cli", ""): "the version",
}
# Imports upward, each with its reason. Annotations alone do not load anything, but they are knowledge all the same.
UPWARD_TYPES = {
    ("arrays", "graph"): "works on the arrays of a graph: the parameter's type",
    ("explain", "api"): "explains a Program: the parameter's type",
    ("explain", "compiled"): "explains a Program: the parameter's type",
    ("compiled", "api"): "compiles a Model: the parameter's type",
    ("origins", "api"): "traces a Program: the parameter's type",
    ("zeros", "api"): "explains a Program: the parameter's type",
    ("readback", "derivation"): "reads back a derivative: the parameter's type",
}
UPWARD_LAZY: dict[tuple[str, str], str] = {}
ONLY_UNDER = {"click": {"cli"}}
ONLY_LAZILY = {"scipy", "sympy", "mpmath", "polars", "dask", "distributed", "pyarrow", "pandas", "llvmlite"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_METHODS = {"eval", "exec", "sympify", "parse_expr", "literal_eval", "lambdify"}

LINES = 400
FUNCTION_LINES = 40
LONG_FUNCTIONS: dict[tuple[str, str], str] = {}
MUTABLE = {("primitives.py", "TABLE"): "filled by `row` while the module loads, never afterwards"}


@dataclass(frozen=True)
class Import:
    """One import: from a module to a module, and whether it is for types or inside a function."""

    importer: str
    imported: str
    line: int
    types: bool
    lazy: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def dotted(path: Path) -> str:
    parts = path.relative_to(HOME.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_stands_on_a_floor():
    assert {room(dotted(path)) for path in FILES} - KNOWN == set()


def room(module: str) -> str:
    """`gradcli.language.lexer` is in the room `language`."""
    return module.partition(".")[2].partition(".")[0]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def height(module: str) -> int:
    """The floor of a module, counted from the bottom."""
    return HEIGHT[room(module)]


MODULES = frozenset(map(dotted, FILES))


def is_types_only(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(node.test)


def imports(path: Path) -> Iterator[Import]:
    module = dotted(path)

    def visit(node: ast.AST, types: bool, lazy: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(module, alias.name, child.lineno, types, lazy)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{module}:{child.lineno} imports relatively"
                for alias in child.names:
                    inner = f"{child.module}.{alias.name}"
                    yield Import(module, inner if inner in MODULES else child.module or "", child.lineno, types, lazy)
            elif isinstance(child, ast.Call) and ast.unparse(child.func).endswith("import_module"):
                named = [a for a in child.args if isinstance(a, ast.Constant)]  # a computed name is a table's affair
                yield from (Import(module, str(a.value), child.lineno, types, True) for a in named)
            within = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from visit(child, types or (isinstance(child, ast.If) and is_types_only(child)), within)

    yield from visit(tree(path), False, False)


ALL = [found for path in FILES for found in imports(path)]
OURS = [i for i in ALL if i.imported.partition(".")[0] == "gradcli"]


def goes_down(found: Import) -> bool:
    above, below = room(found.importer), room(found.imported)
    return above == below or HEIGHT[below] < HEIGHT[above] or (above, below) in SIDEWAYS


def test_imports_go_down():
    wrong = [
        str(i)
        for i in OURS
        if not goes_down(i)
        and (room(i.importer), room(i.imported)) not in (UPWARD_TYPES if i.types else UPWARD_LAZY if i.lazy else {})
    ]
    assert wrong == []


@pytest.mark.parametrize(("listed", "types"), [(UPWARD_TYPES, True), (UPWARD_LAZY, False)], ids=["types", "lazy"])
def test_every_listed_exception_is_still_needed(listed, types):
    used = {(room(i.importer), room(i.imported)) for i in OURS if i.types == types and not goes_down(i)}
    assert set(listed) - used == set()


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """Modules that reach themselves."""
    reach = {m: set(targets) for m, targets in edges.items()}
    for middle in reach:
        for targets in reach.values():
            if middle in targets:
                targets |= reach[middle]
    return sorted(m for m, targets in reach.items() if m in targets)


def test_no_module_imports_itself_in_a_ring():
    edges: dict[str, set[str]] = {m: set() for m in MODULES}
    for i in OURS:
        if not i.types and i.imported != "gradcli" and (room(i.importer), room(i.imported)) not in UPWARD_LAZY:
            edges[i.importer].add(i.imported)
    assert cycles(edges) == []


def test_nobody_below_the_doors_imports_the_package():
    assert [str(i) for i in OURS if i.imported == "gradcli" and height(i.importer) < TOP] == []


@pytest.mark.parametrize("library", sorted(ONLY_UNDER))
def test_a_library_of_one_room_stays_in_it(library):
    rooms = ONLY_UNDER[library]
    assert [str(i) for i in ALL if i.imported.partition(".")[0] == library and room(i.importer) not in rooms] == []


def test_heavy_libraries_are_imported_inside_functions():
    heavy = [i for i in ALL if i.imported.partition(".")[0] in ONLY_LAZILY]
    assert [str(i) for i in heavy if not (i.lazy or i.types)] == []


def test_the_words_import_numpy_at_most():
    words = [i for i in ALL if height(i.importer) == 0 and not i.types]
    outside = {i.imported.partition(".")[0] for i in words if not i.lazy}
    assert outside & (ONLY_LAZILY | set(ONLY_UNDER)) == set()


@pytest.mark.parametrize("path", FILES, ids=dotted)
def test_a_file_is_short(path):
    assert path.read_text(encoding="utf-8").count("\n") <= LINES


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, the docstring not counted."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_functions_are_short():
    long = {
        (str(path.relative_to(HOME)), f.name): code_lines(f)
        for path in FILES
        for f in functions(path)
        if code_lines(f) > FUNCTION_LINES
    }
    assert {key: n for key, n in long.items() if key not in LONG_FUNCTIONS} == {}
    assert set(LONG_FUNCTIONS) <= set(long), "an exception that is no longer needed"


def test_what_a_user_wrote_is_never_executed():
    wrong = []
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                f = node.func
                if (isinstance(f, ast.Name) and f.id in FORBIDDEN_CALLS) or (
                    (f.id if isinstance(f, ast.Name) else getattr(f, "attr", "")) in FORBIDDEN_METHODS
                ):
                    wrong.append(f"{dotted(path)}:{node.lineno} {ast.unparse(f)}")
    assert wrong == []


def test_nothing_is_unpickled():
    assert [str(i) for i in ALL if i.imported.partition(".")[0] in FORBIDDEN_MODULES] == []


MAKES_MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MUTABLE_TYPES = {"list", "dict", "set", "bytearray", "array", "defaultdict", "Counter", "deque", "OrderedDict"}
CHANGES = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "clear", "discard"}


def makes_mutable(value: ast.expr | None) -> bool:
    called = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in MUTABLE_TYPES
    return isinstance(value, MAKES_MUTABLE) or called


def module_variables(path: Path) -> Iterator[tuple[str, int]]:
    for node in tree(path).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and makes_mutable(node.value):
                yield target.id, node.lineno


def test_what_a_module_holds_is_a_constant_table():
    loud = [
        f"{dotted(path)}:{line} {name}"
        for path in FILES
        for name, line in module_variables(path)
        if name != name.upper() and name != "__all__"
    ]
    assert loud == []


def changed(path: Path) -> Iterator[tuple[str, int]]:
    """Names that functions of a file change in place, or rebind with `global`."""
    for function in functions(path):
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield from ((name, node.lineno) for name in node.names)
                continue
            touched = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                touched = node.func.value
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                touched = node.value
            if isinstance(touched, ast.Name):
                yield touched.id, node.lineno


def test_no_function_changes_a_table():
    tables = {name for path in FILES for name, _ in module_variables(path)}
    wrong = [
        f"{dotted(path)}:{line} {name}"
        for path in FILES
        for name, line in changed(path)
        if name in tables and (str(path.relative_to(HOME)), name) not in MUTABLE
    ]
    assert wrong == []


def test_below_the_doors_nothing_reads_the_environment():
    wrong = [
        f"{dotted(path)}:{node.lineno}"
        for path in FILES
        if height(dotted(path)) < TOP
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    ]
    assert wrong == []
