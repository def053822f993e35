"""Layers that integers slow down where the model runs, in float: found by profiles, and kept by the clock.

Which kernels are fast differs from processor to processor: a unit that multiplies matrices of int8 takes
longer for small layers than float kernels do, and without dot products of bytes few layers gain much. No
table knows all of them. Where a smaller model turns out slower than the float one, profiles of both tell the
time of each operator. What is cheapest, crossings counted, is a cut as in `crossings`; what comes of it is
timed in turns with both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

from thinflow.bench.profile_model import Profile
from thinflow.bench.report import BenchmarkReport
from thinflow.device.base import DeviceLost
from thinflow.errors import EngineCrashed, ThinflowError
from thinflow.optimize.climb import EFFORTS
from thinflow.optimize.ladder.ground import Ground
from thinflow.optimize.ladder.measured import Latency
from thinflow.optimize.layer_noise import layer_errors
from thinflow.optimize.maker import M, ModelMaker, ModelPair, Q
from thinflow.optimize.on_device import race
from thinflow.optimize.rungs import with_floats
from thinflow.optimize.trial_runs import first_sample, profiled
from thinflow.program.amounts import bytes_text
from thinflow.program.model import Operator
from thinflow.quantize.crossings import MARGIN, faster_in_float
from thinflow.quantize.kernels import Cost, elements, is_float
from thinflow.quantize.macs import kernels_of, main_block
from thinflow.quantize.recipe import Quantized, Recipe, names_of

# Medians of one model taken twice differ by up to 2 % (`ladder.choice`), and by more while others work.
SLOWER, FASTER = 1.05, 1.05
"""Times as long as float that a smaller model takes, before anything is looked for; and times as fast as
before that it has to be with layers in float: surely, by the nearer end of the interval."""
_MARGINS = (MARGIN, 4 * MARGIN)
"""How many times what they are taken to cost crossings count: boldly, and cautiously."""
_LOST_DB = 2.0
"""Noise that layers in float may add, as for what is tried in a climb: they have less of their own, but what
follows them is rounded elsewhere."""
# A quarter of the time for measuring tells whether there is anything to look for.
_GLANCE = 0.25
_CONVERSIONS = frozenset(("QUANTIZE", "DEQUANTIZE", "QuantizeLinear", "DequantizeLinear"))


def quicker(ground: Ground[M, Q], pair: ModelPair[M, Q]) -> ModelPair[M, Q]:
    """A pair whose smaller model has layers in float where these make it faster; the same if nothing does.

    Raises:
        DeviceLost: the device is not there any more.
    """
    if not _is_asked(ground, pair.quantized.way.recipe):
        return pair
    try:
        with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:
            return _Islands(ground, pair, Path(folder)).best()
    except (DeviceLost, EngineCrashed):
        raise
    # What cannot be timed is not made faster; the model is there, and ran before.
    except ThinflowError:
        return pair


def is_slower(latency: Latency | None) -> bool:
    """True if a model surely takes longer than the float one, beside which it was timed."""
    return latency is not None and latency.low > SLOWER


def _is_asked(ground: Ground[Any, Any], recipe: Recipe) -> bool:
    """True if times are measured and may decide: a recipe of a file is repeated as it is."""
    options = ground.job.options
    # Where it is made need not be where it will run, and a clock tells nothing of C on another processor: one
    # command makes one model on every machine, unless somebody says that this is the one that counts.
    if ground.target or (options.device is None and options.max_latency is None):
        return False
    levels = list(EFFORTS)
    is_tried = levels.index(options.opened.effort) >= levels.index("default")
    has_profiles = ground.make("none").suffix in (".tflite", ".onnx")
    return ground.is_timed and is_tried and has_profiles and recipe.scheme == "int8" and recipe.leaves("slow")


@dataclass(frozen=True)
class _Tried(Generic[Q]):
    """A smaller model with operators in float, and its file.

    Attributes:
        kinds: of the operators that are slower in integers, with how many of each.
        beside: number of others, between which and these there were crossings else.
    """

    model: Q
    kinds: str
    beside: int
    path: Path


class _Islands(Generic[M, Q]):
    """Smaller models of one float model, timed in turns."""

    def __init__(self, ground: Ground[M, Q], pair: ModelPair[M, Q], folder: Path) -> None:
        self._ground, self._pair, self._folder = ground, pair, folder
        self._maker: ModelMaker[M, Q] = ground.make("none")
        self._plain, self._before = self._file("float", pair.plain), self._file("before", pair.quantized)

    def best(self) -> ModelPair[M, Q]:
        """The pair with what is fastest."""
        seconds = self._ground.job.options.seconds
        glance = self._race([self._before, self._plain], _GLANCE * seconds)
        if not glance.ratio(self._before, self._plain).interval.low > SLOWER:
            return self._pair
        profiles = profiled(
            self._ground.job, glance, [self._plain, self._before], self._feeds([self._plain, self._before])
        )
        found = [one.profile for one in profiles if one.profile is not None]
        tried = [*self._candidates(*found)] if len(found) == 2 else []
        if not tried:
            return self._pair
        timed = self._race([self._plain, self._before, *(one.path for one in tried)], seconds)
        chosen = min(tried, key=lambda one: timed.row(one.path).median_ms)
        if not timed.ratio(self._before, chosen.path).interval.low > FASTER:
            return self._pair
        return self._made(chosen, timed)

    def _candidates(self, plain: Profile, smaller: Profile) -> Iterator[_Tried[Q]]:
        """Models with layers in float that should be faster."""
        quantized = self._pair.quantized.quantized
        made = _Times(quantized.source, quantized, plain, smaller)
        seen: list[Sequence[Operator[Any]]] = []
        for number, margin in enumerate(_MARGINS):
            layers = made.faster(margin)
            recipe = with_floats(self._pair.quantized.way.recipe, quantized.source, layers)
            if not layers or layers in seen or recipe is None:
                continue
            seen.append(layers)
            model = self._maker.quantize(self._ground.model, self._ground.calibration, recipe)
            slow = [o.code for o in layers if made.is_slower(o)]
            kinds = " and ".join(f"{slow.count(code)} {code}" for code in dict.fromkeys(slow))
            yield _Tried(model, kinds, len(layers) - len(slow), self._file(f"tried{number}", model))

    def _made(self, chosen: _Tried[Q], timed: BenchmarkReport) -> ModelPair[M, Q]:
        """The pair with a model that was tried, judged, and what is to be said of it."""
        ground, before = self._ground, self._pair.quantized
        pair = self._maker.judged(
            *(ground.model, chosen.model, ground.original, ground.evaluation),
            progress=ground.job.options.progress,
            end_to_end=ground.end_to_end,
        )
        name = self._maker.names[1]
        # Weights that were rounded for rounded inputs may be worse for others.
        if not pair.qualities[name].sqnr_db > self._pair.qualities[name].sqnr_db - _LOST_DB:
            return self._pair
        made = pair.quantized
        made.layers = layer_errors(made.quantized, ground.model.feeds(ground.evaluation))
        made.way = replace(before.way, recipe=made.way.recipe)
        made.warnings = [*before.warnings, self._sentence(chosen, timed)]
        return pair

    def _sentence(self, chosen: _Tried[Q], timed: BenchmarkReport) -> str:
        """What was done, by which evidence, and how to do without."""
        ratio = partial(timed.ratio, b=self._plain)
        where = "this machine" if self._ground.job.options.device is None else "the device"
        beside = f" and {chosen.beside} between them" if chosen.beside else ""
        sizes = [bytes_text(len(model.content)) for model in (self._pair.quantized, chosen.model)]
        return (
            f"on {where} int8 took {ratio(self._before).interval} times as long as float; with {chosen.kinds}"
            f"{beside} in float, which take longer in int8 there, it takes"
            f" {ratio(chosen.path).interval} times as long, and has {sizes[1]} instead of {sizes[0]}. Other"
            " processors may be faster without"
        )

    # --- files and times ----------------------------------------------------------------------------------

    def _file(self, name: str, model: M | Q) -> Path:
        path = self._folder / f"{name}{self._maker.suffix}"
        self._maker.write(model, path, check=self._maker.open_file)
        return path

    def _feeds(self, paths: Sequence[Path]) -> Any:
        return first_sample(self._ground.job, dict.fromkeys(paths, self._ground.model.core))

    def _race(self, paths: Sequence[Path], seconds: float) -> BenchmarkReport:
        options = self._ground.job.options
        found = race(
            options.devices[:1],
            list(paths),
            threads=options.threads[:1],
            seconds=seconds,
            feeds=self._feeds(paths),
            memory=False,
        )
        if found.interrupted:
            raise KeyboardInterrupt
        return found


class _Times:
    """The operators of a float program, and how long each takes in float and in integers."""

    def __init__(self, program: Any, quantized: Quantized[Any], plain: Profile, smaller: Profile) -> None:
        self._block, self._kernels = main_block(program), kernels_of(program)
        # What stays float keeps its names.
        floats = {t.name for operator, _ in quantized.float_operators for t in operator.outputs}
        placed = [o for o in self._block.operators if o.code in self._kernels.table]
        self._placement = {
            o: "float" if any(t.name in floats for t in o.outputs) else ""
            for o in placed
            if any(map(is_float, (*o.inputs, *o.outputs)))
        }
        # Between floats, with integers of a range that each run finds.
        self._dynamic = [o for o in self._placement if self._placement[o] and o in quantized.made]
        before, after = _least_micros(plain), _least_micros(smaller)
        unit = 1e-3 * self._unit_ns(quantized, after)
        self._costs = {
            o: Cost(_taken(o, before) / unit, _taken(quantized.made.get(o), after) / unit)
            for o in self._placement
        }
        makers = self._block.producers()
        readers = self._block.consumers()
        # Runtimes compute a layer and its clamp as one, under the name of either.
        self._clamps: dict[Any, Any] = {}
        for operator in self._placement:
            kernel, x = self._kernels.table[operator.code], operator.inputs[0]
            maker = makers.get(x)
            if kernel.is_clamp and maker in self._costs and len(readers.get(x, ())) == 1:
                self._clamps[operator] = maker
                both = zip(self._costs[maker], self._costs[operator], strict=True)
                self._costs[maker] = Cost(*(a + b for a, b in both))
                self._costs[operator] = Cost(0, 0)

    def _unit_ns(self, quantized: Quantized[Any], micros: Mapping[str, int]) -> float:
        """The time that converting a number takes: by what the model's own ends take, if that can be read."""
        ends = [o for o in main_block(quantized.program).operators if o.code in _CONVERSIONS]
        count = sum(elements(o.outputs[0]) for o in ends)
        taken = sum(micros.get(o.outputs[0].name, 0) for o in ends)
        return max(self._kernels.unit_ns, 1e3 * taken / max(count, 1) if taken > 5 * len(ends) else 0.0)

    def is_slower(self, operator: Operator[Any]) -> bool:
        """True if it takes longer in integers."""
        cost = self._costs[operator]
        return cost.integers > FASTER * cost.floats

    def faster(self, margin: float) -> list[Operator[Any]]:
        """Operators that had better be float, crossings counted so many times what they cost."""
        found = faster_in_float(self._block, self._placement, self._kernels, (), self._costs, margin)
        chosen = set(found)
        chosen |= {clamp for clamp, maker in self._clamps.items() if maker in chosen}
        dynamic = [o for o in self._dynamic if self.is_slower(o)]
        return [*(o for o in self._placement if o in chosen and not self._placement[o]), *dynamic]


def _least_micros(found: Profile) -> dict[str, int]:
    """Of each node: whatever else goes on in a machine can only add."""
    return {row.name: row.micros.least for row in found.stats.rows.values()}


def _taken(operator: Operator[Any] | None, micros: Mapping[str, int]) -> int:
    """Microseconds of an operator; 0 for one that runs as a part of another."""
    if operator is None:
        return 0
    # Tensors' names are unique, origins need not be.
    names = [name.removesuffix(":0") for name in reversed(names_of(operator))]
    return next((micros[name] for name in names if name in micros), 0)
