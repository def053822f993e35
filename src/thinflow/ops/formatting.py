"""Numbers and arrays as text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thinflow.ir.types import STRING, TensorSpec
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.strings import _map, _Textual
from thinflow.ops.traits import Trait
from thinflow.typing import Array


@op("AsString")
class AsString(_Textual):
    """y = each number as C's printf writes it: `%d`, `%f`, `%e` (scientific) or `%g` (shortest).

    `width` pads; `fill` is one of printf's flags: "0", " ", "-" (to the left) or "+". A complex number is
    "(re,im)", a bool "true" or "false".
    """

    @staticmethod
    def kernel(
        x: Array,
        *,
        precision: int = -1,
        scientific: bool = False,
        shortest: bool = False,
        width: int = -1,
        fill: str = "",
    ) -> Array:
        require(not (scientific and shortest), "scientific and shortest exclude each other")
        require(fill in ("", "0", " ", "-", "+"), f"fill is '{fill}', printf has no such flag")
        if x.dtype == np.bool_:
            return _map(lambda v: b"true" if v else b"false", object, x)
        flags = fill + (str(width) if width > -1 else "")
        if x.dtype.hasobject:
            # For strings printf has no other flag.
            align = "-" if fill == "-" else ""
            pattern = f"%{align}{max(width, 0)}s".encode()
            return _map(lambda v: pattern % v, object, x)
        if x.dtype.kind in "iu":
            require(
                not scientific and not shortest and precision < 0, f"{x.dtype} has no digits after the point"
            )
            if x.dtype.kind == "u":
                flags = flags.replace("+", "", 1).replace(" ", "", 1)  # C: signs are for signed types
            pattern = f"%{flags}d".encode()
            return _map(lambda v: pattern % v, object, x)
        digits = f".{precision}" if precision > -1 else ""
        style = "e" if scientific else "g" if shortest else "f"
        finite, other = (f"%{f}{digits}{style}".encode() for f in (flags, flags.removeprefix("0")))

        def write(value: float) -> bytes:
            # Unlike Python, C pads nan and inf with blanks even under "0".
            return (finite if math.isfinite(value) else other) % value

        if x.dtype.kind == "c":
            return _map(lambda v: b"(%b,%b)" % (write(v.real), write(v.imag)), object, x)
        return _map(write, object, x.astype(np.float64))


@op("StringFormat")
class StringFormat(OpDef):
    """y = the template, a scalar, with each placeholder replaced by one input as text.

    An axis longer than 2 * summarize shows its first and last `summarize` entries only (-1: all of them).
    """

    traits = Trait.PRINT

    @staticmethod
    def infer(*xs: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, ())

    @staticmethod
    def kernel(*xs: Array, template: str = "%s", placeholder: str = "%s", summarize: int = 3) -> Array:
        parts = template.split(placeholder)
        require(
            len(parts) == len(xs) + 1, f"the template has {len(parts) - 1} placeholders for {len(xs)} inputs"
        )
        pieces = [_tensor_text(x, x.size if summarize < 0 else min(summarize, x.size)) for x in xs]
        text = parts[0] + "".join(piece + part for piece, part in zip(pieces, parts[1:], strict=True))
        return np.array(text.encode("utf-8", "surrogateescape"), object)


def _tensor_text(x: Array, limit: int, indent: int = 1) -> str:
    """Nested brackets, with the first and last `limit` entries of each axis."""
    if x.ndim == 0:
        return _element_text(x)
    # Rows of matrices go on new lines, with an empty line more for each further axis.
    gap = " " if x.ndim == 1 else "\n" * (x.ndim - 1) + " " * indent
    short = len(x) > 2 * limit
    head, tail = (x[:limit], x[len(x) - limit :]) if short else (x, x[:0])
    before, after = (
        # `...` keeps a single string an array.
        [_tensor_text(part[i, ...], limit, indent + 1) for i in range(len(part))]
        for part in (head, tail)
    )
    if short:
        before = [*before, "..."] if limit else ["", "..."]
    return "[" + gap.join([*before, *after]) + "]"


def _element_text(x: Array) -> str:
    if x.dtype.hasobject:
        escaped = x.item().decode("utf-8", "surrogateescape").replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if x.dtype.kind in "biu":
        return str(int(x))
    if x.dtype.kind == "c":
        return "?"  # TensorFlow has no text for complex numbers here
    return _float_text(x)


def _float_text(x: Array) -> str:
    """The few digits if they read back as the same number, else enough that they do."""
    few, enough = (15, 17) if x.dtype.itemsize == 8 else (6, 9)
    value = float(x)
    text = f"{value:.{few}g}"
    return text if value != value or x.dtype.type(float(text)) == x else f"{value:.{enough}g}"


# ---- Arrays as TensorFlow's Print and Assert write them: `[[1 2.5][3 0...]...]`.
#
# Source: `Tensor::SummarizeValue` of TensorFlow; numbers are spelled as its `strings::StrCat` spells them.


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
