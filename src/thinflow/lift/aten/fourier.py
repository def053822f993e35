"""ATen's complex numbers and Fourier transforms, which TensorFlow has as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from thinflow.decompose.terms import Term, concat, stack
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import DOUBLE, FLOAT, INT32, DType, dtype
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.onnx.formulas import size
from thinflow.lift.onnx.values import bounded
from thinflow.typing import Array

# --- numbers ------------------------------------------------------------------------------------------------


def _is_complex(x: Term) -> bool:
    return x.dtype.kind == "c"


def _real_type(kind: DType) -> DType:
    return DOUBLE if kind.name in {"complex128", "double"} else FLOAT


def _complex_type(kind: DType) -> DType:
    return dtype("complex128" if _real_type(kind) is DOUBLE else "complex64")


def _joined(real: Term, imag: Term) -> Term:
    return real.apply("Complex", imag, Tout=_complex_type(real.dtype))


def _part(x: Term, op: str) -> Term:
    return x.apply(op, Tout=_real_type(x.dtype))


@aten("view_as_complex")
def _view_as_complex(a: Arguments) -> Value:
    """[..., 2] -> [...]."""
    x = a.term()
    return _joined(*(x.at(len(x.shape) - 1, n) for n in range(2))).value


@aten("view_as_real")
def _view_as_real(a: Arguments) -> Value:
    x = a.term()
    return stack([_part(x, op) for op in ("Real", "Imag")], len(x.shape)).value


@aten("complex")
def _complex(a: Arguments) -> Value:
    real, imag = a.term("real"), a.term("imag")
    if real.shape != imag.shape:
        # One of them is broadcast, which a sum does.
        real, imag = real + imag * 0.0, imag + real * 0.0
    return _joined(real, imag).value


@aten("polar")
def _polar(a: Arguments) -> Value:
    length, angle = a.term("abs"), a.term("angle")
    return _joined(length * angle.apply("Cos"), length * angle.apply("Sin")).value


@aten("real", "imag")
def _one_part(a: Arguments) -> Value:
    x, op = a.term(), a.call.node.op.removeprefix("aten.").capitalize()
    return _part(x, op).value if _is_complex(x) else a.emit("Identity", x.value)


@aten("conj", "_conj", "_conj_physical", "conj_physical", "resolve_conj", "resolve_neg")
def _conjugate(a: Arguments) -> Value:
    x, turns = a.term(), not a.call.node.op.startswith("aten.resolve")
    return x.apply("Conj").value if turns and _is_complex(x) else a.emit("Identity", x.value)


@aten("abs")
def _magnitude(a: Arguments) -> Value:
    x = a.term()
    return (_part(x, "ComplexAbs") if _is_complex(x) else x.apply("Abs")).value


@aten("angle")
def _angle(a: Arguments) -> Value:
    x = a.term()
    if not _is_complex(x):
        raise UnsupportedOp("it is the angle of real numbers")
    return _part(x, "Angle").value


# --- transforms ---------------------------------------------------------------------------------------------


def _last(x: Term, axis: int, function: Callable[[Term], Term]) -> Term:
    """A function of the last axis, applied along another."""
    rank = len(x.shape)
    if axis == rank - 1:
        return function(x)
    order = [*(n for n in range(rank) if n != axis), axis]
    back = sorted(range(rank), key=lambda n: order[n])
    return function(x.transpose(order)).transpose(back)


def _fitted(x: Term, axis: int, count: int | None) -> Term:
    """As many elements along an axis, with zeros behind or without the last ones."""
    if count is None:
        return x
    own = x.static_size(axis, "the size of what it transforms")
    if own < count:
        return x.pad([(0, count - own if n == axis else 0) for n in range(len(x.shape))])
    return x.cut(axis, 0, count) if own > count else x


def _widened(x: Term) -> Term:
    """Real numbers as complex ones."""
    if _is_complex(x):
        return x
    x = x if x.dtype.is_floating else x.cast(FLOAT)
    return _joined(x, x.of(0.0))


def _both_sides(x: Term, axes: list[int], inverse: bool) -> Term:
    """Of complex numbers, along some axes; the inverse divides by the number of points."""
    x = _widened(x)
    for axis in axes:
        x = _last(x, axis, lambda t: t.apply("IFFT" if inverse else "FFT", Tcomplex=t.dtype))
    return x


def _one_side(x: Term, axis: int) -> Term:
    """The first half of the frequencies of real numbers."""

    def transformed(t: Term) -> Term:
        length = t.body.constant([t.static_size(-1, "the size of what it transforms")], INT32)
        return t.apply("RFFT", length, Treal=t.dtype, Tcomplex=_complex_type(t.dtype))

    return _last(x, axis, transformed)


def _from_one_side(x: Term, axis: int, count: int) -> Term:
    """Real numbers of which that is the first half of the frequencies, divided by their number."""
    kind = _real_type(x.dtype)
    length = x.body.constant([count], INT32)
    return _last(x, axis, lambda t: t.apply("IRFFT", length, Treal=kind, Tcomplex=t.dtype))


def _lengths(a: Arguments, axes: list[int] | None) -> tuple[list[int], list[int | None]]:
    """The axes that are transformed, and the sizes that are asked for."""
    x = a.term()
    rank = len(x.shape)
    wanted = a.ints("s", ()) if a.has("s") else []
    if axes is None:
        axes = list(range(rank - len(wanted) if wanted else 0, rank))
    if wanted and len(wanted) != len(axes):
        raise UnsupportedOp(f"it is given {len(wanted)} sizes for {len(axes)} axes")
    return axes, [None if n < 0 else n for n in wanted] if wanted else [None] * len(axes)


def _share(count: int, inverse: bool, norm: str) -> float:
    """What TensorFlow's transforms, of which the inverse divides by the count, are to be multiplied by."""
    if norm not in {"backward", "ortho", "forward"}:
        raise UnsupportedOp(f"it is normalized by '{norm}'")
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    return float(count**power if inverse else count**-power)


