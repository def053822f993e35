"""Samples for calibration and evaluation, one at a time, from files or from Python.

| source | one sample is |
|---|---|
| a folder | one file, sorted by name: `.npy`, `.npz` keyed by input, `.jpg` `.png` pictures, `.wav` sound |
| a folder of folders | one file in any of them, whose name is its label |
| a `.npz` file | entry i along the first axis of each member; keys are input names, and `labels` |
| a `.csv` file | a row; a column `label` has its label, see `tables` |
| a `.npy` file, an array | entry i along the first axis, for a model with one input |
| a dict of arrays | entry i along the first axis of each |
| an iterable, or a function that returns one | a dict, a tuple in the order of the inputs, or an array |

Files are read sample by sample: memory does not depend on their length (Fortran order aside, which is read
whole). A model that wants [1, ...] takes samples of shape [...] too. String inputs get the bytes of a picture
or sound; float inputs get the picture decoded and resized to [H, W, C], values 0..255 or (value - mean)/std,
or the samples of the sound in -1..1, and an integer beside them its rate.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.errors import FeedError, ParameterError
from thinflow.ir.types import STRING
from thinflow.quantize.feed_parts import FeedPart, FilePart, RowPart, some_of
from thinflow.quantize.fitting import (
    Inputs,
    fit,
    fitted_sample,
    is_batch,
    named_arrays,
    only_input,
    samples_of,
)
from thinflow.quantize.sample_files import ARRAYS, LABELS, PICTURES, SOUNDS, Scaling, read_sample
from thinflow.quantize.stored import UNREADABLE, Stored
from thinflow.quantize.tables import read_table
from thinflow.typing import Array


class Feeds:
    """Samples that can be walked over again and again; each is a dict of input name -> array.

    Attributes:
        labels: one per sample, or None: the file name up to the first "_", the folder, or the array `labels`.
        total: how many there are of which these were taken; None if that is not known.
        classes: of how many classes they are; 0 without labels.
        has_pictures: whether numbers are made from pictures, for which their range matters.
        loudest: number of the sample with the largest number in an input, where all were looked at.
        may_be_odd: whether samples may hold NaN or infinity, and can be looked at without using them up.
        part: numbers of samples, rising -> these, for another process; None where only a walk gives them.
    """

    def __init__(
        self,
        walk: Callable[[], Iterator[dict[str, Array]]],
        count: int | None,
        labels: list[Any] | None,
        *,
        total: int | None = None,
        has_pictures: bool = False,
        places: Sequence[str] = (),
        may_be_odd: bool = False,
        part: Callable[[Sequence[int]], FeedPart] | None = None,
    ) -> None:
        self._walk, self._places, self.may_be_odd = walk, places, may_be_odd
        self.part = part
        self._count = count
        self.labels = labels
        self.loudest: int | None = None
        self.total = count if total is None else total
        self.classes = len({str(label) for label in labels or ()})
        self.has_pictures = has_pictures

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

    def place(self, number: int) -> str:
        """The file of a sample, or its number where it comes from."""
        return self._places[number] if number < len(self._places) else f"sample {number}"

    def __repr__(self) -> str:
        return f"Feeds({self._count if self._count is not None else '?'} samples)"


def open_feeds(
    source: Any, inputs: Inputs, *, scaling: Scaling | None = None, limit: int | None = None
) -> Feeds:
    """Samples from any of the sources in the table above.

    Args:
        source: a path, an array, a dict of arrays, an iterable of samples or a function that returns one.
        inputs: what the model wants; every sample is checked and cast to it when it is read.
        scaling: of pictures for float inputs.
        limit: use so many samples only, spread evenly over classes and files; the first ones of an iterable
            that does not know its length.

    Raises:
        FeedError: no samples, an unreadable file, or names, shapes or types that do not fit.
    """
    if limit is not None and limit < 1:
        raise ParameterError(f"limit is {limit}", hint="use at least one sample")
    if isinstance(source, (str, os.PathLike)):
        return _open_path(Path(source), inputs, scaling or Scaling(), limit)
    if isinstance(source, np.ndarray):
        return _from_arrays({only_input(inputs, "an array"): source}, inputs, limit)
    if isinstance(source, Mapping):
        return _from_arrays(dict(source), inputs, limit)
    return _from_iterable(source, inputs, limit)


def _open_path(path: Path, inputs: Inputs, scaling: Scaling, limit: int | None) -> Feeds:
    if path.is_dir():
        return _from_folder(path, inputs, scaling, limit)
    if not path.exists():
        raise FeedError("there is no such file or folder", str(path))
    if path.suffix == ".npy":
        stored = Stored(path, None)
        return _from_stored({only_input(inputs, "a .npy file"): stored}, inputs, None, str(path), limit)
    if path.suffix == ".npz":
        return _from_npz(path, inputs, limit)
    if path.suffix.lower() == ".csv":
        arrays, labels = read_table(path, inputs)
        return _from_stored(arrays, inputs, labels, str(path), limit)
    if path.suffix.lower() in PICTURES | SOUNDS:
        return _from_files([path], inputs, scaling, limit)
    raise FeedError(
        f"samples cannot be read from a {path.suffix or 'suffixless'} file",
        str(path),
        hint="give a folder, a .npz, a .npy or a .csv",
    )


# ---------------------------------------------------------------------------------------------------- folders


def _from_folder(folder: Path, inputs: Inputs, scaling: Scaling, limit: int | None) -> Feeds:
    """Its files; where it has none but folders with files, those, each folder a class."""
    files = _samples_in(folder)
    if files:
        return _from_files(files, inputs, scaling, limit)
    folders = sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))
    found = [(file, inner.name) for inner in folders for file in _samples_in(inner)]
    if not found:
        raise FeedError(
            "the folder has no samples", str(folder), hint=f"put files there: {' '.join(sorted(_USABLE))}"
        )
    return _from_files([f for f, _ in found], inputs, scaling, limit, [label for _, label in found])


_USABLE = PICTURES | SOUNDS | ARRAYS


def _samples_in(folder: Path) -> list[Path]:
    return sorted(
        f
        for f in folder.iterdir()
        # macOS puts "._name.jpg" beside a file on foreign disks, which has the suffix and is no picture.
        if f.suffix.lower() in _USABLE and not f.name.startswith(".") and f.is_file()
    )


def _from_files(
    files: list[Path],
    inputs: Inputs,
    scaling: Scaling,
    limit: int | None,
    labels: list[Any] | None = None,
) -> Feeds:
    # One file without the mark, and names are no labels: a part of them could not be compared.
    if labels is None and all("_" in f.name for f in files):
        labels = [f.name.split("_", 1)[0] for f in files]
    chosen = spread(len(files), limit, labels)
    taken = [files[number] for number in chosen]
    # Folders of classes may have files of the same names.
    names_are_unique = len({f.parent for f in taken}) == 1
    # A model that takes text gets the file's bytes, whose range is nobody's choice.
    has_numbers = all(spec.dtype is not STRING for spec in inputs.values())

    def walk() -> Iterator[dict[str, Array]]:
        for file in taken:
            yield read_sample(file, inputs, scaling)

    return Feeds(
        walk,
        len(taken),
        None if labels is None else [labels[number] for number in chosen],
        total=len(files),
        has_pictures=has_numbers and any(f.suffix.lower() in PICTURES for f in taken),
        places=[file.name if names_are_unique else f"{file.parent.name}/{file.name}" for file in taken],
        # Pictures and sounds are whole numbers, scaled by finite ones.
        may_be_odd=any(f.suffix.lower() in ARRAYS for f in taken),
        part=lambda numbers: FilePart([os.path.abspath(taken[n]) for n in numbers], inputs, scaling),
    )


# --------------------------------------------------------------------------------------- arrays and .npz


def _from_npz(path: Path, inputs: Inputs, limit: int | None) -> Feeds:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.endswith(".npy")]
    except UNREADABLE as e:
        raise FeedError(f"the file cannot be read: {e}", str(path)) from e
    stored = {n.removesuffix(".npy"): Stored(path, n) for n in names}
    # A model may have an input of that name; then the array is fed, and there are no labels.
    labels = stored.pop(LABELS, None) if LABELS not in inputs else None
    plain = None if labels is None else [_plain(x) for x in labels]
    return _from_stored(stored, inputs, plain, str(path), limit)


def _plain(label: Array) -> Any:
    value = label.item() if label.ndim == 0 else label.tolist()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _from_stored(
    stored: Mapping[str, Any], inputs: Inputs, labels: list[Any] | None, where: str, limit: int | None
) -> Feeds:
    """From things with a length whose items are one sample's arrays; each walk reads all of them in step."""
    counts = {name: len(s) for name, s in stored.items()}
    if len(set(counts.values())) > 1:
        raise FeedError(f"the inputs have different numbers of samples: {counts}", where)
    count = next(iter(counts.values()), 0)
    if not count:
        raise FeedError(
            "there are no samples", where, hint="give at least one, in a folder, a table or an .npz"
        )
    if labels is not None and len(labels) != count:
        raise FeedError(f"there are {len(labels)} labels for {count} samples", where)
    by_input = named_arrays(stored, inputs, where)
    chosen = spread(count, limit, labels)
    wanted, last = set(chosen), chosen[-1]

    def walk() -> Iterator[dict[str, Array]]:
        # Rows are streamed, maybe from packed zip members, so those that are not wanted have to be read as
        # well.
        for number, row in enumerate(zip(*by_input.values(), strict=True)):
            if number > last:
                return
            if number not in wanted:
                continue
            place = f"{where}, sample {number}"
            yield {
                name: fit(np.asarray(x), name, inputs[name], place)
                for name, x in zip(by_input, row, strict=True)
            }

    kept = None if labels is None else [labels[number] for number in chosen]
    places = [f"sample {number}" for number in chosen]

    def part(numbers: Sequence[int]) -> FeedPart:
        return RowPart.of(by_input, [chosen[n] for n in numbers], inputs, where)

    return Feeds(walk, len(chosen), kept, total=count, places=places, may_be_odd=True, part=part)


