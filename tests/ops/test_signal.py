"""TFLite Micro's signal ops: shape rules and kernels agree; tests/lift/tflite has what they answer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement

RNG = np.random.default_rng(4)
SOUND = RNG.integers(-900, 900, 16).astype(np.int16)
SPECTRUM = RNG.integers(-900, 900, 18).astype(np.int16)
ENERGIES = RNG.integers(0, 5000, 9).astype(np.uint32)
CHANNELS = RNG.integers(1, 900, 4).astype(np.uint32)
NO_BITS, NONE = np.array(0, np.int32), np.array(0, np.int32)
HALVES = np.full(8, 2048, np.int16)
STARTS = np.array([1, 2, 4, 5], np.int16)
CASES: dict[str, list[Case]] = {
    "SignalWindow": [([SOUND, RNG.integers(0, 4096, 16).astype(np.int16)], {"shift": 12})],
    "SignalFftAutoScale": [([SOUND], {})],
    "SignalRfft": [([SOUND], {"fft_length": 16}), ([SOUND.astype(np.float32)], {"fft_length": 32})],
    "SignalIrfft": [([SPECTRUM], {"fft_length": 16})],
    "SignalEnergy": [([SPECTRUM], {"start_index": 1, "end_index": 8})],
    "SignalFilterBank": [
        (
            [ENERGIES, HALVES, HALVES, STARTS, 2 * np.arange(4, dtype=np.int16), np.full(4, 2, np.int16)],
            {"num_channels": 3},
        )
    ],
    "SignalFilterBankSquareRoot": [([CHANNELS.astype(np.uint64) ** 2, NO_BITS], {})],
    "SignalFilterBankSpectralSubtractionStep": [
        (
            [CHANNELS, CHANNELS // 2],
            {
                "smoothing": 1638,
                "one_minus_smoothing": 14746,
                "alternate_smoothing": 983,
                "alternate_one_minus_smoothing": 15401,
                "min_signal_remaining": 819,
                "smoothing_bits": 10,
                "spectral_subtraction_bits": 14,
            },
        )
    ],
    "SignalPCAN": [([CHANNELS, CHANNELS, np.arange(1, 126).astype(np.int16)], {"snr_shift": 6})],
    "SignalFilterBankLog": [([CHANNELS], {"output_scale": 1600, "input_correction_bits": 3})],
    "SignalDelayStep": [([SOUND, SOUND[:5]], {})],
    "SignalOverlapAddStep": [([SOUND.reshape(2, 8), np.zeros(8, np.int16)], {"frame_step": 4})],
    "SignalFramerStep": [([SOUND, np.zeros(24, np.int16), NONE], {"frame_size": 12, "frame_step": 8})],
    "SignalStackerStep": [
        (
            [SOUND[:4], np.zeros(32, np.int16), NONE],
            {"num_channels": 4, "stacker_left_context": 1, "stacker_right_context": 1, "stacker_step": 2},
        )
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=False)