def _scaled(x: Term, factor: float) -> Term:
    return x if factor == 1 else x * factor


def _size_product(x: Term, axes: list[int]) -> int:
    return int(np.prod([x.static_size(n, "the size of what it transforms") for n in axes]))


def _fourier(name: str, dims: int | None) -> None:
    """The transforms over one axis, over two, and over any."""

    def placed(a: Arguments) -> tuple[list[int], list[int | None]]:
        if dims == 1:
            count = a.integer("n") if a.has("n") else None
            return [a.axis(default=-1)], [count]
        given = a.ints("dim", ()) if a.has("dim") else [-2, -1] if dims == 2 else None
        return _lengths(a, None if given is None else [a.counted(n, a.rank) for n in given])

    @aten(f"fft_{name}", f"fft_i{name}")
    def complex_rule(a: Arguments) -> Value:
        inverse = a.call.node.op == f"aten.fft_i{name}"
        axes, counts = placed(a)
        # Before they are scaled: whole numbers have no halves.
        x = _widened(a.term())
        for axis, count in zip(axes, counts, strict=True):
            x = _fitted(x, axis, count)
        share = _share(_size_product(x, axes), inverse, a.text("norm", "backward"))
        return _both_sides(_scaled(x, share), axes, inverse).value

    @aten(f"fft_r{name}")
    def real_rule(a: Arguments) -> Value:
        axes, counts = placed(a)
        x = a.body.term(a.cast(a.x, _real_type(a.dtype)))
        for axis, count in zip(axes, counts, strict=True):
            x = _fitted(x, axis, count)
        x = _scaled(x, _share(_size_product(x, axes), False, a.text("norm", "backward")))
        return _both_sides(_one_side(x, axes[-1]), axes[:-1], False).value

    @aten(f"fft_ir{name}")
    def back_rule(a: Arguments) -> Value:
        axes, counts = placed(a)
        x = _widened(a.term())
        for axis, count in zip(axes[:-1], counts[:-1], strict=True):
            x = _fitted(x, axis, count)
        last = counts[-1]
        if last is None:
            last = 2 * (x.static_size(axes[-1], "the size of what it transforms") - 1)
        x = _fitted(x, axes[-1], last // 2 + 1)
        y = _from_one_side(_both_sides(x, axes[:-1], True), axes[-1], last)
        return _scaled(y, _share(_size_product(y, axes), True, a.text("norm", "backward"))).value


_fourier("fft", 1)
_fourier("fft2", 2)
_fourier("fftn", None)


# In the order of fft_norm_mode, whose numbers files hold: what is divided by.
_POWERS = (0.0, 0.5, 1.0)


def _core_share(a: Arguments, count: int, inverse: bool) -> float:
    mode = a.integer("normalization")
    if not 0 <= mode < len(_POWERS):
        raise UnsupportedOp(f"its normalization is {mode}")
    # TensorFlow's inverse has divided by the count already.
    return float(count ** ((1.0 if inverse else 0.0) - _POWERS[mode]))


@aten("_fft_r2c")
def _of_real(a: Arguments) -> Value:
    x, axes = a.term(), a.axes()
    x = _scaled(x, _core_share(a, _size_product(x, axes), False))
    if not a.flag("onesided"):
        return _both_sides(x, axes, False).value
    return _both_sides(_one_side(x, axes[-1]), axes[:-1], False).value


@aten("_fft_c2c")
def _of_complex(a: Arguments) -> Value:
    x, axes, inverse = a.term(), a.axes(), not a.flag("forward")
    return _both_sides(_scaled(x, _core_share(a, _size_product(x, axes), inverse)), axes, inverse).value


@aten("_fft_c2r")
def _to_real(a: Arguments) -> Value:
    axes, last = a.axes(), a.integer("last_dim_size")
    y = _from_one_side(_both_sides(a.term(), axes[:-1], True), axes[-1], last)
    return _scaled(y, _core_share(a, _size_product(y, axes), True)).value


@aten("fft_fftshift", "fft_ifftshift")
def _shifted(a: Arguments) -> Value:
    """Halves of axes swapped, so that the frequency 0 stands in the middle, or first again."""
    x = a.term()
    for axis in a.axes():
        count = x.static_size(axis, "the size of what it shifts")
        cut = count // 2 if a.call.node.op == "aten.fft_ifftshift" else count - count // 2
        x = concat([x.cut(axis, cut, None), x.cut(axis, 0, cut)], axis)
    return a.emit("Identity", x.value)


@aten("fft_fftfreq", "fft_rfftfreq")
def _frequencies(a: Arguments) -> Value:
    a.ignore("dtype", "layout")
    made = np.fft.rfftfreq if a.call.node.op == "aten.fft_rfftfreq" else np.fft.fftfreq
    return a.body.constant(made(a.integer("n"), a.number("d", 1.0)), a.dtype).value


# --- short times --------------------------------------------------------------------------------------------


def _window(a: Arguments, width: int, kind: DType) -> Term | None:
    """The window, with zeros on both sides where it is shorter than a transform; None for one of ones."""
    short = a.integer("win_length", width) if a.has("win_length") else width
    given = a.maybe("window")
    if given is None and short == width:
        return None
    window = a.body.constant(np.ones(short), kind) if given is None else a.body.term(given)
    before = (width - short) // 2
    return window.pad([(before, width - short - before)]) if short < width else window


_WINDOWS: Mapping[str, Callable[[Array], Array]] = {
    "bartlett": lambda t: 1 - np.abs(2 * t - 1),
    "blackman": lambda t: 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t),
    "hann": lambda t: 0.5 - 0.5 * np.cos(2 * np.pi * t),
}
"""Windows over the places from 0 to 1."""


