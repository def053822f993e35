"""TFLite Micro's signal ops that remember samples from run to run."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.operators.signal import numbers_of
from thinflow.lower.c.sound import options_of
from thinflow.tflite.model import Operator

_SIZES = range(1 << 24)
_STEPS = range(1, 1 << 24)
_SATURATED = "(int16_t)(sum < INT16_MIN ? INT16_MIN : sum > INT16_MAX ? INT16_MAX : sum)"


@form("SignalDelay", types="int16")
def delay(b: LayerBuilder, op: Operator) -> None:
    """x [...,n] -> y [...,n]."""
    (length,) = numbers_of(op, delay_length=_SIZES)
    *outer, size = b.shape(b.input(0))
    rows = math.prod(outer)
    # No array of C is empty.
    kept = b.state("samples", "int16_t", max(rows * length, 1))
    b.call("signal_delay", b.input(0), b.output(), kept, rows, size, length)


@form("SignalOverlapAdd", types="float int16")
def overlap_add(b: LayerBuilder, op: Operator) -> None:
    """x [...,frames,size] -> y [...,frames*frame_step]."""
    (step,) = numbers_of(op, frame_step=_STEPS)
    *outer, frames, size = b.shape(b.input(0))
    if step > size:
        raise UnsupportedOp(f"frames of {size} with a step of {step} do not overlap")
    kind, rows = b.input(0).dtype.name, math.prod(outer)
    settings = b.struct("", rows=rows, frames=frames, size=size, step=step)
    is_float = kind == "float"
    kept = b.state("sums", "float" if is_float else "int16_t", rows * size)
    stored = "sum" if is_float else _SATURATED
    b.call("signal_overlap_add", b.input(0), b.output(), kept, settings, type=kind, stored=stored)


@form("SignalFramer", types="int16")
def framer(b: LayerBuilder, op: Operator) -> None:
    """x [...,frames*frame_step] -> y [...,frames,frame_size], is_valid []."""
    size, step = numbers_of(op, frame_size=_STEPS, frame_step=_STEPS)
    *outer, samples = b.shape(b.input(0))
    if step > size or samples % step:
        raise UnsupportedOp(f"{samples} samples are no frames of {size} in steps of {step}")
    # Of a frame that lacks less than a step, a whole frame's steps.
    rows, room = math.prod(outer), -(-size // step) * step
    settings = b.struct("", rows=rows, frames=samples // step, size=size, step=step, room=room)
    first = size - step if options_of(op).get("prefill") else 0
    kept = b.state("samples", "int16_t", rows * room)
    count = b.state("count", "int32_t", 1, values=np.array([first], np.int32))
    b.call("signal_framer", b.input(0), b.output(), b.output(1), kept, count, settings)


@form("SignalStacker", types="int16")
def stacker(b: LayerBuilder, op: Operator) -> None:
    """x [num_channels] -> y [num_channels*frames], is_valid []."""
    channels, left, right, step = numbers_of(
        op,
        num_channels=_STEPS,
        stacker_left_context=_SIZES,
        stacker_right_context=_SIZES,
        stacker_step=_STEPS,
    )
    frames = left + 1 + right
    if channels != b.size(b.input(0)) or step > frames:
        raise UnsupportedOp(
            f"{b.size(b.input(0))} channels, not {channels}, or every {step} of {frames} frames"
        )
    settings = b.struct("", channels=channels, frames=frames, left=left, step=step)
    kept = b.state("frames", "int16_t", channels * frames)
    # Below 0 before the first frame, which stands for those before it.
    count = b.state("count", "int32_t", 1, values=np.array([-1], np.int32))
    b.call("signal_stacker", b.input(0), b.output(), b.output(1), kept, count, settings)
