"""What a network in C is to answer to made-up inputs: what LiteRT does, or the interpreter in its place."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.engines.session import Session
from thinflow.errors import ThinflowError
from thinflow.load.graphs import load
from thinflow.lower.c.litert import kernel_sets
from thinflow.lower.c.sample import INTERPRETER, Sample, generated, is_large
from thinflow.lower.c.sound import is_signal
from thinflow.tflite.model import Operator
from thinflow.tflite.runtime import allocate, interpreter

if TYPE_CHECKING:
    from thinflow.lower.c.convert import Network
    from thinflow.tflite.model import Tensor
    from thinflow.typing import Array

_RUNS = 3


def answers(content: bytes, made: Network, first: list[Array] | None = None) -> list[Sample]:
    """What is right for made-up inputs, one run after the other: what LiteRT answers, by the kernels whose
    rounding is asked for, or the interpreter, of what LiteRT does not run and nothing rounds to codes in.

    Args:
        content: the program as a file.
        made: the network that it is.
        first: what is fed first, in place of what is made up.
    """
    # The reference kernels lack some operators.
    kinds = kernel_sets(made.options.rounding)
    if not all(map(_rounds_nothing, made.block.operators)):
        del kinds[1:]
    for kind in kinds:
        engine = _opened(content, made, kind)
        if engine is not None:
            break
    else:
        return _by_interpreter(content, made, first)
    # Some count rows of a table of which there is one alone, or none is left of what they cut.
    limits = [2, 1] if len(made.block.operators) == 1 else [2]
    for limit in limits:
        # Seeded: the same model makes the same files.
        feeds = _feeds(made, first, limit)
        with suppress(RuntimeError):
            return [_sample(engine, made, given) for given in feeds]
    return []


def _feeds(made: Network, first: list[Array] | None, limit: int = 2) -> list[list[Array]]:
    """Inputs for each run; those that are stored for a test on the device are small, or a formula."""
    rng = np.random.default_rng(0)
    sound = {t for o in made.block.operators if is_signal(o) for t in o.reads()}
    feeds = [
        [_heard(t, rng) if t in sound else made_up(t, rng, limit) for t in made.block.inputs]
        for _ in range(_RUNS)
    ]
    if first is not None:
        feeds[0] = first
    # What was given is answered as it is; another one is stored in its place.
    place = 0 if first is None else 1
    feeds[place] = [
        generated(t, n) if is_large(t) else x
        for n, (t, x) in enumerate(zip(made.block.inputs, feeds[place], strict=True))
    ]
    return feeds


def self_test(made: Network, samples: list[Sample], first: list[Array] | None) -> Sample | None:
    """The sample that the C stores: large inputs of it are their formula, and what it is to answer is from a
    first run."""
    if (
        first is not None
        and len(samples) > 1
        and any(map(is_large, made.block.inputs))
        and not made.state_bytes
    ):
        return samples[1]
    return samples[0] if samples else None


def _by_interpreter(content: bytes, made: Network, first: list[Array] | None) -> list[Sample]:
    """What the interpreter answers; nothing of what it does not run, or not to the last bit."""
    tensors = [t for o in made.block.operators for t in o.touched()]
    # Of codes it knows the reals alone, whose roundings are not those of LiteRT's kernels.
    if any(t.quantization is not None and len(t.quantization.scale) for t in tensors):
        return []
    try:
        with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
            path = Path(folder, "model.tflite")
            path.write_bytes(content)
            graph = load(path, state="keep")
            session = Session(graph, engine="reference")
            # States come behind the file's own.
            inputs = [v.name for v in graph.inputs[: len(made.block.inputs)]]
            outputs = [v.name for v in graph.outputs[: len(made.outputs)]]
            return [
                Sample(feeds, session.run(outputs, dict(zip(inputs, feeds, strict=True))), INTERPRETER)
                for feeds in _feeds(made, first)
            ]
    except ThinflowError:
        return []


def _sample(engine: Any, made: Network, feeds: list[Array]) -> Sample:
    """What LiteRT answers to some inputs.

    Raises:
        RuntimeError: it has no answer to such numbers.
    """
    for details, value, tensor in zip(engine.get_input_details(), feeds, made.block.inputs, strict=True):
        engine.set_tensor(details["index"], as_fed(value, tensor, details["dtype"]))
    engine.invoke()
    return Sample(feeds, [engine.get_tensor(d["index"]) for d in engine.get_output_details()])


def _rounds_nothing(operator: Operator) -> bool:
    """Whether codes are reals here, or stay as they are."""
    read = {t.quantization.grid for t in operator.reads() if t.quantization is not None}
    return {t.quantization.grid for t in operator.outputs if t.quantization is not None} <= read


def as_fed(value: Array, tensor: Tensor, dtype: Any) -> Array:
    """What LiteRT is fed where the C takes codes: the numbers they stand for."""
    # The other way round it is a code already, as the file has it. Old converters wrote ranges beside floats.
    if tensor.quantization is None or np.dtype(dtype).kind != "f" or value.dtype.kind == "f":
        return value
    real: Array = value.astype(np.float32) * tensor.quantization.scale[0]
    return real


def _opened(content: bytes, made: Network, kind: Any) -> Any:
    """LiteRT with some set of kernels; None if it does not run the model.

    Custom operators of other runtimes, say: C may have forms of what LiteRT here does not run.
    """
    try:
        with warnings.catch_warnings():
            # It warns of a resolver that is not its default, which is the point here.
            warnings.simplefilter("ignore")
            engine = interpreter(model_content=content, experimental_op_resolver_type=kind, allocated=False)
            if len(engine.get_input_details()) != len(made.block.inputs):
                return None
            for details, tensor in zip(engine.get_input_details(), made.block.inputs, strict=True):
                engine.resize_tensor_input(details["index"], tensor.shape)
            allocate(engine)
    except (ValueError, RuntimeError):
        return None
    return engine


def made_up(tensor: Tensor, rng: np.random.Generator, limit: int = 2) -> Array:
    """Any numbers for an input; of those that count or name something, what is below a limit."""
    shape, dtype = tuple(1 if n is None else n for n in tensor.shape or ()), tensor.dtype.numpy()
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    # All codes there are: no layer may be wrong in a corner.
    limits = np.iinfo(dtype)
    if tensor.quantization is not None and dtype.itemsize == 2:
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    # Numbers of more bits count or name something: small ones exist.
    high = limits.max + 1 if dtype.itemsize == 1 else limit
    return rng.integers(limits.min if dtype.itemsize == 1 else 0, high, shape).astype(dtype)


def _heard(tensor: Tensor, rng: np.random.Generator) -> Array:
    """Samples of sound, or what is made of them: loud ones and soft ones."""
    shape, dtype = tuple(n or 1 for n in tensor.shape or ()), tensor.dtype.numpy()
    # What stands alone is a number of bits.
    if dtype.kind == "f" or not shape:
        return made_up(tensor, rng)
    limits = np.iinfo(dtype)
    loudest = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    heard: Array = loudest >> rng.integers(0, 8 * dtype.itemsize - 3).astype(dtype)
    return heard
