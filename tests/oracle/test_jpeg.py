"""JPEG files beside TensorFlow's decoder: the same pixels."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import numpy as np
import pytest

from thinflow.ops import registry

tf = pytest.importorskip("tensorflow")
pillow = pytest.importorskip("PIL.Image")
pytest.importorskip("simplejpeg")


def picture(height: int, width: int, mode: str = "RGB", **options: Any) -> bytes:
    """A JPEG file of blocks with noise."""
    rng = np.random.default_rng(height)
    blocks = np.kron(rng.integers(0, 255, (height // 8 + 1, width // 8 + 1, 3)), np.ones((8, 8, 1)))
    pixels = (blocks[:height, :width] + rng.normal(0, 10, (height, width, 3))).clip(0, 255)
    buffer = io.BytesIO()
    pillow.fromarray(pixels.astype(np.uint8)).convert(mode).save(buffer, "JPEG", **options)
    return buffer.getvalue()


FILES = [
    picture(64, 64, quality=90, subsampling=0),
    picture(57, 71, quality=75, subsampling=2),
    picture(57, 71, quality=75, subsampling=2, progressive=True),
    picture(33, 18, quality=50, subsampling=1),
    picture(40, 61, "L", quality=80),
]


def decoded(name: str, data: bytes, *more: Any, **attrs: Any) -> Any:
    content = np.empty((), object)
    content[()] = data
    return registry.call_kernel(registry.get(name), [content, *more], attrs)[0]


@pytest.mark.parametrize("data", FILES)
def test_every_way_to_decode(data: bytes) -> None:
    for channels, ratio, method, fancy in product(
        (0, 1, 3), (1, 2, 4, 8), ("", "INTEGER_FAST", "INTEGER_ACCURATE"), (True, False)
    ):
        attrs = {"channels": channels, "ratio": ratio, "dct_method": method, "fancy_upscaling": fancy}
        wanted = tf.io.decode_jpeg(data, **attrs).numpy()
        np.testing.assert_array_equal(decoded("DecodeJpeg", data, **attrs), wanted, err_msg=str(attrs))


@pytest.mark.parametrize("data", FILES)
def test_other_decoders_of_the_same_file(data: bytes) -> None:
    window = np.array([3, 2, 11, 9], np.int32)
    np.testing.assert_array_equal(
        decoded("DecodeAndCropJpeg", data, window), tf.io.decode_and_crop_jpeg(data, window).numpy()
    )
    np.testing.assert_array_equal(decoded("DecodePng", data), tf.io.decode_png(data).numpy())
    np.testing.assert_array_equal(decoded("DecodeImage", data), tf.io.decode_image(data).numpy())
