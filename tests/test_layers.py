"""Who may import whom, and where numpy must wait for a function call."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import thinflow

PACKAGE = Path(thinflow.__file__).parent

# From the ground up. A part imports itself and the floors below its own, late and for types as well.
# `thinflow` is the package's own __init__: the public names, drawn together from everywhere.
FLOORS: tuple[frozenset[str], ...] = tuple(
    frozenset(floor.split())
    for floor in (
        "_version typing",
        "errors progress",
        "wire ir settings",
        "ops program",
        "tflite onnx keras coreml",
        "rewrite control_flow formats",
        "analysis interpreter",
        "decompose",
        "lift synthetic zoo",
        "transforms lower",
        "load quantize pages",
        "engines datasets fit",
        "compare bench cluster",
        "device",
        "optimize",
        "lint explorer deploy",
        "survey budgets",
        "api",
        "compat rewriting",
        "cli",
        "__main__",
    )
)
FLOOR_OF = {part: number for number, floor in enumerate(FLOORS) for part in floor}

EXCEPTIONS = {
    # Commands are written as users write: against the public names.
    ("cli", "thinflow"),
}

NUMPY_ONLY_IN_FUNCTIONS = {"wire", "ir", "settings", "formats", "cli", "errors", "thinflow", "__main__"}


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def part_of(file: Path) -> str:
    """The part that a source file belongs to."""
    first = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "thinflow" if first == "__init__" else first


SOURCES = {str(f.relative_to(PACKAGE)): f for f in sorted(PACKAGE.rglob("*.py"))}


def imports(tree: ast.AST, *, inside_functions: bool) -> Iterator[tuple[int, str, str]]:
    """Line, module and member of everything imported; the member of `import a.b` is "".

    Args:
        inside_functions: also what is imported late, and what is imported for types only.
    """
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, node.module or "", alias.name) for alias in node.names)
        elif not inside_functions and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
        elif inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def part_imported(module: str, member: str) -> str | None:
    """The part that an import reaches; None for other packages."""
    package, _, rest = module.partition(".")
    if package != "thinflow":
        return None
    if rest:
        return rest.partition(".")[0]
    # `from thinflow import verify` is the public function, not the module behind it.
    return "thinflow" if not member or member in thinflow.__all__ else member


@pytest.mark.parametrize("source", [s for s, f in SOURCES.items() if part_of(f) != "thinflow"])
def test_imports_go_down(source: str) -> None:
    part = part_of(SOURCES[source])
    assert part in FLOOR_OF, f"{source}: give the new part {part!r} a place in FLOORS"
    wrong = [
        f"line {line}: {part} may not import {f'{module}.{member}'.rstrip('.')}"
        for line, module, member in imports(parsed(SOURCES[source]), inside_functions=True)
        if not goes_down(part, part_imported(module, member))
    ]
    assert not wrong, f"{source}: " + "; ".join(wrong)


def goes_down(part: str, other: str | None) -> bool:
    """Whether a part may import another: it is the same, lies below, or is a listed exception."""
    if other in (None, part) or (part, other) in EXCEPTIONS:
        return True
    return other in FLOOR_OF and FLOOR_OF[other] < FLOOR_OF[part]


def test_no_exception_is_unused() -> None:
    used = {
        (part_of(file), part_imported(module, member))
        for file in SOURCES.values()
        for _, module, member in imports(parsed(file), inside_functions=True)
    }
    assert used >= EXCEPTIONS


def test_every_part_has_one_floor() -> None:
    assert sorted(FLOOR_OF) == sorted({part_of(f) for f in SOURCES.values()} - {"thinflow"})
    assert len(FLOOR_OF) == sum(map(len, FLOORS))


@pytest.mark.parametrize("source", [s for s, f in SOURCES.items() if part_of(f) in NUMPY_ONLY_IN_FUNCTIONS])
def test_numpy_waits_for_a_call(source: str) -> None:
    tree = parsed(SOURCES[source])
    lines = [
        line
        for line, module, _ in imports(tree, inside_functions=False)
        if module.partition(".")[0] in ("numpy", "ml_dtypes")
    ]
    assert not lines, f"{source} imports numpy when it is loaded, line {lines}; do it in the function"


ROOT = Path(__file__).parents[1]
OUTSIDE = sorted(
    f for folder in ("benchmarks", "docs", "examples", "scripts") for f in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("source", OUTSIDE, ids=lambda f: str(f.relative_to(ROOT)))
def test_what_lies_outside_imports_what_is_there(source: Path) -> None:
    """Nothing else runs the benchmarks: a name that moved would be missed when somebody measures."""
    wrong = []
    for line, module, member in imports(parsed(source), inside_functions=True):
        if module.partition(".")[0] != "thinflow":
            continue
        loaded = importlib.import_module(module)
        if member and not hasattr(loaded, member) and find_spec(f"{module}.{member}") is None:
            wrong.append(f"line {line}: {module} has no {member}")
    assert not wrong, "; ".join(wrong)


def test_import_walker_sees_what_runs() -> None:
    code = (
        "import a\n"
        "if TYPE_CHECKING:\n    import b\nelse:\n    import c\n"
        "def f():\n    from d import e\n"
        "class G:\n    import h\n"
    )
    tree = ast.parse(code)
    assert {module for _, module, _ in imports(tree, inside_functions=True)} == {"a", "b", "c", "d", "h"}
    assert {module for _, module, _ in imports(tree, inside_functions=False)} == {"a", "c", "h"}


def test_part_imported() -> None:
    assert part_imported("thinflow.ir.graph", "Graph") == "ir"
    assert part_imported("thinflow", "Graph") == "thinflow"
    assert part_imported("thinflow", "") == "thinflow"
    assert part_imported("thinflow", "verify") == "thinflow"
    assert part_imported("thinflow.compare.verify", "") == "compare"
    assert part_imported("thinflow", "wire") == "wire"
    assert part_imported("numpy", "random") is None
