"""Runtimes that run float programs and show what every tensor held."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from thinflow.errors import EngineUnavailable, FeedError, closest
from thinflow.errors.plain_text import first_line
from thinflow.ir.types import TensorSpec
from thinflow.onnx import program as onnx
from thinflow.onnx import writer as onnx_writer
from thinflow.quantize.fitting import fit
from thinflow.quantize.parts import part_making
from thinflow.tflite import model as tflite
from thinflow.tflite.runtime import allocate
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter
    from onnxruntime import InferenceSession

Feed = Mapping[str, Array]

_PATIENCE_SECONDS = 5.0
"""How long a run waits for views of the one before: a profiler holds frames while it looks at them, which is
milliseconds; and what is held by mistake is to end in an error, not to hang."""

_SIZES_HINT = "if sizes do not fit, say what the inputs have with --shape, or give samples with --calibration"


class Runner(Protocol):
    """Runs a float program and shows its tensors."""

    def run(self, feed: Feed, where: str) -> None: ...

    def view(self, tensor: Any) -> Array:
        """The content of a tensor in the last run."""


def real_numbers(values: Array, tensor: Any) -> Array:
    """What the codes of a quantized program's tensor stand for; other numbers as they are."""
    grid = getattr(tensor, "quantization", None)
    if grid is None or values.dtype.kind not in "iu":
        return values
    real: Array = (values.astype(np.float32) - grid.zero_point.astype(np.float32)) * grid.scale
    return real


class LiteRTRunner:
    """A LiteRT interpreter of what some tensors need, which it gives.

    Delegates hide the tensors inside the regions that they take over, but not outputs. So what is watched
    becomes one: XNNPACK runs a float MobileNet v2 that gives all of its tensors in 9 ms of a core, LiteRT's
    own kernels in 30, and in int8 in 4 ms instead of 130.
    """

    def __init__(self, program: tflite.Program, watched: Iterable[tflite.Tensor], threads: int) -> None:
        part = part_making(program, watched)
        main = part.subgraphs[0]
        threads = 1 if any(map(_taken_for_dense, main.operators)) else threads
        self._open = partial(_interpreter, to_bytes(part), threads)
        try:
            self.interpreter = self._open()
        except (RuntimeError, ValueError) as e:
            raise EngineUnavailable(f"LiteRT cannot load the float model: {first_line(e)}") from e
        self.is_delegated = True
        # The writer numbers tensors in this order.
        self.index = {tensor: i for i, tensor in enumerate(main.tensors())}
        self.names = _feed_names(program)
        self.inputs = main.inputs
        self.allocated: dict[tflite.Tensor, tuple[int, ...]] | None = None
        self._views: list[weakref.ref[Array]] = []

    def run(self, feed: Feed, where: str) -> None:
        arrays = self._arrays(feed, where)
        try:
            self.run_with(arrays)
        except (RuntimeError, ValueError) as e:
            problem = f"LiteRT cannot run the float model: {first_line(e)}"
            raise EngineUnavailable(problem, where, _SIZES_HINT) from e

    def run_with(self, arrays: Mapping[tflite.Tensor, Array]) -> None:
        """Run with what each input holds, which has to fit.

        Raises:
            RuntimeError, ValueError: LiteRT refuses it.
        """
        try:
            self._invoke(arrays)
        except (RuntimeError, ValueError):
            # XNNPACK refuses sizes of 0 in loops and branches that LiteRT's own kernels take.
            if not self.is_delegated:
                raise
            self.is_delegated, self.allocated = False, None
            self.interpreter = self._open(delegates=False)
            self._invoke(arrays)

    def _invoke(self, arrays: Mapping[tflite.Tensor, Array]) -> None:
        self._wait_for_views()
        shapes = {t: a.shape for t, a in arrays.items()}
        # Allocating plans the memory of all tensors anew; samples of one size need it once.
        if shapes != self.allocated:
            for tensor, shape in shapes.items():
                self.interpreter.resize_tensor_input(self.index[tensor], shape)
            allocate(self.interpreter)
            self.allocated = shapes
        for tensor, array in arrays.items():
            self.interpreter.set_tensor(self.index[tensor], array)
        self.interpreter.invoke()

    def _wait_for_views(self) -> None:
        """Let go what a thread beside this one still holds of the last run.

        LiteRT refuses to run while there are views of its memory. The profiler of Dask's workers holds every
        frame that it looks at, with all local variables.
        """
        end = time.monotonic() + _PATIENCE_SECONDS
        while any(view() is not None for view in self._views) and time.monotonic() < end:
            time.sleep(0.001)
        self._views.clear()

    def view(self, tensor: tflite.Tensor) -> Array:
        """The tensor's memory, valid until the next run; a copy where the runtime gives no view."""
        index = self.index[tensor]
        with suppress(RuntimeError, ValueError):
            view: Array = self.interpreter.tensor(index)()
            if isinstance(view, np.ndarray):  # of a scalar LiteRT gives a copy
                self._views.append(weakref.ref(view))
            return view
        return np.zeros(0, np.float32)  # a branch that did not run

    def _arrays(self, feed: Feed, where: str) -> dict[tflite.Tensor, Array]:
        given: dict[tflite.Tensor, Array] = {}
        for name, array in feed.items():
            tensor = self.names.get(name) or self.names.get(name.removesuffix(":0"))
            if tensor is None:
                hint = closest(name, self.names) or f"it has: {', '.join(t.name for t in self.inputs)}"
                raise FeedError(f"the model has no input '{name}'", where, hint=hint)
            # LiteRT copies the memory as it lies.
            given[tensor] = np.asarray(
                fit(np.asarray(array), name, TensorSpec(tensor.dtype, tensor.shape), where), order="C"
            )
        for tensor in self.inputs:
            if tensor not in given:
                raise FeedError(f"nothing is given for input '{tensor.name}'", where)
        return given


