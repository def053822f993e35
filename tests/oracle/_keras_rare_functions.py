"""Functions of Keras 3 that count, decode and take what lies between places, with random options."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle._keras_cases import Draw
from tests.oracle._keras_drawn_functions import Function, axes_of, function


@function("divisors")
def divisors(d: Draw) -> Function:
    name, kind = d.of("gcd", "lcm"), d.of("int32", "int64", "uint8")
    shapes = d.of(((3, 4), (3, 4)), ((3, 1), (4,)), ((3, 4), (4,)))
    return Function(
        lambda o, x, y: getattr(o, name)(x, y), shapes, [kind] * 2, 0 if kind == "uint8" else -30, 30
    )


@function("bincount")
def bincount(d: Draw) -> Function:
    least = d.of(0, 3, 9)
    return Function(
        lambda o, x: o.bincount(x, minlength=least), [d.of((7,), (2, 9))], [d.of("int32", "uint8")], 0, 6
    )


@function("unique")
def unique(d: Draw) -> Function:
    options: dict[str, Any] = d.of({}, {"size": 4, "fill_value": 7}, {"size": 20}, {"sorted": False})
    options = {**options, **d.of({}, {"axis": 0, "sorted": False})}
    port = d.size(0, 3)
    return Function(
        lambda o, x: o.unique(x, return_index=True, return_inverse=True, return_counts=True, **options)[port],
        [(5, 2)], [d.of("int32", "float32")], 0, 3,
    )  # fmt: skip


@function("nonzero")
def nonzero(d: Draw) -> Function:
    port = d.size(0, 1)
    return Function(lambda o, x: o.nonzero(x)[port], [(4, 5)], [d.of("int32", "bool")], -2, 2)


@function("nanquantile")
def nanquantile(d: Draw) -> Function:
    axis, keeps = axes_of(d, 3), d.flag()
    method = d.of("linear", "lower", "higher", "nearest", "midpoint")
    shares = d.of(0.3, 0.5, 1.0)
    name = d.of("nanquantile", "nanpercentile", "nanmedian")
    options: dict[str, Any] = {"axis": tuple(axis) if isinstance(axis, list) else axis, "keepdims": keeps}
    if name == "nanmedian":
        return Function(lambda o, x: o.nanmedian(x, **options), [(3, 4, 2)], holes=40)
    share = shares if name == "nanquantile" else 100 * shares
    return Function(lambda o, x: getattr(o, name)(x, share, method=method, **options), [(3, 4, 2)], holes=40)


@function("istft")
def istft(d: Draw) -> Function:
    size, step = d.of(8, 9, 16), d.of(2, 3, 4)
    options = {
        "sequence_length": d.of(size, size - 2), "sequence_stride": step, "fft_length": size,
        "length": d.of(None, 11), "window": d.of("hann", "hamming", None), "center": d.flag(),
    }  # fmt: skip
    if options["window"] is None:
        options["sequence_length"] = size
    shape = (*d.of((), (2,), (2, 3)), 6, size // 2 + 1)
    return Function(lambda o, x, y: o.istft((x, y), **options), [shape, shape])


@function("fold")
def fold(d: Draw) -> Function:
    options = {"dilation": d.of(1, (2, 1)), "padding": d.of(0, (1, 2)), "stride": d.of(1, (2, 1))}

    def there_and_back(o: Any, x: Any) -> Any:
        return o.fold(o.unfold(x, (2, 3), **options), (6, 7), (2, 3), **options)

    return Function(there_and_back, [(2, 3, 6, 7)])


@function("lstsq")
def lstsq(d: Draw) -> Function:
    rows, columns = d.size(2, 6), d.size(2, 6)
    share, shape = d.of(None, 0.2), d.of((rows,), (rows, 3))
    return Function(lambda o, a, b: o.lstsq(a, b, rcond=share), [(rows, columns), shape])


@function("map_coordinates")
def map_coordinates(d: Draw) -> Function:
    mode, order, kind = d.of("constant", "nearest", "wrap", "reflect"), d.size(0, 1), d.of("float32", "int32")
    return Function(
        lambda o, x, at: o.image.map_coordinates(x, at * 0.1, order, mode, 2),
        [(4, 5), d.of((2, 6), (2, 3, 2))], [kind], -40, 40,
    )  # fmt: skip


@function("perspective")
def perspective(d: Draw) -> Function:
    options = {"interpolation": d.of("bilinear", "nearest"), "fill_value": d.of(0, 0.5)}
    form = d.of("channels_last", "channels_first")
    sides = (7, 8, 3) if form == "channels_last" else (3, 7, 8)
    lead = d.of((), (2,))
    corners = np.array([[0, 0], [7, 0], [0, 6], [7, 6]], np.float32)
    return Function(
        lambda o, x, s, e: o.image.perspective_transform(
            x, 0.7 * s + corners, 0.7 * e + corners, data_format=form, **options
        ),
        [(*lead, *sides), (*lead, 4, 2), (*lead, 4, 2)],
    )


@function("scale_and_translate")
def scale_and_translate(d: Draw) -> Function:
    method = d.of("linear", "cubic", "lanczos3", "lanczos5", "bilinear")
    scales, moves = (np.array(d.of((0.6, 1.7), (1.2, 0.8)), np.float32) for _ in "ab")
    options = {"antialias": d.flag()}
    return Function(
        lambda o, x: o.image.scale_and_translate(x, (2, 5, 9, 3), scales, moves, (1, 2), method, **options),
        [(2, 7, 6, 3)],
    )


@function("ssim")
def ssim(d: Draw) -> Function:
    options = {"max_val": d.of(1.0, 4.0), "filter_size": d.of(3, 5), "filter_sigma": d.of(1.5, 0.7)}
    form, lead = d.of("channels_last", "channels_first"), d.of((), (None,))
    shape = (*lead, *((9, 8, 3) if form == "channels_last" else (3, 9, 8)))
    return Function(lambda o, x, y: o.image.ssim(x, y, data_format=form, **options), [shape, shape])


@function("ctc_decode")
def ctc_decode(d: Draw) -> Function:
    port, way = d.size(0, 1), d.of("greedy", "beam_search")
    options: dict[str, Any] = {"strategy": way, "mask_index": d.of(0, 2, 4)}
    options |= (
        {"merge_repeated": d.flag()} if way == "greedy" else {"beam_width": 6, "top_paths": d.size(1, 3)}
    )
    lengths = np.array([6, 4], np.int32)
    return Function(lambda o, x: o.ctc_decode(x, lengths, **options)[port], [(2, 6, 5)])
