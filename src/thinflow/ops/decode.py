"""Image files to pixels: JPEG through simplejpeg or pillow, PNG and GIF through pillow, BMP by hand."""

from __future__ import annotations

import io
import struct
import warnings
from typing import Any

import numpy as np

from thinflow.errors import EngineUnavailable, FormatError
from thinflow.ir.types import UINT8, DType, TensorSpec
from thinflow.ops import _image_files
from thinflow.ops._image_files import decode_deep, header
from thinflow.ops._shapes import Dim
from thinflow.ops.audio import scalar_bytes
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

_AS_USUAL = _image_files.How()
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def pillow() -> Any:
    """The module PIL.Image.

    Raises:
        EngineUnavailable: pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise EngineUnavailable("image files need pillow", hint="pip install 'thinflow[image]'") from error
    return Image


def _kind(data: bytes) -> str:
    if data[:3] == b"\xff\xd8\xff":
        return "JPEG"
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "PNG"
    if data[:4] == b"GIF8":
        return "GIF"
    if data[:2] == b"BM":
        return "BMP"
    raise FormatError(
        "the bytes are no JPEG, PNG, GIF or BMP image", hint="feed the contents of an image file"
    )


def _opened(data: bytes, kind: str) -> Any:
    """A pillow image whose pixels are not decoded yet."""
    image = pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # huge images are judged by the limit that raises, not the one that warns
            return image.open(io.BytesIO(data), formats=(kind,))
    except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as error:
        raise FormatError(f"the {kind} image cannot be read: {error}") from error


def _pixels(opened: Any, mode: str | None = None) -> Array:
    """All pixels of the current frame [h,w] or [h,w,c]."""
    try:
        converted = opened if mode is None or opened.mode == mode else opened.convert(mode)
        return np.array(converted)
    except (OSError, ValueError, SyntaxError, EOFError, struct.error) as error:
        raise FormatError(f"the {opened.format} image is damaged: {error}") from error


def _decode_jpeg(data: bytes, channels: int, how: _image_files.How) -> Array:
    require(channels in {0, 1, 3}, f"a JPEG has 1 or 3 channels, not {channels}")
    opened = _opened(data, "JPEG")
    # CMYK files have four components, which TensorFlow turns into RGB.
    own = 1 if opened.mode == "L" else 3
    mode = _MODES[channels or own]
    # simplejpeg gives TensorFlow's own pixels; all it does not take goes to pillow, a few levels off.
    if opened.mode in {"L", "RGB"}:
        size = opened.height, opened.width
        if (pixels := _image_files.decode(data, size, how, grey=mode == "L")) is not None:
            return pixels
    if how.ratio > 1 or mode == "L":
        # The decoder itself scales, and hands out luma without a detour through colours.
        opened.draft(mode, (max(opened.width // how.ratio, 1), max(opened.height // how.ratio, 1)))
    return np.atleast_3d(_pixels(opened, mode))


def _decode_png(data: bytes, channels: int, wide: bool) -> Array:
    require(channels in {0, 1, 3, 4}, f"a PNG is decoded to 1, 3 or 4 channels, not {channels}")
    if header(data).depth == 16:
        return _deep_png(decode_deep(data), channels, wide)
    opened = _opened(data, "PNG")
    # A palette is expanded, and its transparency becomes a channel.
    own = {"1": 1, "L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "P": 4 if "transparency" in opened.info else 3}
    wanted = channels or own.get(opened.mode, 3)
    colour = opened.mode in {"RGB", "RGBA", "P"}
    # Pillow's own grey has other weights than libpng's, so colours are read first and mixed by `_grey`.
    mode = _MODES[wanted + 2 if colour and wanted < 3 else wanted]
    pixels = np.atleast_3d(_pixels(opened, mode))
    if colour and wanted < 3:
        pixels = np.concatenate([_grey(pixels), pixels[..., 3:]], axis=-1)[..., :wanted]
    # 255 becomes 65535.
    return pixels.astype(np.uint16) * 257 if wide else pixels


def _deep_png(pixels: Array, channels: int, wide: bool) -> Array:
    """Pixels of 16 bits with as many channels as asked for, cut to 8 bits unless `wide`."""
    own = pixels.shape[-1]
    wanted = channels or own
    colour, alpha = pixels[..., : 1 if own < 3 else 3], pixels[..., own - 1 :]
    if own in {1, 3}:
        alpha = np.full_like(alpha, np.iinfo(pixels.dtype).max)
    if wanted < 3 and own >= 3:
        colour = _grey(colour)
    elif wanted >= 3 and own < 3:
        colour = np.repeat(colour, 3, axis=-1)
    chosen = np.concatenate([colour, alpha], axis=-1) if wanted in {2, 4} else colour
    return chosen if wide else (chosen >> 8).astype(np.uint8)


def _grey(pixels: Array) -> Array:
    """Luma as TensorFlow asks libpng for it."""
    # 0.299, 0.587 and 0.114 of 2^15, as libpng's fixed-point arithmetic has them.
    r, g, b = (pixels[..., i : i + 1].astype(np.uint32) for i in range(3))
    # Of 16 bits libpng rounds, of 8 it cuts.
    mixed = (9797 * r + 19234 * g + 3737 * b + (1 << 14 if pixels.itemsize == 2 else 0)) >> 15
    return np.where((r == g) & (g == b), r, mixed).astype(pixels.dtype)


def _with_channels(grey: Array, channels: int) -> Array:
    """A grey image with its channel repeated and an opaque alpha, as far as asked for."""
    parts = [np.repeat(grey, 1 if channels < 3 else 3, axis=-1)]
    if channels in {2, 4}:
        parts.append(np.full_like(grey, np.iinfo(grey.dtype).max))
    return np.concatenate(parts, axis=-1)


def _decode_gif(data: bytes) -> Array:
    """All frames, each drawn over those before, [frames,h,w,3]."""
    opened = _opened(data, "GIF")
    frames = []
    for index in range(getattr(opened, "n_frames", 1)):
        # Frames of a GIF may be parts drawn over the ones before; pillow composes them in order only.
        opened.seek(index)
        frames.append(_pixels(opened, "RGB"))
    return np.stack(frames)


def _decode_bmp(data: bytes, channels: int) -> Array:
    if len(data) < 32:
        raise FormatError("the BMP image is cut short", where=f"byte {len(data)}")
    # Offset of the pixels at byte 10; width, height and bits per pixel from the header that follows.
    start, width, height = struct.unpack_from("<I", data, 10)[0], *struct.unpack_from("<ii", data, 18)
    depth = struct.unpack_from("<H", data, 28)[0] // 8
    if depth not in {1, 3, 4}:
        raise FormatError(f"the BMP image has {depth * 8} bits per pixel", hint="use 8, 24 or 32")
    require(channels in {0, 3, 4}, f"a BMP has 3 or 4 channels, not {channels}")
    # Lines are filled up to four bytes, and stand bottom up unless the height is negative.
    rows, stride = abs(height), (depth * width + 3) // 4 * 4
    if width < 0 or start + stride * rows > len(data):
        raise FormatError("the BMP image is cut short", where=f"byte {len(data)}")
    lines = np.frombuffer(data, np.uint8, stride * rows, start).reshape(rows, stride)
    pixels = lines[:, : width * depth].reshape(rows, width, depth)
    if height > 0:
        pixels = pixels[::-1]
    wanted = channels or depth
    if depth == 1:
        return pixels if wanted == 1 else _with_channels(pixels, wanted)
    # The file has blue, green, red, alpha.
    order = [2, 1, 0, 3][: min(depth, wanted)]
    opaque = np.full((rows, width, wanted - len(order)), 255, np.uint8)
    return np.concatenate([pixels[..., order], opaque], axis=-1)


def _decode(
    data: bytes, channels: int, dtype: DType, frames: bool | None = None, how: _image_files.How = _AS_USUAL
) -> Array:
    """Pixels of any image. A GIF gives [frames,h,w,3] if `frames`, else its first, or (None) its only one."""
    kind = _kind(data)
    # The bytes decide the format, not the name of the op, as in TensorFlow; DecodeBmp alone insists on its
    # own.
    wide = kind == "PNG" and dtype is not UINT8
    if kind == "JPEG":
        pixels = _decode_jpeg(data, channels, how)
    elif kind == "PNG":
        pixels = _decode_png(data, channels, wide)
    elif kind == "BMP":
        pixels = _decode_bmp(data, channels)
    else:
        require(channels in {0, 3}, f"a GIF has 3 channels, not {channels}")
        pixels = _decode_gif(data)
        if frames is None:
            require(len(pixels) == 1, "the GIF is an animation", hint="use DecodeGif or DecodeImage")
        pixels = pixels if frames else pixels[0]
    if dtype.is_floating:
        scaled: Array = pixels.astype(dtype.numpy()) / dtype.numpy().type(np.iinfo(pixels.dtype).max)
        return scaled
    # TensorFlow widens the bytes of a PNG by 257, those of any other format by 256.
    return pixels if wide or dtype is UINT8 else pixels.astype(dtype.numpy()) << 8


def _image_spec(channels: int, dtype: DType) -> TensorSpec:
    last: Dim = channels or None
    return TensorSpec(dtype, (None, None, last))


@op("DecodeJpeg")
class DecodeJpeg(OpDef):
    """Pixels of a JPEG (or PNG, or GIF of one frame).

    Contents: bytes -> uint8 [h,w,channels]; channels 0: as in the file.
    """

    decodes = "a JPEG"

    traits = Trait.DECODES_IMAGE

    @staticmethod
    def infer(contents: TensorSpec, *, channels: int = 0) -> TensorSpec:
        return _image_spec(channels, UINT8)

    @staticmethod
    def kernel(
        contents: Array,
        *,
        channels: int = 0,
        ratio: int = 1,
        dct_method: str = "",
        fancy_upscaling: bool = True,
    ) -> Array:
        require(ratio in {1, 2, 4, 8}, f"ratio is {ratio}, must be 1, 2, 4 or 8")
        how = _image_files.How(ratio, dct_method, fancy_upscaling)
        return _decode(scalar_bytes(contents), channels, UINT8, how=how)


@op("DecodeAndCropJpeg")
class DecodeAndCropJpeg(OpDef):
    """A window of a JPEG.

    Contents: bytes, window int32 [4] (y, x, height, width) -> uint8 [height,width,channels].
    """

    decodes = "a JPEG"

    traits = Trait.DECODES_IMAGE

    @staticmethod
    def infer(contents: TensorSpec, window: TensorSpec, *, channels: int = 0) -> TensorSpec:
        known = window.elements
        height, width = (known[2], known[3]) if known is not None and len(known) == 4 else (None, None)
        return TensorSpec(UINT8, (height, width, channels or None))

    @staticmethod
    def kernel(
        contents: Array,
        window: Array,
        *,
        channels: int = 0,
        ratio: int = 1,
        dct_method: str = "",
        fancy_upscaling: bool = True,
    ) -> Array:
        require(window.shape == (4,), f"crop_window has shape {list(window.shape)}, [4] is needed")
        how = _image_files.How(ratio, dct_method, fancy_upscaling)
        pixels = _decode(scalar_bytes(contents), channels, UINT8, how=how)
        y, x, height, width = (int(v) for v in window)
        inside = min(y, x) >= 0 and height > 0 and width > 0
        inside = inside and y + height <= pixels.shape[0] and x + width <= pixels.shape[1]
        require(
            inside,
            f"crop_window {window.tolist()} does not fit an image of {pixels.shape[0]} x {pixels.shape[1]}",
        )
        return pixels[y : y + height, x : x + width]


@op("DecodePng")
class DecodePng(OpDef):
    """Pixels of a PNG (or JPEG, or GIF of one frame).

    Contents: bytes -> dtype (uint8 or uint16) [h,w,channels].
    """

    decodes = "a PNG"

    traits = Trait.DECODES_IMAGE

    @staticmethod
    def infer(contents: TensorSpec, *, channels: int = 0, dtype: DType = UINT8) -> TensorSpec:
        return _image_spec(channels, dtype)

    @staticmethod
    def kernel(contents: Array, *, channels: int = 0, dtype: DType = UINT8) -> Array:
        return _decode(scalar_bytes(contents), channels, dtype)


@op("DecodeBmp")
class DecodeBmp(OpDef):
    """Pixels of a BMP.   contents: bytes -> uint8 [h,w,channels]."""

    decodes = "a BMP"

    traits = Trait.DECODES_IMAGE

    @staticmethod
    def infer(contents: TensorSpec, *, channels: int = 0) -> TensorSpec:
        return _image_spec(channels, UINT8)

    @staticmethod
    def kernel(contents: Array, *, channels: int = 0) -> Array:
        data = scalar_bytes(contents)
        require(data[:2] == b"BM", "the bytes are no BMP image")
        return _decode_bmp(data, channels)


@op("DecodeGif")
class DecodeGif(OpDef):
    """Frames of a GIF; other images count as one frame.   contents: bytes -> uint8 [frames,h,w,3]."""

    decodes = "a GIF"

    traits = Trait.DECODES_IMAGE

    @staticmethod
    def infer(contents: TensorSpec) -> TensorSpec:
        return TensorSpec(UINT8, (None, None, None, 3))

    @staticmethod
    def kernel(contents: Array) -> Array:
        pixels = _decode(scalar_bytes(contents), 3, UINT8, frames=True)
        return pixels if pixels.ndim == 4 else pixels[None]


@op("DecodeImage")
class DecodeImage(OpDef):
    """Pixels of any image.

    Contents: bytes -> dtype [h,w,channels]; a GIF gives [frames,h,w,3] if expand_animations.

    Float pixels are 0..1.
    """

    decodes = "a picture"

    traits = Trait.DECODES_IMAGE

    @staticmethod
    def infer(
        contents: TensorSpec, *, channels: int = 0, dtype: DType = UINT8, expand_animations: bool = True
    ) -> TensorSpec:
        return TensorSpec(dtype, None) if expand_animations else _image_spec(channels, dtype)

    @staticmethod
    def kernel(
        contents: Array, *, channels: int = 0, dtype: DType = UINT8, expand_animations: bool = True
    ) -> Array:
        return _decode(scalar_bytes(contents), channels, dtype, frames=expand_animations)
