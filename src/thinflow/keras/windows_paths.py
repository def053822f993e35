"""Groups of weights written on Windows, where Keras 2 made one group for a whole path: `layers\\dense`."""

from __future__ import annotations

from thinflow.keras.hdf5 import Group
from thinflow.typing import Array


def with_slashes(root: Group) -> Group:
    """The root of a file with groups in groups, whichever system wrote it."""
    names = frozenset(root.names())
    return _Part(root, names, "") if any("\\" in name for name in names) else root


class _Part:
    """What is below a path, of which groups may be named whole or in part.

    Args:
        root: of the file.
        names: of what is in the root.
        place: the path, with slashes; "" for the root.
    """

    def __init__(self, root: Group, names: frozenset[str], place: str) -> None:
        self.path = root.path
        self._root, self._names, self._place = root, names, place

    def __contains__(self, path: str) -> bool:
        return self.group(path) is not None or self._stored(path) in self._root

    def names(self) -> list[str]:
        start = self._whole("").replace("/", "\\")
        below = {
            name.removeprefix(start).partition("\\")[0] for name in self._names if name.startswith(start)
        }
        own = self._own()
        return sorted(below.union(n for n in (own.names() if own is not None else ()) if "\\" not in n))

    def group(self, path: str) -> Group | None:
        whole = self._whole(path)
        marked = whole.replace("/", "\\")
        if any(name == marked or name.startswith(f"{marked}\\") for name in self._names):
            return _Part(self._root, self._names, whole)
        return self._root.group(self._stored(path))

    def array(self, path: str) -> Array | None:
        return self._root.array(self._stored(path))

    def text(self, name: str) -> str | None:
        own = self._own()
        return None if own is None else own.text(name)

    def texts(self, name: str) -> list[str] | None:
        own = self._own()
        return None if own is None else own.texts(name)

    def close(self) -> None:
        self._root.close()

    def _own(self) -> Group | None:
        """The group of this very path; None if only what is below has one."""
        if not self._place:
            return self._root
        marked = self._place.replace("/", "\\")
        return self._root.group(marked) if marked in self._names else None

    def _whole(self, path: str) -> str:
        return f"{self._place}/{path}" if self._place else path

    def _stored(self, path: str) -> str:
        """A path as the file has it: its longest part that is a group's name, and what follows."""
        parts = self._whole(path).split("/")
        for count in range(len(parts), 0, -1):
            if (head := "\\".join(parts[:count])) in self._names:
                return "/".join([head, *parts[count:]])
        return self._whole(path)
