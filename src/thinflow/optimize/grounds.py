"""What candidates are made from and judged by; opened once more where another machine makes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thinflow.datasets.places import is_url
from thinflow.errors import UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.optimize.float_graph import reopened
from thinflow.optimize.job_inputs import JobInputs, JobOptions, open_inputs
from thinflow.optimize.ladder.ground import Ground
from thinflow.optimize.litert import FloatModel, LiteRTMaker
from thinflow.optimize.numeric_check import check_model
from thinflow.optimize.onnx import OnnxMaker, OnnxModel
from thinflow.optimize.openvino import OpenVinoMaker
from thinflow.optimize.optimized_graph import OptimizedGraph, optimized_graph
from thinflow.optimize.quantized import OnnxQuantizedModel, QuantizedModel
from thinflow.optimize.samples import rebind
from thinflow.optimize.trial_runs import reaches_core, require_running


@brief_repr
@dataclass(frozen=True)
class GroundAgain:
    """A ground that another process opens from files which it reaches, too.

    Attributes:
        source: absolute path of the model.
        options: of the job, with absolute paths.
        state, unkept: as for `open_inputs`.
        runtime: "litert", "onnx" or "openvino".
    """

    source: str
    options: JobOptions
    state: str
    unkept: str
    runtime: str

    @classmethod
    def of(cls, job: JobInputs, runtime: str) -> GroundAgain | None:
        """That of a job; None where its model or samples are in memory."""
        options, given = job.options, (job.options.calibration, job.options.test)
        if not job.source or not all(one is None or isinstance(one, str | os.PathLike) for one in given):
            return None
        labels = options.labels
        far = replace(
            options,
            calibration=_absolute(options.calibration),
            test=_absolute(options.test),
            labels=_absolute(labels) if isinstance(labels, str | os.PathLike) else labels,
            workers=None,
            progress=None,
        )
        return cls(os.path.abspath(job.source), far, job.state, job.unkept, runtime)

    def opened(self) -> Ground[Any, Any]:
        """The same as there: everything that is made of it is made alike."""
        # Nothing is written: results go back to the one who asked.
        folder = Path(tempfile.gettempdir())
        optimized = optimized_graph(open_inputs(self.source, folder, self.options, self.state, self.unkept))
        if self.runtime == "onnx":
            return onnx_ground(optimized)
        if self.runtime == "openvino":
            return openvino_ground(optimized)
        return litert_ground(optimized, running_model(optimized))


def _absolute(path: Any) -> Any:
    return path if path is None or is_url(os.fspath(path)) else os.path.abspath(path)


def running_model(optimized: OptimizedGraph) -> FloatModel:
    """The float model of what LiteRT can hold of a graph; it was tried where that may fail.

    Raises:
        UnsupportedOp: LiteRT can run nothing of it, or nothing here can compute what it is fed.
    """
    model = LiteRTMaker().open_or_fixed(optimized.graph, optimized.calibration)
    unknown = optimized.unknown
    if unknown is not None and not reaches_core(model, optimized.calibration):
        raise UnsupportedOp("nothing here knows an op that it begins with", unknown.where, unknown.hint)
    require_running(model, optimized.calibration)
    return model


def litert_ground(optimized: OptimizedGraph, model: FloatModel) -> Ground[FloatModel, QuantizedModel]:
    """The ground of LiteRT's candidates."""
    return Ground(
        LiteRTMaker,
        model,
        optimized.job,
        optimized.calibration,
        optimized.evaluation,
        end_to_end=optimized.unknown is None,
        again=GroundAgain.of(optimized.job, "litert"),
    )


def onnx_ground(optimized: OptimizedGraph) -> Ground[OnnxModel, OnnxQuantizedModel]:
    """The ground of ONNX Runtime's, its float model proven.

    Raises:
        ThinflowError: it cannot be made, or answers otherwise.
    """
    return _ground(optimized, "onnx", OnnxMaker)


def openvino_ground(optimized: OptimizedGraph) -> Ground[OnnxModel, OnnxQuantizedModel]:
    """The same of OpenVINO's."""
    return _ground(optimized, "openvino", OpenVinoMaker)


def _ground(
    optimized: OptimizedGraph, runtime: str, maker: Callable[..., OnnxMaker]
) -> Ground[OnnxModel, OnnxQuantizedModel]:
    """The ground of a runtime that gets ONNX's operators."""
    job = optimized.job
    # LiteRT's model fixed the batch where it had to; ONNX's may keep it.
    graph = reopened(job.graph, optimized.graph)
    calibration = rebind(job.data, job.graph, graph)
    # One object stands for "judged on the samples that it was calibrated with".
    evaluation = calibration if job.tested is job.data else rebind(job.tested, job.graph, graph)
    plain = maker().open_or_fixed(graph, calibration)
    check_model(plain, calibration)
    return Ground(
        lambda effort: maker(effort=effort),
        plain,
        job,
        calibration,
        evaluation,
        end_to_end=True,
        again=GroundAgain.of(job, runtime),
    )
