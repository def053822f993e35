"""What samples tell of a program, for one recipe after the other: each thing is looked for once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from thinflow.onnx import program as onnx
from thinflow.quantize.calibrate import Calibration, calibrate
from thinflow.quantize.channels import channel_statistics, corrected, layers_to_correct
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import QdqOptions, Quantized, Recipe
from thinflow.quantize.rescale import Rescaling, rescale
from thinflow.quantize.runners import Feed
from thinflow.quantize.schemes import quantize_program, storing
from thinflow.quantize.simulate import rounded_weights
from thinflow.tflite import model as tflite
from thinflow.typing import Progress

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
        self._rescaled: dict[object, Rescaling[P]] = {}
        self._calibrated: dict[object, Calibration] = {}

    def rescaling(self, recipe: Recipe) -> Rescaling[P]:
        """The program with channels as the recipe wants them."""
        key = _rescaling_key(recipe)
        if key not in self._rescaled:
            self._rescaled[key] = rescale(self.program, recipe, self.few, threads=self.threads)
        return self._rescaled[key]

    def calibration(self, recipe: Recipe) -> Calibration:
        """Ranges of the rescaled program's activations; none if the recipe asks for none."""
        if not recipe.needs_samples:
            return Calibration()
        key = (_rescaling_key(recipe), recipe.observer, *sorted(recipe.observer_options.items()))
        if key not in self._calibrated:
            found = calibrate(
                self.rescaling(recipe).program,
                self.feeds,
                recipe,
                threads=self.threads,
                progress=self.progress,
            )
            # Trained ranges last, so that they win.
            found.ranges.update(self.stated)
            self._calibrated[key] = found
        return self._calibrated[key]

    def quantized(self, recipe: Recipe, part: Callable[[P], P] | None = None) -> Quantized[P]:
        """The smaller program of a recipe.

        Args:
            part: gives the part of the program that is to be quantized; default: all of it.
        """
        program = self.rescaling(recipe).program
        ranges = self.calibration(recipe).ranges
        if recipe.correct_bias:
            program = self._corrected(program, recipe)
        if part is not None:
            program = part(program)
        made: Quantized[Any]
        if isinstance(program, onnx.Program):
            made = quantize_program(program, recipe, ranges, options=self.options, imported=self.stated)
        else:
            made = quantize_program(program, recipe, ranges)
        return cast("Quantized[P]", made)

    def _corrected(self, program: P, recipe: Recipe) -> P:
        if isinstance(program, onnx.Program):
            return program
        layers = layers_to_correct(program)
        seen = channel_statistics(program, set(layers.values()), self.few, threads=self.threads)
        rounded = rounded_weights(program, recipe, storing(program, recipe))
        return cast("P", corrected(program, rounded, seen))


def _rescaling_key(recipe: Recipe) -> object:
    return recipe.rescale, recipe.needs_samples, recipe.per_channel
