"""Networks written as C: compiled and run beside LiteRT first, where there is a compiler."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from thinflow.engines._c_library import Library, compiler
from thinflow.engines._c_processor import processors_here
from thinflow.errors import VerificationError
from thinflow.fit.judge import fitted
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.layouts import arranged
from thinflow.lower.c.options import Options
from thinflow.lower.c.processors import PROCESSORS
from thinflow.lower.c.sample import INTERPRETER, LITERT, Sample
from thinflow.lower.c.sound import hears
from thinflow.lower.c.target import write_files
from thinflow.lower.c.write import Writer, stem
from thinflow.optimize.c_answers import answers, made_up, self_test
from thinflow.optimize.c_layer_proof import left_out, side_by_side
from thinflow.optimize.stream_proof import prove_stream, runs_until_whole, sample_of_stream
from thinflow.tflite.model import Operator, Program, Subgraph
from thinflow.tflite.reader import read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
        network: what they are.
        sample: the one in them; None if LiteRT was not asked, or does not run the model.
    """

    size_bytes: int
    proof: str
    notes: list[str]
    network: Network
    sample: Sample | None = None


def convert_to_c(
    program: Program,
    path: FilePath,
    options: Options,
    *,
    verify: bool = True,
    feed: Callable[[Network], list[Array]] | None = None,
) -> CFiles:
    """Write a program as NAME.c, NAME.h and NAME_weights.c, proven if there is a compiler.

    The files hold a sample and LiteRT's answer to it, for a test on the device.

    Args:
        program: what runs is its first subgraph.
        path: of NAME.c.
        options: see there.
        verify: whether to compile it and run it beside LiteRT.
        feed: the sample's arrays for the inputs of a network; default: made up.

    Raises:
        UnsupportedOp: operators have no form in C; nothing is written.
        VerificationError: it gives other answers; nothing is written.
        WriteError: the files cannot be written.
    """
    networks = _Networks(program, options)
    made, scheduled = networks.made, networks.scheduled
    name = stem(path)
    # Of a stream LiteRT knows nothing: the window that it is equal to is compared, and the stream with that.
    plain = replace(scheduled, stream=False, bands=()) if options.stream else scheduled
    whole = networks.of(plain)
    first = None if feed is None or options.stream else feed(whole)
    samples = answers(networks.content, whole, first) if verify else []
    sample = samples[0] if samples else None
    if options.stream and sample is not None:
        sample = sample_of_stream(made, whole, sample)
    stored = sample if options.stream else self_test(made, samples, first)
    files = Writer(made, name, stored).files()
    proof = _proofs(networks, plain, samples) if verify else "not run"
    size = write_files(arranged(files, name, options.layout), path)
    # RAM is what a microcontroller has least of.
    notes = [
        f"{made.weights_bytes:,} bytes of weights, {made.plan.arena_bytes:,} bytes of memory while it runs,"
        f" {made.macs:,} multiplications; {options.rounding} rounding"
    ]
    if made.bands:
        operators = sum(one.end - one.start for one in made.bands)
        without = networks.of(replace(scheduled, bands=())).plan.arena_bytes
        notes.append(
            f"{operators} of {len(made.block.operators)} layers run a few rows at a time: "
            f"{without:,} bytes of memory without --ram"
        )
    if options.stream:
        notes.append(
            f"a stream: {made.macs:,} multiplications a run, {whole.macs:,} for a window; answers hold from"
            f" run {runs_until_whole(made, whole)} on"
        )
    return CFiles(size, proof, notes, made, sample)


