"""The job of `thinflow fit`: a model opened, judged on a processor, and what would make it smaller."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thinflow.errors import ThinflowError
from thinflow.fit.footprint import Footprint, footprint
from thinflow.fit.judge import Place, fitted, judge
from thinflow.fit.micro import MicroFit, micro_fit
from thinflow.fit.report import Fit, Remedy
from thinflow.load.graphs import Source
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.sound import hears, know_rate
from thinflow.optimize.c_source import c_source
from thinflow.optimize.quantize_job import QuantizeOptions, quantize
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Program
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Progress, Shapes

_STEPS = 3
_LEAST_SIDE = 16
"""Pixels: pictures below are no pictures any more."""


@dataclass(frozen=True)
class FitOptions:
    """How to judge.

    Attributes:
        place: where it is to run.
        compile: whether to ask the processor's compiler.
        remedies: whether to look for what would make it smaller.
        progress: called with (done, total, label).
        sound, stream: as in the options of C.
        sample_rate: hertz, where the model takes it as an input.
    """

    place: Place
    compile: bool = True
    remedies: bool = True
    progress: Progress | None = None
    sound: str = "float"
    stream: bool = False
    sample_rate: int | None = None


def fit(source: Source, shapes: Shapes | None, names: dict[str, Any], options: FitOptions) -> Fit:
    """The report on a model; see `thinflow.fit`."""
    tell = options.progress or _silent
    tell(0, _STEPS, "open")
    model = OpenedForC(source, shapes, names, options)
    tell(1, _STEPS, "plan and compile")
    found = judge(model.make, options.place, model=model.path, compile=options.compile)
    found = replace(
        found,
        micro=model.micro(options.place.cpu),
        notes=(*model.notes, *found.notes, *_folded(model, found)),
    )
    if not options.remedies:
        return found
    return replace(found, remedies=tuple(_remedies(model, found, options)))


def _silent(_done: int, _total: int, _label: str) -> None:
    pass


class OpenedForC:
    """A model as what becomes C, and how it was opened.

    Args:
        source: path or Graph.
        shapes, names: how to open it.
        options: how sound comes in, and whether as a stream.

    Raises:
        UnsupportedOp: C has no form of some operators.
    """

    def __init__(
        self, source: Source, shapes: Shapes | None, names: dict[str, Any], options: FitOptions
    ) -> None:
        self.source, self.shapes, self.names, self.options = source, shapes, names, options
        self.way, _ = c_source(
            *(source, shapes, names, options.sample_rate), lambda it: network(it.program(), Options())
        )
        self.path, self.notes = self.way.path, self.way.notes
        self._made: dict[Options, Network] = {}

    def make(self, options: Options) -> Network:
        """The network, with sound and as a stream as was asked for."""
        return self.whole(replace(options, sound=self.options.sound, stream=self.options.stream))

    def whole(self, options: Options) -> Network:
        """The network that hears all of its window in each run; made once for the same options."""
        if options not in self._made:
            self._made[options] = network(self.way.program(), options)
        return self._made[options]

    def micro(self, cpu: str) -> MicroFit:
        """What TFLite Micro would take."""
        # By this rounding no channels are folded, which it does not either.
        plain = self.whole(Options(rounding="xnnpack"))
        macs = {layer.operator: layer.macs for layer in plain.layers}
        path = self.path if self.way.is_file_itself else ""
        size = os.path.getsize(path) if os.path.isfile(path) else len(to_bytes(self.way.program()))
        return micro_fit(Program([plain.block]), size, macs, cpu)

    def picture(self) -> tuple[str, tuple[int, ...]] | None:
        """Name and shape of the one input that is a picture; None if there is none."""
        inputs = self.way.graph.inputs
        if len(inputs) != 1 or self.way.is_file_itself:
            return None
        shape = tuple(n or 1 for n in inputs[0].spec.shape or ())
        is_picture = len(shape) == 4 and min(shape[1:3]) > _LEAST_SIDE
        return (inputs[0].name, shape) if is_picture else None


def _folded(model: OpenedForC, found: Fit) -> Sequence[str]:
    """What folding channels that are constant has saved."""
    plain = model.make(Options(cpu=found.cpu, rounding="xnnpack"))
    before = plain.macs
    if before <= found.footprint.macs:
        return ()
    return (
        f"channels that are the same whatever the input are folded away: {found.footprint.macs:,}"
        f" multiplications of {before:,}; TFLite Micro computes them all",
    )


def _remedies(model: OpenedForC, found: Fit, options: FitOptions) -> list[Remedy]:
    """What would make it smaller, each made and measured."""
    tried: dict[str, Callable[[], Remedy | None]] = {
        "try eight bits": lambda: _in_int8(model, found, options),
        "try samples of 16 bits": lambda: _heard_in_int16(model, found, options),
        "try smaller pictures": lambda: _smaller_picture(model, found, options),
    }
    found_ones = []
    tell = options.progress or _silent
    for label, attempt in tried.items():
        tell(2, _STEPS, label)
        # What cannot be made of this model is no remedy of it.
        try:
            remedy = attempt()
        except ThinflowError:
            continue
        if remedy is not None:
            found_ones.append(remedy)
    return found_ones


def _in_int8(model: OpenedForC, found: Fit, options: FitOptions) -> Remedy | None:
    """Eight bits instead of floats."""
    if found.kind != "float":
        return None
    # Made-up ranges change no size, and the samples for real ones are not asked for here.
    recipe = Recipe(input_type="int8", output_type="int8")
    chosen = QuantizeOptions(
        recipe=recipe, effort="none", samples=2, names={"shapes": model.shapes, **model.names}
    )
    content = quantize(model.source, chosen).content

    def make(asked: Options) -> Network:
        program = read_program(content)
        know_rate(program, options.sample_rate)
        return network(program, replace(asked, sound=options.sound, stream=options.stream))

    return _remedy("int8", _within(make, found, options), _quantize_command(model))


def _heard_in_int16(model: OpenedForC, found: Fit, options: FitOptions) -> Remedy | None:
    """Samples as a microphone gives them, in half the bytes, with the same answers."""
    plain = model.make(Options(cpu=found.cpu))
    if options.sound != "float" or not any(map(hears, plain.block.operators)):
        return None
    name = os.path.basename(model.path) or "MODEL"

    def make(asked: Options) -> Network:
        return model.whole(replace(asked, sound="int16", stream=options.stream))

    made = _within(make, found, options)
    return _remedy("samples of 16 bits, as microphones give them", made, f"thinflow fit {name} --sound int16")


def _within(make: Callable[[Options], Network], found: Fit, options: FitOptions) -> Footprint:
    """What a network takes, a few rows at a time where the memory asks for it."""
    return fitted(make, found.cpu, found.ram_limit, compile=options.compile).footprint


def _quantize_command(model: OpenedForC) -> str:
    name = os.path.basename(model.path) or "MODEL"
    stem = name.split(".")[0]
    flags = "--calibration SAMPLES --input-type int8 --output-type int8"
    return f"thinflow quantize {name} {stem}_int8.tflite {flags}"


def _smaller_picture(model: OpenedForC, found: Fit, options: FitOptions) -> Remedy | None:
    """A picture of fewer pixels, as small as the memory asks for."""
    picture = model.picture()
    if picture is None or (found.fits and found.misses == [] and found.ram_limit is not None):
        return None
    name, shape = picture
    part = 0.5
    if found.ram_limit is not None and found.ram_bytes > found.ram_limit:
        part = min(0.9, (found.ram_limit / found.ram_bytes) ** 0.5)
    # Multiples of 8: networks halve the sides three times and more.
    sides = [max(_LEAST_SIDE, int(n * part) // 8 * 8) for n in shape[1:3]]
    smaller = (1, *sides, shape[3])
    it = OpenedForC(model.source, {**dict(model.shapes or {}), name: smaller}, model.names, options)
    what = f"pictures of {sides[0]}x{sides[1]} instead of {shape[1]}x{shape[2]}, trained or tested for"
    made = footprint(it.make(Options(cpu=found.cpu)), compile=options.compile)
    text = ",".join(map(str, smaller))
    file = os.path.basename(model.path) or "MODEL"
    return _remedy(what, made, f"thinflow fit {file} --shape {name}={text}")


def _remedy(what: str, it: Footprint, command: str) -> Remedy:
    return Remedy(what, it.flash_bytes, it.ram_bytes + it.stack_bytes, it.instructions, command)
