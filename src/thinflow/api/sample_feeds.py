"""What `benchmark` runs models with: the first of some samples, or inputs from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.errors import FeedError, closest

if TYPE_CHECKING:
    from thinflow.ir.types import TensorSpec


class SampleFeeds:
    """The first sample for each model, by what its inputs take.

    Args:
        samples: a folder, a file, arrays or an iterable of feeds, as for calibration.
        scaling: of pictures for float inputs.

    Attributes:
        note: which sample, in words.
    """

    def __init__(self, samples: Any, scaling: Any = None) -> None:
        self._samples, self._scaling = samples, scaling
        self.note = (
            f"the first sample of {samples}" if isinstance(samples, str | Path) else "the first sample"
        )

    def __call__(self, path: str, inputs: Mapping[str, TensorSpec]) -> dict[str, Any]:
        from thinflow.optimize.samples import one_sample
        from thinflow.quantize.feeds import open_feeds

        # Each model takes the sample in its own way: pictures are cut and scaled to what its input declares.
        wanted = {name: one_sample(spec) for name, spec in inputs.items()}
        return next(iter(open_feeds(self._samples, wanted, scaling=self._scaling)))


class FileFeeds:
    """Every input from a file.

    Args:
        paths: input name -> file.
    """

    note = ""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = {name.removesuffix(":0"): path for name, path in paths.items()}

    def __call__(self, path: str, inputs: Mapping[str, TensorSpec]) -> dict[str, Any]:
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
        return {name: read_input(Path(self._paths[own]), name, inputs[name]) for own, name in plain.items()}
