"""The programs whose C is compared with LiteRT, and inputs of theirs that are real where there are any."""

from __future__ import annotations

import math
import wave
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.ptq import cases, data
from thinflow import zoo
from thinflow.ops.audio import mel_filters
from thinflow.tflite.model import Tensor
from thinflow.typing import Array

_RATE = 16_000
_WINDOW, _STEP = 480, 320
"""Samples of a frame, and from one to the next: 30 and 20 milliseconds."""
_STORED = {"pose_v2s": {"image": "pose_v2s/input"}, "unrolled_gru": {"X": "unrolled_gru/X"}}
_NUMBERS: dict[str, dict[str, tuple[int, ...]]] = {"unrolled_gru": {"keep_prob": ()}}
"""Inputs of open sizes: where samples of them are kept, and those that are one number."""
KINDS = ("zoo", "made", "float")


def programs(
    folder: Path, kinds: Sequence[str] = KINDS, wanted: Sequence[str] = ()
) -> Iterator[tuple[str, Path]]:
    """Name and file of each program; those that thinflow makes are made once.

    Args:
        folder: for what is made.
        kinds: "zoo", the .tflite files of ../shared/zoo; "made", eight bits of everything else that is
            there: trained networks, digits, and the graphs of ../shared; "float", the same as it is.
        wanted: names, of all if there are none; nothing else is made.
    """
    if "zoo" in kinds:
        for path in sorted((cases.shared() / "zoo").glob("*/*.tflite")):
            if not wanted or path.stem in wanted:
                yield path.stem, path
    for kind, suffix in (("made", "int8"), ("float", "float")):
        for name, make in _sources(folder, kind) if kind in kinds else ():
            path = folder / f"{name}_{suffix}.tflite"
            if wanted and path.stem not in wanted:
                continue
            if not path.exists():
                try:
                    make(path)
                except thinflow.ThinflowError as error:
                    print(f"{path.stem}: not made: {error}", flush=True)
                    continue
            yield path.stem, path


