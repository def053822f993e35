"""TFLite Micro's signal ops that remember samples, each with what it keeps as an operand and as a result.

The runtime keeps it inside the op; a model that is read has a variable for it. Where such an op says that its
frame is not valid yet, the frame is 0 here and whatever was in memory there.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import BOOL, INT32, TensorSpec
from thinflow.ops._fixed_point import saturated
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


@op("SignalDelayStep")
class SignalDelayStep(OpDef):
    """The samples of delay_length ago.   x [...,n] int16, kept [...,delay_length] -> y [...,n], kept."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, kept: TensorSpec) -> tuple[TensorSpec, ...]:
        return x.with_shape(x.shape), kept.with_shape(kept.shape)

    @staticmethod
    def kernel(x: Array, kept: Array) -> tuple[Array, Array]:
        # The runtime goes round in a ring; in a row the same samples come out.
        both = np.concatenate([kept, x], -1)
        size = x.shape[-1]
        return both[..., :size], both[..., size:]


@op("SignalOverlapAddStep")
class SignalOverlapAddStep(OpDef):
    """Frames added up where they overlap.

    x [...,frames,size] int16 or float, kept [...,size] -> y [...,frames*frame_step], kept. int16 saturates.
    """

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, kept: TensorSpec, *, frame_step: int) -> tuple[TensorSpec, ...]:
        shape = None
        if x.shape is not None:
            require(len(x.shape) >= 2, f"x is {x}, frames of samples are needed")
            frames = x.shape[-2]
            shape = (*x.shape[:-2], None if frames is None else frames * frame_step)
        return x.with_shape(shape), kept.with_shape(kept.shape)

    @staticmethod
    def kernel(x: Array, kept: Array, *, frame_step: int) -> tuple[Array, Array]:
        size = x.shape[-1]
        require(0 < frame_step <= size, f"a step of {frame_step} in frames of {size}")
        is_float = x.dtype.kind == "f"
        total = kept if is_float else kept.astype(np.int64)
        done = []
        for frame in np.moveaxis(x, -2, 0):
            total = total + frame if is_float else saturated(total + frame, 16)
            done.append(total[..., :frame_step])
            total = np.concatenate([total[..., frame_step:], np.zeros_like(done[-1])], -1)
        return np.concatenate(done, -1).astype(x.dtype), total.astype(x.dtype)


@op("SignalFramerStep")
class SignalFramerStep(OpDef):
    """Overlapping frames of a stream.

    x [...,frames*frame_step] int16, kept [...,k], count [] int32: how many of `kept`, in front, are samples
    -> y [...,frames,frame_size], is_valid [] bool: whether all frames are whole, kept, count.
    """

    num_outputs = 4

    @staticmethod
    def infer(
        x: TensorSpec, kept: TensorSpec, count: TensorSpec, *, frame_size: int, frame_step: int
    ) -> tuple[TensorSpec, ...]:
        shape = None
        if x.shape:
            samples = x.shape[-1]
            shape = (*x.shape[:-1], None if samples is None else samples // frame_step, frame_size)
        valid = TensorSpec(BOOL, ())
        return x.with_shape(shape), valid, kept.with_shape(kept.shape), TensorSpec(INT32, ())

    @staticmethod
    def kernel(
        x: Array, kept: Array, count: Array, *, frame_size: int, frame_step: int
    ) -> tuple[Array, Array, Array, Array]:
        require(
            0 < frame_step <= frame_size and x.shape[-1] % frame_step == 0,
            f"{x.shape[-1]} samples in steps of {frame_step} and frames of {frame_size}",
        )
        held, frames, is_valid = kept[..., : int(count)], [], True
        for start in range(0, x.shape[-1], frame_step):
            held = np.concatenate([held, x[..., start : start + frame_step]], -1)
            # The oldest samples, although newer ones may be there already.
            is_whole = held.shape[-1] >= frame_size
            frames.append(
                held[..., :frame_size] if is_whole else np.zeros((*x.shape[:-1], frame_size), x.dtype)
            )
            held, is_valid = held[..., frame_step:] if is_whole else held, is_valid and is_whole
        return np.stack(frames, -2), np.array(is_valid), *_stored(held, kept)


@op("SignalStackerStep")
class SignalStackerStep(OpDef):
    """Frames of channels side by side, every stacker_step of them; the first stands for those before it.

    x [num_channels] int16, kept [k], count [] int32: how many of `kept`, in front, are samples, or -1 before
    the first frame -> y [num_channels*frames] for stacker_left_context + 1 + stacker_right_context frames,
    is_valid [] bool, kept, count.
    """

    num_outputs = 4

    @staticmethod
    def infer(
        x: TensorSpec,
        kept: TensorSpec,
        count: TensorSpec,
        *,
        num_channels: int,
        stacker_left_context: int = 0,
        stacker_right_context: int = 0,
        stacker_step: int = 1,
    ) -> tuple[TensorSpec, ...]:
        size = num_channels * (stacker_left_context + 1 + stacker_right_context)
        valid = TensorSpec(BOOL, ())
        return x.with_shape((size,)), valid, kept.with_shape(kept.shape), TensorSpec(INT32, ())

    @staticmethod
    def kernel(
        x: Array,
        kept: Array,
        count: Array,
        *,
        num_channels: int,
        stacker_left_context: int = 0,
        stacker_right_context: int = 0,
        stacker_step: int = 1,
    ) -> tuple[Array, Array, Array, Array]:
        frames = stacker_left_context + 1 + stacker_right_context
        require(x.size == num_channels, f"{x.size} channels, not {num_channels}")
        require(0 < stacker_step <= frames, f"every {stacker_step} of {frames} frames")
        size, known = num_channels * frames, int(count)
        # Nothing was heard before the first frame, which is taken for all before it.
        held = np.concatenate([kept[:known], x] if known >= 0 else [x] * (1 + stacker_left_context))
        is_valid = held.size >= size
        y = held[:size] if is_valid else np.zeros(size, x.dtype)
        left = held[num_channels * stacker_step :] if is_valid else held
        return y, np.array(is_valid), *_stored(left, kept)


def _stored(held: Array, kept: Array) -> tuple[Array, Array]:
    """Samples in the place for them, and how many they are."""
    count = held.shape[-1]
    require(count <= kept.shape[-1], f"{count} samples are more than the {kept.shape[-1]} that are kept")
    padding = [(0, 0)] * (kept.ndim - 1) + [(0, kept.shape[-1] - count)]
    return np.pad(held, padding).astype(kept.dtype), np.array(count, np.int32)