class _Networks:
    """The networks of one program by their options, each made once.

    Attributes:
        content: the program as a file, as it was before sizes are settled, which changes it: LiteRT is given
            what the file says.
        made: the one that was asked for.
        scheduled: its options, with the schedule that was found, and no other one for what stands in for the
            processor here.
    """

    def __init__(self, program: Program, options: Options) -> None:
        from thinflow.tflite.writer import to_bytes

        self.content = to_bytes(program)
        self._known: dict[Options, Network] = {}
        self.made = network(program, options) if options.ram is None else self._within(options)
        self.scheduled = replace(options, ram=None, stack=0, bands=self.made.bands)
        self._known[self.scheduled] = self.made

    def _within(self, asked: Options) -> Network:
        """The network in the memory that it may take, the stack that its compiler tells among it.

        Raises:
            TooLittleMemory: there is no schedule in so little.
        """

        def make(options: Options) -> Network:
            within = replace(asked, ram=options.ram, stack=options.stack)
            # Without a limit its layers run whole, as others are compared with.
            return self.of(within if options.ram is not None else replace(within, bands=()))

        found = fitted(make, asked.cpu, asked.ram)
        if found.refusal is not None:
            raise found.refusal
        return found.network

    def of(self, options: Options) -> Network:
        """The network with these options."""
        if options not in self._known:
            self._known[options] = network(read_program(self.content), options)
        return self._known[options]

    def here(self, options: Options) -> Network:
        """The one that this machine can run in its place, which may be itself."""
        return self.of(_run_here(options))


def _proofs(networks: _Networks, plain: Options, samples: list[Sample]) -> str:
    """What was compared with what, and what came of that.

    Args:
        networks: of the program.
        plain: the options of the one that is compared with LiteRT.
        samples: what LiteRT answered to what.

    Raises:
        VerificationError: something answers otherwise.
    """
    whole, asked = networks.of(plain), networks.scheduled
    if _rounds_midway(whole) or not samples:
        proofs = [_proof_by_layers(networks, plain, samples)]
    else:
        compared = _proof([(networks.here(plain), samples)], plain)
        proofs = [compared + _without_numbers(whole, samples)]
    if compiler() is not None:
        where = "" if _run_here(asked) is asked else ", in portable C"
        if asked.stream:
            proofs.append(prove_stream(networks.here(asked), networks.here(plain), made_up) + where)
        if asked.bands:
            proofs.append(_bands_proof(networks, asked) + where)
    return "; ".join(proofs)


def _bands_proof(networks: _Networks, options: Options) -> str:
    """How a network whose layers run a few rows at a time compares with one whose layers run whole.

    Raises:
        VerificationError: it answers otherwise.
    """
    made, whole = (networks.here(replace(options, bands=bands)) for bands in (options.bands, ()))
    in_bands, plain = (Library(one, Writer(one, "network").files(), "network") for one in (made, whole))
    rng = np.random.default_rng(0)
    for _ in range(_RUNS):
        feeds = [made_up(tensor, rng) for tensor in made.block.inputs]
        answers = zip(made.outputs, in_bands.run(feeds), plain.run(feeds), strict=True)
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


def _without_numbers(made: Network, samples: list[Sample]) -> str:
    """What to add to a proof whose samples have answers that are NaN in places, which proves little there."""
    outputs = [tensor.name for tensor in made.outputs]
    found = {
        name
        for sample in samples
        for name, value in zip(outputs, sample.outputs, strict=True)
        if value.dtype.kind == "f" and np.isnan(value).any()
    }
    named = ", ".join(f"'{name}'" for name in outputs if name in found)
    return f"; both give NaN in {named}, where equal says nothing" if named else ""


def _proof(
    parts: Iterable[tuple[Network, list[Sample]]], options: Options, tolerance: float = _TOLERANCE
) -> str:
    """How the compiled network compares; one whose kernels are another processor's, by those of portable C.

    Args:
        parts: networks that make it up and can run here, each with what LiteRT answers to what.
        options: what was asked for.
        tolerance: of the largest number of an output of floats.

    Raises:
        VerificationError: it gives other answers.
    """
    if compiler() is None:
        return "not run: there is no C compiler here"
    worst, count, silent, judges = 0.0, 0, Counter[str](), Counter[str]()
    for made, samples in parts:
        if samples:
            worst = max(worst, _worst(made, samples, tolerance))
            count = len(samples)
            judges[samples[0].by] += len(made.block.operators)
        else:
            silent.update(o.custom_code or o.code for o in made.block.operators)
    if not count:
        return "not run: LiteRT does not run the model, so that there is nothing to compare with"
    told = f"every number within {worst:.1g} of the largest" if worst else "every number is equal"
    how = (
        "compiled"
        if _run_here(options) is options
        else f"not run on {options.cpu}, but its layers in portable C: compiled"
    )
    named = ", ".join(f"{n} {code}" for code, n in silent.items())
    left = f"; not compared, as LiteRT does not run them: {named}" if silent else ""
    beside = " and ".join(sorted(judges, key=lambda name: name != LITERT))
    why = ", as LiteRT does not run " + ("all" if LITERT in judges else "it") if INTERPRETER in judges else ""
    return f"{how} and run beside {beside} on {count} made-up inputs{why}: {told}{left}"


