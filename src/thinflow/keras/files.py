"""The files that Keras writes: .keras archives, the same as a folder, and HDF5 files.

An archive holds metadata.json, config.json, model.weights.h5 and assets/. An HDF5 file of a whole model holds
the config in an attribute and a group of weights; one of weights alone needs the model's JSON or YAML beside
it. Weights may be in several files, with a list of them.
Nothing is unpacked to disk, and nothing but these members is read.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from thinflow.errors import FormatError
from thinflow.keras.hdf5 import Group, open_hdf5
from thinflow.keras.shards import open_shards
from thinflow.keras.windows_paths import with_slashes
from thinflow.keras.yaml_text import parse_yaml

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
ZIP_MAGIC = b"PK\x03\x04"
CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
EARLY_LAYERS = "_layer_checkpoint_dependencies"
"""What Keras 2.12 to 2.14 called `layers`."""
_LIST, _PICKLED = "model.weights.json", "model.weights.npz"
"""A list of several files, and pickled dicts of arrays: what Keras writes if it is asked to."""
_LIST_END = ".weights.json"
_SHARD = re.compile(r"(.+)_\d{5}\.weights\.h5")
_MAX_TEXT = 256 << 20
_MAX_BYTES = 16 << 30
_FREE_BYTES, _MAX_RATIO = 64 << 20, 100
"""Members that unpack to more than this and by more than that factor are no weights."""
_EXPORT_AGAIN = "the file is damaged; save the model again"


@dataclass(frozen=True)
class KerasFile:
    """What a model's file holds.

    Attributes:
        path: the file or folder.
        config: the model's config, as it was written.
        version: of Keras; "1" where the file says none, as only the oldest do.
        weights: the group of weights.
        asset: the content of a file in assets/, None if there is none.
        backend: of Keras, when the file was written; "" if it does not say.
    """

    path: Path
    config: object
    version: str
    weights: Group
    asset: Callable[[str], bytes | None] = lambda name: None
    backend: str = ""

    @property
    def generation(self) -> int:
        """1, 2 or 3."""
        number = re.match(r"\d+", self.version)
        return min(max(int(number.group()), 1), 3) if number else 2

    @property
    def release(self) -> tuple[int, int]:
        """The first two numbers of the version."""
        first, second = re.match(r"(\d*)\.?(\d*)", self.version).groups()  # type: ignore[union-attr]
        return int(first or self.generation), int(second or 0)


def archive_members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by their names, relative to the folder that config.json is in.

    Raises:
        FormatError: it is no archive, or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise FormatError(f"a damaged zip archive: {error}", str(path), "download it again") from error
    # On Windows some versions of Keras wrote backslashes.
    named = {info.filename.replace("\\", "/"): info for info in infos}
    roots = sorted((n[: -len(CONFIG)] for n in named if n.rpartition("/")[2] == CONFIG), key=len)
    root = roots[0] if roots else ""
    return {name[len(root) :]: info for name, info in named.items() if name.startswith(root)}


def is_archive(path: Path) -> bool:
    """True for a zip archive that holds a Keras model."""
    try:
        members = archive_members(path)
    except FormatError:
        return False
    return CONFIG in members and any(name.startswith("model.weights.") for name in members)


def is_folder(path: Path) -> bool:
    """True for the folder that a .keras archive would hold."""
    return (path / CONFIG).is_file() and any((path / name).is_file() for name in (WEIGHTS, METADATA, _LIST))


def is_list(path: Path, head: bytes) -> bool:
    """True for a list of the files that a model's weights are in, given its first bytes."""
    is_json = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return path.name.endswith(_LIST_END) and is_json and (b'"weight_map"' in head or b'"total_size"' in head)


def open_file(path: str | os.PathLike[str], *, by_package: bool = False) -> KerasFile:
    """A Keras model's file or folder, with its config read.

    Args:
        path: the file or folder.
        by_package: see `open_hdf5`.

    Raises:
        FormatError: it holds no model, or is damaged.
        EngineUnavailable: h5py is not installed.
    """
    place = Path(path)
    if place.is_dir():
        return _members_file(place, lambda name: _folder_member(place, name), by_package)
    with open(place, "rb") as file:
        magic = file.read(len(ZIP_MAGIC))
    if is_list(place, magic + b'"weight_map"'):
        return _listed_file(place, by_package)
    if magic != ZIP_MAGIC:
        return _hdf5_file(place, by_package)
    members = archive_members(place)
    return _members_file(place, lambda name: _archive_member(place, members, name), by_package)


# --- archives and folders -----------------------------------------------------------------------------------


def _members_file(path: Path, member: Callable[[str], bytes | None], by_package: bool) -> KerasFile:
    metadata, config = (_json(member(name), name, path) for name in (METADATA, CONFIG))
    version = metadata.get("keras_version") if isinstance(metadata, Mapping) else None
    root = _weights(path, member, by_package)
    return KerasFile(path, config, str(version or "3"), root, lambda name: member(f"assets/{name}"))


