"""Who may import whom, and where numpy must wait for a function call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import thinflow

PACKAGE = Path(thinflow.__file__).parent

# part -> the parts it may import besides itself. `thinflow` is the package's own __init__: the public names.
LAYERS: dict[str, set[str]] = {}
LAYERS["errors"] = set()
LAYERS["wire"] = {"errors"}
LAYERS["ir"] = {"errors"}
LAYERS["ops"] = {"errors", "ir"}
# LiteRT programs in memory and in files: read as graphs by `formats`, made from graphs by `lower`.
LAYERS["tflite"] = {"errors", "wire", "ir"}
LAYERS["formats"] = {"errors", "wire", "ir", "tflite"}
LAYERS["analysis"] = {"errors", "ir", "ops", "differences"}
LAYERS["frames"] = {"errors", "ir"}
LAYERS["calls"] = {"errors", "ir", "frames"}
LAYERS["interpreter"] = {"errors", "ir", "ops", "frames", "calls"}
LAYERS["rewrite"] = {"errors", "ir"}
LAYERS["structuring"] = {"errors", "ir", "ops", "frames"}
LAYERS["transforms"] = {
    *("errors", "ir", "ops", "rewrite", "analysis", "interpreter"),
    "frames",
    "structuring",
}
# The door for transforms that others write.
LAYERS["rewriting"] = {*LAYERS["transforms"], "transforms", "formats", "wire"}
LAYERS["freezing"] = {"errors", "ir", "formats", "rewrite", "analysis", "transforms", "interpreter"}
LAYERS["opening"] = {"errors", "ir", "formats", "analysis", "freezing"}
LAYERS["drawing"] = {"errors", "ir"}
LAYERS["synthetic"] = {"errors", "wire", "ir", "rewrite", "analysis"}
LAYERS["decompose"] = {"errors", "ir", "ops", "analysis"}
LAYERS["lower"] = {
    *("errors", "wire", "ir", "ops", "rewrite", "analysis", "frames", "tflite"),
    *("structuring", "decompose"),
}
LAYERS["lifting"] = {"errors", "ir", "ops", "analysis"}
LAYERS["differences"] = set()
LAYERS["litert"] = set()
LAYERS["equivalence"] = {"errors", "ir", "ops", "interpreter", "differences"}
LAYERS["engines"] = {
    *("errors", "ir", "ops", "formats", "analysis", "frames", "calls", "lower", "interpreter", "litert"),
    "opening",
    "lifting",
    "structuring",
}
LAYERS["inference"] = {"errors", "ir", "formats", "opening", "analysis", "calls", "interpreter", "engines"}
LAYERS["diverging"] = {"errors", "ir", "ops", "analysis", "interpreter", "differences"}
LAYERS["labelling"] = {"errors", "ir", "engines", "interpreter"}
LAYERS["registration"] = {"errors", "ir", "ops"}
LAYERS["stats"] = {"errors", "ir", "formats", "opening", "analysis", "interpreter", "engines", "bench"}
LAYERS["verify"] = {
    "analysis",
    "diverging",
    "errors",
    "ir",
    "ops",
    "rewrite",
    "interpreter",
    "synthetic",
    "engines",
    "differences",
    "equivalence",
    "layer_differences",
}
LAYERS["diffing"] = {
    *("errors", "ir", "ops", "formats", "analysis", "verify"),
    *("inner_pairs", "layer_differences"),
}
LAYERS["port_pairs"] = {"errors", "ir"}
LAYERS["common_ends"] = {"errors", "ir", "engines", "port_pairs"}
LAYERS["layer_differences"] = {"differences"}
LAYERS["inner_pairs"] = {"errors", "ir", "formats", "port_pairs"}
LAYERS["reducing"] = {
    *("errors", "ir", "ops", "rewrite", "analysis", "formats", "interpreter", "differences"),
    *("synthetic", "engines", "verify", "transforms"),
}
LAYERS["inner_values"] = {
    *("errors", "wire", "ir", "formats", "analysis", "engines", "litert", "diverging"),
    *("layer_differences", "inner_pairs", "port_pairs"),
}
LAYERS["own_runtime"] = {"errors", "ir", "synthetic", "engines", "differences", "inner_values", "port_pairs"}
LAYERS["side_by_side"] = {
    *("errors", "ir", "synthetic", "engines", "differences", "verify"),
    *("inner_values", "port_pairs", "common_ends", "own_runtime"),
}
LAYERS["quantize"] = {*LAYERS["transforms"], "transforms", "lower", "tflite"}
LAYERS["bench"] = {
    *("errors", "ir", "analysis", "interpreter", "lower", "formats", "synthetic", "engines", "litert"),
    "opening",
}
LAYERS["optimizing"] = {
    *LAYERS["quantize"],
    "formats",
    "synthetic",
    "quantize",
    "engines",
    "verify",
    "differences",
    "bench",
    "thinflow",
    "api",
}
LAYERS["zoo"] = {"errors", "ir", "formats", "ops", "interpreter"}
LAYERS["api"] = set(LAYERS)
LAYERS["cli"] = {"errors", "api", "zoo", "thinflow"}
LAYERS["thinflow"] = {"errors", "ir", "api", "engines", "inference", "rewriting", "stats"}
LAYERS["__main__"] = {"cli"}

NUMPY_ONLY_IN_FUNCTIONS = {"wire", "ir", "formats", "cli", "errors", "thinflow", "__main__"}


for imports in LAYERS.values():  # everything that prints or raises, and has signatures
    imports |= {"plain_text", "typing"}
LAYERS["plain_text"] = set()
LAYERS["typing"] = set()


def part_of(file: Path) -> str:
    """The row of the table a source file belongs to."""
    first = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "thinflow" if first == "__init__" else first


SOURCES = {str(f.relative_to(PACKAGE)): f for f in sorted(PACKAGE.rglob("*.py"))}


def imports(tree: ast.AST, *, inside_functions: bool) -> Iterator[tuple[int, str, str]]:
    """Line, module and member of everything imported at run time; the member of `import a.b` is ""."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
        elif inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def part_imported(module: str, member: str) -> str | None:
    """The row an import reaches; None for other packages and for the version."""
    package, _, rest = module.partition(".")
    if package != "thinflow" or (not rest and member == "__version__"):
        return None
    if rest:
        return rest.partition(".")[0]
    # `from thinflow import verify` is the public function, not the module behind it.
    return "thinflow" if not member or member in thinflow.__all__ else member


