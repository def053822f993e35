"""LiteRT (XNNPACK on the CPU): the runtime that phones and boards use.

What LiteRT can run is lowered region by region; the rest runs in the interpreter, between the regions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from thinflow.engines._files import FilePort, ModelFile, file_content, refusal_hint
from thinflow.engines._signatures import open_signature, port_of
from thinflow.errors import EngineUnavailable, FeedError

if TYPE_CHECKING:
    from thinflow.engines._regions import Backend
    from thinflow.engines.base import Compiled
    from thinflow.engines.partition import Region
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.typing import Array

_LARGE_BYTES = 1 << 20
"""From here on a second copy costs more than looking for a way around it."""


class _Slot(NamedTuple):
    """Where an input goes.

    Attributes:
        number: of the tensor.
        shape: that memory is allocated for.
        is_small: whether it is numbers, and a second copy of them costs nothing to speak of.
    """

    number: int
    shape: tuple[int, ...]
    is_small: bool


class Model:
    """A .tflite model in LiteRT, fed and fetched by position.

    Args:
        content: the file's bytes, or its path.
        threads: how many threads the kernels may use.
        keep_all: keep every intermediate tensor, for calibration and debugging.
        settled: the model states the sizes of its inputs; if not, the first run tells, and may be refused.
            None: as the model says.

    Raises:
        EngineUnavailable: LiteRT refuses the model.
    """

    def __init__(
        self,
        content: bytes | str,
        *,
        threads: int = 1,
        keep_all: bool = False,
        settled: bool | None = True,
    ) -> None:
        from thinflow.tflite.runtime import allocate, interpreter, told_apart

        source = {"model_path": content} if isinstance(content, str) else {"model_content": content}
        self._made = partial(
            interpreter,
            **source,
            num_threads=threads,
            experimental_preserve_all_tensors=keep_all,
            # Open sizes have to be settled first, and allocating for the file's own would be for nothing.
            allocated=False,
        )
        try:
            self.interpreter = self._made()
            self._inputs = self.interpreter.get_input_details()
            if settled is None:
                settled = all((d["shape_signature"] >= 0).all() for d in self._inputs)
            if settled:
                allocate(self.interpreter)
            # Before the first run the sizes may be those of the file; indices and types do not change.
            self._outputs = self.interpreter.get_output_details()
        except (ValueError, RuntimeError) as error:
            raise EngineUnavailable(
                f"LiteRT refuses the model: {told_apart(str(error)) or 'it gives no reason'}",
                content if isinstance(content, str) else "",
                hint=refusal_hint(content)
                if isinstance(content, str)
                else "please report this with the model",
            ) from error
        self._output_indices = [d["index"] for d in self._outputs]
        self._slots: list[_Slot] | None = None
        if settled:
            self._slots = [_slot(d, tuple(d["shape"].tolist())) for d in self._inputs]

    @classmethod
    def as_it_says(cls, content: bytes | str, *, threads: int = 1) -> Model:
        """A model that is allocated at once only if it says what sizes it takes."""
        return cls(content, threads=threads, settled=None)

    @property
    def input_names(self) -> list[str]:
        return [d["name"] for d in self._inputs]

    @property
    def output_names(self) -> list[str]:
        return [d["name"] for d in self._outputs]

    @property
    def input_ports(self) -> list[FilePort]:
        """The inputs with their types and shapes; sizes that are open are None."""
        return [port_of(d) for d in self._inputs]

    @property
    def output_ports(self) -> list[FilePort]:
        """The outputs with their types and shapes."""
        return [port_of(d) for d in self._outputs]

    def signature_names(self) -> dict[str, str]:
        """Names that the signatures give to inputs and outputs -> the names they have."""
        found: dict[str, str] = {}
        for key in self.interpreter.get_signature_list():
            runner = self.interpreter.get_signature_runner(key)
            for details in (runner.get_input_details(), runner.get_output_details()):
                found.update((name, d["name"]) for name, d in details.items())
        return found

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs. Tensors are allocated anew only when an input changes its shape."""
        if self._slots is None:
            return self._run_resized(inputs)
        interpreter = self.interpreter
        try:
            # A run of a small network takes microseconds: nothing is asked here that a shape has settled.
            for array, (index, shape, is_small) in zip(inputs, self._slots, strict=True):
                if array.shape != shape:
                    # Allocation plans all memory anew, and XNNPACK packs its weights anew.
                    return self._run_resized(inputs)
                if is_small:
                    interpreter.set_tensor(index, array)
                else:
                    self._feed(index, array)
            interpreter.invoke()
        except FeedError:  # a ValueError as well, which says all there is to say
            raise
        except (ValueError, RuntimeError) as error:
            from thinflow.tflite.runtime import told_apart

            raise EngineUnavailable(
                f"LiteRT failed: {told_apart(str(error))}", hint="engine='reference' may say more"
            ) from error
        try:
            return [interpreter.get_tensor(index) for index in self._output_indices]
        except ValueError:
            return [self._fetched(number) for number in range(len(self._output_indices))]

    def restart(self) -> None:
        """Forget what the last run left in variables, such as the states of recurrent ops."""
        if self.keeps_state:  # LiteRT resets tensors only; what its variables hold goes with the interpreter
            self.interpreter, self._slots = self._made(), None
        elif self._slots is not None:
            self.interpreter.reset_all_variables()

    @cached_property
    def keeps_state(self) -> bool:
        """True if the model has variables, which keep their values from run to run."""
        return any(o["op_name"] == "VAR_HANDLE" for o in self.interpreter._get_ops_details())

    def _fetched(self, number: int) -> Array:
        """A copy of an output. LiteRT has no memory to lend where a size that it computed is 0."""
        try:
            array: Array = self.interpreter.get_tensor(self._output_indices[number])
        except ValueError:
            detail = self.interpreter.get_output_details()[number]
            if 0 not in detail["shape"]:
                raise
            import numpy as np

            return np.zeros(detail["shape"], detail["dtype"])
        return array

    def _feed(self, index: int, array: Array) -> None:
        """Copy an array to where the kernels read it: LiteRT's Python class cannot lend them the array."""
        # Arrays of strings are fine as they are; a scalar of objects is not.
        if array.dtype.hasobject and not array.ndim:
            self.interpreter.set_tensor(index, _scalar_string(array))
        elif array.nbytes > _LARGE_BYTES and not array.flags.c_contiguous:
            self.interpreter.tensor(index)()[...] = array  # set_tensor would copy it twice
        else:
            self.interpreter.set_tensor(index, array)

    def _run_resized(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, after tensors were allocated anew."""
        from thinflow.tflite.runtime import allocate

        shapes = [x.shape for x in inputs]
        try:
            for detail, shape in zip(self._inputs, shapes, strict=True):
                # strict would refuse to change sizes that the file states, and any batch may be fed.
                self.interpreter.resize_tensor_input(detail["index"], shape, strict=False)
            allocate(self.interpreter)
        except (ValueError, RuntimeError) as error:
            raise FeedError(
                f"LiteRT cannot run with inputs of shape {list(map(list, shapes))}: {error}"
            ) from error
        self._slots = [_slot(d, shape) for d, shape in zip(self._inputs, shapes, strict=True)]
        return self.run(inputs)


def _slot(detail: Mapping[str, Any], shape: tuple[int, ...]) -> _Slot:
    """Where an input goes, of what LiteRT says of it and the shape that is allocated."""
    import numpy as np

    kind = np.dtype(detail["dtype"])
    is_text = kind.kind in "OS"
    return _Slot(detail["index"], shape, not is_text and kind.itemsize * math.prod(shape) <= _LARGE_BYTES)


def _scalar_string(array: Array) -> Array:
    """One string as LiteRT reads it: it would take the address of a Python object for the text itself.

    Raises:
        EngineUnavailable: the string is empty, which numpy has no such type for.
    """
    import numpy as np

    # numpy's "S" type of exactly this length: a shorter one would cut, a longer one fill up with zeros.
    text = array[()]
    if not text:
        raise EngineUnavailable(
            "LiteRT's Python class cannot be fed an empty string", hint="use engine='reference'"
        )
    return np.array(text, f"S{len(text)}")


def open_file(path: str, threads: int, signature: str | None = None) -> ModelFile:
    """A .tflite file ready to run as it is.

    Args:
        path: of the file.
        threads: how many the kernels may use.
        signature: which one to run; default the graph that runs when nothing is named, or if there are
            several graphs "serving_default".

    Raises:
        EngineUnavailable: LiteRT refuses it.
        GraphError: it has no such signature, or several graphs and none is the default.
    """
    # The runner of a signature allocates by itself, for the inputs that it is given.
    model = Model(file_content(path), threads=threads, settled=None if signature is None else False)
    if signature is None and len(model.interpreter.get_signature_list()) > 1:
        from thinflow.engines._files import signature_to_run

        signature = signature_to_run(path)
    if signature is not None:
        return open_signature(model, path, signature)
    return ModelFile(path, "litert", model, model.input_ports, model.output_ports, model.signature_names)


class LiteRT:
    """Regions in LiteRT, the rest in the interpreter."""

    name = "litert"

    def available(self) -> str | None:
        from importlib.util import find_spec

        return (
            None
            if find_spec("ai_edge_litert")
            else "the package ai-edge-litert is missing (pip install ai-edge-litert)"
        )

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> Compiled:
        from thinflow.engines._regions import compile_regions

        return compile_regions(_backend(), graph, inputs, outputs, threads)


def _backend() -> Backend:
    """Made on demand: a .tflite file runs without anything that knows graphs."""
    from thinflow.engines._regions import Backend

    return Backend("litert", _unsupported, _lowered, _unsupported_unit, inner=_inner)


def _unsupported(graph: Graph, nodes: Iterable[Node]) -> dict[Node, str]:
    from thinflow.engines.partition import better_exact
    from thinflow.lower.tflite.convert import unsupported

    # Only what the engine would get is asked about: reasons against the rest would be lost anyway.
    nodes, exact = list(nodes), better_exact(graph)
    left = [n for n in nodes if n not in exact]
    return {n: exact[n] for n in nodes if n in exact} | unsupported(graph, left, specs={})


def _unsupported_unit(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> str:
    from thinflow.lower.tflite.convert import unsupported_unit

    return unsupported_unit(graph, inputs, outputs, specs={})


def _inner(graph: Graph) -> Collection[Value]:
    from thinflow.engines.partition import better_exact
    from thinflow.lower.tflite.quantized_context import inner_values

    # The interpreter computes them then, and it can hand out everything.
    return () if better_exact(graph) else inner_values(graph)


def _lowered(graph: Graph, region: Region, threads: int) -> Model:
    from thinflow.engines._temporary_files import mapped, release_pages
    from thinflow.lower.tflite.convert import lower_graph
    from thinflow.tflite.runtime import multiplies_matrices
    from thinflow.tflite.writer import write_program

    unit = multiplies_matrices()
    lowered = lower_graph(graph, region.inputs, region.outputs, specs={}, matrix_unit=unit)
    # With open sizes LiteRT can neither plan memory nor prepare kernels before it is fed.
    settled = all(v.spec.is_static for v in region.inputs)
    with mapped(partial(write_program, lowered.program), ".tflite") as content:
        del lowered  # the arrays computed for it; the file has them now
        release_pages(graph)
        try:
            return Model(content, threads=threads, settled=settled)
        except EngineUnavailable as error:
            raise EngineUnavailable(error.problem, hint="please report this with the model") from error


ENGINE = LiteRT()
