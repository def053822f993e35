"""One-line `repr` of results: sizes in place of bytes, arrays and long lists; and large numbers in short."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")
_MOST = 400
"""Letters of a whole result."""
_LONGEST = 60
"""Letters of one field; what is longer is told by its kind and size."""
# Items of a collection that is shown as it is.
_FEW = 3


def brief_repr(cls: type[T]) -> type[T]:
    """A data class whose `repr` fits on a few lines, whatever it holds. Goes above `@dataclass`."""
    cls.__repr__ = _repr  # type: ignore[method-assign]
    return cls


def brief_sentence(result: Any, text: str) -> str:
    """A result as a `repr`, by a sentence that says it."""
    shown = text if len(text) <= _MOST else f"{text[:_MOST]}..."
    return f"{type(result).__name__}({shown!r})"


def _repr(self: Any) -> str:
    names = [f.name for f in dataclasses.fields(self) if f.repr]
    shown = ", ".join(f"{name}={brief(getattr(self, name))}" for name in names)
    if len(shown) > _MOST:
        shown = shown[:_MOST] + "..."
    return f"{type(self).__name__}({shown})"


def brief(item: Any) -> str:
    """An item of a result in at most `_LONGEST` letters."""
    if isinstance(item, bytes | bytearray | memoryview):
        return f"<{len(item)} bytes>"
    if isinstance(item, str):
        return repr(item if len(item) <= _LONGEST else item[: _LONGEST - 3] + "...")
    if hasattr(item, "dtype") and hasattr(item, "shape"):  # an array; numpy need not be there
        return f"<{item.dtype}{list(item.shape) if isinstance(item.shape, tuple) else ''}>"
    if isinstance(item, Mapping | list | tuple | set | frozenset):
        return _counted(item)
    text = f"<{type(item).__name__}>" if dataclasses.is_dataclass(item) else repr(item)
    return text if len(text) <= _LONGEST else f"<{type(item).__name__}>"


def _counted(items: Any) -> str:
    """A short collection of plain things as it is, another by its size."""
    inner = [*items, *items.values()] if isinstance(items, Mapping) else list(items)
    # Plain items only: the `repr` of an array or a message among them may be of any length.
    is_plain = len(items) <= _FEW and all(isinstance(x, str | int | float | None) for x in inner)
    if is_plain and len(text := repr(items)) <= _LONGEST:
        return text
    return f"<{type(items).__name__} of {len(items)}>"


def short_number(value: int) -> str:
    """`4253864` as `4.25M`: TensorFlow's short form, integer division included."""
    if value < 1000:
        return str(value)
    if value >= 10**15:
        return f"{value:0.3G}"
    scaled = value
    units = "kMBT"
    unit = 0
    while scaled >= 1_000_000:
        scaled //= 1000
        unit += 1
    return f"{scaled / 1000:.2f}{units[unit]}"
