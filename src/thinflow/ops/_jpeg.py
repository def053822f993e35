"""JPEG files decoded as TensorFlow does it, to the last bit, where simplejpeg is installed.

Both use libjpeg-turbo. TensorFlow's default is its faster transform, which pillow does not offer: its pixels
are those of `dct_method="INTEGER_ACCURATE"`, a few levels off.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.typing import Array

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
