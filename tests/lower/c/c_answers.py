"""What a network in C answers beside LiteRT, value by value of every layer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from thinflow.engines._c_library import Library
from thinflow.lower.c.convert import network
from thinflow.lower.c.litert import kernel_sets
from thinflow.lower.c.options import Bands, Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.runtime import interpreter
from thinflow.typing import Array

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
"""What no line of the C may be warned of for."""

RUNS = 3
"""So many inputs does a processor that is played answer to."""

# Compiled quickly: the tests make hundreds of networks.
_FLAGS = ("-std=c99", "-O1", "-fPIC", "-shared", "-ffp-contract=off", *STRICT)


def made_up(tensor: Tensor, rng: np.random.Generator) -> Any:
    """Values for an input: all that its integers can be, or reals around zero."""
    shape = tuple(n or 1 for n in tensor.shape or ())
    dtype = tensor.dtype.numpy()
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.itemsize == 1 or (dtype.itemsize == 2 and tensor.quantization is not None):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


def litert(content: bytes, rounding: str) -> Any:
    """LiteRT's interpreter with the kernels that a rounding means, all values kept."""
    options = {"model_content": content, "experimental_preserve_all_tensors": True, "num_threads": 1}
    first, *others = kernel_sets(rounding)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of the memory that kept values take
        try:
            return interpreter(experimental_op_resolver_type=first, **options)
        except ValueError as error:
            if "Didn't find op" not in str(error):
                raise
            return interpreter(experimental_op_resolver_type=others[0], **options)


def differences(
    content: bytes,
    rounding: str = "litert",
    runs: int = 3,
    seed: int = 0,
    cpu: str = "generic",
    bands: tuple[Bands, ...] = (),
    tolerance: float = 1e-5,
) -> list[str]:
    """A line for each operator of a .tflite file whose answer in C is not LiteRT's; they run one by one.

    Each is fed what LiteRT computed before it. Integers have to be equal, floats within the tolerance, a part
    of the largest.
    """
    engine, program = litert(content, rounding), read_program(content)
    block, rng = program.subgraphs[0], np.random.default_rng(seed)
    index: dict[Tensor, int] = {}
    for operator, details in zip(block.operators, engine._get_ops_details(), strict=False):
        read = zip(operator.inputs, details["inputs"], strict=True)
        written = zip(operator.outputs, details["outputs"], strict=True)
        index.update((t, n) for t, n in (*read, *written) if t is not None and not t.is_constant)
    made = network(program, Options(rounding, cpu, keep_all=True, bands=bands))
    compiled = Library(made, Writer(made, "net").files(), "net", _FLAGS)
    tight = network(read_program(content), Options(rounding, cpu, bands=bands))
    packed = Library(tight, Writer(tight, "net").files(), "net", _FLAGS)
    found: list[str] = []
    for _ in range(runs):
        feeds = [made_up(t, rng) for t in block.inputs]
        for tensor, value in zip(block.inputs, feeds, strict=True):
            engine.set_tensor(index[tensor], value)
        engine.invoke()
        answers = compiled.run(feeds)
        outputs = dict(zip(made.outputs, answers, strict=True))
        # Where values share memory the answer has to be the same, to the last bit.
        found += ["it answers otherwise in less memory"] * any(
            not np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            for a, b in zip(answers, packed.run(feeds), strict=True)
        )
        for operator in made.block.operators:
            for tensor in (t for t in operator.outputs if t in index):
                got = outputs.get(tensor)
                got = _left(compiled, tensor) if got is None else got
                if got is not None and (
                    told := _difference(got, engine.get_tensor(index[tensor]), tolerance)
                ):
                    found.append(f"{operator!r}: {told}")
    return found


def _left(compiled: Library, tensor: Tensor) -> Array | None:
    """What a run left of a value in the arena; of rows that are counted those that are in use."""
    got, count = compiled.computed(tensor), compiled.network.counts.get(tensor)
    rows = None if count is None else compiled.computed(count)
    return got if got is None or rows is None else got[: int(rows)]


def _difference(got: Any, wanted: Any, tolerance: float) -> str:
    """What is wrong with an array; "" if nothing is."""
    if wanted.dtype.kind not in "fc":
        if got.shape != wanted.shape:
            return f"it is {got.shape}, not {wanted.shape}"
        wrong = int((got != wanted).sum())
        return f"{wrong} of {wanted.size} differ" if wrong else ""
    if (np.isnan(got) & np.isnan(wanted)).any():
        got, wanted = (np.where(np.isnan(a) & np.isnan(b), 0, a) for a, b in ((got, wanted), (wanted, got)))
    largest = max(float(np.abs(wanted).max(initial=0)), 1e-6)
    error = float(np.abs(got - wanted).max(initial=0)) / largest
    return f"off by {error:.2g} of the largest" if not error <= tolerance else ""


def fed_and_wanted(content: bytes) -> tuple[Array, Array]:
    """Inputs, and what LiteRT's reference kernels answer to them."""
    block, rng = read_program(content).subgraphs[0], np.random.default_rng(3)
    engine, wanted = litert(content, "litert"), []
    feeds = np.array([made_up(block.inputs[0], rng) for _ in range(RUNS)])
    for feed in feeds:
        engine.set_tensor(engine.get_input_details()[0]["index"], feed)
        engine.invoke()
        wanted.append(engine.get_tensor(engine.get_output_details()[0]["index"]).copy())
    return feeds, np.array(wanted)
