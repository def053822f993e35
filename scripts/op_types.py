"""Writes src/thinflow/data/op_types.txt from the op registry of an installed TensorFlow.

    python scripts/op_types.py

The file says which attributes of an op repeat the types of its inputs, and how many inputs a list has.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from scripts.op_outputs import op_definitions

TARGET = Path(__file__).parents[1] / "src" / "thinflow" / "data" / "op_types.txt"
HEADER = """\
# The type attribute of each input, - where its type is fixed: T. Lists: N*T of one type, N*- of a fixed
# one, *Tin of any types. Ops with lists of several lengths are left out. Written by scripts/op_types.py.
"""


def signature(op: Any) -> str:
    """The types of an op's inputs, as the file spells them."""
    return " ".join(
        f"*{a.type_list_attr}"
        if a.type_list_attr
        else f"{a.number_attr}*{a.type_attr or '-'}"
        if a.number_attr
        else a.type_attr or "-"
        for a in op.input_arg
    )


def is_clear(op: Any) -> bool:
    """True if the number of inputs tells the length of each list: all lists have the same one."""
    types = [a.type_list_attr for a in op.input_arg if a.type_list_attr]
    return len({a.number_attr for a in op.input_arg if a.number_attr}) + len(types) <= 1


def table(definitions: list[Any]) -> str:
    """The text of the file."""
    by_signature: dict[str, list[str]] = {}
    for op in definitions:
        # Ops that begin with an underscore are made by TensorFlow itself, and are in no file.
        if not op.name.startswith("_") and is_clear(op):
            by_signature.setdefault(signature(op), []).append(op.name)
    lines = [
        textwrap.fill(
            f"{types}: {' '.join(sorted(ops))}", 110, subsequent_indent="    ", break_on_hyphens=False
        )
        for types, ops in sorted(by_signature.items())
    ]
    return HEADER + "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(table(op_definitions()))
