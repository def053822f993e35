"""Operations that a model needs, for builds that leave out the rest."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thinflow.errors import FormatError, ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph
from thinflow.ir.vocabulary import vocabulary_named
from thinflow.load.graphs import Source, load

if TYPE_CHECKING:
    from thinflow.compat.registration import Need
    from thinflow.optimize.core import Core


@brief_repr
@dataclass
class Requirements:
    """Text for a build, and what is worth a warning."""

    text: str
    warnings: list[str]


def selective_registration(
    graphs: Sequence[str | os.PathLike[str]],
    *,
    file_format: str = "rawproto",
    default_ops: str | None = None,
    ops_only: bool = False,
    release: str | None = None,
    as_list: bool = False,
) -> Requirements:
    """The header `ops_to_register.h` for some models.

    Args:
        graphs: models, or lists of ops if `file_format` is "ops_list".
        file_format: "rawproto", "textproto" (both are told by content) or "ops_list".
        default_ops: pairs added, `Op:Class,...`; "all": register everything; default: those every graph
            needs.
        ops_only: register all kernels of the ops.
        release: of TensorFlow, whose kernel classes to name; default: the newest known.
        as_list: give the pairs as JSON instead.

    Raises:
        ParameterError: no such format or release, or a list that cannot be read.
        FormatError: a model cannot be read.
    """
    from thinflow.compat import registration

    defaults = registration.DEFAULT_OPS if default_ops is None else default_ops
    needs: list[Need] = []
    warnings: list[str] = []
    for path in graphs:
        found, told = _needs(path, file_format, ops_only, release)
        needs += found
        warnings += told
    if defaults == "all":
        return Requirements(registration.header(None), warnings)
    if not needs:
        raise ParameterError("there is no op to register", hint="name a model: --graphs=model.pb")
    if ops_only:
        # Ops alone, as those of the models are given then.
        defaults = ",".join(f"{pair.partition(':')[0]}:" for pair in defaults.split(",") if pair)
    complete = registration.with_defaults(needs, defaults)
    if as_list:
        return Requirements(registration.ops_list(complete), warnings)
    return Requirements(registration.header(complete, all_kernels=ops_only), warnings)


def _needs(
    path: str | os.PathLike[str], file_format: str, ops_only: bool, release: str | None
) -> tuple[list[Need], list[str]]:
    from thinflow.compat import registration
    from thinflow.load.sources import holds_variables

    if file_format == "ops_list":
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise FormatError("the list of ops cannot be read", os.fspath(path), "check the path") from e
        return registration.read_ops_list(text, os.fspath(path)), []
    if file_format not in {"rawproto", "textproto"}:
        raise ParameterError(
            f"--proto_fileformat={file_format}", hint="choose rawproto, textproto or ops_list"
        )
    # Of a model with variables only what outputs need is kept: there they must be looked for.
    graph = load(path) if holds_variables(path) else load(path, inputs=[], outputs=[], lift=False)
    if (vocabulary := vocabulary_named(graph.vocabulary)) is not None:
        raise ParameterError(
            f"{graph.path} is {vocabulary.title}, which cannot be built into TensorFlow:"
            " its ops are kernels of another runtime",
            hint=f"give it in TensorFlow's ops: thinflow convert {shlex.quote(graph.path)} model.pb",
        )
    return registration.needs_of(graph, release=release, ops_only=ops_only)


def micro_resolver(source: Source) -> Requirements:
    """C++ for TFLite Micro that registers what a model needs.

    Args:
        source: a .tflite file, or anything that `convert` makes one of; then of what it would write.
    """
    from thinflow.compat import registration
    from thinflow.engines._files import engine_of
    from thinflow.formats.packed_bytes import bytes_of
    from thinflow.formats.tflite import needed_ops, operator_names

    if not isinstance(source, Graph) and engine_of(source) == "litert":
        (codes, custom), outside = needed_ops(bytes_of(source)), list[str]()
    else:
        from thinflow.optimize.litert import float_model

        model = float_model(_optimised(source, "litert"))
        (codes, custom), outside = operator_names(model.program), _outside(model.core)
    text, warnings = registration.micro_resolver(codes, custom)
    return Requirements(text, [*outside, *warnings])


def onnxruntime_config(source: Source) -> Requirements:
    """The list of operators for a reduced build of ONNX Runtime.

    Args:
        source: an .onnx file, or anything that `convert` makes one of; then of what it would write.
    """
    from thinflow.compat import registration
    from thinflow.engines._files import engine_of
    from thinflow.formats.onnx_model import needed_ops
    from thinflow.formats.packed_bytes import bytes_of

    if not isinstance(source, Graph) and engine_of(source) == "onnxruntime":
        return Requirements(registration.onnx_config(needed_ops(bytes_of(source))), [])
    from thinflow.optimize.onnx import onnx_model

    model = onnx_model(_optimised(source, "onnx"))
    pending, ops = [model.program], []
    while pending:
        for operator in pending.pop().operators:
            ops.append(operator.code)
            pending.extend(operator.bodies.values())
    return Requirements(registration.onnx_config({("", model.program.opset): ops}), _outside(model.core))


def _optimised(source: Source, runtime: str) -> Graph:
    """The graph as `convert` lowers it."""
    from thinflow.optimize.float_graph import float_graph

    graph = load(source)
    # Only the ops are wanted, so that nothing needs to run.
    return float_graph(graph, verify=False, runtime=runtime).graph


def _outside(core: Core) -> list[str]:
    """Warning about the nodes that a converted model leaves to the app."""
    from thinflow.formats.foreign import PARTIAL
    from thinflow.optimize.coverage import coverage_of

    if not core.outside:
        return []
    coverage = coverage_of(core)
    if coverage.is_part:
        return [f"{PARTIAL}these are the needs of a part of the model: {coverage.sentence}"]
    return [f"{len(core.outside)} nodes are not in the converted model; {coverage.note}"]
