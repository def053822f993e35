"""Results of candidates on disk, so that a run that was ended goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from thinflow._version import __version__
from thinflow.errors import ThinflowError
from thinflow.formats.files import write_file
from thinflow.optimize.job_inputs import make_folder
from thinflow.optimize.ladder.measured import Measured, read_measured
from thinflow.optimize.samples import Samples
from thinflow.quantize.recipe_file import RecipeFile, read_recipe, recipe_text

FORM = 1
"""Of what is stored. Results of another form are made anew."""
_LARGEST_BYTES = 1 << 20


def digest_of(*parts: bytes | str) -> str:
    """32 hexadecimal digits that depend on all of some parts and on where each ends."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def samples_digest(samples: Samples) -> str:
    """A digest of the numbers and labels of samples. Walks them once, without keeping any."""
    digest = hashlib.blake2b(digest_size=16)
    for feed in samples:
        for value, array in feed.items():
            digest.update(
                f"{value.name}\0{array.dtype.str}\0{array.shape}\0".encode("utf-8", "surrogatepass")
            )
            # Text has no bytes of its own in an array of objects.
            raw = repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).data
            digest.update(raw)
    digest.update(repr(samples.labels).encode())
    return digest.hexdigest()


class Store:
    """A folder with a file for each candidate's figures, and one for its recipe.

    Args:
        folder: made when there is something to write.
        about: what all results depend on, such as digests of the model and of its samples.
    """

    def __init__(self, folder: Path, about: Iterable[str]) -> None:
        self.folder = folder
        self._about = [str(FORM), __version__, *about]
        self.foreign: list[str] = []
        """Names of files that are of another model, other samples or another version, or not whole."""

    def _fingerprint(self, recipe: str, effort: str) -> str:
        return digest_of(*self._about, recipe, effort)

    def read(self, stem: str, recipe: str, effort: str) -> Measured | None:
        """The result of a candidate; None if there is none, or none that belongs here.

        Args:
            stem: of its files.
            recipe, effort: that it starts from, as text.
        """
        path, recipe_path = self.folder / f"{stem}.json", self.folder / f"{stem}.toml"
        try:
            with path.open("rb") as file:
                content = file.read(_LARGEST_BYTES)
        except OSError:
            return None
        try:
            data = json.loads(content)
            if data["fingerprint"] != self._fingerprint(recipe, effort):
                raise ValueError("another model")
            if data["digest"] != _digest(data["figures"], recipe_path.read_bytes()):
                raise ValueError("something was changed")
            return read_measured(data["figures"], read_recipe(recipe_path).recipe)
        # Whatever is wrong with it, it is made anew.
        except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError, ThinflowError):
            self.foreign.append(path.name)
            return None

    def write(self, found: Measured, stem: str, recipe: str, effort: str, made_for: RecipeFile) -> None:
        """Keep a result; each file is written aside and renamed, the figures last.

        Args:
            made_for: the recipe that was found, and the model's names.

        Raises:
            WriteError: it cannot be written.
        """
        text = recipe_text(made_for).encode("utf-8", "replace")
        make_folder(self.folder)
        write_file(self.folder / f"{stem}.toml", [text])
        figures = found.kept()
        data: dict[str, Any] = {
            "fingerprint": self._fingerprint(recipe, effort),
            "digest": _digest(figures, text),
            "figures": figures,
        }
        write_file(self.folder / f"{stem}.json", [json.dumps(data, indent=1).encode()])

    @property
    def note(self) -> str:
        """A sentence on files that were left alone; "" if there are none."""
        if not self.foreign:
            return ""
        names = ", ".join(self.foreign[:3]) + (", ..." if len(self.foreign) > 3 else "")
        what = "result is" if len(self.foreign) == 1 else "results are"
        return (
            f"{len(self.foreign)} {what} of another model, other samples, other settings or another version,"
            f" or not whole, and made anew ({names} in {self.folder})"
        )


def _digest(figures: dict[str, Any], recipe: bytes) -> str:
    """A digest of what is stored of a candidate: what was changed by hand is no measurement."""
    return digest_of(json.dumps(figures, sort_keys=True), recipe)
