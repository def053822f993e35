"""What samples tell of a program, for one recipe after the other: each thing is looked for once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

from thinflow.onnx import program as onnx
from thinflow.quantize.activation_noise import activation_noise
from thinflow.quantize.bias import corrected_biases
from thinflow.quantize.calibrate import Calibration, calibrate
from thinflow.quantize.gptq import gptq_rounding
from thinflow.quantize.grams import Some
from thinflow.quantize.macs import main_block
from thinflow.quantize.parted import calibrate_in_parts
from thinflow.quantize.pruning import Pruned, prune
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import QdqOptions, Quantized, Recipe, names_of
from thinflow.quantize.rescale import Rescaling, rescale
from thinflow.quantize.rounding import NEAREST, Rounding
from thinflow.quantize.runners import Feed
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.sequential import sequential_rounding
from thinflow.quantize.small_weights import splits_products
from thinflow.tflite import model as tflite
from thinflow.typing import Progress

_NOISE_SAMPLES = 32
"""That tell how loud the noise of each activation is; every one of its numbers counts."""

P = TypeVar("P", bound=tflite.Program | onnx.Program)


class Fit(Generic[P]):
    """A float program and samples, from which any recipe makes a smaller program.

    Args:
        program: the float one, without simulated quantization.
        feeds: samples that make ranges, walked once for each observer.
        few: some of them, in memory; they tell what asks for many walks.
        stated: ranges that the model was trained with, which count more than those of samples.
        options: of ONNX programs.
        threads: of the runtime.
        progress: of the first walk.
    """

    def __init__(
        self,
        program: P,
        feeds: Iterable[Feed],
        few: Sequence[Feed],
        *,
        stated: Mapping[Any, Range] | None = None,
        options: QdqOptions | None = None,
        threads: int = 2,
        progress: Progress | None = None,
    ) -> None:
        self.program = program
        self.feeds, self.few = feeds, few
        self.stated, self.options = dict(stated or {}), options
        self.threads, self.progress = threads, progress
        self._pruned: dict[float, Pruned[P]] = {}
        self._rescaled: dict[object, Rescaling[P]] = {}
        self._calibrated: dict[object, Calibration] = {}
        self._noises: dict[object, dict[Any, float]] = {}
        self._roundings: dict[object, Rounding] = {}
        self._corrected: dict[str, Rounding] = {}

    def pruned(self, recipe: Recipe) -> Pruned[P]:
        """The program without channels that are weaker than the recipe says."""
        # Ranges that a model was trained with are those of its own tensors.
        level = 0.0 if self.stated else recipe.prune
        if level not in self._pruned:
            made = (
                prune(self.program, level, self.few, threads=self.threads) if level else Pruned(self.program)
            )
            self._pruned[level] = made
        return self._pruned[level]

    def rescaling(self, recipe: Recipe) -> Rescaling[P]:
        """The program with channels as the recipe wants them."""
        key = _rescaling_key(recipe)
        if key not in self._rescaled:
            self._rescaled[key] = rescale(self.pruned(recipe).program, recipe, self.few, threads=self.threads)
        return self._rescaled[key]

    def calibration(self, recipe: Recipe) -> Calibration:
        """Ranges of the rescaled program's activations; none if the recipe asks for none."""
        if not recipe.needs_samples:
            return Calibration()
        key = (_rescaling_key(recipe), recipe.observer, *sorted(recipe.observer_options.items()))
        if key not in self._calibrated:
            found = self._observed(recipe)
            # Trained ranges last, so that they win.
            found.ranges.update(self.stated)
            self._calibrated[key] = found
        return self._calibrated[key]

    def _observed(self, recipe: Recipe) -> Calibration:
        program = self.rescaling(recipe).program
        parted = getattr(self.feeds, "parted", None)
        if parted is not None:
            return calibrate_in_parts(program, parted, recipe, progress=self.progress)
        return calibrate(program, self.feeds, recipe, threads=self.threads, progress=self.progress)

    def activation_noise(self, recipe: Recipe) -> dict[Any, float]:
        """Signal to noise of each rounded activation of the rescaled program by itself, in decibels; none if
        the recipe rounds none. See `activation_noise`.
        """
        if not recipe.needs_samples:
            return {}
        key = repr(replace(recipe, rounding="nearest", correct_bias=False))
        if key not in self._noises:
            self._noises[key] = activation_noise(
                self.rescaling(recipe).program,
                recipe,
                self.calibration(recipe).ranges,
                Some(self.few, _NOISE_SAMPLES),
                threads=self.threads,
            )
        return self._noises[key]

    def rounding(self, recipe: Recipe) -> Rounding:
        """How weights and biases of the rescaled program are rounded, by the recipe."""
        rounding = NEAREST if recipe.rounding == "nearest" else self._learned(recipe)
        if not recipe.correct_bias:
            return rounding
        # A recipe's options may be a dict, which cannot be a key.
        key = repr(recipe)
        if key not in self._corrected:
            self._corrected[key] = corrected_biases(
                self.rescaling(recipe).program,
                recipe,
                self.calibration(recipe).ranges,
                rounding,
                self.few,
                threads=self.threads,
                **self._choices,
            )
        return self._corrected[key]

    def _learned(self, recipe: Recipe) -> Rounding:
        program = self.rescaling(recipe).program
        if recipe.rounding == "sequential":
            # What layers read depends on all of the recipe but how biases are corrected in the end.
            whole = replace(recipe, correct_bias=False)
            key: object = repr(whole)
            if key not in self._roundings:
                ranges = self.calibration(recipe).ranges
                self._roundings[key] = sequential_rounding(
                    program, whole, ranges, self.few, threads=self.threads, **self._choices
                )
            return self._roundings[key]
        key = _rescaling_key(recipe), splits_products(recipe)
        if key not in self._roundings:
            # Layers are looked at in the float network, where it does not matter which of them stay float.
            whole = replace(recipe, skip_ops=frozenset(), skip_nodes=())
            self._roundings[key] = gptq_rounding(program, whole, self.few, threads=self.threads)
        return self._roundings[key]

    def quantized(self, recipe: Recipe, part: Callable[[P], P] | None = None) -> Quantized[P]:
        """The smaller program of a recipe.

        Args:
            part: gives the part of the program that is to be quantized; default: all of it.
        """
        program, rounding = self.rescaling(recipe).program, self.rounding(recipe)
        program = program if part is None else part(program)
        if part is not None:
            recipe = for_part(recipe, program)
        ranges = self.calibration(recipe).ranges
        made: Quantized[Any] = quantize_program(
            cast("Any", program), recipe, ranges, rounding=rounding, **self._choices
        )
        return made

    @property
    def _choices(self) -> dict[str, Any]:
        """What is said of ONNX programs only."""
        is_onnx = isinstance(self.program, onnx.Program)
        return {"options": self.options, "imported": self.stated} if is_onnx else {}


def for_part(recipe: Recipe, part: tflite.Program | onnx.Program) -> Recipe:
    """The recipe without patterns that match no operator of a part: elsewhere these are errors."""
    return recipe.for_names([name for o in main_block(part).operators for name in names_of(o)])


def _rescaling_key(recipe: Recipe) -> object:
    scaled = recipe.rescale, recipe.scales_inputs, recipe.scales_outputs
    return recipe.prune, *scaled, recipe.needs_samples, recipe.per_channel
