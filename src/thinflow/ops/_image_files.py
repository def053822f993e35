"""Image files that pillow does not decode as TensorFlow does: PNG of 16 bits per channel, JPEG.

Format: W3C, "Portable Network Graphics (PNG) Specification (Second Edition)", sections 5 to 9.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinflow.errors import FormatError
from thinflow.typing import Array

_SIGNATURE_BYTES = 8
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Channels of each colour type of 16 bits: grey, colour, grey with alpha, colour with alpha."""
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
"""Adam7: first row and column, steps between rows and columns."""
_LARGEST = 1 << 28
"""Pixels beyond this are taken for damage."""


@dataclass(frozen=True)
class Header:
    """The first chunk of a PNG."""

    width: int
    height: int
    depth: int
    colour: int
    interlaced: bool


def header(data: bytes) -> Header:
    """Size, depth and colour type of the image.

    Raises:
        FormatError: the first chunk is not a PNG header.
    """
    # 8 bytes of signature, then length, type, 13 bytes and checksum of IHDR, which must come first.
    if len(data) < 33 or data[12:16] != b"IHDR":
        raise FormatError("the PNG image has no header", where="byte 8")
    width, height, depth, colour, _, _, interlace = struct.unpack_from(">IIBBBBB", data, 16)
    return Header(width, height, depth, colour, interlace == 1)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(type, contents) of every chunk up to the end."""
    place = _SIGNATURE_BYTES
    while place + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        if place + 12 + size > len(data):
            raise FormatError(f"the PNG chunk {kind.decode('latin-1')} is cut short", where=f"byte {place}")
        yield kind, data[place + 8 : place + 8 + size]
        if kind == b"IEND":
            return
        # Length, type and checksum are 12 bytes; checksums are not compared.
        place += 12 + size


def _unfiltered(lines: Array, step: int) -> Array:
    """Lines [h, 1 + bytes] whose first byte names the filter, undone: uint8 [h, bytes]."""
    above = np.zeros(lines.shape[1] - 1, np.uint8)
    result = np.empty((len(lines), lines.shape[1] - 1), np.uint8)
    for row, line in enumerate(lines):
        kind, raw = int(line[0]), line[1:]
        if kind > 4:
            raise FormatError(f"the PNG image has a filter of type {kind}", where=f"row {row}")
        result[row] = above = _line(kind, raw, above, step)
    return result


def _line(kind: int, raw: Array, above: Array, step: int) -> Array:
    if kind == 0:
        return raw
    # Sums of bytes wrap modulo 256, as the filters want: numpy's uint8 does so by itself.
    if kind == 2:
        return raw + above
    if kind == 1:
        # Sub adds the byte one pixel to the left, decoded: a running sum per byte of a pixel.
        pixels = raw.reshape(-1, step)
        return np.cumsum(pixels, axis=0, dtype=np.uint8).reshape(-1)
    predict = _average if kind == 3 else _paeth
    # Average and Paeth need the decoded left neighbour at each step, so they run byte by byte; zeros stand
    # for the pixel left of the first one.
    line = bytearray(step) + bytearray(len(raw))
    upper = bytes(step) + above.tobytes()
    for i, value in enumerate(raw.tobytes(), start=step):
        line[i] = (value + predict(line[i - step], upper[i], upper[i - step])) & 0xFF
    return np.frombuffer(bytes(line[step:]), np.uint8)


def _average(left: int, up: int, corner: int) -> int:
    return (left + up) >> 1


def _paeth(left: int, up: int, corner: int) -> int:
    """Whichever of the three is nearest to left + up - corner."""
    guess = left + up - corner
    gaps = abs(guess - left), abs(guess - up), abs(guess - corner)
    # Ties in the order left, up, corner (section 9.4).
    if gaps[0] <= gaps[1] and gaps[0] <= gaps[2]:
        return left
    return up if gaps[1] <= gaps[2] else corner


def _inflated(data: bytes, expected: int) -> bytes:
    """The pixels' bytes; never more than there should be."""
    stream = b"".join(contents for kind, contents in _chunks(data) if kind == b"IDAT")
    try:
        # A small file can inflate to gigabytes: what the header does not ask for is never made.
        raw = zlib.decompressobj().decompress(stream, expected)
    except zlib.error as error:
        raise FormatError(f"the PNG image is damaged: {error}") from error
    if len(raw) < expected:
        raise FormatError(f"the PNG image has {len(raw)} bytes of pixels, {expected} are needed")
    return raw


