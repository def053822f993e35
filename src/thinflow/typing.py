"""Types that the signatures of many functions share. Importing this costs nothing.

`Array` is a numpy array of any shape and type. What users hand in may be anything that `numpy.asarray` takes:

| type | is |
|---|---|
| `Feed` | input name -> array |
| `Sample` | a `Feed`, arrays in the order of the inputs, or one array for a model with one input |
| `Samples` | a folder or file, arrays, or an iterable of `Sample` (or a function that returns one) |
| `Indexed` | a data set with `__len__` and `__getitem__`, as PyTorch has them |
| `Shapes` | input name -> its sizes, None for one that stays open |
| `FilePath` | text or a `pathlib.Path` |
| `Progress` | called with (done, total, label) now and then |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

FilePath = str | PathLike[str]
Shapes = Mapping[str, Sequence[int | None]]
Progress = Callable[[int, int, str], None]


class Indexed(Protocol):
    """Samples by their number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike as ArrayLike

    Array = np.ndarray[Any, Any]
    Feed = Mapping[str, ArrayLike]
    Sample = Feed | ArrayLike
    Samples = FilePath | Array | Feed | Iterable[Sample] | Callable[[], Iterable[Sample]]
else:

    def __getattr__(name: str) -> Any:
        """The types that need numpy, made when somebody asks for them."""
        if name not in ("Array", "ArrayLike", "Feed", "Sample", "Samples"):
            raise AttributeError(f"module 'thinflow.typing' has no attribute {name!r}")
        found = _array() if name == "Array" else _samples()
        globals().update(found)
        return found[name]

    def _array() -> dict[str, Any]:
        import numpy as np

        return {"Array": np.ndarray[Any, Any]}

    def _samples() -> dict[str, Any]:
        """What needs `numpy.typing` besides, which few modules do."""
        from numpy.typing import ArrayLike

        found = _array() | {"ArrayLike": ArrayLike, "Feed": Mapping[str, ArrayLike]}
        found["Sample"] = found["Feed"] | ArrayLike
        sources = Iterable[found["Sample"]] | Callable[[], Iterable[found["Sample"]]]
        found["Samples"] = FilePath | found["Array"] | found["Feed"] | sources
        return found
