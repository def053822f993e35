"""Blocks of pixels as batches, diagonals, sequences turned round, sums of several inputs."""

from __future__ import annotations

import itertools
import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.copies import copy, row_major
from thinflow.lower.c.forms import form
from thinflow.lower.c.operators.array import ANY, require_one_scale
from thinflow.lower.c.settle import C_TYPES
from thinflow.tflite.model import Operator


@form("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", types=ANY)
def space_to_batch(b: LayerBuilder, op: Operator) -> None:
    """Every so many pixels a picture of its own, or back; what lies outside is zero, or is cut off."""
    x, y = b.input(0), b.output()
    require_one_scale(b, [x], y)
    is_forth = op.code == "SPACE_TO_BATCH_ND"
    blocks = [int(n) for n in b.array(1).reshape(-1)]
    before = [int(n) for n in b.array(2)[:, 0]]
    wide, deep = (b.shape(x), b.shape(y)) if is_forth else (b.shape(y), b.shape(x))
    rest = len(wide) - 1 - len(blocks)
    batches = wide[0]
    if is_forth:
        zero = b.scale(y)[1] if y.quantization is not None and len(y.quantization.scale) else 0
        kind = y.dtype.name
        b.call("fill", y, b.size(y), float(zero) if kind == "float" else zero, type=kind)
    wide_steps, deep_steps = row_major(wide), row_major(deep)
    for number, phase in enumerate(itertools.product(*map(range, blocks))):
        wide_start, deep_start = 0, number * batches * deep_steps[0]
        count, walk = [batches], [wide_steps[0]]
        for n, (size, block, offset, at) in enumerate(zip(wide[1:], blocks, before, phase, strict=False), 1):
            # The pixels i of the small picture whose place in the large one, i * block + at - offset, exists.
            first = max(-(-(offset - at) // block), 0)
            end = min((size - 1 + offset - at) // block + 1, deep[n])
            count.append(max(end - first, 0))
            walk.append(block * wide_steps[n])
            wide_start += (first * block + at - offset) * wide_steps[n]
            deep_start += first * deep_steps[n]
        count += wide[len(wide) - rest :]
        walk += wide_steps[len(wide) - rest :]
        if not math.prod(count):
            continue
        if is_forth:
            copy(b, x, y, count, walk, deep_steps, x_start=wide_start, y_start=deep_start)
        else:
            copy(b, x, y, count, deep_steps, walk, x_start=deep_start, y_start=wide_start)


@form("MATRIX_DIAG", types=ANY)
def matrix_diag(b: LayerBuilder, op: Operator) -> None:
    """The last dimension as the diagonal of a matrix of zeros."""
    _fill_zero(b)
    _diagonal(b, 0)


@form("MATRIX_SET_DIAG", types=ANY)
def matrix_set_diag(b: LayerBuilder, op: Operator) -> None:
    """Input 0 with input 1 as its diagonal."""
    x, y = b.input(0), b.output()
    copy(b, x, y, b.shape(x), row_major(b.shape(x)), row_major(b.shape(y)))
    _diagonal(b, 1)


def _diagonal(b: LayerBuilder, number: int) -> None:
    x, y = b.input(number), b.output()
    *_, rows, columns = b.shape(y)
    size = min(rows, columns)
    batches = b.size(y) // (rows * columns)
    copy(b, x, y, (batches, size), (b.size(x) // batches, 1), (rows * columns, columns + 1))


def _fill_zero(b: LayerBuilder) -> None:
    y = b.output()
    kind = y.dtype.name
    b.call("fill", y, b.size(y), 0.0 if kind == "float" else 0, type=kind)


@form("REVERSE_SEQUENCE", types=ANY)
def reverse_sequence(b: LayerBuilder, op: Operator) -> None:
    """The first elements of each row from the last to the first, as many as input 1 says."""
    x, lengths, y = b.input(0), b.input(1), b.output()
    shape = b.shape(x)
    time, batch = b.option("seq_dim"), b.option("batch_dim")
    low, high = sorted((time, batch))
    sizes = {"outer": math.prod(shape[:low]), "first": shape[low], "middle": math.prod(shape[low + 1 : high])}
    run = math.prod(shape[high + 1 :]) * x.dtype.itemsize
    settings = b.struct("", **sizes, second=shape[high], time_first=int(time < batch), run_bytes=run)
    b.call("reverse_sequence", x, lengths, y, settings, type=lengths.dtype.name)


@form("ADD_N", types="float int32")
def add_n(b: LayerBuilder, op: Operator) -> None:
    """The sum of all inputs."""
    y, kind = b.output(), b.output().dtype.name
    first = b.input(0)
    b.call("fill", y, b.size(y), 0.0 if kind == "float" else 0, type=kind)
    for number in range(len(op.inputs)):
        b.call("accumulate", b.input(number), y, b.size(first), type=kind)


_SEGMENTS = {
    "SUM": "y[start + k] + x[k]",
    "PROD": "y[start + k] * x[k]",
    "MAX": "y[start + k] > x[k] ? y[start + k] : x[k]",
    "MIN": "y[start + k] < x[k] ? y[start + k] : x[k]",
}


@form("SEGMENT_SUM", *(f"UNSORTED_SEGMENT_{name}" for name in _SEGMENTS), types="float int32")
def segments(b: LayerBuilder, op: Operator) -> None:
    """Sums, products or extremes of the slices that have the same number."""
    x, numbers, y = b.input(0), b.input(1), b.output()
    limits = np.finfo(np.float32) if x.dtype.name == "float" else np.iinfo(np.int32)
    name = op.code.split("_")[-1]
    # What a segment without slices is, too.
    first = {"SUM": 0, "PROD": 1, "MAX": limits.min, "MIN": limits.max}[name]
    value = float(first) if x.dtype.name == "float" else int(first)
    b.call("fill", y, b.size(y), value, type=x.dtype.name)
    count = b.size(numbers)
    each = b.size(x) // max(count, 1)
    words = {
        "index_type": C_TYPES[numbers.dtype.name],
        "op": f"{name.lower()}_{numbers.dtype.name}",
        "sum": _SEGMENTS[name],
    }
    ones = (1,) * 5
    sizes, steps = (b.shape(y)[0], *ones), (each, *ones)
    settings = b.struct("", count=count, rank=1, depth=each, x_step=each, size=sizes, step=steps)
    b.call("scatter_nd", numbers, x, y, settings, type=x.dtype.name, **words)


@form("BITCAST", types=ANY)
def bitcast(b: LayerBuilder, op: Operator) -> None:
    """The same bytes as numbers of another type."""
    if b.input(0).size_bytes != b.output().size_bytes:
        raise UnsupportedOp("it makes more or fewer bytes")
    b.same()
