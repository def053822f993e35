"""ONNX's pools, convolutions and resizing with random options, over lines, pictures and volumes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lift.onnx.single import Single

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners",
               "tf_crop_and_resize")  # fmt: skip
ROUNDING = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def w(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def f(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def picture(rng: np.random.Generator, rank: int = 4) -> np.ndarray:
    return rng.standard_normal((2, 3, *rng.integers(2, 8, rank - 2).tolist())).astype(np.float32)


def resize(seed: int, mode: str, kind: str) -> Single:
    """A Resize with random sizes or scales; of scales only whole ones where definition and runtime part."""
    rng = np.random.default_rng(seed)
    rank = 4 if mode == "cubic" or rng.random() < 0.6 else int(rng.integers(3, 6))
    x = picture(rng, rank)
    options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": kind}
    if mode == "nearest":
        options["nearest_mode"] = str(rng.choice(ROUNDING))
    if mode == "cubic" and rng.random() < 0.5:
        options |= {"cubic_coeff_a": -0.5, "exclude_outside": int(rng.integers(2))}
    if mode != "nearest" and rank == 4 and rng.random() < 0.4 and kind != "tf_crop_and_resize":
        options["antialias"] = 1
    roi = None
    if kind == "tf_crop_and_resize":
        starts, ends = np.zeros(rank), np.ones(rank)
        starts[2:], ends[2:] = rng.uniform(-0.2, 0.4, rank - 2), rng.uniform(0.5, 1.2, rank - 2)
        roi = np.concatenate([starts, ends]).astype(np.float32)
        options["extrapolation_value"] = 7.0
    old = np.array(x.shape[2:])
    if rng.random() < 0.5 or kind in {"align_corners", "tf_crop_and_resize"}:
        constants = [roi, None, whole(*x.shape[:2], *rng.integers(1, 12, rank - 2))]
    else:
        # Not 1.3: where the size stays ONNX Runtime hands on the picture whatever the scale is.
        choice = [2, 3, 1] if seed % 2 else [0.5, 0.6, 1.7, 2.4, 1]
        scales = np.maximum(rng.choice(choice, rank - 2), 1 / old)
        constants = [roi, f(1, 1, *scales)]
    return Single("Resize", [x], constants, options, opset=19)


def pool(op: str, seed: int) -> Single:
    """A pool over random sizes with random options, every third with open sizes."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    kernel = rng.integers(1, 4, count)
    dilations = rng.integers(1, 3, count) if rng.random() < 0.4 else np.ones(count, int)
    reach = (kernel - 1) * dilations + 1
    options: dict[str, Any] = {"kernel_shape": kernel.tolist(), "strides": rng.integers(1, 4, count).tolist()}
    if (dilations > 1).any():
        options["dilations"] = dilations.tolist()
    way = rng.integers(4)
    if way == 1 and "dilations" not in options:
        # ONNX Runtime pads for windows without gaps.
        options["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    elif way > 1:
        options["pads"] = np.minimum(rng.integers(0, 3, 2 * count), np.tile(kernel, 2) - 1).tolist()
    if "auto_pad" not in options and rng.random() < 0.5:
        options["ceil_mode"] = 1
    if op == "AveragePool" and rng.random() < 0.5:
        options["count_include_pad"] = 1
    if op == "LpPool":
        options["p"] = int(rng.integers(1, 4))
    x = w(rng, 2, 3, *(reach + rng.integers(0, 6, count)).tolist())
    open_axes = [(), (0,), (0, *range(2, count + 2))][seed % 3]
    return Single(op, [x], [], options, opset=22, open_axes=open_axes)


def convolution(seed: int, *, transposed: bool) -> Single:
    """A convolution with random options; every third has open sizes."""
    rng = np.random.default_rng(seed)
    count, group = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 4]))
    kernel, strides = rng.integers(1, 4, count), rng.integers(1, 4, count)
    dilations = rng.integers(1, 3, count) if rng.random() < 0.4 else np.ones(count, int)
    inner, outer = group * int(rng.integers(1, 3)), group * int(rng.integers(1, 3))
    options: dict[str, Any] = {"group": group, "strides": strides.tolist(), "dilations": dilations.tolist()}
    way = rng.integers(4)
    if way == 1 and not transposed and (dilations == 1).all():
        options["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    elif way > 1:
        options["pads"] = rng.integers(0, 2, 2 * count).tolist()
    sizes = (kernel - 1) * dilations + 1 + rng.integers(0, 4, count) + 2 * transposed
    if transposed and rng.random() < 0.4:
        options["output_padding"] = [int(rng.integers(0, s)) for s in strides]
    weights = (inner, outer // group) if transposed else (outer, inner // group)
    constants: list[np.ndarray | None] = [w(rng, *weights, *kernel.tolist())]
    if rng.random() < 0.5:
        constants.append(w(rng, outer))
    open_axes = [(), (0,), (0, *range(2, count + 2))][seed % 3]
    x = w(rng, 2, inner, *sizes.tolist())
    return Single(
        "ConvTranspose" if transposed else "Conv", [x], constants, options, opset=22, open_axes=open_axes
    )
