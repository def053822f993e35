"""Networks written as C: compiled and run beside LiteRT first, where there is a compiler."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.engines._c_library import Library, compiler
from thinflow.engines._c_processor import processors_here
from thinflow.errors import VerificationError
from thinflow.lower.c.convert import Network, layer_of, network
from thinflow.lower.c.layouts import arranged
from thinflow.lower.c.options import Options
from thinflow.lower.c.plan import plan
from thinflow.lower.c.processors import PROCESSORS
from thinflow.lower.c.sample import Sample
from thinflow.lower.c.sound import hears
from thinflow.lower.c.target import write_files
from thinflow.lower.c.write import Writer, stem
from thinflow.optimize.c_layer_proof import side_by_side
from thinflow.optimize.stream_proof import prove_stream, runs_until_whole, sample_of_stream
from thinflow.tflite.reader import read_program
from thinflow.tflite.runtime import allocate, interpreter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from thinflow.tflite.model import Program, Tensor
    from thinflow.typing import Array, FilePath

_RUNS = 3
_TOLERANCE = 1e-4
"""Of the largest number of an output of floats: rounding adds up from layer to layer."""
_STEP_TOLERANCE = 1e-2
"""The same of one layer whose inputs become bytes: now and then one is a step of
255 off, by its last bit."""


@dataclass
class CFiles:
    """What was written and proved.

    Attributes:
        size_bytes: of all files.
        proof: what they were compared with, and what came of that.
        notes: what they take on a device.
    """

    size_bytes: int
    proof: str
    notes: list[str]


def convert_to_c(program: Program, path: FilePath, options: Options, *, verify: bool = True) -> CFiles:
    """Write a program as NAME.c, NAME.h and NAME_weights.c, proven if there is a compiler.

    The files hold a sample and LiteRT's answer to it, for a test on the device.

    Args:
        program: what runs is its first subgraph.
        path: of NAME.c.
        options: see there.
        verify: whether to compile it and run it beside LiteRT.

    Raises:
        UnsupportedOp: operators have no form in C; nothing is written.
        VerificationError: it gives other answers; nothing is written.
        WriteError: the files cannot be written.
    """
    from thinflow.tflite.writer import to_bytes

    # Before the sizes are settled, which changes the program: LiteRT is given what the file says.
    content = to_bytes(program)
    made = network(program, options)
    name = stem(path)
    # The schedule that was found, and no other one for what stands in for the processor here.
    scheduled = replace(options, ram=None, bands=made.bands)
    # Of a stream LiteRT knows nothing: the window that it is equal to is compared, and the stream with that.
    plain = replace(scheduled, stream=False, bands=()) if options.stream else scheduled
    whole = network(read_program(content), plain) if options.stream else made
    samples = _answers(content, whole, options) if verify else []
    sample = samples[0] if samples else None
    if options.stream and sample is not None:
        sample = sample_of_stream(made, whole, sample)
    files = Writer(made, name, sample).files()
    if not verify:
        proof = "not run"
    elif _rounds_midway(whole):
        proof = _proof_by_layers(whole, plain)
    else:
        proof = _proof([(read_program(content), samples)], plain) + _without_numbers(whole, samples)
    if verify and options.stream and compiler() is not None:
        proof = f"{proof}; {_stream_proof(content, scheduled)}"
    if verify and made.bands and compiler() is not None:
        proof = f"{proof}; {_bands_proof(content, scheduled)}"
    size = write_files(arranged(files, name, options.layout), path)
    # RAM is what a microcontroller has least of.
    notes = [
        f"{made.weights_bytes:,} bytes of weights, {made.plan.arena_bytes:,} bytes of memory while it runs,"
        f" {made.macs:,} multiplications; {options.rounding} rounding"
    ]
    if made.bands:
        operators = sum(one.end - one.start for one in made.bands)
        notes.append(
            f"{operators} of {len(made.block.operators)} layers run a few rows at a time: "
            f"{_whole_arena(made):,} bytes of memory without --ram"
        )
    if options.stream:
        notes.append(
            f"a stream: {made.macs:,} multiplications a run, {whole.macs:,} for a window; answers hold from"
            f" run {runs_until_whole(made, whole)} on"
        )
    return CFiles(size, proof, notes)


def _whole_arena(made: Network) -> int:
    """The arena of a network whose layers run whole."""
    layers = [layer_of(operator, made.options) for operator in made.block.operators]
    return plan(made.block, layers).arena_bytes


def _bands_proof(content: bytes, options: Options) -> str:
    """How a network whose layers run a few rows at a time compares with one whose layers run whole.

    Raises:
        VerificationError: it answers otherwise.
    """
    run = _run_here(options)
    made, whole = (network(read_program(content), replace(run, bands=bands)) for bands in (options.bands, ()))
    in_bands, plain = (Library(one, Writer(one, "network").files(), "network") for one in (made, whole))
    rng = np.random.default_rng(0)
    for _ in range(_RUNS):
        feeds = [_made_up(tensor, rng) for tensor in made.block.inputs]
        answers = zip(made.block.outputs, in_bands.run(feeds), plain.run(feeds), strict=True)
        for tensor, got, wanted in answers:
            if got.tobytes() != wanted.tobytes():
                raise VerificationError(
                    f"in little memory the C gives other answers: '{tensor.name}' differs",
                    hint="please report this with the model; without --ram its layers run whole",
                )
    return "in bands of rows every bit is as with whole layers"


def _run_here(options: Options) -> Options:
    """The options of a network that this machine can run: another processor's kernels are portable ones."""
    is_here = PROCESSORS[options.cpu].is_portable or options.cpu in processors_here()
    return options if is_here else replace(options, cpu="generic")


