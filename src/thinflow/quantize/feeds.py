"""Samples for calibration and evaluation, one at a time, from files or from Python.

| source | one sample is |
|---|---|
| a folder | one file, sorted by name: `.npy`, `.npz` keyed by input, `.jpg` `.png` pictures, `.wav` sound |
| a `.npz` file | entry i along the first axis of each member; keys are input names, and `labels` |
| a `.npy` file, an array | entry i along the first axis, for a model with one input |
| a dict of arrays | entry i along the first axis of each |
| an iterable, or a function that returns one | a dict, a tuple in the order of the inputs, or an array |

Files are read sample by sample: memory does not depend on their length (Fortran order aside, which is read
whole). A model that wants [1, ...] takes samples of shape [...] too. String inputs get the bytes of a picture
or sound; float inputs get the picture decoded and resized to [H, W, C], values 0..255 or (value - mean)/std.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FeedError, ParameterError, closest
from thinflow.ir.types import STRING, UINT8, TensorSpec, shape_text
from thinflow.quantize.stored import UNREADABLE, Stored

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, TensorSpec]
"""Input name -> what the model wants there, the batch dimension included."""

PICTURES = frozenset((".jpg", ".jpeg", ".png", ".bmp"))
SOUNDS = frozenset((".wav",))
ARRAYS = frozenset((".npy", ".npz"))
TEXTS = frozenset((".txt", ".csv"))
LABELS = "labels"


@dataclass(frozen=True)
class Scaling:
    """(value - mean) / std for picture values 0..255; one number, or one per channel."""

    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.std) == 0):
            raise ParameterError("std is 0")

    def __call__(self, picture: Array) -> Array:
        return (picture.astype(np.float32) - np.asarray(self.mean, np.float32)) / np.asarray(
            self.std, np.float32
        )


class Feeds:
    """Samples that can be walked over again and again; each is a dict of input name -> array.

    Attributes:
        labels: one per sample, or None: the file name up to the first "_", or the array `labels`.
    """

    def __init__(
        self, walk: Callable[[], Iterator[dict[str, Array]]], count: int | None, labels: list[Any] | None
    ) -> None:
        self._walk = walk
        self._count = count
        self.labels = labels

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return self._walk()

    def __len__(self) -> int:
        """Number of samples.

        Raises:
            TypeError: it is not known before they are walked.
        """
        if self._count is None:
            raise TypeError("the number of samples is not known")
        return self._count


def open_feeds(
    source: Any, inputs: Inputs, *, scaling: Scaling | None = None, limit: int | None = None
) -> Feeds:
    """Samples from any of the sources in the table above.

    Args:
        source: a path, an array, a dict of arrays, an iterable of samples or a function that returns one.
        inputs: what the model wants; every sample is checked and cast to it when it is read.
        scaling: of pictures for float inputs.
        limit: use the first so many samples only.

    Raises:
        FeedError: no samples, an unreadable file, or names, shapes or types that do not fit.
    """
    if limit is not None and limit < 1:
        raise ParameterError(f"limit is {limit}", hint="use at least one sample")
    if isinstance(source, (str, os.PathLike)):
        feeds = _open_path(Path(source), inputs, scaling or Scaling())
    elif isinstance(source, np.ndarray):
        feeds = _from_arrays({_only(inputs, "an array"): source}, inputs)
    elif isinstance(source, Mapping):
        feeds = _from_arrays(dict(source), inputs)
    else:
        feeds = _from_iterable(source, inputs)
    return feeds if limit is None else _limited(feeds, limit)


def _limited(feeds: Feeds, limit: int) -> Feeds:
    def walk() -> Iterator[dict[str, Array]]:
        for number, feed in enumerate(feeds, 1):
            yield feed
            if number >= limit:
                return

    count = None if feeds._count is None else min(limit, feeds._count)
    return Feeds(walk, count, None if feeds.labels is None else feeds.labels[:limit])


def _open_path(path: Path, inputs: Inputs, scaling: Scaling) -> Feeds:
    if path.is_dir():
        return _from_folder(path, inputs, scaling)
    if not path.exists():
        raise FeedError("there is no such file or folder", str(path))
    if path.suffix == ".npy":
        stored = Stored(path, None)
        return _from_stored({_only(inputs, "a .npy file"): stored}, inputs, None, str(path))
    if path.suffix == ".npz":
        return _from_npz(path, inputs)
    if path.suffix.lower() in PICTURES | SOUNDS:
        return _from_files([path], inputs, scaling)
    raise FeedError(
        f"samples cannot be read from a {path.suffix or 'suffixless'} file",
        str(path),
        hint="give a folder, a .npz or a .npy",
    )


def read_input(file: Path, name: str, spec: TensorSpec, *, scaling: Scaling | None = None) -> Array:
    """One input's array from one file: `.npy`, `.npz` (first member), numbers in `.txt` or `.csv`, a picture.

    A string input gets the file's bytes, whatever the file is.

    Raises:
        FeedError: the file cannot be read, or does not fit the input.
    """
    where, suffix = str(file), file.suffix.lower()
    try:
        if spec.dtype is STRING and suffix not in ARRAYS:
            array = _as_array(file.read_bytes())
        elif suffix in ARRAYS:
            loaded = np.load(file, allow_pickle=False)
            array = loaded if isinstance(loaded, np.ndarray) else _first_member(loaded)
        elif suffix in PICTURES:
            array = _picture(file, spec, scaling or Scaling())
        elif suffix in TEXTS:
            array = np.loadtxt(file, delimiter="," if suffix == ".csv" else None, ndmin=1)
            if spec.size == array.size and spec.shape is not None:
                array = array.reshape([n or 0 for n in spec.shape])
        else:
            raise FeedError(f"an input cannot be read from a {suffix or 'suffixless'} file", where)
    except FeedError:
        raise
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", where) from e
    return fit(array, name, spec, where)


def _first_member(members: Any) -> Array:
    with members:
        if not members.files:
            raise ValueError("it has no arrays")
        return np.asarray(members[members.files[0]])


# ---------------------------------------------------------------------------------------------------- folders


def _from_folder(folder: Path, inputs: Inputs, scaling: Scaling) -> Feeds:
    usable = PICTURES | SOUNDS | ARRAYS
    files = sorted(
        f
        for f in folder.iterdir()
        if f.suffix.lower() in usable and not f.name.startswith(".") and f.is_file()
    )
    if not files:
        raise FeedError(
            "the folder has no samples", str(folder), hint=f"put files there: {' '.join(sorted(usable))}"
        )
    return _from_files(files, inputs, scaling)


def _from_files(files: list[Path], inputs: Inputs, scaling: Scaling) -> Feeds:
    def walk() -> Iterator[dict[str, Array]]:
        for file in files:
            yield _read_sample(file, inputs, scaling)

    labels = [f.name.split("_", 1)[0] for f in files] if all("_" in f.name for f in files) else None
    return Feeds(walk, len(files), labels)


def _read_sample(file: Path, inputs: Inputs, scaling: Scaling) -> dict[str, Array]:
    where, suffix = str(file), file.suffix.lower()
    try:
        if suffix == ".npy":
            return _sample(np.load(file, allow_pickle=False), inputs, where)
        if suffix == ".npz":
            with np.load(file, allow_pickle=False) as members:
                arrays = {name: members[name] for name in members.files}
            return _sample({k: v for k, v in arrays.items() if k != LABELS or k in inputs}, inputs, where)
    except FeedError:
        raise
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", where) from e
    name = _only(inputs, f"a {suffix} file")
    spec = inputs[name]
    if spec.dtype is STRING:
        return {name: fit(_as_array(file.read_bytes()), name, spec, where)}
    if suffix in SOUNDS:
        raise FeedError(
            f"input '{name}' wants {spec.dtype} numbers and a sound file holds bytes",
            where,
            hint="save the samples as .npy",
        )
    return {name: fit(_picture(file, spec, scaling), name, spec, where)}


def _picture(file: Path, spec: TensorSpec, scaling: Scaling) -> Array:
    """float32 or uint8 [H, W, C], resized if the model has a fixed size."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as e:
        raise FeedError(
            "reading pictures needs Pillow", str(file), hint="pip install 'thinflow[image]'"
        ) from e
    height, width, channels = (
        (spec.shape or (None, None, None))[-3:] if spec.rank != 2 else (None, None, None)
    )
    mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(3 if channels is None else channels)
    if mode is None or spec.rank not in (None, 3, 4):
        raise FeedError(f"a picture does not fit an input of shape {shape_text(spec.shape)}", str(file))
    try:
        with Image.open(file) as opened:
            picture = opened.convert(mode)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as e:
        raise FeedError(f"the picture cannot be read: {e}", str(file)) from e
    size = (width or picture.width, height or picture.height)
    if picture.size != size:
        picture = picture.resize(size, Image.Resampling.BILINEAR)
    values = np.asarray(picture).reshape(size[1], size[0], -1)
    return values if spec.dtype is UINT8 else scaling(values)


