"""OpenVINO on the CPU: servers and desktops, above all those of Intel.

It gets the ONNX model that ONNX Runtime gets, less the operators that ONNX Runtime alone has; .onnx files and
its own .xml files it reads as they are. Its reader of .pb files was measured beside that: the networks it
takes run equally fast, it opens them more slowly (ResNet-50 v2: four times), and does not take old ops such
as BatchNormWithGlobalNormalization.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.engines._files import FilePort, ModelFile, file_content
from thinflow.engines._regions import Backend, compile_regions
from thinflow.engines.base import Compiled
from thinflow.engines.onnxruntime import complex_of, fed
from thinflow.engines.partition import Region
from thinflow.errors import EngineUnavailable, UnsupportedOp
from thinflow.ir.types import TensorSpec, dtype
from thinflow.lower.openvino.limits import judge
from thinflow.lower.openvino.runtime import OPSET, core, library, missing, read, refusal, said

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.lower.convert import Judge
    from thinflow.onnx.program import Program
    from thinflow.typing import Array

FILES_OF = "onnxruntime"
"""The engine whose files this one runs as they are, too."""
MOST_SIZES = 4
"""A model with open sizes is made ready for so many choices of them; from then on, once for all others."""
_TYPES = {
    "boolean": "bool",
    "f16": "half",
    "f32": "float",
    **{
        f"{kind}{bits}": f"{name}int{bits}"
        for kind, name in (("i", ""), ("u", "u"))
        for bits in (8, 16, 32, 64)
    },
}
"""OpenVINO's element types that arrays are exchanged in -> ours."""
_INEXACT = frozenset({"f64", "u32", "u64", "bf16"})
"""Types that its CPU kernels compute in others, with fewer digits or another range."""


def settings(threads: int) -> dict[str, str]:
    """Properties of a compiled model: float32 as it is, one request at a time, nothing on the disk."""
    return {
        # Else it computes in bfloat16 or half where the processor has them.
        "INFERENCE_PRECISION_HINT": "f32",
        # Else it rounds what goes into products with weights of eight bits, layer by layer.
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads),
        # Pinned threads of two models would share a core while others are idle.
        "ENABLE_CPU_PINNING": "NO",
        "CACHE_DIR": "",
    }