def _stream_proof(content: bytes, options: Options) -> str:
    """How a stream compares with its window; of another processor's kernels, in portable C.

    Raises:
        VerificationError: it answers otherwise.
    """
    run = _run_here(options)
    bands = (options.bands, ())
    made, whole = (
        network(read_program(content), replace(run, stream=s, bands=b))
        for s, b in zip((True, False), bands, strict=True)
    )
    return prove_stream(made, whole, _made_up)


def _answers(content: bytes, made: Network, options: Options) -> list[Sample]:
    """What LiteRT answers to made-up inputs, by the kernels whose rounding is asked for."""
    from ai_edge_litert.interpreter import OpResolverType

    kinds = [OpResolverType.BUILTIN_REF if options.rounding == "litert" else OpResolverType.BUILTIN]
    # The reference kernels lack some operators; where nothing is rounded to codes, others tell as well.
    if not any(t.quantization is not None for o in made.block.operators for t in o.outputs):
        kinds.append(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    for kind in kinds:
        engine = _opened(content, made, kind)
        if engine is not None:
            break
    else:
        return []
    # Seeded: the same model makes the same files.
    rng = np.random.default_rng(0)
    found = []
    for _ in range(_RUNS):
        feeds = [_made_up(tensor, rng) for tensor in made.block.inputs]
        for details, value, tensor in zip(engine.get_input_details(), feeds, made.block.inputs, strict=True):
            engine.set_tensor(details["index"], _as_fed(value, tensor, details["dtype"]))
        engine.invoke()
        found.append(Sample(feeds, [engine.get_tensor(d["index"]) for d in engine.get_output_details()]))
    return found


def _without_numbers(made: Network, samples: list[Sample]) -> str:
    """What to add to a proof whose samples have answers that are NaN in places, which proves little there."""
    outputs = [tensor.name for tensor in made.block.outputs]
    found = {
        name
        for sample in samples
        for name, value in zip(outputs, sample.outputs, strict=True)
        if value.dtype.kind == "f" and np.isnan(value).any()
    }
    named = ", ".join(f"'{name}'" for name in outputs if name in found)
    return f"; both give NaN in {named}, where equal says nothing" if named else ""


def _as_fed(value: Array, tensor: Tensor, dtype: Any) -> Array:
    """What LiteRT is fed where the C takes codes: the numbers they stand for."""
    # The other way round it is a code already, as the file has it.
    if tensor.quantization is None or np.dtype(dtype).kind != "f":
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


def _made_up(tensor: Tensor, rng: np.random.Generator) -> Array:
    shape, dtype = tuple(n or 1 for n in tensor.shape or ()), tensor.dtype.numpy()
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    # All codes there are: no layer may be wrong in a corner.
    limits = np.iinfo(dtype)
    if tensor.quantization is not None and dtype.itemsize == 2:
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    # Numbers of more bits count or name something: small ones exist.
    high = limits.max + 1 if dtype.itemsize == 1 else 2
    return rng.integers(limits.min if dtype.itemsize == 1 else 0, high, shape).astype(dtype)


def _proof(
    parts: Iterable[tuple[Program, list[Sample]]], options: Options, tolerance: float = _TOLERANCE
) -> str:
    """How the compiled network compares; one whose kernels are another processor's, by those of portable C.

    Args:
        parts: programs that make up the network, each with what LiteRT answers to what.

    Raises:
        VerificationError: it gives other answers.
    """
    if compiler() is None:
        return "not run: there is no C compiler here"
    run = _run_here(options)
    is_here = run is options
    worst, count, silent = 0.0, 0, 0
    for program, samples in parts:
        if samples:
            worst = max(worst, _worst(program, run, samples, tolerance))
            count = len(samples)
        else:
            silent += 1
    if not count:
        return "not run: LiteRT does not run the model, so that there is nothing to compare with"
    told = f"every number within {worst:.1g} of the largest" if worst else "every number is equal"
    how = "compiled" if is_here else f"not run on {options.cpu}, but its layers in portable C: compiled"
    left = f"; {silent} parts were not compared, as LiteRT does not run them" if silent else ""
    return f"{how} and run beside LiteRT on {count} made-up inputs: {told}{left}"


def _worst(program: Program, options: Options, samples: list[Sample], tolerance: float) -> float:
    """The largest difference of any output to what LiteRT answered.

    Raises:
        VerificationError: it is over the tolerance.
    """
    # As it will be written, memory shared and all.
    made = network(program, _heard(program, options))
    library = Library(made, Writer(made, "network").files(), "network")
    worst = 0.0
    for sample in samples:
        answers = library.run(sample.inputs)
        for tensor, got, wanted in zip(made.block.outputs, answers, sample.outputs, strict=True):
            error = difference(got, wanted)
            if not error <= tolerance:
                raise VerificationError(
                    f"the C gives other answers than LiteRT: '{tensor.name}' is off by {error:.2g} of the"
                    " largest",
                    hint="please report this with the model; --no-verify writes it all the same",
                )
            worst = max(worst, error)
    return worst


def _proof_by_layers(made: Network, options: Options) -> str:
    """As `_proof`, of each layer by itself.

    Raises:
        VerificationError: one gives other answers.
    """
    alone = replace(options, layout="files", bands=())
    found = _proof(_parts(made, alone), alone, _STEP_TOLERANCE)
    return f"layer by layer, as reals are rounded to integers on the way: {found}"


def _parts(made: Network, options: Options) -> Iterator[tuple[Program, list[Sample]]]:
    """The layers beside each other, with LiteRT's answers."""
    from thinflow.tflite.writer import to_bytes

    for program, _ in side_by_side(made.block):
        content = to_bytes(program)
        here = _heard(program, options)
        yield program, _answers(content, network(program, here), here)


def _heard(program: Program, options: Options) -> Options:
    """The options of a part of a network, in most of which no sound comes in."""
    return options if any(map(hears, program.subgraphs[0].operators)) else replace(options, sound="float")


def _rounds_midway(made: Network) -> bool:
    """Whether reals that are computed become bytes, where a hair decides which, and the next layers go on."""
    return any(
        call.kernel == "quantize_rows"
        or (call.kernel == "quantize" and layer.operator.inputs[0] not in made.block.inputs)
        for layer in made.layers
        for call in layer.calls
    )


def difference(got: Array, wanted: Array) -> float:
    """The largest difference of floats as a part of the largest of them; of integers, whether any differs."""
    if wanted.dtype.kind != "f":
        return float((got != wanted).any())
    # Layers by themselves are given what never reaches them, such as a root of negative numbers.
    other = ~((got == wanted) | (np.isnan(got) & np.isnan(wanted)))
    if not other.any():
        return 0.0
    if not (np.isfinite(got[other]) & np.isfinite(wanted[other])).all():
        return np.inf
    largest = float(np.abs(wanted[np.isfinite(wanted)]).max())
    return float(np.abs(got[other] - wanted[other]).max() / max(largest, 1e-6))
