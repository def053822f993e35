"""What quantizing into a file begins and ends with, whatever the format of the file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thinflow.analysis.opened import opening_notes
from thinflow.analysis.switches import switch_notes
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.optimize.coverage import Coverage
from thinflow.optimize.float_model import float_graph
from thinflow.optimize.picture_ranges import picture_warnings
from thinflow.optimize.quality import Quality
from thinflow.optimize.samples import Samples, both_samples, rebind
from thinflow.quantize.pictures import Scaling
from thinflow.quantize.recipe import Recipe
from thinflow.typing import Progress

if TYPE_CHECKING:
    from thinflow.optimize.onnx_quantizing import OnnxQuantizedModel
    from thinflow.optimize.quantizing import QuantizedModel


@brief_repr
@dataclass(frozen=True)
class Prepared:
    """A graph that can be quantized, and samples for it.

    Attributes:
        original: the graph as it was opened.
        settings: what was set in it for inference.
        graph: the same after the float pipeline.
        data, tested: samples for the ranges and to judge on, for `original`.
        fitting, judging: the same two for `graph`.
    """

    original: Graph
    settings: Sequence[str]
    graph: Graph
    data: Samples
    tested: Samples
    fitting: Samples
    judging: Samples

    def account(
        self,
        made: QuantizedModel | OnnxQuantizedModel,
        quality: Quality,
        recipe: Recipe,
        path: str | os.PathLike[str],
        sizes: tuple[int, int],
        coverage: Coverage,
    ) -> dict[str, Any]:
        """What to tell of the file that was made.

        Args:
            made: the model.
            quality: of it.
            recipe: how it was made.
            path: as it was asked for.
            sizes: bytes of the file, and of a float one.
            coverage: how much of the graph it holds.
        """
        name = coverage.path(os.fspath(path))
        made_up = self.data.synthetic and recipe.needs_samples
        note = ["the ranges fit made-up inputs; give real samples with --calibration"] if made_up else []
        return {
            "path": name,
            "partial": coverage.is_part,
            "coverage": coverage.data(),
            "verdict": coverage.verdict(name, os.fspath(path)) if coverage.is_part else coverage.note,
            "scheme": recipe.scheme,
            "size_bytes": sizes[0],
            "float_bytes": sizes[1],
            "quality": "; ".join(filter(None, (quality.sentence(), coverage.note))),
            "sqnr_db": quality.sqnr_db,
            "samples": self.data.note,
            "tested_on": self.tested.note,
            "synthetic": self.data.synthetic,
            "float_operators": [[o.code, o.origin, why] for o, why in made.quantized.float_operators],
            "warnings": [
                *opening_notes(self.original),
                *switch_notes(self.settings),
                *note,
                *picture_warnings(self.original, self.data),
                *made.warnings,
            ],
        }


def prepared(
    source: Any,
    calibration: Any,
    test: Any,
    names: Mapping[str, Any],
    *,
    runtime: str,
    labels: str | os.PathLike[str] | Sequence[str] | None,
    samples: int | None,
    scaling: Scaling | None,
    progress: Progress | None,
) -> Prepared:
    """The model opened for inference and made small, with its samples; see `quantize_to_file`.

    Raises:
        ThinflowError: the model or the samples cannot be read.
    """
    from thinflow.load.graphs import load_for_inference, require_tensorflow

    graph, settings = load_for_inference(source, **names)
    require_tensorflow(graph, "quantized")
    data, tested = both_samples(graph, calibration, test, labels=labels, scaling=scaling, limit=samples)
    small = float_graph(graph, samples=data, progress=progress, runtime=runtime).graph
    fitting, judging = rebind(data, graph, small), rebind(tested, graph, small)
    return Prepared(graph, settings, small, data, tested, fitting, judging)
