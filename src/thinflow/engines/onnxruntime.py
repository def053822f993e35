"""ONNX Runtime on the CPU: servers, desktops and browsers, and a second opinion on every number.

What ONNX can express is lowered region by region; the rest runs in the interpreter, between the regions.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.engines._files import FilePort, ModelFile, file_content
from thinflow.engines._regions import Backend, compile_regions
from thinflow.engines._threads import inter_op_threads
from thinflow.engines.base import Compiled
from thinflow.engines.partition import Region
from thinflow.errors import EngineUnavailable, FeedError, ParameterError
from thinflow.errors.plain_text import first_line
from thinflow.ir.types import TensorSpec, dtype

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.lower.onnx.convert import Lowered
    from thinflow.typing import Array

OPSET = 20
"""The engine's own models need not be read by anything old; 20 has bitwise ops and texts."""
_LIMITS_BYTES = (1, 24)
"""The first release with Max and Min of uint8."""
_FATAL_ONLY = 4  # below "fatal", which nobody could catch, everything is an exception with the same text


def session_options(threads: int = 1, *, careful: bool = False) -> Any:
    """Options that all sessions here have in common, so that they run the same kernels.

    Args:
        threads: how many the kernels may use.
        careful: whether to ask for kernels that cannot overflow.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _FATAL_ONLY
    # ONNX Runtime computes unsigned by unsigned then, which is slower and cannot overflow.
    if careful:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def open_session(content: bytes | str, options: Callable[[bool], Any]) -> Any:
    """A session on a model, with kernels that cannot overflow where others may and it can have them.

    Args:
        content: the file's bytes, or its path.
        options: makes the options, given whether to ask for those kernels.
    """
    import onnxruntime

    from thinflow.engines._narrow_sums import sums_may_overflow

    providers = ["CPUExecutionProvider"]
    careful = products_may_overflow() and sums_may_overflow(content)
    try:
        return onnxruntime.InferenceSession(content, options(careful), providers=providers)
    except Exception as error:
        # It turns weights to uint8 for these kernels, and a zero point that several share it turns twice.
        if "Attempt to replace the existing tensor" not in str(error):
            raise
        return onnxruntime.InferenceSession(content, options(False), providers=providers)


class Model:
    """An .onnx model in ONNX Runtime, fed and fetched by position.

    Args:
        content: the file's bytes, or its path.
        threads: how many threads the kernels may use.
        complex_outputs: numbers of the outputs that hold complex numbers, with a last axis of two.
        careful: whether to have kernels that cannot overflow where sums may; False: as applications open it.

    Raises:
        EngineUnavailable: ONNX Runtime is missing or refuses the model.
    """

    def __init__(
        self,
        content: bytes | str,
        *,
        threads: int = 1,
        complex_outputs: Collection[int] = (),
        careful: bool = True,
    ) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise EngineUnavailable(
                "the package onnxruntime is missing", hint="pip install 'thinflow[onnx]'"
            ) from error

        def options(possible: bool) -> Any:
            made = session_options(threads, careful=careful and possible)
            # Looked up here, since engines are made ready deep inside of what asks for nodes side by side.
            made.inter_op_num_threads = inter_op_threads()
            if made.inter_op_num_threads > 1:
                # The default mode runs node by node, whatever the number of threads is.
                made.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
            return made

        try:
            self.session = open_session(content, options)
        except Exception as error:  # its exceptions have no common base but this
            raise EngineUnavailable(
                f"ONNX Runtime refuses the model: {_said(error)}",
                hint="please report this with the model",
            ) from error
        self._inputs = [i.name for i in self.session.get_inputs()]
        self._outputs = [o.name for o in self.session.get_outputs()]
        # "tensor(float8e5m2)", whose elements come as their codes.
        kinds = [o.type.partition("(")[2].rstrip(")") for o in self.session.get_outputs()]
        self._floats = {
            n: dtype(k.replace("float8", "float8_")) for n, k in enumerate(kinds) if k.startswith("float8")
        }
        self._complex_outputs = frozenset(complex_outputs)

    @property
    def input_names(self) -> list[str]:
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        return list(self._outputs)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs. Strings are bytes outside and text inside; complex numbers are pairs inside."""
        feeds = {name: fed(x) for name, x in zip(self._inputs, inputs, strict=True)}
        try:
            results = self.session.run(self._outputs, feeds)
        except ValueError as error:
            raise FeedError(f"ONNX Runtime cannot be fed: {_said(error)}") from error
        except Exception as error:  # as above
            raise EngineUnavailable(
                f"ONNX Runtime failed: {_said(error)}", hint="engine='reference' may say more"
            ) from error
        found = [_fetched(y, n in self._complex_outputs) for n, y in enumerate(results)]
        return [y.view(self._floats[n].numpy()) if n in self._floats else y for n, y in enumerate(found)]


