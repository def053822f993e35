"""Results of shards by their keys, in a folder or at a URL: written aside, then renamed, so that each is
whole.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from thinflow.datasets.places import is_url, reaching
from thinflow.errors import FeedError, WriteError


class Store:
    """A folder of results, which several runs may share: equal keys have equal contents.

    Args:
        path: folder or URL; None: a folder of its own, gone with this object.

    Raises:
        WriteError: nothing can be written there.
    """

    def __init__(self, path: str | None = None) -> None:
        self.is_lasting = path is not None
        if path is None:
            path = tempfile.mkdtemp(prefix="thinflow-results-")
            # Not TemporaryDirectory, which warns when nobody closes it.
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        self.path = path.rstrip("/") if is_url(path) else path
        self._make()

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker opens the same folder, and removes nothing.
        return Store, (self.path,)

    def _make(self) -> None:
        try:
            if is_url(self.path):
                with reaching(self.path) as filesystem:
                    filesystem.makedirs(self.path, exist_ok=True)
            else:
                os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise WriteError(f"results cannot be kept there: {error.strerror or error}", self.path) from error
        except FeedError as error:
            raise WriteError(error.problem, self.path, error.hint) from error

    def _place(self, key: str) -> str:
        return f"{self.path}/{key}.json" if is_url(self.path) else os.path.join(self.path, f"{key}.json")

    def get(self, key: str) -> bytes | None:
        """The content of a result; None if it is not there."""
        place = self._place(key)
        if not is_url(place):
            try:
                return Path(place).read_bytes()
            except OSError:
                return None
        with contextlib.suppress(FeedError), reaching(place) as filesystem:
            return bytes(filesystem.cat_file(place))
        return None

    def put(self, key: str, content: bytes) -> None:
        """Keep a result.

        Raises:
            WriteError: it cannot be written; the disk may be full.
        """
        # Beside it, as a rename between file systems is none; with a name of its own, as two runs may be
        # writing the same result.
        place, aside = self._place(key), self._place(f".{key}.{secrets.token_hex(4)}")
        try:
            if is_url(place):
                # Stores of objects show none half-written; others behind a URL may, so that it is the same
                # everywhere.
                with reaching(place) as filesystem:
                    filesystem.pipe_file(aside, content)
                    filesystem.mv(aside, place)
                return
            _write(aside, content, is_lasting=self.is_lasting)
            os.replace(aside, place)
        except FeedError as error:
            raise WriteError(f"a result cannot be kept: {error.problem}", self.path, error.hint) from error
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise WriteError(
                f"a result cannot be kept: {error.strerror or error}",
                self.path,
                hint="make room or name another folder; what is there already is taken from there",
            ) from error


def _write(path: str, content: bytes, *, is_lasting: bool) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        if is_lasting:
            # Without it a rename may survive a crash of the machine, and the bytes not.
            os.fsync(file.fileno())
