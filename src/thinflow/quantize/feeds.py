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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FeedError, ParameterError
from thinflow.ir.types import STRING, TensorSpec
from thinflow.quantize.fitting import Array, Inputs, as_array, fit, fitted_sample, named_arrays, only_input
from thinflow.quantize.pictures import PICTURES, Scaling, read_picture
from thinflow.quantize.stored import UNREADABLE, Stored

SOUNDS = frozenset((".wav",))
ARRAYS = frozenset((".npy", ".npz"))
TEXTS = frozenset((".txt", ".csv"))
LABELS = "labels"


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
        feeds = _from_arrays({only_input(inputs, "an array"): source}, inputs)
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
        return _from_stored({only_input(inputs, "a .npy file"): stored}, inputs, None, str(path))
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
            array = as_array(file.read_bytes())
        elif suffix in ARRAYS:
            loaded = np.load(file, allow_pickle=False)
            array = loaded if isinstance(loaded, np.ndarray) else _first_member(loaded)
        elif suffix in PICTURES:
            array = read_picture(file, spec, scaling or Scaling())
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
            return fitted_sample(np.load(file, allow_pickle=False), inputs, where)
        if suffix == ".npz":
            with np.load(file, allow_pickle=False) as members:
                arrays = {name: members[name] for name in members.files}
            return fitted_sample(
                {k: v for k, v in arrays.items() if k != LABELS or k in inputs}, inputs, where
            )
    except FeedError:
        raise
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", where) from e
    name = only_input(inputs, f"a {suffix} file")
    spec = inputs[name]
    if spec.dtype is STRING:
        return {name: fit(as_array(file.read_bytes()), name, spec, where)}
    if suffix in SOUNDS:
        raise FeedError(
            f"input '{name}' wants {spec.dtype} numbers and a sound file holds bytes",
            where,
            hint="save the samples as .npy",
        )
    return {name: fit(read_picture(file, spec, scaling), name, spec, where)}


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
    by_input = named_arrays(stored, inputs, where)

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
            yield fitted_sample(item, inputs, f"sample {number}")

    return Feeds(walk, count, None)
