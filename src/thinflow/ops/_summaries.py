"""Arrays as TensorFlow's Print and Assert write them: `[[1 2.5][3 0...]...]`.

Source: `Tensor::SummarizeValue` of TensorFlow; numbers are spelled as its `strings::StrCat` spells them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.typing import Array

_CONTROLS = {code: f"\\{code:03o}" for code in (*range(0x20), 0x7F)}
_ESCAPES = {**_CONTROLS, **{ord(c): f"\\{c}" for c in "\\'\""}, 9: "\\t", 10: "\\n", 13: "\\r"}
_DIGITS = {8: (15, 17)}
"""Bytes of a float -> significant digits to try, and those that always tell it from its neighbours."""


def summary(x: Array, most: int) -> str:
    """The first `most` elements, rows in brackets and `...` for what is left out; all if it is negative."""
    limit = x.size if most < 0 else min(most, x.size)
    body = _rows(x, limit, inside=False) if x.ndim else _element(x[()]) * min(limit, 1)
    return f"[{body}{'...' if limit < x.size else ''}]"


def _rows(x: Array, limit: int, *, inside: bool) -> str:
    """The first `limit` elements; a row that is cut says so, unless it is all there is."""
    if x.ndim == 1:
        shown = " ".join(_element(v) for v in x[:limit])
        return f"{shown}..." if inside and limit < x.size else shown
    parts = []
    for row in x:
        if limit <= 0:
            break
        parts.append(f"[{_rows(row, limit, inside=True)}]")
        limit -= row.size
    return "".join(parts)


def _element(value: Any) -> str:
    """One element in a line: text has its line ends escaped."""
    if isinstance(value, (bytes, str)):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return text.translate(_ESCAPES)
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    # TensorFlow's summaries print no complex numbers, either.
    if isinstance(value, np.complexfloating):
        return "?"
    if isinstance(value, np.generic) and np.issubdtype(value.dtype, np.integer):
        return str(value)
    return _decimal(value) if isinstance(value, np.generic) else str(value)


def _decimal(value: np.generic) -> str:
    """A float in six digits, or fifteen of a double, where those are exact; else in all it takes."""
    short, long = _DIGITS.get(value.itemsize, (6, 9))
    wide = np.float64(value) if value.itemsize == 8 else np.float32(value)
    text = f"{wide:.{short}g}"
    return text if type(wide)(text) == wide else f"{wide:.{long}g}"
