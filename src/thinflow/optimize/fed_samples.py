"""What models are measured with: samples that runs take in turns, or an input from each file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.bench.inputs import FeedSeries
from thinflow.errors import FeedError, ParameterError, closest
from thinflow.ir.types import TensorSpec
from thinflow.optimize.samples import one_sample, open_samples
from thinflow.optimize.stated_usage import scaling_of, usage_of
from thinflow.typing import Array

MOST_SAMPLES = 32
"""Enough to show how times depend on the input, and few enough for each to be run several times."""
_MOST_BYTES = 64 << 20
"""Of a model's samples, which lie in memory while it is measured."""


class SampleFeeds:
    """The same samples for each model, by what its inputs take; see `bench.inputs.FeedsFor`.

    Args:
        samples: a folder, a file, arrays or an iterable of feeds, as for calibration.
        scaling: of pictures for float inputs; default: as each model's file says.
        count: how many; default `MOST_SAMPLES`.

    Raises:
        ParameterError: a count below 1.
    """

    def __init__(self, samples: Any, scaling: Any = None, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise ParameterError(f"{count} samples are too few", hint="give at least 1")
        self._samples, self._scaling = samples, scaling
        self._count = MOST_SAMPLES if count is None else count
        self._origin = str(samples) if isinstance(samples, str | Path) else ""

    def __call__(self, path: str, inputs: Mapping[str, TensorSpec]) -> FeedSeries:
        # Each model takes a sample in its own way: pictures are cut and scaled to what its input declares.
        wanted = {name: one_sample(spec) for name, spec in inputs.items()}
        scaling = self._scaling or scaling_of(usage_of(path), wanted)
        feeds, _ = open_samples(self._samples, wanted, scaling, self._count)
        kept: list[dict[str, Array]] = []
        places: list[str] = []
        left_out = size = 0
        for number, feed in enumerate(feeds):
            # An engine that has its memory for one size would take another one anew, and be timed with that.
            if kept and any(np.shape(feed[name]) != np.shape(kept[0][name]) for name in feed):
                left_out += 1
                continue
            size += sum(array.nbytes for array in feed.values())
            if kept and size > _MOST_BYTES:
                break
            kept.append(feed)
            places.append(feeds.place(number))
        if not kept:
            raise FeedError(
                "there are no samples",
                self._origin,
                hint="give at least one, in a folder, a table or an .npz",
            )
        return FeedSeries(tuple(kept), self._origin, feeds.total, left_out, tuple(places))


class FileFeeds:
    """Every input from a file.

    Args:
        paths: input name -> file.
    """

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = {name.removesuffix(":0"): path for name, path in paths.items()}

    def __call__(self, path: str, inputs: Mapping[str, TensorSpec]) -> FeedSeries:
        from thinflow.quantize.sample_files import read_input

        # ":0" is how TensorFlow names the same value.
        plain = {name.removesuffix(":0"): name for name in inputs}
        unknown = next((name for name in self._paths if name not in plain), None)
        if unknown is not None:
            hint = closest(unknown, list(plain)) or f"it has {', '.join(plain)}"
            raise FeedError(f"the model has no input '{unknown}'", path, hint)
        missing = next((name for name in plain if name not in self._paths), None)
        if missing is not None:
            raise FeedError(f"nothing is fed to '{missing}'", path, f"the inputs are {', '.join(plain)}")
        feed = {name: read_input(Path(self._paths[own]), name, inputs[name]) for own, name in plain.items()}
        return FeedSeries((feed,), text=", ".join(f"{own}={file}" for own, file in self._paths.items()))
