"""Collections that lie elsewhere, fetched through fsspec: `s3://`, `gs://`, `hf://`, `https://` and more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.typing import Progress

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]+://")


def is_remote(source: str) -> bool:
    """Whether a source is a URL and not a path."""
    return bool(_SCHEME.match(source)) and not source.startswith("file://")


def fetched(url: str, folder: Path, progress: Progress | None = None) -> Path:
    """A folder with everything under a URL, or the file it names.

    Raises:
        FormatError: nothing is there, it cannot be reached, or fsspec or what it needs is not installed.
    """
    files = _files_of(url)
    folder.mkdir(parents=True)
    for number, (file_system, name, inside) in enumerate(files):
        if progress is not None:
            progress(number, len(files), f"fetching {inside}")
        # A server chooses these names.
        place = folder.joinpath(*(part for part in Path(inside).parts if part not in ("/", "..")))
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            file_system.get_file(name, str(place))
        except Exception as error:  # each kind of storage raises its own
            raise FormatError(
                f"it cannot be fetched: {_said(error)}",
                f"{url}: {inside}",
                hint="run it again; if it fails again, leave it out or fetch it yourself",
            ) from error
    return folder if len(files) != 1 or files[0][2] != Path(files[0][1]).name else folder / files[0][2]


def _files_of(url: str) -> list[tuple[Any, str, str]]:
    """File system, name there, and path below the URL, of all files."""
    try:
        import fsspec  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise FormatError("fetching it needs fsspec", url, hint="pip install 'thinflow[data]'") from error
    try:
        file_system, top = fsspec.core.url_to_fs(url)
        names = [str(top)] if file_system.isfile(top) else [str(name) for name in file_system.find(top)]
    except ImportError as error:
        raise FormatError(
            f"this kind of storage needs a package: {error}", url, hint="install it, and run it again"
        ) from error
    except Exception as error:  # each kind of storage raises its own
        raise FormatError(
            f"it cannot be reached: {_said(error)}", url, hint="are the address and the credentials right?"
        ) from error
    if not names:
        raise FormatError("nothing is there", url, hint="is the address right? It needs no pattern")
    top = str(top).rstrip("/")
    return [(file_system, name, name.removeprefix(top).lstrip("/") or Path(name).name) for name in names]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
