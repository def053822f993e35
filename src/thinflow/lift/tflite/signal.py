"""TFLite Micro's signal ops: features of sound in front of keyword networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.vocabulary import TFL_CUSTOM
from thinflow.lift.lifter import Call
from thinflow.lift.rules import lifts
from thinflow.lift.tflite.custom import by_map, map_of

for _name, _operands, _count, *_options in (
    ("SignalWindow", 2, 1, "shift"),
    ("SignalFftAutoScale", 1, 2),
    ("SignalEnergy", 1, 1, "start_index", "end_index"),
    ("SignalFilterBank", 6, 1, "num_channels"),
    ("SignalFilterBankSquareRoot", 2, 1),
    ("SignalPCAN", 3, 1, "snr_shift"),
    ("SignalFilterBankLog", 1, 1, "output_scale", "input_correction_bits"),
):
    lifts(TFL_CUSTOM + _name)(by_map(_name, *_options, operands=_operands, count=_count))


@lifts("tfl.custom.SignalRfft", "tfl.custom.SignalIrfft")
def transform(c: Call) -> Value:
    """SignalRfft, SignalIrfft: the type among the options is that of the operand."""
    options = _options_of(c, "fft_length")
    return c.emit(c.node.op.removeprefix(TFL_CUSTOM), c[0], T=None, fft_length=options["fft_length"])


@lifts("tfl.custom.SignalFilterBankSpectralSubtraction")
def spectral_subtraction(c: Call) -> list[Value]:
    """SignalFilterBankSpectralSubtraction: y, and the noise that it keeps."""
    options = _options_of(
        c,
        *("smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing"),
        *("min_signal_remaining", "smoothing_bits", "spectral_subtraction_bits", "clamping", "num_channels"),
    )
    # The only op whose memory is a result as well: gains are chosen by the noise.
    first = np.zeros(options.pop("num_channels"), np.uint32)
    made, (noise,) = _step(c, options, first)
    return [made.output(0), noise]


@lifts("tfl.custom.SignalDelay")
def delay(c: Call) -> Value:
    """SignalDelay."""
    options = _options_of(c, "delay_length")
    outer = _sizes(c)[:-1]
    return _step(c, {}, np.zeros((*outer, options["delay_length"]), np.int16))[0].output(0)


@lifts("tfl.custom.SignalOverlapAdd")
def overlap_add(c: Call) -> Value:
    """SignalOverlapAdd."""
    options = _options_of(c, "frame_step")
    *outer, _, size = _sizes(c)
    kind = c[0].dtype
    first = np.zeros((*outer, size), np.int16 if kind is None else kind.numpy())
    return _step(c, {"frame_step": options["frame_step"]}, first)[0].output(0)


@lifts("tfl.custom.SignalFramer")
def framer(c: Call) -> list[Value]:
    """SignalFramer: frames, and whether they are whole."""
    options = _options_of(c, "frame_size", "frame_step", "prefill")
    size, step = options["frame_size"], options["frame_step"]
    count = size - step if options.pop("prefill") else 0
    # Of a frame that lacks less than a step, a whole frame's steps but one.
    kept = np.zeros((*_sizes(c)[:-1], -(-size // max(step, 1)) * step), np.int16)
    made = _step(c, options, kept, np.array(count, np.int32))[0]
    return [made.output(0), made.output(1)]


@lifts("tfl.custom.SignalStacker")
def stacker(c: Call) -> list[Value]:
    """SignalStacker: frames side by side, and whether they are all there."""
    names = ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step")
    options = _options_of(c, *names)
    size = options["num_channels"] * (options[names[1]] + 1 + options[names[2]])
    made = _step(c, options, np.zeros(size, np.int16), np.array(-1, np.int32))[0]
    return [made.output(0), made.output(1)]


def _options_of(c: Call, *names: str) -> dict[str, Any]:
    """The options, which have to be these.

    Raises:
        UnsupportedOp: one is missing, or there is another.
    """
    found = {k: v for k, v in map_of(c).items() if not k.startswith("_")}
    # TensorFlow notes the type of operands by itself.
    strange = sorted((found.keys() ^ set(names)) - {"T"})
    if strange:
        why = "is not known here" if strange[0] in found else "is missing"
        raise UnsupportedOp(f"its option '{strange[0]}' {why}")
    return found


def _sizes(c: Call) -> tuple[int, ...]:
    """The sizes of the operand, by which the runtime makes room for what is kept.

    Raises:
        UnsupportedOp: they are open.
    """
    shape = c[0].spec.shape
    known = tuple(n for n in shape or () if n is not None)
    if not shape or len(known) != len(shape):
        raise UnsupportedOp("the sizes of its operand are not known")
    return known


def _step(c: Call, options: dict[str, Any], *first: np.ndarray[Any, Any]) -> tuple[Node, list[Value]]:
    """One call of an op that keeps something from call to call; what it keeps are its last results.

    Args:
        options: of the op.
        first: what it keeps before the first call.
    """
    if c.scope:
        # Functions have no place in the chain of control edges that keeps the order of the file.
        raise UnsupportedOp("it is in a loop or branch, where the order of its calls is not known")
    values = map(c.constant, first)
    handles = [
        c.emit("LiteRTVariable", value, dtype=value.dtype, shared_name=f"{c.name} {number}")
        for number, value in enumerate(values)
    ]
    reads = [c.variable_read(handle) for handle in handles]
    made = c.many(f"{c.node.op.removeprefix(TFL_CUSTOM)}Step", c[0], *reads, T=None, **options)
    # One result besides what is kept, or two where frames may not be whole yet.
    outputs = {1: 2, 2: 4}[len(first)]
    kept = [made.output(n) for n in range(outputs - len(first), outputs)]
    for handle, value in zip(handles, kept, strict=True):
        c.variable_written(handle, value)
    return made, kept
