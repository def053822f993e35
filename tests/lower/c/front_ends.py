"""Front ends of keyword networks as TFLite Micro has them: from samples to logarithms of filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import dtype
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.options import encode_map
from thinflow.tflite.writer import to_bytes

NOISE = {
    "smoothing": 409, "one_minus_smoothing": 15975, "alternate_smoothing": 983,
    "alternate_one_minus_smoothing": 15401, "min_signal_remaining": 819, "smoothing_bits": 10,
    "spectral_subtraction_bits": 14, "clamping": False,
}  # fmt: skip


def front_end(window: int, channels: int, seed: int = 0) -> bytes:
    """The file of a front end that hears so many samples a run, and makes so many features of them, int8."""
    rng = np.random.default_rng(seed)
    length = 1 << (window - 1).bit_length()
    bins, operators = length // 2 + 1, list[Operator]()
    x = Tensor("samples", (window,), dtype("int16"))

    def add(code: str, read: list[Any], *made: tuple[tuple[int, ...], str], **options: Any) -> list[Tensor]:
        name = f"{code}_{len(operators)}"
        inputs = [t if isinstance(t, Tensor) else _constant(f"{name}/{n}", t) for n, t in enumerate(read)]
        outputs = [Tensor(f"{name}:{n}", shape, dtype(kind)) for n, (shape, kind) in enumerate(made)]
        if code.isupper():
            operators.append(Operator(code, inputs, outputs, options))
        else:
            more = {"custom_code": code, "custom_options": encode_map(options)}
            operators.append(Operator("CUSTOM", inputs, outputs, **more))
        return outputs

    hann = np.round(2048 - 2048 * np.cos(2 * np.pi * np.arange(window) / window)).astype(np.int16)
    (windowed,) = add("SignalWindow", [x, hann], ((window,), "int16"), shift=12)
    loud, bits = add("SignalFftAutoScale", [windowed], ((window,), "int16"), ((), "int32"))
    (spectrum,) = add("SignalRfft", [loud], ((2 * bins,), "int16"), T=7, fft_length=length)
    (energy,) = add("SignalEnergy", [spectrum], ((bins,), "uint32"), start_index=1, end_index=bins)
    # What is not computed is cut off, and 0 in its place.
    (signed,) = add("CAST", [energy], ((bins,), "int32"))
    cut = [np.int32([n]) for n in (1, bins, 1)]
    (inside,) = add("STRIDED_SLICE", [signed, *cut], ((bins - 1,), "int32"))
    (joined,) = add("CONCATENATION", [np.zeros(1, np.int32), inside], ((bins,), "int32"), axis=0)
    (energy,) = add("CAST", [joined], ((bins,), "uint32"))
    # Filters as wide as those that are heard apart: few bins below, many above.
    ends = np.unique(np.geomspace(2, bins, channels + 2).astype(int))
    ends = np.concatenate([ends, np.full(channels + 2 - len(ends), bins)])
    starts, widths = ends[:-1], np.diff(ends)
    weights = rng.integers(0, 4097, widths.sum())
    tables = [weights, 4096 - weights, starts, np.cumsum(widths) - widths, widths]
    places = [np.asarray(t, np.int16) for t in tables]
    (held,) = add("SignalFilterBank", [energy, *places], ((channels,), "uint64"), num_channels=channels)
    of_channels = ((channels,), "uint32")
    (root,) = add("SignalFilterBankSquareRoot", [held, bits], of_channels)
    pair = of_channels, of_channels
    left, noise = add("SignalFilterBankSpectralSubtraction", [root], *pair, **NOISE, num_channels=channels)
    gains = np.sort(rng.integers(0, 1 << 15, 125)).astype(np.int16)[::-1].copy()
    (gained,) = add("SignalPCAN", [left, noise, gains], of_channels, snr_shift=6)
    log = {"output_scale": 64, "input_correction_bits": 3}
    (y,) = add("SignalFilterBankLog", [gained], ((channels,), "int16"), **log)
    whole = (channels,), "int32"
    (y,) = add("CAST", [y], whole)
    for code, number in (("MUL", 256), ("ADD", 700), ("DIV", 1400), ("ADD", -128)):
        (y,) = add(code, [y, np.array(number, np.int32)], whole)
    for code, number in (("MINIMUM", 127), ("MAXIMUM", -128)):
        (y,) = add(code, [y, np.array(number, np.int32)], whole)
    (y,) = add("CAST", [y], ((channels,), "int8"))
    return to_bytes(Program([Subgraph([x], [y], operators)]))


def _constant(name: str, data: Any) -> Tensor:
    return Tensor(name, data.shape, dtype(data.dtype), data)
