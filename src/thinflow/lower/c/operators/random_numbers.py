"""Random numbers, those that LiteRT makes of the same seeds."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.tflite.model import Operator

_WORD, _SIGN = 0xFFFFFFFF, 31
_SKIPPED = 2 * 256
"""Blocks for each sample, of which there are multiples of four, that a run of MULTINOMIAL leaves behind."""


@form("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", types="float")
def random_reals(b: LayerBuilder, op: Operator) -> None:
    """-> y of constant sizes."""
    kernel = "random_uniform" if op.code == "RANDOM_UNIFORM" else "random_normal"
    settings = b.struct("", count=b.size(b.output()), seeds=_seeds(op))
    b.call(kernel, b.output(), b.state("stream", "int64_t", 1), settings)


@form("MULTINOMIAL", types="float")
def random_classes(b: LayerBuilder, op: Operator) -> None:
    """Logarithms of odds [batches, classes] -> classes [batches, samples]."""
    x, y = b.input(0), b.output()
    (batches, classes), samples = b.shape(x), b.shape(y)[1]
    blocks = batches * -(-samples // 4) * 4 * _SKIPPED
    settings = b.struct(
        "", batches=batches, classes=classes, samples=samples, blocks=blocks, seeds=_seeds(op)
    )
    stream = b.state("stream", "int64_t", 1)
    b.call("random_classes", x, y, b.scratch(8 * classes), stream, settings, type=y.dtype.name)


def _seeds(op: Operator) -> tuple[int, ...]:
    """Both seeds, the lower half of each first.

    Raises:
        UnsupportedOp: it has none, and LiteRT answers otherwise each time.
    """
    # Of the 64 bits in a file LiteRT keeps the lower half, with its sign.
    lower = [int(op.options.get(name, 0)) & _WORD for name in ("seed", "seed2")]
    if not any(lower):
        raise UnsupportedOp("it has no seeds: LiteRT's numbers are others each time it is loaded")
    return tuple(half for seed in lower for half in (seed, _WORD if seed >> _SIGN else 0))