def _window_of(name: str, function: Callable[[Arguments, Array], Array]) -> None:
    @aten(f"{name}_window", f"{name}_window.periodic", f"{name}_window.periodic_alpha",
          f"{name}_window.periodic_alpha_beta")  # fmt: skip
    def rule(a: Arguments) -> Value:
        a.ignore("dtype", "layout")
        count, is_periodic = bounded(a.integer("window_length")), a.flag("periodic", True)
        # A periodic window is one of a place more, without the last.
        steps = count if is_periodic else count - 1
        places = np.arange(count) / steps if steps else np.full(count, 0.5)
        return a.body.constant(function(a, places), a.dtype).value


def _hamming(a: Arguments, places: Array) -> Array:
    first, second = a.number("alpha", 0.54), a.number("beta", 0.46)
    return np.asarray(first - second * np.cos(2 * np.pi * places))


for _name, _function in _WINDOWS.items():
    _window_of(_name, lambda _, places, _made=_function: _made(places))  # type: ignore[misc]
_window_of("hamming", _hamming)


@aten("stft")
def _short_times(a: Arguments) -> Value:
    """[..., n] -> [..., frequencies, frames]: transforms of a signal's windows, one every few places."""
    x, width = a.term(), a.integer("n_fft")
    step = a.integer("hop_length") if a.has("hop_length") else width // 4
    if a.flag("align_to_window") or not a.flag("return_complex", True):
        raise UnsupportedOp("it aligns to its window, or gives its numbers in pairs")
    length = x.static_size(-1, "the length of its signal")
    starts = np.arange(0, length - width + 1, step)
    places = starts[:, None] + np.arange(width)
    frames = x.gather(a.body.constant(places, INT32), len(x.shape) - 1)
    window = _window(a, width, x.dtype)
    frames = frames if window is None else frames * window
    frames = _scaled(frames, width**-0.5 if a.flag("normalized") else 1.0)
    last = len(frames.shape) - 1
    is_half = a.flag("onesided", True) if a.has("onesided") else not _is_complex(x)
    y = _one_side(frames, last) if is_half else _both_sides(frames, [last], False)
    return y.transpose([*range(last - 1), last, last - 1]).value


