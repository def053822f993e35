"""ONNX Runtime on the CPU: servers, desktops and browsers, and a second opinion on every number.

What ONNX can express is lowered region by region; the rest runs in the interpreter, between the regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.engines._files import FilePort, ModelFile
from thinflow.engines._regions import Backend, compile_regions
from thinflow.engines.base import Compiled
from thinflow.engines.partition import Region
from thinflow.errors import EngineUnavailable, FeedError, ParameterError, WriteError
from thinflow.ir.types import TensorSpec, dtype

if TYPE_CHECKING:
    import numpy as np

    from thinflow.ir.graph import Graph, Node, Value

    Array = np.ndarray[Any, Any]

OPSET = 18
"""The engine's own models need not be read by anything old, and since 18 there are bitwise ops."""
_ERRORS_ONLY = 4  # below "fatal" everything is an exception with the same text


class Model:
    """An .onnx model in ONNX Runtime, fed and fetched by position.

    Args:
        content: the file's bytes, or its path.
        threads: how many threads the kernels may use.

    Raises:
        EngineUnavailable: ONNX Runtime is missing or refuses the model.
    """

    def __init__(self, content: bytes | str, *, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise EngineUnavailable(
                "the package onnxruntime is missing", hint="pip install 'thinflow[onnx]'"
            ) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        try:
            self.session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no common base but this
            raise EngineUnavailable(
                f"ONNX Runtime refuses the model: {_first_line(error)}",
                hint="please report this with the model",
            ) from error
        self._inputs = [i.name for i in self.session.get_inputs()]
        self._outputs = [o.name for o in self.session.get_outputs()]

    @property
    def input_names(self) -> list[str]:
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        return list(self._outputs)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs."""
        import numpy as np

        feeds = {name: np.asarray(x) for name, x in zip(self._inputs, inputs, strict=True)}
        try:
            return [np.asarray(y) for y in self.session.run(self._outputs, feeds)]
        except ValueError as error:
            raise FeedError(f"ONNX Runtime cannot be fed: {_first_line(error)}") from error
        except Exception as error:  # as above
            raise EngineUnavailable(
                f"ONNX Runtime failed: {_first_line(error)}", hint="engine='reference' may say more"
            ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(". ")


def open_file(path: str, threads: int) -> ModelFile:
    """An .onnx file ready to run as it is.

    Raises:
        EngineUnavailable: ONNX Runtime refuses it.
    """
    model = Model(path, threads=threads)
    inputs = [_port(i) for i in model.session.get_inputs()]
    return ModelFile(path, "onnxruntime", model, inputs, [_port(o) for o in model.session.get_outputs()])


def _port(node: Any) -> FilePort:
    element = node.type.removeprefix("tensor(").removesuffix(")")
    try:
        found = dtype(element)
    except ParameterError:  # sequences and maps
        return FilePort(node.name, TensorSpec())
    sizes = node.shape  # open ones have a name, or nothing
    return FilePort(node.name, TensorSpec(found, tuple(n if isinstance(n, int) else None for n in sizes)))


class OnnxRuntime:
    """Regions in ONNX Runtime, the rest in the interpreter."""

    name = "onnxruntime"

    def available(self) -> str | None:
        from importlib.util import find_spec

        found = find_spec("onnxruntime")
        return None if found else "the package onnxruntime is missing (pip install 'thinflow[onnx]')"

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> Compiled:
        return compile_regions(_BACKEND, graph, inputs, outputs, threads)


def _unsupported(graph: Graph, nodes: Iterable[Node]) -> dict[Node, str]:
    from thinflow.lower.onnx.convert import unsupported

    return unsupported(graph, nodes, specs={}, opset=OPSET)


def _lowered(graph: Graph, region: Region, threads: int) -> Model:
    from thinflow.engines._mapped import mapped, release_pages
    from thinflow.lower.onnx.convert import lower_graph
    from thinflow.lower.onnx.writer import write_program

    program = lower_graph(graph, region.inputs, region.outputs, specs={}, opset=OPSET).program

    def write() -> tuple[int, Iterable[Any]]:
        file = write_program(program)
        return file.size, file.chunks

    try:
        with mapped(write, ".onnx") as content:
            release_pages(graph)
            return Model(content, threads=threads)
    except WriteError as error:
        raise EngineUnavailable(error.problem, hint="engine='reference' has no such limit") from error


_BACKEND = Backend("onnxruntime", _unsupported, _lowered)
ENGINE = OnnxRuntime()