def _sources(folder: Path, kind: str) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Name, and what writes the file of it."""

    def plain(source: object, samples: object = None) -> Callable[[Path], object]:
        shapes = _open_sizes(source) if isinstance(source, Path) else {}
        if kind == "float":
            return lambda path: thinflow.convert(source, path, shapes=shapes, verify=False)
        return lambda path: thinflow.quantize(source, samples, shapes=shapes, effort="none", samples=40).save(
            path
        )

    def behind_features(name: str) -> Callable[[Path], object]:
        def make(path: Path) -> object:
            case = cases.keyword_case(name, folder)
            return plain(case.graph, case.calibration)(path)

        return make

    shared = cases.shared()
    for name in cases.keywords():
        yield name, plain(shared / "models" / f"{name}.pb", shared / "data" / "kws")
        yield f"{name}_features", behind_features(name)
    yield "digits", lambda path: plain(zoo.build("digits"), zoo.calibration("digits"))(path)
    for path in sorted((shared / "models").glob("*.pb")):
        if path.stem not in cases.keywords():
            yield path.stem, plain(path)
    for part in ("keras", "onnx", "pb"):
        for path in sorted(p for p in (shared / "zoo" / part).glob("*") if p.suffix != ".npz"):
            yield path.stem, plain(path)


def _open_sizes(source: Path) -> dict[str, tuple[int, ...]]:
    """Sizes of the inputs that a file leaves open, as those have them that lie beside it."""
    answers, beside = source.parent / "reference.npz", source.with_suffix(".npz")
    if answers.exists():
        stored = np.load(answers)
        sizes = {name: stored[key].shape[1:] for name, key in _STORED.get(source.stem, {}).items()}
        return {name: (1, *shape) for name, shape in sizes.items()} | _NUMBERS.get(source.stem, {})
    real = dict(np.load(beside)) if beside.exists() else {}
    return {k[3:].removesuffix(":0"): v.shape for k, v in real.items() if k.startswith("in:")}


# --- inputs -------------------------------------------------------------------------------------------------


def inputs_of(name: str, path: Path, tensors: Sequence[Tensor], count: int) -> tuple[list[list[Array]], str]:
    """Inputs of a program, and where they are from.

    Args:
        name: of the program.
        path: of its file, beside which a sample may lie.
        tensors: its inputs, all sizes known.
        count: how many.
    """
    rng = np.random.default_rng(0)
    if len(tensors) == 1:
        x = tensors[0]
        shape = tuple(n or 1 for n in x.shape or ())
        seen, what = _heard_or_seen(name, x, shape, count)
        if seen is not None:
            return [[stored(seen[n % len(seen)], x)] for n in range(count)], what
    beside = path.with_suffix(".npz")
    stem = name.removesuffix("_int8").removesuffix("_float")
    for kind in ("keras", "onnx", "pb"):
        other = cases.shared() / "zoo" / kind / f"{stem}.npz"
        beside = other if other.exists() else beside
    if beside.exists():
        real = {k[3:].removesuffix(":0"): v for k, v in np.load(beside).items() if k.startswith("in:")}
        rows = [_named(real, t, n) for n, t in enumerate(tensors)]
        if all(row is not None for row in rows):
            return [
                [_varied(row, t, rng, n) for row, t in zip(rows, tensors, strict=True)] for n in range(count)
            ], ("the sample of the zoo, varied")
    return [[_made_up(t, rng) for t in tensors] for _ in range(count)], "made up"


def stored(real: Array, x: Tensor) -> Array:
    """Reals as a tensor stores them."""
    kind = x.dtype.numpy()
    shape = tuple(n or 1 for n in x.shape or ())
    if x.quantization is None or not len(x.quantization.scale):
        return real.reshape(shape).astype(kind)
    limits = np.iinfo(kind)
    zero = int(x.quantization.zero_point[0]) if len(x.quantization.zero_point) else 0
    codes = np.round(real.astype(np.float64) / float(x.quantization.scale[0])) + zero
    return codes.clip(limits.min, limits.max).astype(kind).reshape(shape)


def _heard_or_seen(name: str, x: Tensor, shape: tuple[int, ...], count: int) -> tuple[Array | None, str]:
    """Reals [count, *shape] of what a network of this name hears or sees; None if that is not known."""
    size = math.prod(shape)
    # What the range of an input is tells how pictures and spectra are scaled.
    low, high = _range(x)
    if len(shape) == 4 and shape[3] in (1, 3) and min(shape[1:3]) >= 24 and "kws" not in name:
        return _photographs(shape[1:], count) * (high - low) + low, "photographs"
    if shape in ((1, 28, 28), (1, 784), (1, 28, 28, 1)):
        drawn = data.digits(count, data.TEST).x[..., 0]
        return np.pad(drawn, ((0, 0), (4, 4), (4, 4))) * (high if high > 0 else 1.0), "drawn digits"
    if "digits" in name and size == 64:
        images = zoo.test_set("digits")
        return next(v for k, v in images.items() if k != "labels").reshape(-1, size), "test digits"
    if size == 1:
        return np.linspace(low, high, count), "the whole range"
    if size == _RATE:
        return _clips()[:, :, None], "speech"
    if size == 490 or (size == 250 and "kws" in name):
        return _coefficients(size), "features of speech"
    if len(shape) >= 2 and size % 40 == 0 and size // 40 <= 49 and name.startswith(("micro", "mlperf_str")):
        return _spectra(40, size // 40, low, high), "spectra of speech"
    if name.startswith("mlperf_ad"):
        return _spectra(128, 5, low, high), "spectra of speech"
    return None, ""


def _range(x: Tensor) -> tuple[float, float]:
    if x.quantization is None or not len(x.quantization.scale):
        return (0.0, 1.0) if x.dtype.kind == "f" else (0.0, float(np.iinfo(x.dtype.numpy()).max))
    limits = np.iinfo(x.dtype.numpy())
    scale = float(x.quantization.scale[0])
    zero = int(x.quantization.zero_point[0]) if len(x.quantization.zero_point) else 0
    return scale * (limits.min - zero), scale * (limits.max - zero)


def _photographs(shape: tuple[int, ...], count: int) -> Array:
    """Parts of photographs [count, h, w, c] in 0..1."""
    from PIL import Image

    height, width, channels = shape
    rng = np.random.default_rng(0)
    places = [*(cases.shared() / "data").glob("*.jpg"), *(cases.shared() / "models").glob("*.jpg")]
    pictures = [Image.open(p).convert("L" if channels == 1 else "RGB") for p in sorted(places)]
    found = []
    for n in range(count):
        picture = pictures[n % len(pictures)]
        side = int(rng.uniform(0.3, 1) * min(picture.size))
        left, top = (int(rng.integers(0, s - side + 1)) for s in picture.size)
        part = picture.crop((left, top, left + side, top + side)).resize((width, height))
        found.append(np.asarray(part, np.float32).reshape(shape) / 255)
    return np.array(found)


@cache
def _clips() -> Array:
    """All clips [count, samples] in -1..1."""
    found = []
    for path in sorted((cases.shared() / "data" / "kws").glob("*.wav")):
        with wave.open(str(path)) as file:
            samples = np.frombuffer(file.readframes(_RATE), np.int16).astype(np.float32) / 32768
        found.append(np.pad(samples, (0, _RATE - len(samples))))
    return np.array(found)


@cache
def _coefficients(size: int) -> Array:
    """Features of all clips as the keyword networks have them, [count, size]."""
    name = next(n for n in cases.keywords() if _features_of(n)[0] == size)
    return _features_of(name)[1].reshape(-1, size)


@cache
def _features_of(name: str) -> tuple[int, Array]:
    whole = thinflow.load(cases.shared() / "models" / f"{name}.pb")
    whole.outputs = [next(node for node in whole if node.op == "Mfcc").output()]
    x, _ = cases.clips(whole)
    return int(np.prod(x.shape[1:])), x


def _spectra(bands: int, frames: int, low: float, high: float) -> Array:
    """Logarithms of what bands of speech hold, brought to a range, [count, frames, bands]."""
    filters = mel_filters(257, _RATE, bands, 60.0, 7600.0)
    assert filters is not None
    windowed = np.lib.stride_tricks.sliding_window_view(_clips(), _WINDOW, 1)[:, ::_STEP] * np.hanning(
        _WINDOW
    )
    power = np.abs(np.fft.rfft(windowed, 512)) @ filters
    rows = np.log(power + 1e-3)
    # Loud and quiet parts alike, one beginning for each clip.
    rng = np.random.default_rng(0)
    rows = np.stack(
        [
            np.resize(r[rng.integers(0, 49) :], (frames, bands))
            if frames < 40
            else np.resize(r, (frames, bands))
            for r in rows
        ]
    )
    scaled = (rows - rows.min()) / np.ptp(rows)
    return scaled * (high - low) + low


def _named(real: dict[str, Array], tensor: Tensor, number: int) -> Array | None:
    size = math.prod(n or 1 for n in tensor.shape or ())
    named = [v for k, v in real.items() if k in tensor.name and v.size == size]
    by_order = [v for v in list(real.values())[number : number + 1] if v.size == size]
    return next(iter([*named, *by_order]), None)


def _varied(row: Array | None, x: Tensor, rng: np.random.Generator, number: int) -> Array:
    """A sample as it is first, then with noise of a tenth of its deviation, and louder or softer."""
    assert row is not None
    shape, kind = tuple(n or 1 for n in x.shape or ()), x.dtype.numpy()
    if row.dtype == kind and kind.kind != "f":
        if number == 0 or kind.itemsize > 1:
            return np.roll(row.reshape(-1), number).reshape(shape)
        limits = np.iinfo(kind)
        moved = row.reshape(shape) + rng.normal(0, max(float(row.std()) / 10, 1), shape)
        return np.round(moved).clip(limits.min, limits.max).astype(kind)
    real = row.reshape(shape).astype(np.float64)
    if number:
        real = real * rng.uniform(0.7, 1.1) + rng.normal(0, float(real.std()) / 10, shape)
    return stored(real, x)


def _made_up(x: Tensor, rng: np.random.Generator) -> Array:
    shape, kind = tuple(n or 1 for n in x.shape or ()), x.dtype.numpy()
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    limits = np.iinfo(kind)
    high = limits.max + 1 if kind.itemsize == 1 else 100
    return rng.integers(limits.min if kind.itemsize == 1 else 0, high, shape).astype(kind)