@aten("istft")
def _from_short_times(a: Arguments) -> Value:
    """Frames transformed back, windowed, added where they overlap, and divided by what windows add up to."""
    x, width = a.term(), a.integer("n_fft")
    step = a.integer("hop_length") if a.has("hop_length") else width // 4
    if not (a.flag("onesided", True) if a.has("onesided") else True) or a.flag("return_complex"):
        raise UnsupportedOp("it has both sides of the frequencies")
    last = len(x.shape) - 1
    frames = _from_one_side(x, last - 1, width)
    frames = frames.transpose([*range(last - 1), last, last - 1])
    frames = _scaled(frames, width**0.5 if a.flag("normalized") else 1.0)
    count = frames.static_size(last - 1, "the number of its frames")
    window = _window(a, width, frames.dtype)
    weights = np.ones(width) if window is None else window.known
    if weights is None:
        raise UnsupportedOp("its window is computed")
    frames = frames if window is None else frames * window
    whole = width + step * (count - 1)
    sums = np.zeros(whole)
    for n in range(count):
        sums[n * step : n * step + width] += np.square(weights)
    y = _overlapped(frames, step)
    start = width // 2 if a.flag("center", True) else 0
    stop = start + a.integer("length") if a.has("length") else whole - (width // 2 if start else 0)
    inner = sums[start : min(stop, whole)]
    if inner.min(initial=1.0) < 1e-11:
        raise UnsupportedOp("its windows leave a place that none of them covers")
    y = y.cut(last - 1, start, min(stop, whole)) / a.body.constant(inner, frames.dtype)
    return _fitted(y, last - 1, stop - start).value


def _overlapped(frames: Term, step: int) -> Term:
    """[..., count, width] -> [..., whole]: frames that begin `step` places after each other, added up."""
    count, width = (frames.static_size(n, "a size of its frames") for n in (-2, -1))
    rank = len(frames.shape)
    # In blocks of a step, each frame is some; the blocks of one number are rows of one shifted picture.
    blocks = -(-width // step)
    frames = _fitted(frames, rank - 1, blocks * step)
    total: Term | None = None
    for n in range(blocks):
        block = frames.cut(rank - 1, n * step, (n + 1) * step)
        pads = [(n, blocks - 1 - n) if axis == rank - 2 else (0, 0) for axis in range(rank)]
        total = block.pad(pads) if total is None else total + block.pad(pads)
    assert total is not None
    outer = [size(total, n) for n in range(rank - 2)]
    whole = (count + blocks - 1) * step
    known = [n for n in outer if isinstance(n, int)]
    flat = total.reshape([*(known if len(known) == len(outer) else [-1, *known[1:]]), whole])
    return flat.cut(rank - 2, 0, width + step * (count - 1))
