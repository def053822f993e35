"""Makers of models, one for each runtime: lower, quantize, compare, write."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.optimize.converted import ConvertedModel
from thinflow.optimize.numeric_check import why_one_batch
from thinflow.optimize.samples import Samples
from thinflow.typing import Progress

if TYPE_CHECKING:
    from thinflow.optimize.judging import KeptAnswers
    from thinflow.optimize.ladder.result import Ladder
    from thinflow.optimize.quality import Quality
    from thinflow.optimize.quantized import SmallerModel
    from thinflow.quantize.recipe import Recipe

M = TypeVar("M", bound=ConvertedModel[Any])
Q = TypeVar("Q", bound="SmallerModel[Any]")


class ModelMaker(ABC, Generic[M, Q]):
    """Makes the models of one runtime: float ones of type M, and smaller ones of type Q.

    Attributes:
        order: what the float pipeline calls the runtime.
        suffix: of its files.
        roles: of the float and the smaller file in a report.
        names: of both models, in messages.
        needs_ranks: whether lowering needs the rank of every input, if need be from samples.
        schemes: that the runtime has a form of.
        reads_files: whether a written file can be read as a graph again.
    """

    order: ClassVar[str]
    suffix: ClassVar[str]
    roles: ClassVar[tuple[str, str]]
    names: ClassVar[tuple[str, str]]
    needs_ranks: ClassVar[bool] = False
    schemes: ClassVar[tuple[str, ...]]
    reads_files: ClassVar[bool] = True

    @abstractmethod
    def lower(self, graph: Graph, samples: Samples | None = None, *, fixed: str = "") -> M:
        """The float model of what the runtime can hold of a graph.

        An open batch stays open if no more can be lowered with a fixed one.

        Args:
            graph: with inputs and outputs set.
            samples: the first one settles sizes that the graph leaves open.
            fixed: why an open batch has to be fixed all the same, at that of the first sample.

        Raises:
            UnsupportedOp: the runtime can hold nothing of it.
        """

    @abstractmethod
    def quantize(self, model: M, samples: Samples, recipe: Recipe, *, progress: Progress | None = None) -> Q:
        """The model in fewer bits; its batch is open only if it answers for two samples as well as for one.

        Raises:
            FeedError: no samples, or they do not fit.
            ParameterError: the recipe asks for what such a model cannot have.
        """

    @abstractmethod
    def write(
        self, model: M | Q, path: str | os.PathLike[str], *, check: Callable[[str], object] | None = None
    ) -> int:
        """Write a model; the bytes written.

        Args:
            check: called with the path of the finished file before it takes its name.

        Raises:
            WriteError: it cannot be written.
        """

    @staticmethod
    @abstractmethod
    def open_file(path: str) -> object:
        """Open a file in the runtime, which refuses what is damaged."""

    def missing(self) -> str | None:
        """The reason why models cannot be run before they are written; None if they can."""
        return None

    def file_notes(self, model: M) -> list[str]:
        """Notes on a float model's file."""
        return []

    def open_or_fixed(self, graph: Graph, samples: Samples) -> M:
        """The float model of a graph, with an open batch if it answers for one sample and for two as the
        graph does; else with that of one sample. Arguments and errors as those of `lower`.
        """
        model = self.lower(graph, samples)
        # An open batch is proven with one sample and with two: shapes that hold for one alone show there.
        why = why_one_batch(model, samples)
        return self.lower(graph, samples, fixed=why) if why else model

    def pair(
        self,
        model: M,
        original: Graph,
        calibration: Samples,
        evaluation: Samples,
        recipe: Recipe,
        *,
        progress: Progress | None = None,
        end_to_end: bool = True,
        kept: KeptAnswers | None = None,
    ) -> ModelPair[M, Q]:
        """The model and the same in fewer bits, both judged beside the original graph; all in memory.

        Args:
            calibration, evaluation: samples for the model's graph, to quantize with and to judge on.
            end_to_end, kept: as for `compare_models`.

        Raises:
            EngineCrashed: the runtime does not survive one of them.
        """
        quantized = self.quantize(model, calibration, recipe, progress=progress)
        made = self.judged(
            model, quantized, original, evaluation, progress=progress, end_to_end=end_to_end, kept=kept
        )
        from thinflow.optimize.layer_noise import layer_errors

        quantized.layers = layer_errors(quantized.quantized, model.feeds(evaluation))
        return made

    def judged(
        self,
        model: M,
        quantized: Q,
        original: Graph,
        evaluation: Samples,
        *,
        progress: Progress | None = None,
        end_to_end: bool = True,
        kept: KeptAnswers | None = None,
    ) -> ModelPair[M, Q]:
        """A float model and a smaller one, both judged beside the original graph; see `pair`."""
        contents = dict(zip(self.names, (model.content, quantized.comparable), strict=True))
        from thinflow.optimize.judging import compare_models

        qualities = compare_models(
            model,
            contents,
            original,
            evaluation,
            progress=progress,
            end_to_end=end_to_end,
            smaller={self.names[1]: quantized},
            kept=kept,
        )
        return ModelPair(self, model, quantized, qualities)


@brief_repr
@dataclass(frozen=True)
class ModelPair(Generic[M, Q]):
    """Both models of a graph for one runtime.

    Attributes:
        maker: who made them.
        plain: the float model.
        quantized: the model in fewer bits.
        qualities: both beside the graph as it came, by the names of the maker.
        ladder: all that the smaller one was chosen from; None if nothing was to choose.
    """

    maker: ModelMaker[M, Q]
    plain: M
    quantized: Q
    qualities: dict[str, Quality]
    ladder: Ladder | None = None

    @property
    def scheme(self) -> str:
        """Of the smaller one."""
        return self.quantized.way.recipe.scheme

    def write(self, folder: Path, stem: str) -> dict[str, Path]:
        """Write both and open each; the files by role. Names say if the models are parts.

        Raises:
            WriteError: one cannot be written.
        """
        plain, smaller = self.maker.roles
        stem = self.plain.coverage.stem(stem)
        files = {
            plain: folder / f"{stem}_fp32{self.maker.suffix}",
            smaller: folder / f"{stem}_{self.scheme}{self.maker.suffix}",
        }
        # Opened before it takes its name: a damaged file replaces nothing.
        self.maker.write(self.plain, files[plain], check=self.maker.open_file)
        self.maker.write(self.quantized, files[smaller], check=self.maker.open_file)
        return files
