"""Folders that are made aside and renamed, and what tells such a folder from one of somebody else's."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError, WriteError

CONTRACT = "model.json"
"""What an app has to know, for programs."""
MANIFEST = ".thinflow-deploy.json"
"""Lists the files of a folder, so that making it anew loses nothing that somebody changed."""


@dataclass(frozen=True)
class Manifest:
    """What a folder was made as.

    Attributes:
        target: the platform.
        name: of the contract.
        files: path -> digest of its content as it was made.
    """

    target: str
    name: str
    assets: str
    files: Mapping[str, str]

    def text(self) -> str:
        """As it is stored."""
        content = {"target": self.target, "name": self.name, "assets": self.assets, "files": dict(self.files)}
        return json.dumps(content, indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder.

    Raises:
        FormatError: it is no folder that `deploy` made.
    """
    hint = "make one: thinflow deploy MODEL OUT --target linux"
    try:
        held: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return Manifest(held["target"], held["name"], held["assets"], dict(held["files"]))
    except FileNotFoundError as e:
        if not folder.exists():
            raise FormatError("there is no such folder", str(folder), hint) from e
        raise FormatError(f"this is no folder of an app: it has no {MANIFEST}", str(folder), hint) from e
    except NotADirectoryError as e:
        raise FormatError("this is no folder of an app", str(folder), hint) from e
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise FormatError(f"its {MANIFEST} is damaged: {e}", str(folder), hint) from e


def read_contract(assets: Path) -> dict[str, Any]:
    """The content of model.json in a folder.

    Raises:
        FormatError: it is missing or damaged.
    """
    file = assets / CONTRACT
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise FormatError(f"it cannot be read: {e}", str(file), "make the folder anew") from e
    if not isinstance(held, dict) or not isinstance(held.get("self_test"), dict) or "file" not in held:
        raise FormatError("this is no contract of an app", str(file), "make the folder anew")
    return held


def require_free(folder: Path, built: tuple[str, ...]) -> None:
    """Refuse a folder that holds what `deploy` did not make, or what somebody changed since.

    Args:
        folder: that is to be made.
        built: names of files and folders that may be lost.

    Raises:
        WriteError: it does.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise WriteError("this is no folder", str(folder), "name a folder that does not exist yet")
    if not folder.parent.is_dir():
        raise WriteError("its folder does not exist", str(folder), f"create it: mkdir -p {folder.parent}")
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        known = read_manifest(folder)
    except FormatError as e:
        raise WriteError(
            "the folder is not empty, and nothing in it says that it was made by deploy",
            str(folder),
            "name a folder that does not exist yet",
        ) from e
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder).as_posix()
        if file.is_dir() or path == MANIFEST or any(part in built for part in Path(path).parts):
            continue
        if known.files.get(path) != digest(file.read_bytes()):
            what = "was changed" if path in known.files else "is not of deploy"
            raise WriteError(
                f"{path} {what}, and would be lost",
                str(folder),
                "name another folder, or move that file away",
            )


def digest(content: bytes) -> str:
    """Of a file's content."""
    return hashlib.sha256(content).hexdigest()


@contextmanager
def made_aside(folder: Path) -> Iterator[Path]:
    """A new folder beside another, which takes its place at the end; nothing is left behind by an error.

    Raises:
        WriteError: it cannot be written.
    """
    aside = folder.with_name(f".{folder.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        aside.mkdir()
        yield aside
        _take_place(aside, folder)
    except OSError as e:
        raise WriteError(f"cannot be written: {e.strerror or e}", str(folder), "choose another folder") from e
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _take_place(aside: Path, folder: Path) -> None:
    if not folder.exists():
        os.rename(aside, folder)
        return
    old = aside.with_name(f"{aside.name}.old")
    os.rename(folder, old)
    try:
        os.rename(aside, folder)
    except OSError:
        os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