@pytest.mark.parametrize("source", SOURCES)
def test_imports_stay_in_their_layer(source: str) -> None:
    part = part_of(SOURCES[source])
    assert part in LAYERS, f"{source}: add the new part {part!r} and what it may import to LAYERS"
    allowed = LAYERS[part] | {part}
    wrong = [
        f"line {line}: {part} may not import {f'{module}.{member}'.rstrip('.')}"
        for line, module, member in imports(
            ast.parse(SOURCES[source].read_text("utf-8")), inside_functions=True
        )
        if part_imported(module, member) not in {None, *allowed}
    ]
    assert not wrong, f"{source}: " + "; ".join(wrong)


@pytest.mark.parametrize("source", [s for s, f in SOURCES.items() if part_of(f) in NUMPY_ONLY_IN_FUNCTIONS])
def test_numpy_waits_for_a_call(source: str) -> None:
    tree = ast.parse(SOURCES[source].read_text("utf-8"))
    lines = [
        line
        for line, module, _ in imports(tree, inside_functions=False)
        if module.partition(".")[0] in ("numpy", "ml_dtypes")
    ]
    assert not lines, f"{source} imports numpy when it is loaded, line {lines}; do it in the function"


def test_import_walker_sees_what_runs() -> None:
    code = (
        "import a\n"
        "if TYPE_CHECKING:\n    import b\nelse:\n    import c\n"
        "def f():\n    from d import e\n"
        "class G:\n    import h\n"
    )
    tree = ast.parse(code)
    assert {module for _, module, _ in imports(tree, inside_functions=True)} == {"a", "c", "d", "h"}
    assert {module for _, module, _ in imports(tree, inside_functions=False)} == {"a", "c", "h"}


def test_part_imported() -> None:
    assert part_imported("thinflow.ir.graph", "Graph") == "ir"
    assert part_imported("thinflow", "Graph") == "thinflow"
    assert part_imported("thinflow", "") == "thinflow"
    assert part_imported("thinflow", "verify") == "thinflow"
    assert part_imported("thinflow.verify", "") == "verify"
    assert part_imported("thinflow", "wire") == "wire"
    assert part_imported("thinflow", "__version__") is None
    assert part_imported("numpy", "random") is None
