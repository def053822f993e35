"""The front end of networks of sound: spectrum and coefficients in one layer, and a rate that is known."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from thinflow.errors import FormatError, ParameterError, UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.flow import RENAMES
from thinflow.tflite.flexbuffer import decode
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor

FEATURES = "AudioFeatures"
"""A spectrogram and its coefficients as one operator, which only C has."""
SAMPLE_RATE = 16_000
"""Hertz, where a model takes the rate beside the samples: what models of speech are trained at."""
_SPECTROGRAM = "AudioSpectrogram"
_COEFFICIENTS = "Mfcc"


def options_of(operator: Operator) -> dict[str, Any]:
    """The options of a custom operator, a map in FlexBuffers.

    Raises:
        UnsupportedOp: they are something else.
    """
    try:
        found = decode(operator.custom_options)
    except FormatError as error:
        raise UnsupportedOp(f"its options cannot be read: {error.problem}") from error
    if not isinstance(found, dict):
        raise UnsupportedOp("its options are no map")
    return found


def rate_inputs(block: Subgraph) -> list[Tensor]:
    """Inputs that nothing but the filters of coefficients reads as their rate, as it is or in other sizes."""
    readers: dict[Tensor, list[Operator]] = defaultdict(list)
    for operator in block.operators:
        for tensor in operator.reads():
            readers[tensor].append(operator)

    def is_rate(tensor: Tensor) -> bool:
        return bool(readers[tensor]) and all(
            operator.inputs[1:] == [tensor]
            if operator.custom_code == _COEFFICIENTS
            else operator.code in (*RENAMES, "CAST") and is_rate(operator.outputs[0])
            for operator in readers[tensor]
        )

    return [t for t in block.inputs if t not in block.outputs and is_rate(t)]


def know_rate(program: Program, rate: int | None = None) -> bool:
    """Make a rate that is an input a constant: filters are built for it when the C is written.

    Args:
        program: changed, its first subgraph.
        rate: in hertz; default `SAMPLE_RATE`.

    Returns:
        Whether there was one.

    Raises:
        ParameterError: the rate is no number of samples a second.
    """
    rate = SAMPLE_RATE if rate is None else rate
    if rate < 1:
        raise ParameterError(f"a sample rate of {rate}", hint="--sample-rate counts samples a second: 16000")
    block = program.subgraphs[0]
    found = rate_inputs(block)
    for tensor in found:
        tensor.data = np.full([n or 1 for n in tensor.shape or ()], rate, tensor.dtype.numpy())
        block.inputs.remove(tensor)
        # Nobody feeds it any more, by whatever name.
        for signature in program.signatures.values():
            for name in [n for n, t in signature.inputs.items() if t is tensor]:
                del signature.inputs[name]
    return bool(found)


def fuse_features(block: Subgraph) -> None:
    """Make one operator of a spectrogram and the coefficients made of it: it is the largest of all values,
    and nothing else reads it.

    Args:
        block: changed.
    """
    readers: dict[Tensor, list[Operator]] = defaultdict(list)
    for operator in block.operators:
        for tensor in operator.reads():
            readers[tensor].append(operator)
    for first in list(block.operators):
        y = first.outputs[0] if first.outputs else None
        if first.custom_code != _SPECTROGRAM or y is None or y in block.outputs or len(readers[y]) != 1:
            continue
        second = readers[y][0]
        # Coefficients are those of powers: of sizes they would be others.
        if second.custom_code == _COEFFICIENTS and options_of(first).get("magnitude_squared"):
            fused = Operator(
                "CUSTOM", [*first.inputs, second.inputs[1]], second.outputs, custom_code=FEATURES
            )
            fused.options = {"first": first, "second": second}
            block.operators[block.operators.index(second)] = fused
            block.operators.remove(first)


def is_signal(operator: Operator) -> bool:
    """Whether it is one of TFLite Micro's operators for sound, of which LiteRT has no kernels."""
    return operator.code == "CUSTOM" and operator.custom_code.startswith("Signal")


def hears(operator: Operator) -> bool:
    """Whether it takes samples of sound."""
    return operator.custom_code in (_SPECTROGRAM, FEATURES)


def take_samples(block: Subgraph, *, is_fixed: bool = False) -> None:
    """Let the sound come in as microphones give it: int16, 32768 for 1.

    Args:
        block: changed.
        is_fixed: whether coefficients are made of it in fixed point.

    Raises:
        UnsupportedOp: the network has no sound among its inputs, or of another kind than is asked for.
    """
    for tensor in block.inputs:
        read_by = [o for o in block.operators if tensor in o.reads()]
        if read_by and all(map(hears, read_by)):
            if is_fixed and any(o.custom_code != FEATURES for o in read_by):
                raise UnsupportedOp(
                    "its spectrogram is more than a step to coefficients, and has no form in fixed point",
                    hint="--sound int16 takes the same samples, and computes with reals",
                )
            for operator in read_by:
                operator.options["fixed"] = is_fixed
            tensor.dtype = dtype("int16")
            tensor.quantization = Quantization(np.array([1 / 32768], np.float32), np.array([0]))
            return
    raise UnsupportedOp(
        "no input goes into a spectrogram, so that there are no samples to take as int16",
        hint="leave out --sound",
    )
