"""Every builtin operator is either made by the lowering or stands in the guide with the reason why not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import thinflow.lower.tflite as package
from thinflow.tflite import schema
from thinflow.tflite.counterparts import Kind, same_in_tensorflow

SOURCES = sorted(Path(package.__file__).parent.glob("*.py"))
TABLES = {"schema.py", "kernels.py", "versions.py", "options.py", "writer.py", "reader.py"}
"""They describe operators; they make none."""
OPERATORS = re.compile(r"[A-Z0-9_\s]+")
GUIDE = Path(__file__).parents[3] / "docs" / "litert-operators.md"


def words(file: Path) -> set[str]:
    """The words of all texts in a source that are names of operators and nothing else."""
    tree = ast.parse(file.read_text("utf-8"))
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and OPERATORS.fullmatch(node.value)
    }
    return {word for text in texts for word in text.split()}


def excused() -> set[str]:
    """The operators of the guide's last table."""
    rows = GUIDE.read_text("utf-8").partition("## Operators that are not used")[2].splitlines()
    firsts = [row.split("|")[1] for row in rows if row.startswith("| `")]
    return {name for cell in firsts for name in re.findall(r"`([A-Z0-9_*]+)`", cell)}


def test_every_builtin_is_made_or_excused():
    made = set().union(*(words(f) for f in SOURCES if f.name not in TABLES))
    # One rule makes all operators of a kind; those of the last kind have rules of their own.
    made.update(*(same_in_tensorflow(kind) for kind in Kind if kind is not Kind.SAME_OPERANDS))
    names = {"STABLEHLO_*" if n.startswith("STABLEHLO_") else n for n in schema.OP_CODES}
    assert names - made == excused()
