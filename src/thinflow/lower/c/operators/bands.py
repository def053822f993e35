"""Bands: loops around operators on some rows, and copies of rows that are kept."""

from __future__ import annotations

from thinflow.lower.c import banded
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Verbatim
from thinflow.lower.c.operators.array import ANY
from thinflow.tflite.model import Operator


@form(banded.BANDS, types="")
def bands(b: LayerBuilder, op: Operator) -> None:
    """The opening brace."""
    b.layer.brace = f"for (int32_t band = 0; band < {b.option('count')}; band++) {{{{"


@form(banded.BANDS_END, types="")
def bands_end(b: LayerBuilder, op: Operator) -> None:
    """The closing one."""
    b.layer.brace = "}}"


@form(banded.BANDS_KEEP, types=ANY)
def bands_keep(b: LayerBuilder, op: Operator) -> None:
    """Rows as they are, to or from where they are kept."""
    b.call("copy", b.output(), b.input(0), Verbatim(str(b.output().size_bytes)))