def _sides(start: tuple[int, int, int, int], head: Header) -> tuple[int, int]:
    row, column, down, across = start
    return -(-(head.height - row) // down), -(-(head.width - column) // across)


def decode_deep(data: bytes) -> Array:
    """A PNG of 16 bits per channel: uint16 [h,w,c], c = 1, 2, 3 or 4 as in the file.

    Raises:
        FormatError: damaged, or of another depth.
    """
    head = header(data)
    channels = _CHANNELS.get(head.colour)
    if head.depth != 16 or channels is None:
        raise FormatError(f"a PNG of {head.depth} bits and colour type {head.colour} is not a deep one")
    if not 0 < head.width * head.height <= _LARGEST:
        raise FormatError(f"the PNG image is {head.width} x {head.height} pixels")
    step = 2 * channels
    # Passes of a small image may be empty; those have not even a filter byte.
    passes = [p for p in (_PASSES if head.interlaced else ((0, 0, 1, 1),)) if min(_sides(p, head)) > 0]
    sizes = [(h, 1 + w * step) for h, w in (_sides(p, head) for p in passes)]
    raw = np.frombuffer(_inflated(data, sum(h * w for h, w in sizes)), np.uint8)
    pixels = np.zeros((head.height, head.width, channels), np.uint16)
    place = 0
    for (row, column, down, across), (lines, width) in zip(passes, sizes, strict=True):
        # Every pass is filtered as an image of its own, from a line of zeros.
        block = _unfiltered(raw[place : place + lines * width].reshape(lines, width), step)
        place += lines * width
        # 16 bits are big endian in the file.
        pixels[row::down, column::across] = block.view(">u2").reshape(lines, -1, channels)
    return pixels


# ---- JPEG files decoded as TensorFlow does it, to the last bit, where simplejpeg is installed.
#
# Both use libjpeg-turbo. TensorFlow's default is its faster transform, which pillow does not offer: its
# pixels are those of `dct_method="INTEGER_ACCURATE"`, a few levels off.


ACCURATE = "INTEGER_ACCURATE"


@dataclass(frozen=True)
class How:
    """Options of the decoder.

    Attributes:
        ratio: 1, 2, 4 or 8: by how much to shrink the picture on the way.
        dct_method: TensorFlow's name of the transform; anything but `ACCURATE` is the fast one.
        fancy_upscaling: whether to interpolate colours between the fewer that the file has.
    """

    ratio: int = 1
    dct_method: str = ""
    fancy_upscaling: bool = True


def decode(data: bytes, size: tuple[int, int], how: How, *, grey: bool) -> Array | None:
    """The pixels, uint8 [h,w,3] or [h,w,1]; None if simplejpeg is missing or finds anything odd in the file.

    Args:
        data: the file, of one or three colours.
        size: its height and width.
        grey: whether only luma is wanted.
    """
    try:
        import simplejpeg
    except ImportError:
        return None
    # libjpeg rounds the sides of a shrunk picture up.
    height, width = (-(-pixels // how.ratio) for pixels in size)
    try:
        decoded: Array = simplejpeg.decode_jpeg(
            data,
            "GRAY" if grey else "RGB",
            fastdct=how.dct_method != ACCURATE,
            fastupsample=not how.fancy_upscaling,
            min_height=height,
            min_width=width,
        )
    except ValueError:
        return None
    # simplejpeg picks the scale from the least size; another than the one asked for would be other pixels.
    return decoded if decoded.shape[:2] == (height, width) else None