class Model:
    """An .onnx or .xml model in OpenVINO, fed and fetched by position.

    Args:
        content: the file's bytes, or its path; of an .xml file, its path.
        threads: how many threads the kernels may use.
        names: of the inputs, in the order in which they are fed; default: that of the file.
        complex_outputs: numbers of the outputs that hold complex numbers, with a last axis of two.

    Attributes:
        inputs, outputs: OpenVINO's ports, in the order of the file.

    Raises:
        EngineUnavailable: OpenVINO is missing, refuses the model, or would compute in another type.
    """

    def __init__(
        self,
        content: bytes | str,
        *,
        threads: int = 1,
        names: Sequence[str] | None = None,
        complex_outputs: Collection[int] = (),
    ) -> None:
        self._settings = settings(threads)
        self._complex_outputs = frozenset(complex_outputs)
        self._model = read(content)
        require_exact(self._model)
        self.inputs, self.outputs = list(self._model.inputs), list(self._model.outputs)
        # What nobody reads may be gone from the model.
        known = {name: number for number, port in enumerate(self.inputs) for name in port.get_names()}
        fed_names = range(len(self.inputs)) if names is None else [known.get(n) for n in names]
        self._places = [(at, number) for at, number in enumerate(fed_names) if number is not None]
        self._wide = [at for at, n in self._places if _type_of(self.inputs[n]) == "i64"]
        self._requests: dict[tuple[tuple[int, ...], ...], _Request] = {}
        # One with open sizes is compiled for those that come: that is up to a fifth faster.
        is_open = any(port.get_partial_shape().is_dynamic for port in self.inputs)
        self._request = None if is_open else self._compiled(self._model)
        self._open: _Request | None = None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, which belong to the caller. Complex numbers are pairs inside.

        Raises:
            EngineUnavailable: OpenVINO failed, or an integer of 64 bits does not fit its 32.
        """
        # Else it drops the upper half of the bits, and says nothing.
        for at in self._wide:
            if _exceeds_32_bits(inputs[at]):
                raise EngineUnavailable("OpenVINO computes int64 in 32 bits, and a number fed is larger")
        arrays = {number: fed(inputs[at]) for at, number in self._places}
        request = self._request or self._request_for(arrays)
        try:
            found = request.run(arrays)
        except Exception as error:  # its exceptions have no common base but this
            raise EngineUnavailable(f"OpenVINO failed: {said(error)}", hint=_SAY_MORE) from error
        return [complex_of(y) if n in self._complex_outputs else y for n, y in enumerate(found)]

    def _request_for(self, arrays: Mapping[int, Array]) -> _Request:
        """What runs inputs of these sizes."""
        sizes = tuple(x.shape for x in arrays.values())
        if sizes in self._requests:
            return self._requests[sizes]
        model = self._model.clone()
        try:
            # Sizes are checked here only: what runs for any of them takes those that do not go together.
            model.reshape({number: list(x.shape) for number, x in arrays.items()})
        except Exception as error:  # as above
            raise EngineUnavailable(f"OpenVINO refuses the sizes: {said(error)}", hint=_SAY_MORE) from error
        if len(self._requests) < MOST_SIZES:
            self._requests[sizes] = self._compiled(model)
        else:
            self._open = self._open or self._compiled(self._model)
            self._requests[sizes] = self._open
        return self._requests[sizes]

    def _compiled(self, model: Any) -> _Request:
        try:
            return _Request(core().compile_model(model, "CPU", self._settings))
        except Exception as error:  # as above
            raise refusal(error) from error


class _Request:
    """A compiled model with memory for its inputs and outputs.

    Its own way to be fed, by a dict, takes a tenth of a millisecond more.
    """

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self._request = compiled.create_infer_request()
        self._tensor = library().Tensor
        self._places: list[Any] = [None] * len(compiled.inputs)
        for number, port in enumerate(compiled.inputs):
            if not port.get_partial_shape().is_dynamic:
                # Its own memory, which stays where it is as long as nobody hands it another.
                place = self._request.get_input_tensor(number)
                if place.get_byte_size() <= _COPIED_BYTES:
                    self._places[number] = place.data

    def run(self, arrays: Mapping[int, Array]) -> list[Array]:
        """The outputs, copied, for arrays by the number of their input."""
        import numpy as np

        for number, x in arrays.items():
            place = self._places[number]
            if place is not None:
                place[...] = x
                continue
            # Shared memory has to be in order, and OpenVINO wants it writable, though it does not write.
            shared = np.require(x, requirements=("C", "A", "W"))
            self._request.set_input_tensor(number, self._tensor(shared, shared_memory=True))
        self._request.infer({}, share_outputs=True)
        count = len(self.compiled.outputs)
        return [self._request.get_output_tensor(number).data.copy() for number in range(count)]


_COPIED_BYTES = 1 << 16
"""Inputs up to this size are copied, which is quicker than to hand over their memory."""
_SAY_MORE = "engine='reference' may say more"


def _type_of(port: Any) -> str:
    name: str = port.get_element_type().get_type_name()
    return name


def require_exact(model: Any) -> None:
    """Raise EngineUnavailable if a result would be in another type than the model says, or is not safe."""
    for operator in model.get_ops():
        kind = operator.get_type_name()
        if kind in ("Constant", "Result"):
            continue
        if kind == "Reshape" and operator.input_value(1).get_node().get_type_name() == "Parameter":
            # It writes beyond the memory that it has if the shape is too large.
            raise EngineUnavailable(
                f"OpenVINO does not check the shape that is fed to {operator.get_friendly_name()}",
                hint="engine='onnxruntime' checks it",
            )
        for number in range(operator.get_output_size()):
            name = operator.get_output_element_type(number).get_type_name()
            if name in _INEXACT:
                raise EngineUnavailable(
                    f"OpenVINO computes {name} in another type ({operator.get_friendly_name()})",
                    hint="engine='onnxruntime' or engine='reference' computes it as it is",
                )


def _exceeds_32_bits(x: Array) -> bool:
    import numpy as np

    return bool(x.size and (x.max() > np.iinfo(np.int32).max or x.min() < np.iinfo(np.int32).min))


def open_file(path: str, threads: int) -> ModelFile:
    """An .onnx or .xml file ready to run as it is.

    Raises:
        EngineUnavailable: OpenVINO refuses it.
    """
    model = Model(file_content(path), threads=threads)
    return ModelFile(path, "openvino", model, [*map(_port, model.inputs)], [*map(_port, model.outputs)])


def _port(port: Any) -> FilePort:
    sizes = port.get_partial_shape()
    # Of an unknown rank there are no sizes to go through.
    shape = None
    if sizes.rank.is_static:
        shape = tuple(None if size.is_dynamic else size.get_length() for size in sizes)
    element = _TYPES.get(_type_of(port))
    found = dtype(element) if element is not None else None
    return FilePort(port.get_any_name(), TensorSpec(found, shape))


class OpenVino:
    """Regions in OpenVINO, the rest in the interpreter."""

    name = "openvino"

    def available(self) -> str | None:
        return missing()

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> Compiled:
        judges: dict[Graph, Judge] = {}

        def judge_of(part: Graph) -> Judge:
            if part not in judges:  # the graph itself, or one of its bodies
                judges[part] = judge(part, inputs)
            return judges[part]

        def unsupported(part: Graph, nodes: Iterable[Node]) -> dict[Node, str]:
            from thinflow.lower.onnx.convert import unsupported

            return unsupported(part, nodes, specs={}, opset=OPSET, judge=judge_of(part))

        def unsupported_unit(part: Graph, taken: Sequence[Value], given: Sequence[Value]) -> str:
            from thinflow.lower.onnx.convert import unsupported_unit

            return unsupported_unit(part, taken, given, specs={}, opset=OPSET, judge=judge_of(part))

        backend = Backend(
            self.name,
            unsupported,
            _lowered,
            unsupported_unit,
            lambda name: name != "string",
            culprits=culprits,
        )
        return compile_regions(backend, graph, inputs, outputs, threads)


def _program(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> Program:
    from thinflow.lower.onnx.convert import lower_graph

    return lower_graph(graph, inputs, outputs, specs={}, opset=OPSET).program


def _lowered(graph: Graph, region: Region, threads: int) -> Model:
    from thinflow.engines._temporary_files import release_pages, stored

    # In a list, out of which `stored` takes it: nothing else holds the program and its arrays.
    programs = [_program(graph, region.inputs, region.outputs)]
    names = [t.name for t in programs[0].inputs]
    pairs = [n for n, v in enumerate(region.outputs) if v.dtype is not None and v.dtype.kind == "c"]
    with stored(programs) as content:
        release_pages(graph)
        return Model(content, threads=threads, names=names, complex_outputs=pairs)


def culprits(graph: Graph, region: Region) -> dict[Node, str]:
    """The nodes of a refused region that OpenVINO refuses by themselves, and why."""
    known: dict[str, str] = {}  # alike ones are tried once
    found = {}
    for node in region.nodes:
        read = [v for v in node.inputs if v.node.tensor is None]
        # What reads constants alone is computed while the graph is lowered.
        if not read or not node.outputs:
            continue
        kinds = [(str(v.dtype), None if v.spec.shape is None else len(v.spec.shape)) for v in node.inputs]
        key = repr((node.op, kinds, sorted((name, repr(a)) for name, a in node.attrs.items())))
        if key not in known:
            known[key] = _trial(graph, node, read)
        if known[key]:
            found[node] = known[key]
    return found


def _trial(graph: Graph, node: Node, read: Sequence[Value]) -> str:
    try:
        _lowered(graph, Region(True, [node], list(dict.fromkeys(read)), list(node.outputs)), 1)
    except EngineUnavailable as error:
        return error.problem
    except UnsupportedOp:  # no outputs that could be handed out alone
        return ""
    return ""


ENGINE = OpenVino()
