"""Image files, read and written."""

from __future__ import annotations

import builtins
import io
import struct
import sys
import zlib
from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import EngineUnavailable, FormatError, ShapeError
from thinflow.ir.types import STRING, TensorSpec, dtype

pillow = pytest.importorskip("PIL.Image")
Array = np.ndarray[Any, Any]
Y, X = np.mgrid[0:9, 0:14]
RGB = np.stack([Y * 20, X * 15, (X * Y) % 256], axis=-1).astype(np.uint8)


def string(data: bytes) -> Array:
    result = np.empty((), object)
    result[()] = data
    return result


def file(pixels: Array, kind: str, mode: str | None = None, **options: Any) -> Array:
    image = pillow.fromarray(pixels)
    buffer = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(buffer, kind, **options)
    return string(buffer.getvalue())


PNG, JPEG, BMP, GIF = (file(RGB, kind) for kind in ("PNG", "JPEG", "BMP", "GIF"))
EXACT: dict[str, Any] = {"dct_method": "INTEGER_ACCURATE"}
"""As pillow decodes; TensorFlow's own default is faster and a few levels off."""


def deep(pixels: Array, interlaced: bool = False, filters: tuple[int, ...] = (0,)) -> Array:
    """A PNG file of uint16 [h,w,c], its lines filtered by turns."""
    header = struct.pack(
        ">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, (0, 4, 2, 6)[pixels.shape[2] - 1], 0, 0, interlaced
    )
    passes = [
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    ]
    raw = b""
    for top, left, down, across in passes if interlaced else [(0, 0, 1, 1)]:
        raw += filtered(pixels[top::down, left::across], filters)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    parts = (struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks)
    return string(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def filtered(pixels: Array, filters: tuple[int, ...]) -> bytes:
    """Every line after the number of its filter, as an encoder computes it."""
    if not pixels.size:
        return b""
    step = 2 * pixels.shape[2]
    lines = pixels.astype(">u2").reshape(len(pixels), -1).view(np.uint8).astype(int)
    result = b""
    for row, line in enumerate(lines):
        up = lines[row - 1] if row else np.zeros_like(line)
        left, corner = (np.concatenate([np.zeros(step, int), v[:-step]]) for v in (line, up))
        near = np.abs([up - corner, left - corner, left + up - 2 * corner])
        paeth = np.where(
            (near[0] <= near[1]) & (near[0] <= near[2]), left, np.where(near[1] <= near[2], up, corner)
        )
        kind = filters[row % len(filters)]
        guess = (0, left, up, (left + up) // 2, paeth)[kind]
        result += bytes([kind]) + ((line - guess) % 256).astype(np.uint8).tobytes()
    return result


DEEP = np.random.default_rng(2).integers(0, 65536, (9, 7, 4)).astype(np.uint16)
CASES: dict[str, list[Case]] = {
    "DecodeJpeg": [
        ([JPEG], EXACT),
        ([JPEG], EXACT | {"channels": 1, "ratio": 2}),
        ([JPEG], EXACT | {"ratio": 4}),
    ],
    "DecodeAndCropJpeg": [([JPEG, np.array([1, 2, 3, 4], np.int32)], EXACT | {"channels": 3})],
    "DecodePng": [
        ([PNG], {}),
        ([PNG], {"channels": 4, "dtype": dtype("uint16")}),
        *(
            ([deep(DEEP[..., :c])], {"channels": n, "dtype": dtype("uint16")})
            for c in (1, 2, 3, 4)
            for n in (0, 1, 3, 4)
        ),
        *(([deep(DEEP[..., :c])], {"channels": n}) for c in (1, 3) for n in (1, 3)),
    ],
    "DecodeBmp": [([BMP], {"channels": 3})],
    "DecodeGif": [([GIF], {})],
    "DecodeImage": [([GIF], {}), ([PNG], {"dtype": dtype("float"), "expand_animations": False})],
    "EncodeJpeg": [([RGB], {}), ([RGB[..., :1]], {"quality": 50})],
    "EncodeJpegVariableQuality": [([RGB, np.array(30, np.int32)], {})],
    "EncodePng": [([RGB], {}), ([np.stack([RGB[..., :2].astype(np.uint16) * 257] * 2)], {})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=False)


@pytest.mark.parametrize("contents", [PNG, BMP])
def test_lossless_files(contents: Array) -> None:
    np.testing.assert_array_equal(run("DecodeImage", contents), RGB)
    np.testing.assert_array_equal(run("DecodeImage", contents, dtype=dtype("float")), RGB / np.float32(255))


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_deep_pngs_keep_every_bit(channels: int, interlaced: bool) -> None:
    pixels = DEEP[..., :channels]
    contents = deep(pixels, interlaced, filters=(4, 3, 0, 1, 2))
    np.testing.assert_array_equal(run("DecodePng", contents, dtype=dtype("uint16")), pixels)
    np.testing.assert_array_equal(run("DecodePng", contents), pixels >> 8)


def test_damaged_deep_pngs() -> None:
    data = deep(DEEP)[()]
    for broken, message in (
        (data[:60], "cut short"),
        (data[:20], "no header"),
        (data.replace(b"IDAT", b"IDAX"), "0 bytes of pixels"),
        (data[:16] + b"\x7f\xff\xff\xff" + data[20:], "pixels"),
        (deep(DEEP, filters=(0,))[()].replace(data[41:43], b"\0\0"), "damaged"),
    ):
        with pytest.raises(FormatError, match=message):
            run("DecodePng", string(broken))


def test_jpeg() -> None:
    smooth = np.full((16, 16, 3), 128, np.uint8)
    y = run("DecodeJpeg", file(smooth, "JPEG", quality=100))
    assert np.abs(y.astype(int) - 128).max() <= 2
    assert run("DecodeJpeg", JPEG, ratio=4).shape == (3, 4, 3)
    assert run("DecodeJpeg", JPEG, channels=1).shape == (9, 14, 1)
    whole = run("DecodeJpeg", JPEG)
    crop = run("DecodeAndCropJpeg", JPEG, np.array([2, 3, 4, 5], np.int32))
    np.testing.assert_array_equal(crop, whole[2:6, 3:8])


def test_png_channels() -> None:
    palette = file(RGB // 128 * 255, "PNG", "P")
    assert run("DecodePng", palette).shape == (9, 14, 3)
    y = run("DecodePng", PNG, channels=4)
    assert (y[..., 3] == 255).all()
    grey = run("DecodePng", PNG, channels=1)
    expected = RGB @ np.array([0.299, 0.587, 0.114])
    assert np.abs(grey[..., 0] - expected).max() <= 1
    assert run("DecodePng", file(RGB[..., 0], "PNG"), channels=3).shape == (9, 14, 3)
    assert run("DecodePng", file(RGB[..., 0], "PNG", "1")).max() == 255


def test_deep_pngs() -> None:
    deep = (RGB[..., 0].astype(np.uint16) * 300)[..., None]
    contents = run("EncodePng", deep)
    np.testing.assert_array_equal(run("DecodePng", contents, dtype=dtype("uint16")), deep)
    np.testing.assert_array_equal(run("DecodePng", contents), (deep >> 8).astype(np.uint8))
    np.testing.assert_array_equal(run("DecodePng", PNG, dtype=dtype("uint16")), RGB.astype(np.uint16) * 257)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_written_pngs_read_back(channels: int) -> None:
    pixels = np.concatenate([RGB, RGB[..., :1]], axis=-1)[..., :channels]
    contents = run("EncodePng", pixels)
    np.testing.assert_array_equal(run("DecodePng", contents), pixels)
    assert run("EncodePng", np.stack([pixels, pixels])).tolist() == [contents.item()] * 2


def test_animations() -> None:
    frames = [pillow.fromarray(np.full((4, 5), i * 100, np.uint8)) for i in range(3)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    contents = string(buffer.getvalue())
    y = run("DecodeGif", contents)
    assert y[:, 0, 0, 0].tolist() == [0, 100, 200]
    assert run("DecodeImage", contents).shape == (3, 4, 5, 3)
    assert run("DecodeImage", contents, expand_animations=False).shape == (4, 5, 3)
    with pytest.raises(ShapeError, match="animation"):
        run("DecodePng", contents)


def test_bmp_kinds() -> None:
    np.testing.assert_array_equal(run("DecodeBmp", file(RGB[..., 0], "BMP"))[..., 0], RGB[..., 0])
    rgba = np.concatenate([RGB, RGB[..., :1]], axis=-1)
    np.testing.assert_array_equal(run("DecodeBmp", file(rgba, "BMP")), rgba)
    assert (run("DecodeBmp", BMP, channels=4)[..., 3] == 255).all()
    upside_down = bytearray(BMP.item())
    struct.pack_into("<i", upside_down, 22, -9)
    np.testing.assert_array_equal(run("DecodeBmp", string(bytes(upside_down))), RGB[::-1])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"hello", "no JPEG, PNG, GIF or BMP"),
        (BMP.item()[:100], "cut short"),
        (BMP.item()[:20], "cut short"),
        (PNG.item()[:60], "PNG image"),
        (JPEG.item()[:30], "JPEG image"),
        (JPEG.item()[:-20], "damaged"),
        (GIF.item()[:20], "GIF image"),
    ],
)
def test_damaged_files(data: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        run("DecodeImage", string(data))


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(EngineUnavailable, match=r"thinflow\[image\]"):
        run("DecodeJpeg", JPEG)
    np.testing.assert_array_equal(run("DecodeBmp", BMP), RGB)


def test_a_jpeg_without_simplejpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    """pillow's pixels are those of the accurate transform."""
    accurate = run("DecodeJpeg", JPEG, **EXACT)
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    np.testing.assert_array_equal(run("DecodeJpeg", JPEG), accurate)
    assert run("DecodeJpeg", JPEG, ratio=2, channels=1).shape == (5, 7, 1)


def test_the_default_is_the_fast_transform() -> None:
    pytest.importorskip("simplejpeg")
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    content = file(noise, "JPEG", quality=90)
    fast, accurate = (run("DecodeJpeg", content, **attrs).astype(int) for attrs in ({}, EXACT))
    assert 0 < np.abs(fast - accurate).max() < 12


def test_shapes() -> None:
    contents = TensorSpec(STRING, ())
    assert infer("DecodeJpeg", contents, channels=3).shape == (None, None, 3)
    assert infer("DecodeImage", contents, channels=3).shape is None
    assert infer("EncodePng", TensorSpec(dtype("uint8"), (2, None, 5, 3))).shape == (2,)
