"""Conversion as the flags of tflite_convert and toco ask for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thinflow.api.pictures.draw import write_dot
from thinflow.errors import ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.optimize.conversion import Conversion

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph, Value
    from thinflow.ir.types import DType
    from thinflow.optimize.ranges_job import InputCodes

_KINDS = {"QUANTIZED_UINT8": "uint8", "UINT8": "uint8", "INT8": "int8", "QUANTIZED_INT8": "int8"}
_FLOATS = ("FLOAT", "FLOAT32")
_DRAWINGS = ("toco_AT_IMPORT.dot", "toco_AFTER_TRANSFORMATIONS.dot")  # the names that toco used
# The scheme "dynamic" rounds activations only while the model runs; its file holds int8 weights.
_STORED = {"dynamic": "int8", "float16": "float16"}


@brief_repr
@dataclass(frozen=True)
class OldConversion:
    """One call of tflite_convert or toco.

    Attributes:
        source: GraphDef file, or a SavedModel's folder.
        target: file to write.
        input_arrays, output_arrays: names; None: those of the model.
        input_shapes: one per input array; empty: those of the graph.
        inference_type: FLOAT, QUANTIZED_UINT8 or INT8.
        input_type: of the inputs; empty: the inference type.
        means, deviations: real = (code - mean) / deviation, one each per input.
        default_range: of tensors without a known one.
        weights: "" as they are, "dynamic" in eight bits or "float16".
        output_format: TFLITE, TENSORFLOW_GRAPHDEF or GRAPHVIZ_DOT.
        tags, signature: of a SavedModel.
        batch: size of a first axis that an input leaves open; 0: as without.
        drawings: folder for drawings of the graph before and after; empty: none.
    """

    source: str
    target: str
    input_arrays: Sequence[str] | None = None
    output_arrays: Sequence[str] | None = None
    input_shapes: Sequence[Sequence[int]] = ()
    inference_type: str = "FLOAT"
    input_type: str = ""
    means: Sequence[float] = ()
    deviations: Sequence[float] = ()
    default_range: tuple[float, float] | None = None
    weights: str = ""
    output_format: str = "TFLITE"
    tags: str | None = None
    signature: str | None = None
    batch: int = 0
    drawings: str = ""
    notes: list[str] = field(default_factory=list)


def convert_as_before(wanted: OldConversion) -> Conversion:
    """Write the file, and tell what was proved.

    Raises:
        ParameterError: settings that contradict each other, or that this conversion does not have.
        ThinflowError: the model cannot be read, converted or written.
    """
    from thinflow.load.graphs import load

    kind = _kind(wanted.inference_type, "inference_type")
    if kind and wanted.weights:
        raise ParameterError(
            f"post-training quantization of weights starts from floats, not {wanted.inference_type}",
            hint="give --inference_type=FLOAT, or leave --post_training_quantize out",
        )
    opening: dict[str, Any] = {}
    if os.path.isdir(wanted.source):
        opening = {"tags": wanted.tags, "signature": wanted.signature}
    shapes = _shapes(wanted.input_arrays, wanted.input_shapes)
    # What is drawn of a .tflite file are its own ops.
    graph = load(
        wanted.source,
        inputs=wanted.input_arrays,
        outputs=wanted.output_arrays,
        shapes=shapes,
        lift=wanted.output_format != "GRAPHVIZ_DOT",
        **opening,
    )
    if wanted.output_format == "GRAPHVIZ_DOT":
        return Conversion(wanted.target, write_dot(graph, wanted.target), "a drawing of the graph, in DOT")
    if wanted.output_format != "TFLITE":
        return _another_format(graph, wanted)
    if wanted.batch:
        _set_batch(graph, wanted.batch)
    if not wanted.drawings:
        return _to_tflite(graph, kind, wanted)
    wanted.notes.append(f"drawn in {wanted.drawings}: {' and '.join(_DRAWINGS)}")
    _draw(graph, wanted.drawings, _DRAWINGS[0])
    made = _to_tflite(graph, kind, wanted)
    _draw(wanted.target, wanted.drawings, _DRAWINGS[1])
    return made


def _to_tflite(graph: Graph, kind: str, wanted: OldConversion) -> Conversion:
    if kind:
        return _eight_bit(graph, kind, wanted)
    _refuse_codes(wanted)
    return _smaller_weights(graph, wanted) if wanted.weights else _float(graph, wanted)


def _set_batch(graph: Graph, size: int) -> None:
    """Fix the first axis of the inputs that leave it open.

    Raises:
        ParameterError: the size is none.
    """
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.synthetic import override_shapes

    if size < 0:
        raise ParameterError(f"--batch_size={size} is no size", hint="give 1 or more")
    known = ((v, v.spec.shape) for v in graph.inputs)
    fixed = {v.name: (size, *shape[1:]) for v, shape in known if shape and shape[0] is None}
    infer_shapes(graph, override_shapes(graph.inputs, fixed))


def _draw(source: Graph | str, folder: str, name: str) -> None:
    """Draw a graph, in DOT.

    Raises:
        WriteError: it cannot be written.
    """
    from thinflow.errors import WriteError

    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as e:
        raise WriteError(f"the folder cannot be made: {e.strerror}", folder, "name another") from e
    write_dot(source, os.path.join(folder, name))


def _kind(text: str, flag: str) -> str:
    """ "uint8", "int8" or "" for floats."""
    name = text.upper() or "FLOAT"
    if name in _FLOATS:
        return ""
    if name not in _KINDS:
        raise ParameterError(
            f"--{flag}={text} is not supported",
            hint=closest(name, _KINDS) or "give FLOAT, INT8 or QUANTIZED_UINT8",
        )
    return _KINDS[name]


def _shapes(
    names: Sequence[str] | None, shapes: Sequence[Sequence[int]]
) -> dict[str, tuple[int | None, ...]] | None:
    if not shapes:
        return None
    if names is None or len(names) != len(shapes):
        raise ParameterError(
            f"there are {len(shapes)} input shapes for {len(names or ())} input arrays",
            hint="give --input_arrays=a,b and --input_shapes=1,2:1,3, as many of each",
        )
    # -1 is an open size, as in TensorFlow.
    return {n: tuple(None if d < 0 else d for d in s) for n, s in zip(names, shapes, strict=True)}


def _another_format(graph: Graph, wanted: OldConversion) -> Conversion:
    from thinflow.api.transforming import transform
    from thinflow.formats import save
    from thinflow.load.graphs import require_outputs

    if wanted.output_format != "TENSORFLOW_GRAPHDEF":
        raise ParameterError(
            f"--output_format={wanted.output_format} is not supported",
            hint="give TFLITE, TENSORFLOW_GRAPHDEF or GRAPHVIZ_DOT",
        )
    require_outputs(graph)
    names = [[v.name for v in values] for values in (graph.inputs, graph.outputs)]
    made = transform(graph, "strip_unused_nodes fold_constants", names[0], names[1], verify=False)
    size = save(made, wanted.target, format="graphdef")
    return Conversion(wanted.target, size, "what the outputs need, constants folded")


def _refuse_codes(wanted: OldConversion) -> None:
    """Codes of inputs and default ranges mean nothing to floats."""
    if _kind(wanted.input_type, "inference_input_type"):
        raise ParameterError(
            f"inputs of type {wanted.input_type} need an integer --inference_type",
            hint="give --inference_type=QUANTIZED_UINT8 or INT8",
        )
    if wanted.means or wanted.deviations:
        wanted.notes.append(
            "--mean_values and --std_dev_values mean nothing to a float model; they are not used"
        )
    if wanted.default_range is not None:
        wanted.notes.append("the default ranges mean nothing to a float model; they are not used")


def _float(graph: Graph, wanted: OldConversion) -> Conversion:
    from thinflow.optimize.conversion import write_float_tflite

    # The old tools knew no partial files: all of the model, or an error.
    made = write_float_tflite(graph, wanted.target, strict=True)
    return Conversion(made.path, made.size_bytes, made.proof, [*made.notes, *wanted.notes])


def _opens(path: str) -> None:
    """Refuse a file that LiteRT does not open."""
    from thinflow.engines._child import require_opening

    require_opening(path, "litert")


def _smaller_weights(graph: Graph, wanted: OldConversion) -> Conversion:
    from thinflow.formats.files import write_file
    from thinflow.optimize.quantize_job import QuantizeOptions, quantize

    made = quantize(graph, QuantizeOptions(scheme=wanted.weights, strict=True))
    size = write_file(wanted.target, [made.content], check=_opens)
    return Conversion(
        wanted.target, size, f"weights stored as {_STORED[wanted.weights]}", [*made.warnings, *wanted.notes]
    )


def _eight_bit(graph: Graph, kind: str, wanted: OldConversion) -> Conversion:
    from thinflow.formats.files import write_file
    from thinflow.optimize.ranges_job import eight_bit_model

    # Left out, the inputs are of the inference type.
    border = _kind(wanted.input_type, "inference_input_type") if wanted.input_type else kind
    if border != kind:
        raise ParameterError(
            f"--inference_input_type={wanted.input_type} differs from "
            f"--inference_type={wanted.inference_type}",
            hint="leave it out, or use --input-type of thinflow quantize",
        )
    codes = _codes([v.name for v in graph.inputs], wanted)
    model, made = eight_bit_model(graph, kind, codes, wanted.default_range)
    model.coverage.require_whole()
    size = write_file(wanted.target, [made.content], check=_opens)
    main = made.quantized.program.subgraphs[0]
    notes = _ends("input ", model.core.inputs, [t.dtype for t in main.inputs])
    notes += _ends("output", model.core.outputs, [t.dtype for t in main.outputs]) + made.warnings
    if wanted.default_range is not None:
        notes.append("default ranges are for trying speed and size; answers need real ones")
    return Conversion(wanted.target, size, f"eight-bit, {kind} at the borders", [*notes, *wanted.notes])


def _ends(role: str, values: Sequence[Value], types: Sequence[DType]) -> list[str]:
    """A line for each input or output: its name and type, and what it was."""
    return [
        f"{role} {value.name}  {value.spec if stored == value.spec.dtype else f'{stored} for {value.spec}'}"
        for value, stored in zip(values, types, strict=True)
    ]


def _codes(inputs: Sequence[str], wanted: OldConversion) -> Mapping[str, InputCodes]:
    """Meaning of the codes of each input, in the order of the inputs."""
    from thinflow.optimize.ranges_job import InputCodes

    if len(wanted.means) != len(wanted.deviations):
        raise ParameterError(
            f"there are {len(wanted.means)} means and {len(wanted.deviations)} standard deviations",
            hint="--mean_values and --std_dev_values go together, one each per input",
        )
    if len(wanted.means) != len(inputs):
        raise ParameterError(
            f"there are {len(wanted.means)} means for {len(inputs)} inputs",
            hint=f"give --mean_values and --std_dev_values, one each for {', '.join(inputs)}",
        )
    pairs = zip(wanted.means, wanted.deviations, strict=True)
    return {name: InputCodes(mean, std) for name, (mean, std) in zip(inputs, pairs, strict=True)}