def _from_arrays(arrays: Mapping[str, Any], inputs: Inputs, limit: int | None) -> Feeds:
    given = {name: np.asarray(a) for name, a in arrays.items()}
    labels = given.pop(LABELS, None) if LABELS not in inputs else None
    for name, array in given.items():
        if not array.ndim:
            raise FeedError(f"'{name}' is one number, not samples along a first axis")
    plain = None if labels is None else [_plain(np.asarray(x)) for x in labels]
    return _from_stored(given, inputs, plain, "the arrays", limit)


# --------------------------------------------------------------------------------------------- Python objects


def _from_iterable(source: Any, inputs: Inputs, limit: int | None) -> Feeds:
    if isinstance(source, Feeds):
        return source if limit is None else _limited(source, limit)
    # Data sets of PyTorch have no more than these two.
    is_indexed = hasattr(source, "__len__") and hasattr(source, "__getitem__")
    if not callable(source) and not isinstance(source, Iterable) and not is_indexed:
        raise FeedError(
            f"samples cannot be read from {type(source).__name__}",
            hint="give a path, arrays or an iterable of dicts",
        )
    count = len(source) if hasattr(source, "__len__") else None
    if count and not callable(source) and _holds_batches(source, inputs):
        # Their length is the number of batches.
        count = None
    if count == 0:
        raise FeedError("there are no samples", hint="give at least one, in a folder, a table or an .npz")
    walked = False
    wanted = None if count is None else set(spread(count, limit))

    def walk() -> Iterator[dict[str, Array]]:
        nonlocal walked
        # A second walk over a used-up iterator would be an empty one, and look like a data set without
        # samples.
        if walked and isinstance(source, Iterator):
            raise FeedError(
                "the samples can be walked once only",
                hint="give a list or a function that returns an iterator",
            )
        walked = True
        steps = source() if callable(source) else _steps(source)
        for number, item in enumerate(one for step in steps for one in samples_of(step, inputs)):
            if wanted is None or number in wanted:
                yield fitted_sample(item, inputs, f"sample {number}")
            # Before the next one is asked for: a generator may be endless, or slow.
            if wanted is None and number + 1 == limit:
                return

    places = [f"sample {number}" for number in sorted(wanted or ())]
    is_lasting = not isinstance(source, Iterator)
    length = None if wanted is None else len(wanted)
    return Feeds(walk, length, None, total=count, places=places, may_be_odd=is_lasting)


