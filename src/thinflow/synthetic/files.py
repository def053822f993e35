"""Small files of the kinds that models decode."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np

SIZE = 96
"""Pixels for an unknown height or width."""


def synthetic_wav(rng: np.random.Generator, samples: int = 16000, rate: int = 16000) -> bytes:
    """A mono 16-bit WAV file: a few gliding tones in noise."""
    time = np.arange(samples) / rate
    sound = 0.02 * rng.standard_normal(samples)
    for _ in range(3):
        pitch, glide = rng.uniform(120, 3000), rng.uniform(-400, 400)
        envelope = np.exp(-(((time - rng.uniform(0.2, 0.8)) / rng.uniform(0.05, 0.3)) ** 2))
        sound += 0.2 * envelope * np.sin(2 * np.pi * (pitch * time + glide * time**2))
    data = (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        # RIFF counts what follows this number: "WAVE", the 24 bytes of the fmt chunk, the 8 that begin the
        # data.
        36 + len(data),
        b"WAVE",
        b"fmt ",
        16,
        # PCM, one channel; then samples a second, bytes a second, bytes a sample, bits a sample.
        1,
        1,
        rate,
        2 * rate,
        2,
        16,
        b"data",
        len(data),
    )
    return header + data


def synthetic_png(rng: np.random.Generator, size: int = SIZE) -> bytes:
    """A small RGB picture as PNG, which all picture decoders of TensorFlow accept: smooth blobs."""
    y, x = np.mgrid[0:size, 0:size] / size
    picture = np.zeros((size, size, 3))
    for channel in range(3):
        for _ in range(3):
            cx, cy, width = rng.random(), rng.random(), rng.uniform(0.1, 0.4)
            picture[..., channel] += np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / width**2) * rng.uniform(
                60, 160
            )
    pixels = np.clip(picture, 0, 255).astype(np.uint8)
    # Each row of a PNG begins with the number of its filter; 0 is none.
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    out = io.BytesIO(b"")
    out.write(b"\x89PNG\r\n\x1a\n")
    for kind, data in (
        # 8 bits, colour type 2 (RGB), then the only compression, filter method and order of rows there are.
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ):
        out.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return out.getvalue()