# --------------------------------------------------------------------------------------- arrays and .npz


def _from_npz(path: Path, inputs: Inputs) -> Feeds:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.endswith(".npy")]
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", str(path)) from e
    stored = {n.removesuffix(".npy"): Stored(path, n) for n in names}
    labels = stored.pop(LABELS, None) if LABELS not in inputs else None
    return _from_stored(stored, inputs, None if labels is None else [_plain(x) for x in labels], str(path))


def _plain(label: Array) -> Any:
    value = label.item() if label.ndim == 0 else label.tolist()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _from_stored(stored: Mapping[str, Any], inputs: Inputs, labels: list[Any] | None, where: str) -> Feeds:
    """From things with a length whose items are one sample's arrays; each walk reads all of them in step."""
    counts = {name: len(s) for name, s in stored.items()}
    if len(set(counts.values())) > 1:
        raise FeedError(f"the inputs have different numbers of samples: {counts}", where)
    count = next(iter(counts.values()), 0)
    if not count:
        raise FeedError("there are no samples", where)
    if labels is not None and len(labels) != count:
        raise FeedError(f"there are {len(labels)} labels for {count} samples", where)
    by_input = _named(stored, inputs, where)

    def walk() -> Iterator[dict[str, Array]]:
        for number, row in enumerate(zip(*by_input.values(), strict=True)):
            place = f"{where}, sample {number}"
            yield {
                name: fit(np.asarray(x), name, inputs[name], place)
                for name, x in zip(by_input, row, strict=True)
            }

    return Feeds(walk, count, labels)