def _worst(made: Network, samples: list[Sample], tolerance: float) -> float:
    """The largest difference of any output to what LiteRT answered.

    Raises:
        VerificationError: it is over the tolerance.
    """
    # As it will be written, memory shared and all.
    library = Library(made, Writer(made, "network").files(), "network")
    worst = 0.0
    for sample in samples:
        answers = library.run(sample.inputs)
        for tensor, got, wanted in zip(made.outputs, answers, sample.outputs, strict=True):
            error = difference(got, wanted)
            if not error <= tolerance:
                raise VerificationError(
                    f"the C gives other answers than LiteRT: '{tensor.name}' is off by {error:.2g} of the"
                    " largest",
                    hint="please report this with the model; --no-verify writes it all the same",
                )
            worst = max(worst, error)
    return worst


def _proof_by_layers(networks: _Networks, options: Options, samples: list[Sample]) -> str:
    """As `_proof`, of each layer by itself; what cannot be by itself is named, and the whole is compared too.

    Raises:
        VerificationError: one gives other answers.
    """
    block = networks.of(options).block
    alone = replace(options, layout="files", bands=())
    found = _proof(_parts(block, _run_here(alone)), alone, _STEP_TOLERANCE)
    if not samples and found.startswith("not run"):
        return found
    midway = "reals are rounded to integers on the way"
    why = midway if _rounds_midway(networks.of(options)) else "LiteRT does not run the whole so"
    told = f"layer by layer, as {why}: {found}"
    left = left_out(block)
    if not left or not samples or compiler() is None:
        return f"{told}; not by themselves: {left}" if left else told
    made = networks.here(options)
    library = Library(made, Writer(made, "network").files(), "network")
    errors = [map(difference, library.run(s.inputs), s.outputs) for s in samples]
    equal = sum(max(error, default=0.0) <= _TOLERANCE for error in errors)
    return f"{told}; not by themselves: {left}; as a whole {equal} of {len(samples)} answers are LiteRT's"


def _parts(block: Subgraph, options: Options) -> Iterator[tuple[Network, list[Sample]]]:
    """The layers beside each other, with LiteRT's answers."""
    from thinflow.tflite.writer import to_bytes

    waiting = [to_bytes(part.program) for part in side_by_side(block)]
    while waiting:
        content = waiting.pop(0)
        program = read_program(content)
        made = network(program, _heard(program, options))
        samples = answers(content, made)
        halves = [] if samples else [*_halves(read_program(content).subgraphs[0])]
        # An operator that LiteRT lacks is no reason not to compare the others.
        waiting[:0] = [to_bytes(Program([half])) for half in halves]
        if not halves:
            yield made, samples


def _halves(block: Subgraph) -> Iterator[Subgraph]:
    """Two blocks with half of the operators each; none of a single one."""
    middle = len(block.operators) // 2
    for operators in (block.operators[:middle], block.operators[middle:]) if middle else ():
        read, made = (
            dict.fromkeys(t for o in operators for t in tensors(o))
            for tensors in (Operator.reads, attrgetter("outputs"))
        )
        given = [t for t in read if t not in made and not t.is_constant and not t.is_variable]
        yield Subgraph(given, [t for t in made if t not in read], operators)


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