def fed(x: Array) -> Array:
    """An array as ONNX Runtime takes it; see `Model.run`.

    Raises:
        FeedError: a string is no text.
    """
    import numpy as np

    x = np.asarray(x)
    if x.dtype.kind == "c":
        # numpy lays a complex number out as two floats, so a view is all it takes.
        parts = np.ascontiguousarray(x).reshape(*x.shape, 1)
        return np.asarray(parts.view(np.float64 if x.dtype.itemsize == 16 else np.float32))
    if x.dtype.kind not in "OS":
        return x
    try:
        texts = [t if isinstance(t, str) else bytes(t).decode() for t in x.reshape(-1).tolist()]
    except UnicodeDecodeError as error:
        raise FeedError("ONNX Runtime takes text, and a string is not UTF-8") from error
    # Texts pass through C strings, which end at the first zero.
    if any("\0" in t for t in texts):
        raise FeedError("ONNX Runtime takes text, and a string holds a zero byte")
    # Filled afterwards: of a list of texts `np.array` would make a type of fixed width.
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(x.shape)


def _fetched(y: Any, is_complex: bool) -> Array:
    import numpy as np

    y = np.asarray(y)
    found: Array
    if is_complex:
        return complex_of(y)
    if y.dtype.kind not in "OU":
        return np.asarray(y)
    found = np.empty(y.size, object)
    found[:] = [t.encode() if isinstance(t, str) else t for t in y.reshape(-1).tolist()]
    return np.asarray(found.reshape(y.shape))


def complex_of(pairs: Array) -> Array:
    """The complex numbers [...] that ONNX holds as real and imaginary parts [...,2]."""
    import numpy as np

    whole = np.ascontiguousarray(pairs)
    numbers: Array = whole.view(np.complex128 if whole.dtype.itemsize == 8 else np.complex64)
    return numbers.reshape(whole.shape[:-1])


_X86 = frozenset({"x86_64", "amd64", "i386", "i686", "x86"})


@cache
def products_may_overflow() -> bool:
    """True if ONNX Runtime's fastest eight-bit products may be wrong here: on x86 not known to have VNNI.

    Without it they add pairs of unsigned times signed integers in 16 bits, which may be too few.
    """
    return overflow_on(platform.machine(), Path("/proc/cpuinfo"))


def overflow_on(machine: str, description: Path) -> bool:
    """True if sums may overflow, given the kind of machine and Linux's description of its processors."""
    if machine.lower() not in _X86:
        return False
    try:
        # avx_vnni and avx512_vnni; without such a file nothing is known, and the careful answer is yes.
        return "vnni" not in description.read_text("utf-8", "replace")
    except OSError:
        return True


def open_file(path: str, threads: int) -> ModelFile:
    """An .onnx file ready to run as it is.

    Raises:
        EngineUnavailable: ONNX Runtime refuses it.
    """
    model = Model(file_content(path), threads=threads)
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


def _unsupported_unit(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> str:
    from thinflow.lower.onnx.convert import unsupported_unit

    return unsupported_unit(graph, inputs, outputs, specs={}, opset=OPSET)


def _limits_bytes() -> bool:
    """True if this ONNX Runtime has Max and Min of uint8."""
    from onnxruntime import __version__ as version

    # Major and minor number; a development version may have words behind them.
    found = tuple(int(n) for n in version.split(".")[:2] if n.isdigit())
    return found >= _LIMITS_BYTES


def lower_whole(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> Lowered:
    """A graph whose shapes are known in ONNX's ops, as this engine runs it.

    Raises:
        UnsupportedOp: a node that ONNX cannot express.
    """
    from thinflow.lower.onnx.convert import lower_graph

    return lower_graph(
        graph, inputs, outputs, specs={}, opset=OPSET, extended=True, limits_bytes=_limits_bytes()
    )


def _lowered(graph: Graph, region: Region, threads: int) -> Model:
    from thinflow.engines._temporary_files import release_pages, stored

    # In a list, out of which `stored` takes it: nothing else holds the program and its arrays.
    programs = [lower_whole(graph, region.inputs, region.outputs).program]
    # ONNX has hardly an op for complex numbers: inside they are floats with a last axis of two.
    pairs = [n for n, v in enumerate(region.outputs) if v.dtype is not None and v.dtype.kind == "c"]
    with stored(programs) as content:
        release_pages(graph)
        return Model(content, threads=threads, complex_outputs=pairs)


_BACKEND = Backend("onnxruntime", _unsupported, _lowered, _unsupported_unit)
ENGINE = OnnxRuntime()


def _said(error: Exception) -> str:
    """What ONNX Runtime says, without the places of its sources that it says it from."""
    text = _HEAD.sub("", first_line(error))
    found = _PLACE.search(text)
    if found is None:
        return text
    # Behind the place stands the function with its arguments, in parentheses within which there may be more.
    depth = 0
    for end in range(text.find("(", found.end()), len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if not depth:
            return text[: found.start()] + (text[end + 1 :].strip() or "no reason given")
    return text


_HEAD = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from .*? failed: ?)?(Fatal error: )?")
_PLACE = re.compile(r"/onnxruntime_src/\S+:\d+ ")
