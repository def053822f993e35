"""Limits as a table of budgets has them: sizes, counts, lists, releases, folders."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from thinflow.errors import ParameterError
from thinflow.program.amounts import BYTES, COUNTS, POINTS, Amount, amount_of
from thinflow.settings.table import Table
from thinflow.settings.toml_text import Value

_FLOPS = {**COUNTS, **{f"{unit}flop{s}": factor for unit, factor in COUNTS.items() for s in ("", "s")}}
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})(\.\d{1,6})?")


def size_in_bytes(table: Table, key: str) -> float:
    """Bytes, or with a unit: "400KB" (1000 each), "64KiB"."""
    return _amount(table, key, BYTES, "size", "400KB, 1.5MB or 64KiB; a number alone counts bytes")


def a_count(table: Table, key: str) -> float:
    """A number, or with a unit: "1.5M"."""
    return _amount(table, key, COUNTS, "number", "120, 300k or 1.5M")


def operations(table: Table, key: str) -> float:
    """Operations, or with a unit: "50MFLOP"."""
    return _amount(table, key, _FLOPS, "number of operations", "50MFLOP or 1.2GFLOP")


def points(table: Table, key: str) -> float | None:
    """Points of percent: 0.5 or "0.5%"; None where the table has none."""
    if key not in table:
        return None
    found = _amount(table, key, POINTS, "number of points", "0.5%; a number alone counts points", least=-1)
    if not 0 <= found <= 100:
        raise table.error(f"'{key}' cannot be {found:g}", "give 0 to 100 points of percent")
    return found


def _amount(
    table: Table, key: str, units: Mapping[str, float], kind: str, example: str, least: float = 0
) -> float:
    given = table.values[key]
    hint = f"write {key} = {example}"
    if not isinstance(given, str | int | float):
        raise table.error(f"'{key}' is no {kind}", hint)
    try:
        found = amount_of(_plain(given), units, kind, hint)
    except ParameterError as error:
        raise table.error(f"'{key}': {error.problem}", hint) from error
    # Written so that what is no number is refused, too.
    if not least < found < math.inf:
        raise table.error(f"'{key}' cannot be {found:g}", f"give more than {least:g}: {hint}")
    return found


def _plain(given: str | int | float) -> Amount:
    """Without the blanks inside that large numbers are written with."""
    return given.replace("_", "") if isinstance(given, str) else given


def names(table: Table, key: str) -> tuple[str, ...]:
    """A list of texts, which is not empty."""
    found = table.texts(key, "CONV_2D") or ()
    if not found:
        raise table.error(f"'{key}' is an empty list", f'write {key} = ["CONV_2D"]')
    return found


def release(table: Table, key: str) -> tuple[int, int]:
    """A release as "2.9", of which a third number does not count."""
    found = _RELEASE.fullmatch(table.text(key, "2.9") or "")
    if found is None:
        raise table.error(f"'{key}' is no release", f'write {key} = "2.9"')
    return int(found[1]), int(found[2])


def whole_number(table: Table, key: str, example: int) -> int:
    """A whole number above 0."""
    found = table.number(key, str(example))
    if not isinstance(found, int) or found < 1:
        raise table.error(f"'{key}' is no whole number above 0", f"write {key} = {example}")
    return found


def place(table: Table, key: str, example: str) -> str | None:
    """A file, folder or URL; paths are those beside the file of settings. None where the table has none."""
    found = table.text(key, example)
    if found is None or "://" in found or not table.path:
        return found
    return os.path.join(os.path.dirname(table.path), os.path.expanduser(found))


def as_table(table: Table, key: str, plain: str, keys: Iterable[str]) -> Table:
    """A table for a key whose value may be one of its entries alone: `latency = 1.1`."""
    value = table.values[key]
    given: dict[str, Value] = dict(value) if isinstance(value, dict) else {plain: value}
    found = Table(given, f"{table.name}.{key}", table.path)
    found.require_only(keys)
    return found


def folder_of(table: Table) -> Path:
    """The folder that paths in a table start from."""
    return Path(os.path.dirname(os.path.abspath(table.path))) if table.path else Path.cwd()
