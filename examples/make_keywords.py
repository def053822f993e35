"""Makes a keyword spotter to try things on: four sounds, told apart from the bytes of a WAV file.

python examples/make_keywords.py OUT_FOLDER

The graph has the front of TensorFlow's speech commands (DecodeWav, AudioSpectrogram, Mfcc) and its names.
Sounds are made from a seed; the last layer is fitted to them, the convolution before it is random.
"""

from __future__ import annotations

import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, STRING

Array = np.ndarray[Any, Any]
WORDS = ("rise", "fall", "beep", "hiss")
RATE = 16000


def sound(word: str, rng: np.random.Generator) -> Array:
    """One second of a sound, [16000] in -1..1, never twice the same."""
    low, high = rng.uniform(300, 700), rng.uniform(1200, 2600)
    sweep = np.linspace(low, high, RATE)
    pitch = {"rise": sweep, "fall": sweep[::-1], "beep": np.full(RATE, rng.uniform(600, 1800))}
    tone = np.sin(2 * np.pi * np.cumsum(pitch[word]) / RATE) if word in pitch else rng.normal(0, 0.5, RATE)
    start, length = rng.integers(0, 4000), rng.integers(7000, 12000)
    heard = np.zeros(RATE)
    heard[start : start + length] = tone[start : start + length] * rng.uniform(0.1, 0.5)
    return np.clip(heard + rng.normal(0, rng.uniform(0.005, 0.08), RATE), -1, 1)


def write_clips(folder: Path, count: int, seed: int) -> None:
    """WAV files that are named WORD_number.wav, `count` of each word."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for word in WORDS:
        for number in range(count):
            with wave.open(str(folder / f"{word}_{number}.wav"), "wb") as file:
                file.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
                file.writeframes((sound(word, rng) * 32767).astype("<i2").tobytes())


def network(weights: Array, bias: Array) -> thinflow.Graph:
    """From the bytes of a file to the probability of each word."""
    g = thinflow.Graph()
    f = {"T": FLOAT}
    wav = g.add("Placeholder", name="wav_data", attrs={"dtype": STRING, "shape": ShapeAttr(())}).output()
    decode = g.add(
        "DecodeWav", [wav], "decoded_sample_data", attrs={"desired_channels": 1, "desired_samples": RATE}
    )
    size = {"window_size": 640, "stride": 320, "magnitude_squared": True}
    spectrum = g.add("AudioSpectrogram", [decode.output(0)], "spectrogram", attrs=size).output()
    coefficients = {"dct_coefficient_count": 10}
    mfcc = g.add("Mfcc", [spectrum, decode.output(1)], "Mfcc", attrs=coefficients).output()
    shape = g.constant(np.array([-1, 49, 10, 1], np.int32), "fingerprint/shape")
    x = g.add("Reshape", [mfcc, shape], "fingerprint", attrs=f).output()
    random = np.random.default_rng(1).normal(0, 0.06, (9, 5, 1, 32)).astype(np.float32)
    kernel = g.constant(random, "conv/weights")
    strides = {**f, "strides": (1, 2, 2, 1), "padding": "SAME"}
    x = g.add("Conv2D", [x, kernel], "conv/Conv2D", attrs=strides).output()
    x = g.add("Relu", [x], "conv/Relu", attrs=f).output()
    flat = g.constant(np.array([-1, 25 * 5 * 32], np.int32), "flat/shape")
    x = g.add("Reshape", [x, flat], "flat", attrs=f).output()
    x = g.add("MatMul", [x, g.constant(weights, "final_fc/weights")], "final_fc/MatMul", attrs=f).output()
    x = g.add("BiasAdd", [x, g.constant(bias, "final_fc/bias")], "add_1", attrs=f).output()
    y = g.add("Softmax", [x], "labels_softmax", attrs=f).output()
    g.inputs, g.outputs = [wav], [y]
    return g


def fitted(clips: Path) -> thinflow.Graph:
    """The network with a last layer by ridge regression on what the layer before it gives."""
    files = sorted(clips.glob("*.wav"))
    blank = network(np.zeros((25 * 5 * 32, 4), np.float32), np.zeros(4, np.float32))
    session = thinflow.Session(blank)
    x = np.concatenate([session.run(["flat"], {"wav_data": f.read_bytes()})[0] for f in files]).astype(float)
    y = np.array([[6.0 * (f.name.partition("_")[0] == word) - 3 for word in WORDS] for f in files])
    centre = x.mean(0)
    near = (x - centre) @ (x - centre).T
    weights = (x - centre).T @ np.linalg.solve(near + np.trace(near) / len(x) * 0.05 * np.eye(len(x)), y)
    return network(weights.astype(np.float32), (y.mean(0) - centre @ weights).astype(np.float32))


def main(folder: Path) -> None:
    write_clips(folder / "clips", 40, seed=1)
    write_clips(folder / "test_clips", 40, seed=2)
    thinflow.save(fitted(folder / "clips"), folder / "keywords.pb")
    (folder / "labels.txt").write_text("\n".join(WORDS) + "\n")
    print(f"wrote keywords.pb, labels.txt, clips and test_clips to {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
