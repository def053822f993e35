"""Inputs and outputs of .tflite files, and models run by the names that a signature gives to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from thinflow.engines._files import FilePort, ModelFile
from thinflow.errors import EngineUnavailable, FeedError, GraphError, closest
from thinflow.ir.types import TensorSpec, dtype
from thinflow.tflite.runtime import quiet, told_apart

if TYPE_CHECKING:
    from thinflow.typing import Array


class Model(Protocol):
    """A model in LiteRT that knows how to start anew; see `litert.Model`."""

    interpreter: Any

    @property
    def keeps_state(self) -> bool: ...

    def restart(self) -> None: ...


class SignatureModel:
    """A signature of a model in LiteRT, fed and fetched by position in the order of its names.

    Attributes:
        inputs, outputs: under the names that the signature gives them.
        tensors: names of tensors in the file -> those names.
    """

    def __init__(self, model: Model, key: str) -> None:
        self._model, self._key, self._has_run = model, key, False
        self._runner = model.interpreter.get_signature_runner(key)
        taken, given = self._runner.get_input_details(), self._runner.get_output_details()
        self.inputs = [_named(port_of(d), name) for name, d in taken.items()]
        self.outputs = [_named(port_of(d), name) for name, d in given.items()]
        # A tensor may be an input and an output; then the input has the name.
        self.tensors = {d["name"]: name for name, d in (*given.items(), *taken.items())}

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, which belong to the caller.

        Raises:
            FeedError: the sizes do not go together.
            EngineUnavailable: LiteRT failed.
        """
        self._has_run = True
        feeds = {port.name: x for port, x in zip(self.inputs, inputs, strict=True)}
        try:
            with quiet():
                found = self._runner(**feeds)
        except ValueError as error:
            raise FeedError(f"LiteRT cannot run the signature with these inputs: {error}") from error
        except RuntimeError as error:
            raise EngineUnavailable(
                f"LiteRT failed: {told_apart(str(error))}", hint="engine='reference' may say more"
            ) from error
        return [found[port.name].copy() for port in self.outputs]

    def restart(self) -> None:
        """As that of `litert.Model`."""
        if self._has_run and not self.keeps_state:
            self._model.interpreter.reset_all_variables()
        elif self._has_run:
            self._model.restart()
            # The model has a new interpreter now, and a runner belongs to one.
            self._runner = self._model.interpreter.get_signature_runner(self._key)

    @property
    def keeps_state(self) -> bool:
        """As that of `litert.Model`."""
        return self._model.keeps_state


def open_signature(model: Model, path: str, key: str) -> ModelFile:
    """A file ready to run one of its signatures.

    Raises:
        GraphError: it has no such signature; the closest is offered.
    """
    known: Mapping[str, Any] = model.interpreter.get_signature_list()
    if key not in known:
        raise GraphError(
            f"the model has no signature '{key}'",
            path,
            closest(key, known) or f"it has {', '.join(known) or 'none'}",
        )
    made = SignatureModel(model, key)
    return ModelFile(path, "litert", made, made.inputs, made.outputs, lambda: made.tensors)


def _named(port: FilePort, name: str) -> FilePort:
    return FilePort(name, port.spec, port.grid)


def port_of(detail: Mapping[str, Any]) -> FilePort:
    """An input or output as LiteRT's details of its tensor tell it."""
    sizes = detail["shape_signature"].tolist() or detail["shape"].tolist()
    # An unknown rank looks like a scalar.
    shape = tuple(None if n < 0 else n for n in sizes) or None
    return FilePort(detail["name"], TensorSpec(dtype(detail["dtype"]), shape), _grid(detail))


def _grid(detail: Mapping[str, Any]) -> tuple[float, int] | None:
    """Scale and zero point of an eight-bit (or sixteen-bit) tensor."""
    scale, zero = detail["quantization"]
    return (float(scale), int(zero)) if scale and dtype(detail["dtype"]).is_integer else None
