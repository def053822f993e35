"""Samples in a .csv file: one in each row, read whole.

    label,x_0,x_1,x_2
    cat,0.5,1.0,-2

A column named "label" or "labels" is one of labels. Of a model with one input the others are its numbers, in
row-major order; of one with several, their names begin with that of the input: `x`, `x_0` or `x[0]`. Without
names in the first row all columns are numbers.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FeedError
from thinflow.ir.types import STRING
from thinflow.quantize.fitting import Inputs, only_input
from thinflow.typing import Array

_LABELS = ("label", "labels")
_NUMBER = re.compile(r"(_\d+|\[\d+\])$")


def read_table(path: Path, inputs: Inputs) -> tuple[dict[str, Array], list[Any] | None]:
    """Input name -> samples [rows, ...], and the labels of the rows, if there are some.

    Raises:
        FeedError: it is no table of numbers, or does not fit the inputs.
    """
    where = str(path)
    rows = _rows(path)
    names = None if _are_numbers(rows[0]) else [name.strip() for name in rows.pop(0)]
    if not rows:
        raise FeedError("there are no samples", where, hint="give a row of numbers for each")
    width = len(names or rows[0])
    odd = next((n for n, row in enumerate(rows) if len(row) != width), None)
    if odd is not None:
        raise FeedError(f"sample {odd} has {len(rows[odd])} columns, and others have {width}", where)
    columns = names or [""] * width
    known = [n for n, name in enumerate(columns) if name.lower() in _LABELS and name not in inputs]
    labels = _labels([row[known[0]].strip() for row in rows]) if known else None
    places = _places(columns, inputs, known, where)
    arrays = {name: _numbers(rows, chosen, columns, where) for name, chosen in places.items()}
    return {name: _shaped(array, inputs, name) for name, array in arrays.items()}, labels


def _rows(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FeedError(f"the file cannot be read: {error}", str(path)) from error
    if not rows:
        raise FeedError("there are no samples", str(path), hint="give a row of numbers for each")
    return rows


def _labels(words: list[str]) -> list[Any]:
    """Numbers of classes where all are such."""
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else [*words]


def _are_numbers(row: Sequence[str]) -> bool:
    try:
        [float(cell) for cell in row]
    except ValueError:
        return False
    return True


def _places(
    columns: Sequence[str], inputs: Inputs, labels: Sequence[int], where: str
) -> dict[str, list[int]]:
    """Input name -> numbers of its columns."""
    others = [n for n in range(len(columns)) if n not in labels]
    if len(inputs) == 1 or not any(columns):
        return {only_input(inputs, "a table without names of columns"): others}
    plain = {name.removesuffix(":0"): name for name in inputs}
    found: dict[str, list[int]] = {}
    for number in others:
        column = columns[number]
        name = plain.get(column.removesuffix(":0")) or plain.get(_NUMBER.sub("", column))
        if name is None:
            raise FeedError(
                f"column '{column}' is of no input", where, hint=f"the model has: {', '.join(inputs)}"
            )
        found.setdefault(name, []).append(number)
    return found


def _numbers(
    rows: Sequence[Sequence[str]], chosen: Sequence[int], columns: Sequence[str], where: str
) -> Array:
    """float64 [rows, columns]"""
    made = np.empty((len(rows), len(chosen)))
    for number, row in enumerate(rows):
        for place, column in enumerate(chosen):
            try:
                made[number, place] = float(row[column])
            except ValueError as error:
                name = columns[column] or str(column)
                raise FeedError(
                    f"'{row[column]}' in column '{name}' is no number", f"{where}, sample {number}"
                ) from error
    return made


def _shaped(array: Array, inputs: Inputs, name: str) -> Array:
    """Rows in the shape of one sample, where they have as many numbers."""
    spec = inputs[name]
    if spec.dtype is STRING or not spec.shape or None in spec.shape[1:]:
        return array
    sizes = [n or 0 for n in spec.shape[1:]]
    return array.reshape(len(array), *sizes) if array.shape[1] == math.prod(sizes) else array
