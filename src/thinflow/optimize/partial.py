"""What the main job says of files that hold only a part of a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thinflow.errors import ThinflowError
from thinflow.formats.parts import PARTIAL
from thinflow.ir.graph import Graph
from thinflow.optimize.coverage import Coverage

if TYPE_CHECKING:
    from thinflow.optimize.job_report import OptimizeReport


def partial_verdict(coverage: Coverage, parts: Sequence[Path], whole: Path, also: str = "") -> str:
    """One sentence: which files are parts, what is missing from them and why, and what is whole.

    Args:
        coverage: of the parts.
        parts: the files.
        whole: the file that holds all of the model.
        also: what else did not come off; "" if all did.
    """
    names = " and ".join(p.name for p in parts)
    holds = "hold" if len(parts) > 1 else "holds"
    carrier = "" if whole.suffix == ".onnx" else " with thinflow's own engines or a TensorFlow runtime"
    told = f"{also}; " if also else ""
    return (
        f"{PARTIAL}{names} {holds} only a part of the model: {coverage.sentence}; "
        f"{told}the whole model is {whole.name}: run it{carrier}"
    )


def partial_verdict_of(report: OptimizeReport) -> str:
    """The same of a report on LiteRT models that are parts."""
    assert report.coverage is not None
    parts = [report.files["fp32"], report.files["int8"]]
    whole = report.files["fp32_pb"]
    if report.onnx is not None:
        if report.onnx.plain.coverage.is_part:
            parts += [report.files["onnx_fp32"], report.files["onnx_int8"]]
        else:
            whole = report.files["onnx_fp32"]
    return partial_verdict(report.coverage, parts, whole)


def with_note(verdict: str, *coverages: Coverage) -> str:
    """A verdict on whole models with what the app has to do, and with what is not whole beside them."""
    notes = [c.note for c in coverages if c.note]
    notes += [f"{PARTIAL}the .onnx files hold only a part: {c.sentence}" for c in coverages if c.is_part]
    return "; ".join([verdict, *dict.fromkeys(notes)])


def fits_onnx(graph: Graph) -> bool:
    """Whether an .onnx file could hold all of a graph. Shapes are inferred anew in it."""
    from thinflow.optimize.onnx import onnx_model

    try:
        return not onnx_model(graph).coverage.is_part
    except ThinflowError:
        return False