def _from_arrays(arrays: Mapping[str, Any], inputs: Inputs) -> Feeds:
    given = {name: np.asarray(a) for name, a in arrays.items()}
    labels = given.pop(LABELS, None) if LABELS not in inputs else None
    for name, array in given.items():
        if not array.ndim:
            raise FeedError(f"'{name}' is one number, not samples along a first axis")
    return _from_stored(
        given, inputs, None if labels is None else [_plain(np.asarray(x)) for x in labels], "the arrays"
    )


# --------------------------------------------------------------------------------------------- Python objects


def _from_iterable(source: Any, inputs: Inputs) -> Feeds:
    if isinstance(source, Feeds):
        return source
    if not callable(source) and not isinstance(source, Iterable):
        raise FeedError(
            f"samples cannot be read from {type(source).__name__}",
            hint="give a path, arrays or an iterable of dicts",
        )
    count = len(source) if hasattr(source, "__len__") else None
    if count == 0:
        raise FeedError("there are no samples")
    walked = False

    def walk() -> Iterator[dict[str, Array]]:
        nonlocal walked
        if walked and isinstance(source, Iterator):
            raise FeedError(
                "the samples can be walked once only",
                hint="give a list or a function that returns an iterator",
            )
        walked = True
        for number, item in enumerate(source() if callable(source) else source):
            yield _sample(item, inputs, f"sample {number}")

    return Feeds(walk, count, None)


