"""Pixels to image files."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np

from thinflow.errors import FormatError
from thinflow.ir.types import STRING, TensorSpec
from thinflow.ops._shapes import rank_of
from thinflow.ops.decode import pillow
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array

# Channels -> colour type in the PNG header: grey, grey with alpha, colour, colour with alpha.
_PNG_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}


def _strings(values: list[bytes], shape: tuple[int, ...]) -> Array:
    result = np.empty(len(values), object)
    result[:] = values
    return result.reshape(shape)


@op("EncodeJpeg", "EncodeJpegVariableQuality")
class EncodeJpeg(OpDef):
    """The bytes of a JPEG.

    image uint8 [h,w,1 or 3] (and, for the variable kind, the quality 0..100) -> string scalar.
    """

    @staticmethod
    def infer(image: TensorSpec, *quality: TensorSpec) -> TensorSpec:
        rank_of(image, 3, "image")
        return TensorSpec(STRING, ())

    @staticmethod
    def kernel(
        image: Array,
        *variable_quality: Array,
        quality: int = 95,
        progressive: bool = False,
        optimize_size: bool = False,
        chroma_downsampling: bool = True,
    ) -> Array:
        require(
            image.ndim == 3 and image.shape[2] in {1, 3},
            f"image has shape {list(image.shape)}, [h,w,1 or 3] is needed",
        )
        chosen = int(variable_quality[0]) if variable_quality else quality
        require(0 <= chosen <= 100, f"quality is {chosen}, must be 0 to 100")
        buffer = io.BytesIO()
        pixels = np.ascontiguousarray(image[..., 0] if image.shape[2] == 1 else image)
        try:
            pillow().fromarray(pixels).save(
                buffer,
                "JPEG",
                # libjpeg treats 0 as 1.
                quality=max(chosen, 1),
                progressive=progressive,
                optimize=optimize_size,
                subsampling="4:2:0" if chroma_downsampling else "4:4:4",
            )
        except (OSError, ValueError) as error:
            raise FormatError(f"the image cannot be written as JPEG: {error}") from error
        return _strings([buffer.getvalue()], ())


@op("EncodePng")
class EncodePng(OpDef):
    """The bytes of PNGs.   image uint8 or uint16 [...,h,w,1 to 4] -> string [...]."""

    @staticmethod
    def infer(image: TensorSpec) -> TensorSpec:
        if image.shape is None:
            return TensorSpec(STRING, None)
        require(len(image.shape) >= 3, f"image has rank {len(image.shape)}, at least 3 is needed")
        return TensorSpec(STRING, image.shape[:-3])

    @staticmethod
    def kernel(image: Array, *, compression: int = -1) -> Array:
        require(image.ndim >= 3 and image.shape[-1] in _PNG_COLOURS, f"image has shape {list(image.shape)}")
        require(-1 <= compression <= 9, f"compression is {compression}, must be -1 to 9")
        images = image.reshape(-1, *image.shape[-3:])
        return _strings([_png(pixels, compression) for pixels in images], image.shape[:-3])


def _png(pixels: Array, compression: int) -> bytes:
    """A PNG without filters: a little larger than the best, exact all the same."""
    height, width, channels = pixels.shape
    require(height > 0 and width > 0, "an image without pixels cannot be a PNG")
    rows = (
        # PNG is big endian; each line starts with the number of its filter, 0 for none.
        np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder(">"))).view(np.uint8).reshape(height, -1)
    )
    filtered = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    # The three zeros: deflate, the standard set of filters, rows in order.
    header = struct.pack(
        ">IIBBBBB", width, height, 8 * pixels.dtype.itemsize, _PNG_COLOURS[channels], 0, 0, 0
    )
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered, compression)), (b"IEND", b""))
    # A chunk: length of its data, name, data, checksum of the last two.
    body = b"".join(
        struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