def runner_of(program: tflite.Program | onnx.Program, watched: Iterable[Any], threads: int) -> Runner:
    """The runtime of a program, or of as much of it as some tensors need, which it gives.

    Raises:
        EngineUnavailable: the runtime is missing or cannot load the program.
    """
    if isinstance(program, onnx.Program):
        return OnnxRunner(program, watched, threads)
    return LiteRTRunner(program, watched, threads)


def _interpreter(content: bytes, threads: int, *, delegates: bool = True) -> Interpreter:
    """A model in LiteRT, not allocated yet.

    Raises:
        EngineUnavailable: LiteRT is not installed.
        RuntimeError, ValueError: it refuses the model.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError as e:
        raise EngineUnavailable(f"LiteRT cannot be imported: {e}", hint="pip install ai-edge-litert") from e
    resolver = OpResolverType.BUILTIN if delegates else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return Interpreter(model_content=content, num_threads=threads, experimental_op_resolver_type=resolver)


def _taken_for_dense(operator: tflite.Operator) -> bool:
    """True if LiteRT's own CONV_2D goes wrong on several threads.

    It takes a filter as large as the image, without padding in front, for a dense layer: one pixel is
    computed. SAME padding behind may ask for more of them, and these stay whatever was in memory.
    """
    if operator.code != "CONV_2D" or operator.options.get("padding") != "SAME":
        return False
    x, w = (t.shape if t is not None else None for t in operator.inputs[:2])
    kernel = w[1:3] if w is not None else (2, 2)
    image = x[1:3] if x is not None else (None, None)
    fits = (k in (None, 1, 2) and d in (None, k) for k, d in zip(kernel, image, strict=True))
    return kernel != (1, 1) and all(fits)


def _feed_names(program: tflite.Program) -> dict[str, tflite.Tensor]:
    """Every name an input can be fed by: its own without ":0", and those in signatures."""
    main = program.subgraphs[0]
    names = {}
    for signature in program.signatures.values():
        names.update({name: t for name, t in signature.inputs.items() if t in main.inputs})
    for tensor in main.inputs:
        names[tensor.name] = names[tensor.name.removesuffix(":0")] = tensor
    return names


class OnnxRunner:
    """An ONNX Runtime session of what some tensors need, which it gives."""

    def __init__(self, program: onnx.Program, watched: Iterable[onnx.Tensor], threads: int) -> None:
        self._inputs = {t.name: t for t in program.inputs}
        part = part_making(program, watched)
        # Fetched tensors need no declared sizes.
        self._names = [t.name for t in part.outputs]
        self._session = _session(onnx_writer.to_bytes(part), threads)
        self._found: dict[str, Array] = {}

    def run(self, feed: Feed, where: str) -> None:
        arrays = self._arrays(feed, where)
        try:
            results = self._session.run(self._names, arrays)
        except Exception as e:  # its exceptions have no common base but this
            problem = f"ONNX Runtime cannot run the float model: {first_line(e)}"
            raise EngineUnavailable(problem, where, _SIZES_HINT) from e
        self._found = {**arrays, **{n: np.asarray(y) for n, y in zip(self._names, results, strict=True)}}

    def view(self, tensor: onnx.Tensor) -> Array:
        return self._found[tensor.name]

    def _arrays(self, feed: Mapping[str, Array], where: str) -> dict[str, Array]:
        missing = [name for name in self._inputs if name not in feed]
        if missing:
            raise FeedError(f"nothing is given for input '{missing[0]}'", where)
        return {
            name: np.ascontiguousarray(
                fit(np.asarray(feed[name]), name, TensorSpec(tensor.dtype, tensor.shape), where)
            )
            for name, tensor in self._inputs.items()
        }


def _session(content: bytes, threads: int) -> InferenceSession:
    try:
        import onnxruntime
    except ImportError as e:
        raise EngineUnavailable(
            "the package onnxruntime is missing", hint="pip install 'thinflow[onnx]'"
        ) from e
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Only what is fatal: everything below arrives as an exception with the same text.
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # as above
        raise EngineUnavailable(f"ONNX Runtime cannot load the float model: {first_line(e)}") from e
