"""Protocols of an engine and of a graph made ready to run on it, and checks of what is fed to either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from thinflow.errors import FeedError
from thinflow.ir.types import STRING, TensorSpec, shape_text

if TYPE_CHECKING:
    import numpy as np

    from thinflow.ir.graph import Graph, Value
    from thinflow.typing import Array


class Compiled(Protocol):
    """A graph made ready for one choice of inputs and outputs."""

    @property
    def placement(self) -> dict[str, str]:
        """Node name -> what runs it. Nodes that vanished (constants, Identity) are missing."""
        ...

    @property
    def reasons(self) -> dict[str, str]:
        """Node name -> why the engine itself does not run it."""
        ...

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for these inputs, in the order given to `compile`. The arrays belong to the caller.

        Raises:
            NodeError: a node failed.
            EngineUnavailable: the engine refused the input sizes.
        """
        ...


class Engine(Protocol):
    """Something that can run graphs."""

    name: str

    def available(self) -> str | None:
        """None if the engine can be used, else the reason it cannot."""
        ...

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> Compiled:
        """Prepare part of a graph for repeated runs.

        Args:
            graph: must not change afterwards.
            inputs: values that will be fed.
            outputs: values to compute.
            threads: how many the engine may use.
        """
        ...


class Port(Protocol):
    """An input or output of a model: a value of a graph, or a tensor of a file."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> TensorSpec: ...


class Feed:
    """Checks what is fed to one input, run after run; what was right once is recognised by type and shape."""

    __slots__ = ("_dtype", "_shape", "_spec", "name")

    def __init__(self, name: str, spec: TensorSpec) -> None:
        self.name = name
        self._spec = spec
        self._dtype: np.dtype[Any] | None = None
        self._shape: tuple[int, ...] = ()

    def array(self, given: Any) -> Array:
        """The array a feed stands for; the very one given if nothing has to be converted.

        Raises:
            FeedError: another type that cannot be cast without loss of kind, another rank or another size.
        """
        try:
            # The usual case in a loop of runs: two comparisons instead of all the checks below.
            if given.dtype == self._dtype and given.shape == self._shape:
                return given  # type: ignore[no-any-return]
        except AttributeError:  # a list, a number, text
            pass
        return self._checked(given)

    def _checked(self, given: Any) -> Array:
        import numpy as np

        spec = self._spec
        if spec.dtype is STRING or (spec.dtype is None and isinstance(given, (bytes, str))):
            from thinflow.ir.tensor import Tensor

            return Tensor.from_array(given, STRING).numpy()
        try:
            # No copy where none is needed: what was given is handed to the engine as it is.
            found = np.asarray(given)
        except ValueError as error:  # lists of different lengths
            raise FeedError(
                f"'{self.name}' cannot be made an array: {error}", hint="make all its rows equally long"
            ) from error
        if spec.dtype is not None and spec.dtype.numpy_name:
            wanted = spec.dtype.numpy()
            if found.dtype != wanted:
                # numpy's rule refuses signed to unsigned, and numbers of Python come as int64 whatever they
                # are meant for.
                if not np.can_cast(found.dtype, wanted, "same_kind") and not (
                    found.dtype.kind in "iu" and wanted.kind in "iuf"
                ):
                    raise FeedError(
                        f"'{self.name}' takes {spec.dtype}, not {found.dtype}",
                        hint=f"convert it: x.astype('{wanted}')",
                    )
                found = found.astype(wanted)
        if spec.shape is not None:
            fits = len(spec.shape) == found.ndim and all(
                d in (None, n) for d, n in zip(spec.shape, found.shape, strict=True)
            )
            if not fits:
                raise FeedError(
                    f"'{self.name}' has shape {shape_text(spec.shape)}, "
                    f"the array fed has {shape_text(found.shape)}",
                    hint="reshape the array, or load the graph with another input shape",
                )
        # Lists and subclasses are converted each time, and objects need a look at each element.
        if found is given and type(given) is np.ndarray and not found.dtype.hasobject:
            self._dtype, self._shape = found.dtype, found.shape
        return found
