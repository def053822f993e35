"""TFLite Micro's signal ops on the channels of a filter bank, in unsigned whole numbers."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.operators.signal import numbers_of
from thinflow.lower.c.sound import options_of
from thinflow.ops.signal_filters import LOG_TABLE
from thinflow.tflite.model import Operator

_ANY = range(-(1 << 31), 1 << 32)
_MOST_32 = (1 << 32) - 1
_GAINS = 125
"""Those for noise of up to 32 bits."""


@form("SignalFilterBank", types="uint32")
def filter_bank(b: LayerBuilder, op: Operator) -> None:
    """x [bins], weights [m], unweights [m], and places of the filters [channels+1] each -> y [channels]."""
    (channels,) = numbers_of(op, num_channels=range(1 << 15))
    rising, falling, *places = (b.array(n).reshape(-1) for n in range(1, 6))
    if any(len(p) != channels + 1 for p in places):
        raise UnsupportedOp(f"its filters are not {channels + 1}")
    bins, weights, widths = (p.astype(np.int64) for p in places)
    size, count = b.size(b.input(0)), min(len(rising), len(falling))
    fits = (
        (bins >= 0) & (bins + widths <= size) & (weights >= 0) & (weights + widths <= count) & (widths >= 0)
    )
    if not fits.all():
        raise UnsupportedOp(
            f"filter {int(np.argmin(fits))} reaches beyond {size} bins or {count} weights of it"
        )
    # Without a sign a product of 64 bits is one instruction.
    is_signed = bool((rising < 0).any() or (falling < 0).any())
    kind, wide = ("int16", "int64_t") if is_signed else ("uint16", "uint32_t")
    settings = b.struct(
        "",
        channels=channels,
        bins=b.constant("bins", bins, "int16"),
        places=b.constant("places", weights, "int16"),
        widths=b.constant("widths", widths, "int16"),
        rising=b.constant("rising", rising, kind),
        falling=b.constant("falling", falling, kind),
    )
    b.macs(2 * int(widths.sum()))
    b.call("signal_filter_bank", b.input(0), b.output(), settings, type=kind, wide=wide)


@form("SignalFilterBankSquareRoot", types="uint64")
def square_root(b: LayerBuilder, op: Operator) -> None:
    """x [n], bits [] -> y [n]."""
    b.call("signal_filter_bank_square_root", b.input(0), b.input(1), b.output(), b.size(b.output()))


@form("SignalFilterBankSpectralSubtraction", types="uint32")
def spectral_subtraction(b: LayerBuilder, op: Operator) -> None:
    """x [n] -> y [n], noise [n], which is kept."""
    even, kept, odd, odd_kept, least, more, bits, channels = numbers_of(
        op,
        smoothing=_ANY,
        one_minus_smoothing=_ANY,
        alternate_smoothing=_ANY,
        alternate_one_minus_smoothing=_ANY,
        min_signal_remaining=_ANY,
        smoothing_bits=range(32),
        spectral_subtraction_bits=range(64),
        num_channels=range(1 << 15),
    )
    if channels != b.size(b.input(0)):
        raise UnsupportedOp(f"it has {b.size(b.input(0))} channels, not {channels}")
    # Coefficients are stored with a sign, and multiplied without.
    settings = b.struct(
        "",
        channels=channels,
        smoothing=(even & _MOST_32, odd & _MOST_32),
        kept=(kept & _MOST_32, odd_kept & _MOST_32),
        least=least & _MOST_32,
        bits=bits,
        noise_bits=more,
        clamping=int(bool(options_of(op).get("clamping"))),
    )
    # It begins with silence, and is a result as well: gains are chosen by it.
    noise = b.state("noise", "uint32_t", channels)
    b.call("signal_filter_bank_spectral_subtraction", b.input(0), b.output(), b.output(1), noise, settings)


@form("SignalPCAN", types="uint32")
def pcan(b: LayerBuilder, op: Operator) -> None:
    """x [n], noise [n], gains -> y [n]."""
    (shift,) = numbers_of(op, snr_shift=range(64))
    gains = b.array(2).reshape(-1)
    # Which of them are read is known only when it runs.
    if len(gains) < _GAINS:
        raise UnsupportedOp(f"it has {len(gains)} gains, and noise of 32 bits needs {_GAINS}")
    b.call(
        "signal_pcan",
        *(b.input(0), b.input(1), b.constant("gains", gains[:_GAINS], "int16"), b.output()),
        *(b.size(b.output()), shift),
    )


@form("SignalFilterBankLog", types="uint32")
def filter_bank_log(b: LayerBuilder, op: Operator) -> None:
    """x [n] -> y [n]."""
    scale, shift = numbers_of(op, output_scale=_ANY, input_correction_bits=range(32))
    table = b.constant("logarithms", np.array(LOG_TABLE), "int16")
    size = b.size(b.output())
    b.call("signal_filter_bank_log", b.input(0), b.output(), size, scale & _MOST_32, shift, table)