def _steps(source: Any) -> Iterable[Any]:
    """What is walked over; by number, where nothing else is offered."""
    return source if isinstance(source, Iterable) else (source[n] for n in range(len(source)))


def _holds_batches(source: Any, inputs: Inputs) -> bool:
    """Whether each step of a data set of known length is a batch of samples."""
    if isinstance(source, Iterator):
        # Looking would use the first one up.
        return False
    first = next(iter(_steps(source)), None)
    return first is not None and is_batch(first, inputs)


def _limited(feeds: Feeds, limit: int) -> Feeds:
    """Some of samples that are open already."""
    chosen = None if feeds._count is None else spread(feeds._count, limit, feeds.labels)
    wanted = None if chosen is None else set(chosen)

    def walk() -> Iterator[dict[str, Array]]:
        for number, feed in enumerate(feeds):
            if wanted is None or number in wanted:
                yield feed
            if wanted is None and number + 1 == limit:
                return

    labels = None if feeds.labels is None or chosen is None else [feeds.labels[n] for n in chosen]
    count = None if chosen is None else len(chosen)
    return Feeds(
        walk, count, labels, total=feeds.total, has_pictures=feeds.has_pictures,
        places=[feeds.place(number) for number in chosen or ()], may_be_odd=feeds.may_be_odd,
        part=None if chosen is None else some_of(feeds.part, chosen),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------- a few of many


def spread(count: int, limit: int | None, labels: Sequence[Any] | None = None) -> list[int]:
    """Numbers of at most `limit` samples of `count`, in order; the same each time.

    Some of each class, and of each stretch of the files: the first by name would all be of one class.

    Args:
        labels: class of each sample; each class gives as many as the others, as far as it has them.
    """
    if limit is None or limit >= count:
        return list(range(count))
    # A fixed seed: two runs of a command, or calibration and evaluation, take the same samples.
    rng = np.random.default_rng(0)
    classes: dict[Any, list[int]] = {}
    for number in range(count):
        classes.setdefault(str(labels[number]) if labels is not None else "", []).append(number)
    members = list(classes.values())
    shares = _shares([len(m) for m in members], limit, rng)
    return sorted(n for m, share in zip(members, shares, strict=True) for n in _drawn(m, share, rng))


def _shares(sizes: Sequence[int], limit: int, rng: np.random.Generator) -> list[int]:
    """Number of samples from each class: equally many, the rest from classes spread over all of them."""
    shares = [0] * len(sizes)
    while limit:
        left = [i for i, size in enumerate(sizes) if shares[i] < size]
        # All classes are raised alike until the smallest is used up or fewer than one for each is left; those
        # last few go to classes drawn over the whole list.
        each = min(limit // len(left), min(sizes[i] - shares[i] for i in left))
        for i in left if each else _drawn(left, limit, rng):
            shares[i] += each or 1
            limit -= each or 1
    return shares


def _drawn(items: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    """One item of each of `count` equal stretches: names in order may repeat with a period of their own."""
    edges = np.linspace(0, len(items), count + 1).astype(int)
    return [items[int(rng.integers(low, high))] for low, high in pairwise(edges)]