def _weights(path: Path, member: Callable[[str], bytes | None], by_package: bool) -> Group:
    weights = member(WEIGHTS)
    if weights is not None:
        return with_slashes(open_hdf5(weights, f"{path}/{WEIGHTS}", by_package=by_package))
    index = member(_LIST)
    if index is not None:
        where = f"{path}/{_LIST}"
        return open_shards(_json(index, _LIST, path), member, where, by_package=by_package)
    is_pickled = member(_PICKLED) is not None
    raise FormatError(
        f"its weights are in {_PICKLED}, as pickled objects of Python, which are never read"
        if is_pickled
        else "its weights are missing",
        str(path),
        "save the model again with Keras: model.save('model.keras')",
    )


def _archive_member(path: Path, members: Mapping[str, zipfile.ZipInfo], name: str) -> bytes | None:
    info = members.get(name)
    if info is None:
        return None
    if info.file_size > _MAX_BYTES or info.file_size > max(_FREE_BYTES, _MAX_RATIO * info.compress_size):
        raise FormatError(f"'{name}' would unpack to {info.file_size} bytes", str(path), _EXPORT_AGAIN)
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(info)
    except (OSError, zipfile.BadZipFile, RuntimeError, ValueError, EOFError, zlib.error) as error:
        raise FormatError(f"'{name}' cannot be read: {error}", str(path), _EXPORT_AGAIN) from error


def _folder_member(folder: Path, name: str) -> bytes | None:
    target = folder / name
    if not target.is_file():
        return None
    if not target.resolve().is_relative_to(folder.resolve()):
        raise FormatError(f"'{name}' is a link out of the folder", str(folder), "copy the file there")
    return target.read_bytes()


def _json(data: bytes | None, name: str, path: Path) -> object:
    if data is None:
        return None
    if len(data) > _MAX_TEXT:
        raise FormatError(f"'{name}' is too long for a config", str(path), _EXPORT_AGAIN)
    return parse_json(data.decode("utf-8", "replace"), f"{path}/{name}")


def parse_json(text: str, where: str) -> object:
    """The data in a JSON text.

    Raises:
        FormatError: it is none.
    """
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"its JSON cannot be read: {error}", where, _EXPORT_AGAIN) from error
    return data


def _listed_file(path: Path, by_package: bool) -> KerasFile:
    """The model of weights alone that are in several files."""
    folder, index = path.parent, _json(_folder_member(path.parent, path.name), path.name, path.parent)
    weights = open_shards(index, lambda name: _folder_member(folder, name), str(path), by_package=by_package)
    config = _config_beside(path)
    said = config.get("keras_version") if isinstance(config, Mapping) else None
    return KerasFile(path, config, said if isinstance(said, str) else "3", weights)


# --- HDF5 ---------------------------------------------------------------------------------------------------


def _hdf5_file(path: Path, by_package: bool) -> KerasFile:
    root = with_slashes(open_hdf5(path, str(path), by_package=by_package))
    text = root.text("model_config")
    weights = root.group("model_weights") or root
    if text is None and not _holds_weights(weights):
        raise FormatError(
            "an HDF5 file, with no Keras model in it",
            str(path),
            "give a model saved by Keras: model.save(...)",
        )
    config = parse_json(text, f"{path}, attribute model_config") if text else _config_beside(path)
    said = config.get("keras_version") if isinstance(config, Mapping) else None
    version = root.text("keras_version") or weights.text("keras_version") or said
    if not isinstance(version, str):
        version = "3" if _is_by_place(weights) else "1"
    return KerasFile(path, config, version, weights, backend=root.text("backend") or "")


def _holds_weights(group: Group) -> bool:
    return group.texts("layer_names") is not None or _is_by_place(group)


def _is_by_place(group: Group) -> bool:
    return "layers" in group or EARLY_LAYERS in group


def _config_beside(path: Path) -> object:
    """The config of a model whose weights alone are in a file: `model.to_json()` under a name like its own.

    Raises:
        FormatError: there is none.
    """
    stem = path.name.removesuffix(path.suffix)
    shard = _SHARD.fullmatch(path.name)
    if shard is not None:
        whole = f"{shard[1]}{_LIST_END}"
        raise FormatError(
            "it holds a part of a model's weights", str(path), f"give the list of parts: {whole}"
        )
    bare = [stem.removesuffix(end) for end in (".weights", "_weights", "-weights")]
    names = dict.fromkeys([stem, *bare, "model", CONFIG[:-5]])
    for candidate in (path.with_name(f"{n}.{end}") for n in names for end in ("json", "yaml", "yml")):
        if candidate != path and candidate.is_file() and candidate.stat().st_size <= _MAX_TEXT:
            text = candidate.read_text("utf-8", "replace")
            if candidate.suffix != ".json":
                return parse_yaml(text, str(candidate))
            data = parse_json(text, str(candidate))
            # Some store the text of the JSON as JSON once more.
            return parse_json(data, str(candidate)) if isinstance(data, str) else data
    raise FormatError(
        "it holds weights alone, without the model that they are of",
        str(path),
        f"write model.to_json() to {bare[0]}.json beside it, or save the whole model: model.save(...)",
    )
