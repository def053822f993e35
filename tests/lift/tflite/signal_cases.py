"""TFLite Micro's signal ops, one at a time: what they are fed, and checks of what its interpreter answers.

The checks are of the bytes that `tflite_micro` 0.dev20261023182759 gives for these files over several calls,
without frames that it says are not valid.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.lift.tflite.programs import Spec
from thinflow.ir.types import BOOL, INT32, dtype

INT16, UINT32, UINT64 = map(dtype, ("int16", "uint32", "uint64"))
CALLS = 6
T_FLOAT, T_INT32, T_INT16 = 0, 2, 7
"""Numbers of types in a .tflite file."""
SUBTRACTION = {
    "smoothing": 410, "one_minus_smoothing": 15974, "alternate_smoothing": 1384,
    "alternate_one_minus_smoothing": 15000, "min_signal_remaining": 819, "smoothing_bits": 10,
    "spectral_subtraction_bits": 14, "num_channels": 9,
}  # fmt: skip


class Case(NamedTuple):
    """One operator, and the check of its answers."""

    code: str
    inputs: Sequence[Spec]
    outputs: Sequence[Spec]
    options: dict[str, Any]
    constants: Sequence[np.ndarray[Any, Any]] = ()
    check: int = 0


def frames(size: int, step: int, count: int, *outer: int, prefill: bool, check: int) -> Case:
    options = {"frame_size": size, "frame_step": step, "prefill": prefill}
    outputs = [((*outer, count, size), INT16), ((), BOOL)]
    return Case("SignalFramer", [((*outer, count * step), INT16)], outputs, options, check=check)


def overlaps(size: int, step: int, count: int, *outer: int, check: int) -> Case:
    options = {"frame_step": step, "T": T_INT16}
    x, y = (*outer, count, size), (*outer, count * step)
    return Case("SignalOverlapAdd", [(x, INT16)], [(y, INT16)], options, check=check)


def stacks(channels: int, left: int, right: int, step: int, check: int) -> Case:
    options = {"num_channels": channels, "stacker_left_context": left, "stacker_right_context": right}
    options["stacker_step"] = step
    outputs = [((channels * (left + 1 + right),), INT16), ((), BOOL)]
    return Case("SignalStacker", [((channels,), INT16)], outputs, options, check=check)


def delays(length: int, *shape: int, check: int) -> Case:
    return Case("SignalDelay", [(shape, INT16)], [(shape, INT16)], {"delay_length": length}, check=check)


def spectra(length: int, bits: int, check: int, *, inverse: bool = False) -> Case:
    kind = INT16 if bits == 16 else INT32
    options = {"fft_length": length, "T": T_INT16 if bits == 16 else T_INT32}
    ends = [((2, length), kind)], [((2, length + 2), kind)]
    x, y = reversed(ends) if inverse else ends
    return Case("SignalIrfft" if inverse else "SignalRfft", x, y, options, check=check)


def subtractions(clamping: bool, check: int) -> Case:
    ends = [((9,), UINT32)]
    options = {**SUBTRACTION, "clamping": clamping}
    return Case("SignalFilterBankSpectralSubtraction", ends, [*ends, *ends], options, check=check)


def gains() -> np.ndarray[Any, Any]:
    """Any parabolas: what is computed with them is defined for all."""
    return np.random.default_rng(3).integers(-(1 << 15), 1 << 15, 125).astype(np.int16)


def filters() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 4097, 24)
    places = [3, 5, 9, 14, 20], [0, 4, 8, 12, 18], [4, 4, 3, 6, 6]
    return [a.astype(np.int16) for a in (weights, 4096 - weights, *map(np.array, places))]


CASES = [
    delays(3, 8, check=0xF767CE3C),
    delays(5, 2, 3, check=0x9370206D),
    frames(5, 2, 1, prefill=True, check=0x2983523D),
    frames(5, 2, 2, 2, 2, prefill=False, check=0xF6C4A1DD),
    frames(7, 3, 1, prefill=False, check=0x4AFDB9A9),
    frames(4, 4, 2, 3, prefill=True, check=0x9C7FDFF1),
    overlaps(5, 2, 4, 2, check=0x9436FEEA),
    overlaps(4, 4, 2, check=0xA7618926),
    stacks(3, 1, 0, 1, check=0xCB388AA7),
    stacks(4, 2, 1, 2, check=0x131A83F8),
    stacks(2, 0, 2, 3, check=0xA97FEAA8),
    spectra(4, 16, check=0xC4730A58),
    spectra(8, 16, check=0x5C36C044),
    spectra(64, 16, check=0x733E8BA9),
    spectra(512, 16, check=0x1B6F3C8B),
    spectra(32, 32, check=0xC529BFEC),
    spectra(8, 16, check=0xA6F2AC6A, inverse=True),
    spectra(256, 16, check=0xC214C6AE, inverse=True),
    spectra(32, 32, check=0x81B0F0B5, inverse=True),
    subtractions(clamping=False, check=0xE92F8C3C),
    subtractions(clamping=True, check=0xAA964539),
    Case("SignalWindow", [((3, 16), INT16)], [((3, 16), INT16)], {"shift": 12}, [gains()[:16]], 0x670047B0),
    Case("SignalFftAutoScale", [((5,), INT16)], [((5,), INT16), ((), INT32)], {}, check=0x1AD3C878),
    Case(
        "SignalEnergy", [((16,), INT16)], [((8,), UINT32)], {"start_index": 0, "end_index": 8}, (), 0x8FD3FFF1
    ),
    Case("SignalFilterBank", [((30,), UINT32)], [((4,), UINT64)], {"num_channels": 4}, filters(), 0x3ACB7136),
    Case("SignalFilterBankSquareRoot", [((40,), UINT64)], [((40,), UINT32)], {}, [np.int32(3)], 0x2FC2390B),
    Case("SignalPCAN", [((70,), UINT32)] * 2, [((70,), UINT32)], {"snr_shift": 6}, [gains()], 0x45D7FC0A),
    Case(
        "SignalFilterBankLog", [((60,), UINT32)], [((60,), INT16)],
        {"output_scale": 1600, "input_correction_bits": 3}, check=0x3BF906AF,
    ),
]  # fmt: skip


def drawn(case: Case) -> list[list[np.ndarray[Any, Any]]]:
    """The inputs of each call: small numbers as often as large ones where they have no sign."""
    rng = np.random.default_rng(len(case.code))
    calls = []
    for call in range(CALLS):
        calls.append([])
        for shape, kind in case.inputs:
            bits = 8 * kind.itemsize
            if kind.name.startswith("u"):
                # Gains are for noise of 31 bits.
                x = 2 ** rng.uniform(0, bits - (case.code == "SignalPCAN"), shape)
            else:
                x = rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape) >> (3 * call % bits)
            calls[-1].append(x.astype(kind.numpy()))
    return calls


def check_of(answers: Sequence[Sequence[np.ndarray[Any, Any]]]) -> int:
    found = 0
    for y in answers:
        is_open = len(y) == 2 and y[1].dtype == bool and not y[1]
        for array in y[1:] if is_open else y:
            found = zlib.crc32(np.ascontiguousarray(array).tobytes(), found)
    return found