def _sample(item: Any, inputs: Inputs, where: str) -> dict[str, Array]:
    """One sample as a dict, tuple or array, checked."""
    if isinstance(item, Mapping):
        named = _named(item, inputs, where)
    elif isinstance(item, (tuple, list)) and len(inputs) > 1:
        if len(item) != len(inputs):
            raise FeedError(f"the sample has {len(item)} arrays, the model {len(inputs)} inputs", where)
        named = dict(zip(inputs, item, strict=True))
    else:
        # What data sets made for TFLiteConverter yield: a list with the only input in it.
        is_wrapped = isinstance(item, (tuple, list)) and len(item) == 1 and isinstance(item[0], np.ndarray)
        named = {_only(inputs, "an array"): item[0] if is_wrapped else item}
    return {name: fit(_as_array(x), name, inputs[name], where) for name, x in named.items()}


def _as_array(item: Any) -> Array:
    if isinstance(item, (bytes, str)):
        raw: Array = np.empty((), object)
        raw[()] = item
        return raw
    return np.asarray(item)


def _only(inputs: Inputs, what: str) -> str:
    if len(inputs) != 1:
        raise FeedError(
            f"the model has {len(inputs)} inputs, and {what} gives one",
            hint=f"name them: {', '.join(inputs)}",
        )
    return next(iter(inputs))


def _named(given: Mapping[str, Any], inputs: Inputs, where: str) -> dict[str, Any]:
    """By the model's own input names; "x:0" stands for "x", and numpy's "arr_0" for a single input."""
    plain = {name.removesuffix(":0"): name for name in inputs}
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = key if key in inputs else plain.get(key.removesuffix(":0"))
        if name is None and len(inputs) == 1 and set(given) == {"arr_0"}:
            name = next(iter(inputs))
        if name is None:
            raise FeedError(
                f"the model has no input '{key}'",
                where,
                hint=closest(key, inputs) or f"it has: {', '.join(inputs)}",
            )
        found[name] = value
    missing = [name for name in inputs if name not in found]
    if missing:
        raise FeedError(f"nothing is given for input '{missing[0]}'", where)
    return {name: found[name] for name in inputs}


# --------------------------------------------------------------------------------------------- shape and type


def fit(array: Array, name: str, spec: TensorSpec, where: str = "") -> Array:
    """The array as the model wants it: with a batch dimension, and cast if no value changes beyond rounding.

    Raises:
        FeedError: the shape is wrong, or integers would be cut or overflow.
    """
    if spec.dtype is STRING:
        array = _as_bytes(array, name, where)
    shape, found = spec.shape, array.shape
    if shape is not None:
        if array.ndim == len(shape) - 1 and shape[0] in (1, None):
            array = array[None]
        same_rank = array.ndim == len(shape)
        if not same_rank or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
            raise FeedError(
                f"input '{name}' wants shape {shape_text(shape)}, found {shape_text(found)}", where
            )
    if spec.dtype is None or spec.dtype is STRING:
        return array
    wanted = spec.dtype.numpy()
    if array.dtype == wanted:
        return array
    if array.dtype.kind not in "biuf" and array.dtype != wanted:
        raise FeedError(f"input '{name}' wants {spec.dtype}, found {array.dtype}", where)
    with np.errstate(all="ignore"):
        converted = array.astype(wanted)
    if wanted.kind in "biu" and not np.array_equal(converted, array):
        raise FeedError(
            f"input '{name}' wants {spec.dtype}, found {array.dtype} values that it cannot hold", where,
            hint="convert them before",
        )  # fmt: skip
    return converted


def _as_bytes(array: Array, name: str, where: str) -> Array:
    if array.dtype.kind not in "OSU":
        raise FeedError(f"input '{name}' wants strings, found {array.dtype}", where)
    strings = np.empty(array.shape, object)
    flat, source = strings.reshape(-1), array.reshape(-1).tolist()
    for i, item in enumerate(source):
        flat[i] = item.encode() if isinstance(item, str) else bytes(item)
    return strings
