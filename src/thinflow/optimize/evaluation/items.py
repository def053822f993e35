"""Samples from Python: arrays, objects with `__len__` and `__getitem__`, iterables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from thinflow.datasets.fields import LABEL
from thinflow.datasets.shard import SHARD_SAMPLES, Damaged, Record, Shard
from thinflow.errors import FeedError
from thinflow.quantize.fitting import Inputs, in_numpy, is_batch, samples_of

KIND = "items"


class Items:
    """Samples that lie in memory, or are made by Python, as a data set that is cut into shards.

    Attributes:
        path: "", as they come from no file.
        is_stream: whether they can be walked once only, so that there are no shards before they are read.

    Args:
        source: a dict of arrays with samples along their first axis, of which `labels` may be one; an array;
            anything with `__len__` and `__getitem__`; an iterable, or a function that returns one. A sample
            is a dict, an array, or a tuple of arrays in the order of the inputs, behind which its label may
            stand; tensors of PyTorch and TensorFlow will do. What an iterable gives may be batches, too.
        inputs: of the model, the first one of several.
        shard_samples: samples of a shard.

    Raises:
        FeedError: it is nothing of the kind, or has no samples.
    """

    path = ""

    def __init__(self, source: Any, inputs: Inputs, shard_samples: int = SHARD_SAMPLES) -> None:
        self._inputs, self._samples = inputs, shard_samples
        self._item: Callable[[int], Any] | None = None
        self._walk: Iterator[Any] = iter(())
        # Of a stream only the shard at hand is held: what was judged is let go.
        self._taken: dict[int, list[Any]] = {}
        self.count: int | None = None
        if isinstance(source, Mapping):
            self._open_arrays({name: np.asarray(a) for name, a in source.items()})
        elif isinstance(source, np.ndarray):
            self._open_arrays({"npy": source})
        elif hasattr(source, "__len__") and hasattr(source, "__getitem__"):
            self._open_indexed(source)
        elif callable(source) or isinstance(source, Iterable):
            self._walk = self._samples_of(source() if callable(source) else source)
        else:
            raise FeedError(
                f"samples cannot be read from {type(source).__name__}",
                hint="give a path, arrays or an iterable of dicts",
            )
        if self.count == 0:
            raise FeedError("there are no samples", hint="give at least one")

    def _open_arrays(self, arrays: Mapping[str, Any]) -> None:
        for name, array in arrays.items():
            if not array.ndim:
                raise FeedError(
                    f"'{name}' is one number, not samples along a first axis", hint="stack them: numpy.stack"
                )
        counts = {name: len(array) for name, array in arrays.items()}
        if len(set(counts.values())) > 1:
            raise FeedError(
                f"the inputs have different numbers of samples: {counts}",
                "the arrays",
                hint="give as many for each, and a label for each sample",
            )
        self.count = next(iter(counts.values()), 0)
        self._item = lambda number: {name: array[number] for name, array in arrays.items()}

    def _open_indexed(self, source: Any) -> None:
        self.count = count = len(source)
        if not count:
            return
        # Read once: making a sample may take long, or give another one each time.
        first = in_numpy(source[0])
        if is_batch(first, self._inputs):
            # Of a loader that counts batches it is not known how many the last one holds.
            steps = (source[n] if n else first for n in range(count))
            self.count, self._walk = None, self._samples_of(steps)
            return
        self._item = lambda number: in_numpy(source[number]) if number else first

    def _samples_of(self, steps: Iterable[Any]) -> Iterator[Any]:
        return (one for step in steps for one in samples_of(step, self._inputs))

    @property
    def is_stream(self) -> bool:
        return self._item is None

    def shards(self) -> Iterator[Shard]:
        """Stretches of so many samples; of a stream, as they come."""
        if self.count is not None:
            for start in range(0, self.count, self._samples):
                stop = min(start + self._samples, self.count)
                yield Shard(KIND, (), (), start, stop, start, size=stop - start)
            return
        start = 0
        while some := list(islice(self._walk, self._samples)):
            self._taken = {start: some}
            yield Shard(KIND, (), (), start, start + len(some), start, size=len(some))
            start += len(some)

    def records(self, shard: Shard) -> Iterator[Record | Damaged]:
        """The samples of a shard; of a stream, of the last one only."""
        stop = shard.start if shard.stop is None else shard.stop
        if self._item is not None:
            items: Iterable[Any] = (self._item(n) for n in range(shard.start, stop))
        else:
            items = self._taken.get(shard.start, ())
        for number, item in enumerate(items, shard.start):
            yield self._record(item, f"sample {number}")

    def _record(self, item: Any, place: str) -> Record:
        if isinstance(item, Mapping):
            return Record(dict(item), place)
        if isinstance(item, tuple | list) and not _is_plain(item):
            return self._of_parts(item, place)
        return Record({"npy": item}, place)

    def _of_parts(self, parts: Sequence[Any], place: str) -> Record:
        # In the order of the inputs: tuples have no names.
        names = list(self._inputs)
        if len(parts) == 1 and isinstance(parts[0], Mapping):
            return Record(dict(parts[0]), place)
        # What data sets of torch and tf.data yield: (features, label).
        if len(parts) == 2 and isinstance(parts[0], Mapping):
            return Record({**parts[0], LABEL: parts[1]}, place)
        if len(parts) not in (len(names), len(names) + 1):
            raise FeedError(
                f"the sample has {len(parts)} arrays, the model {len(names)} inputs",
                place,
                hint=f"give a dict with their names: {', '.join(names)}",
            )
        label = {LABEL: parts[-1]} if len(parts) > len(names) else {}
        return Record({**dict(zip(names, parts, strict=False)), **label}, place)


def _is_plain(item: Sequence[Any]) -> bool:
    """True for a list of numbers, which is an array."""
    return all(isinstance(part, int | float | list) for part in item)
