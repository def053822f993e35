"""A graph with inputs, outputs and shapes from any model: what every job starts from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.errors import GraphError, ParameterError, ShapeError, UnsupportedOp
from thinflow.ir.graph import Graph, Value, paused_gc
from thinflow.ir.interface import declare_states
from thinflow.ir.types import shape_text

if TYPE_CHECKING:
    from thinflow.load.layouts import Layouts
    from thinflow.typing import FilePath, Shapes

_SHOWN_NAMES = 4

Source = str | os.PathLike[str] | Graph
Opening = Mapping[str, Any]
"""Options for opening a model: those of `opening` that are given."""


def opening(
    tags: str | None,
    signature: str | None,
    checkpoint: str | os.PathLike[str] | None,
    input_layout: Layouts | None = None,
    output_layout: Layouts | None = None,
) -> dict[str, Any]:
    """Keyword arguments for opening a model; what is None was not given."""
    options: dict[str, Any] = {"tags": tags, "signature": signature, "checkpoint": checkpoint}
    options |= {"input_layout": input_layout, "output_layout": output_layout}
    return {name: value for name, value in options.items() if value is not None}


def load(
    source: Source,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    state: str | None = None,
    input_layout: Layouts | None = None,
    output_layout: Layouts | None = None,
    lift: bool = True,
    custom_layers: Mapping[str, object] | None = None,
) -> Graph:
    """A graph of TensorFlow's ops from a file of any supported format, told by its content; a Graph is
    copied.

    Weights stay in the file's mapping until somebody reads them. What the ops of a .tflite or .onnx file
    become keeps their names, and `source` of the graph tells of the file.

    Args:
        source: path of a model (a GraphDef in .pb or .pbtxt, gzip or not, a SavedModel's folder, a MetaGraph,
            a .tflite, .onnx, .keras or .h5 file, a model.json of TensorFlow.js and others), or a Graph.
        inputs: names of the values to feed, with or without ":0"; default: what the model declares, else
            guessed.
        outputs: names of the values to compute; default: the same. Of a model with variables only what they
            need is kept.
        shapes: input name -> shape to assume where the graph says less.
        tags: which graph of a SavedModel, by its tags, with commas; default: the only one, or "serve".
        signature: which signature of a SavedModel or a .tflite file; default: the only one, or
            "serving_default".
        checkpoint: what leads to the variables of a graph that comes without them: a prefix, an index file,
            a folder, or FOLDER@latest.
        state: what becomes of variables that runs change: "freeze" (default: every run begins with what was
            saved), "keep" (see `Graph.states`), "inputs" (inputs and outputs, for the caller to hand on), or
            "auto": kept if that is possible.
        input_layout, output_layout: where channels shall lie in inputs and outputs: "nhwc" (last), "nchw"
            (behind the batch), "auto" (where the graph computes with them, so that no transposes are
            needed), or a dict of these by name; default: as in the file. Shapes are those of the file.
        lift: whether ops of .tflite and .onnx files become TensorFlow's; else they stay as they are, such as
            `tfl.CONV_2D`, to be looked at.
        custom_layers: of a Keras model, what custom classes and Lambda layers compute: name -> function; see
            "A Keras layer" in CONTRIBUTING.md.

    Returns:
        The graph, its `inputs` and `outputs` set and all shapes inferred.

    Raises:
        FormatError: no such file, or not a model; says what it is instead.
        GraphError: a name does not exist; the closest is offered.
        ParameterError: the format has no tags, signature or checkpoint, or an end no such layout.
        UnsupportedOp: an op of a file has no counterpart among TensorFlow's.
    """
    options = opening(tags, signature, checkpoint, input_layout, output_layout)
    options["state"] = state or "freeze"
    if custom_layers is not None:
        options["custom_layers"] = custom_layers
    return _opened(source, inputs, outputs, shapes, options, lift)[0]


def load_for_inference(
    source: Source,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    **options: Any,
) -> tuple[Graph, list[str]]:
    """As `load`, with the training switches that are no declared or named input set to what inference wants.

    Returns:
        The graph, and what was set: "is_training is false now".
    """
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.analysis.training_mode import inference_setting
    from thinflow.transforms.training import set_switches

    graph, guessed = _opened(source, inputs, outputs, shapes, options)
    if guessed:
        # A guess takes every placeholder for an input, switches as well; if nothing else
        # is there, they are the inputs.
        graph.inputs = [v for v in graph.inputs if inference_setting(v.node) is None] or graph.inputs
    # After the inputs are chosen: a switch that is one of them stays for the caller to feed.
    settings = set_switches(graph)
    if settings:
        # A switch that is set decides branches, and thereby shapes; what was assumed of the inputs stays.
        infer_shapes(graph, {v: v.spec for v in graph.inputs})
    if inputs is not None:
        _require_fed(graph)
    if shapes:
        _require_fitting(graph, shapes)
    return graph, settings


def _require_fitting(graph: Graph, shapes: Shapes) -> None:
    """Refuse shapes with which the model cannot compute its outputs: else a part of it would be made.

    Raises:
        ShapeError: names the node that they do not fit.
    """
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.ir.order import ancestors
    from thinflow.ops.traits import Trait, has

    odd = infer_shapes(graph, {v: v.spec for v in graph.inputs})
    if not odd:
        return
    # What does not fit with any sizes is nobody's fault here.
    anyway = infer_shapes(graph.clone())
    needed = ancestors([v.node for v in graph.outputs])
    for node in graph:
        if node.name not in odd or node.name in anyway or node not in needed:
            continue
        # A branch that these sizes do not take may be for others.
        if any(has(n.op, Trait.SWITCH) for n in ancestors([node])):
            continue
        given = " ".join(f"{name}={shape_text(tuple(shape))}" for name, shape in shapes.items())
        raise ShapeError(
            f"the shape that was given, {given}, does not fit: {odd[node.name]}",
            graph.path,
            hint="give the sizes that the model was made for, or leave the shape out",
        )


def _opened(
    source: Source,
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    shapes: Shapes | None,
    options: dict[str, Any],
    lift: bool = True,
) -> tuple[Graph, bool]:
    """The graph, and whether its inputs are guessed."""
    options = dict(options)
    layouts = options.pop("input_layout", None), options.pop("output_layout", None)
    with paused_gc():
        graph, guessed = _with_interface(source, inputs, outputs, shapes, options, lift)
        if layouts != (None, None):
            if graph.vocabulary:
                raise ParameterError(
                    "layouts go with TensorFlow's ops, and these are the file's own",
                    graph.path,
                    hint="leave lift=False out, or the layouts",
                )
            from thinflow.load.layouts import arrange_ends

            arrange_ends(graph, *layouts)
        return graph, guessed


def _with_interface(
    source: Source,
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    shapes: Shapes | None,
    options: dict[str, Any],
    lift: bool,
) -> tuple[Graph, bool]:
    """As `_opened`, with the layout of the file."""
    from thinflow.load.folder_usage import with_files_beside
    from thinflow.load.sources import open_model
    from thinflow.load.usage import completed

    graph = source.clone() if isinstance(source, Graph) else open_model(source, outputs=outputs, **options)
    if graph.vocabulary and lift:
        from thinflow.load.lifted import default_signature, in_tensorflow
        from thinflow.load.lifted_state import settle_state

        if "signature" not in options and (key := default_signature(graph)) is not None:
            graph = open_model(graph.path, **options, signature=key)
        # Codes are told of by the file's own tensors.
        graph.usage = completed(graph)
        try:
            lifted = in_tensorflow(graph, inputs, outputs, shapes)
        except UnsupportedOp as error:
            from thinflow.load.fitting_sizes import naming_sizes

            raise naming_sizes(error, graph) from error
        settle_state(lifted, options.get("state", "freeze"))
        lifted.usage = completed(lifted)
        return lifted, False
    guessed = declare_interface(graph, inputs, outputs, shapes)
    graph.usage = with_files_beside(graph)
    graph.usage = completed(graph)
    return graph, guessed


def declare_interface(
    graph: Graph,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
) -> bool:
    """Infer all shapes, and set inputs and outputs: as named, else as declared, else as guessed.

    Args:
        graph: edited.
        inputs, outputs, shapes: as for `load`.

    Returns:
        Whether the inputs are guessed.
    """
    from thinflow.analysis.interface import guess_interface
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.synthetic import override_shapes

    # Before guessing, which goes by shapes, too.
    infer_shapes(graph)
    guessed = inputs is None and not graph.inputs
    # Only where something is missing: a guess walks the graph several times.
    guess = guess_interface(graph) if guessed or (outputs is None and not graph.outputs) else None
    if inputs is not None:
        graph.inputs = _values(graph, inputs, "input")
    elif guess is not None and guessed:
        graph.inputs = guess.chosen_inputs
    if outputs is not None:
        graph.outputs = _values(graph, outputs, "output")
    elif guess is not None and not graph.outputs:
        graph.outputs = guess.chosen_outputs
    declare_states(graph)
    if shapes:
        infer_shapes(graph, override_shapes(graph.inputs, shapes))
    return guessed


def _values(graph: Graph, names: Sequence[str] | str, role: str) -> list[Value]:
    """Values by name, trimmed; empty names are dropped.

    Raises:
        GraphError: no name of a value, unknown or repeated.
    """
    from thinflow.ir.names import parse_value_name

    stripped = [n.strip() for n in (names.split(",") if isinstance(names, str) else names)]
    values: list[Value] = []
    for name in filter(None, stripped):
        # Before looking it up, so that a malformed name is said to be that, not an unknown one.
        parse_value_name(name)
        try:
            value = graph.value(name)
        except GraphError as error:
            hint = error.hint if "did you mean" in error.hint else _own(graph, role) or error.hint
            raise GraphError(f"there is no {role} '{name}' in the graph", graph.path, hint) from error
        _require_port(graph, value, role)
        if value in values:
            raise GraphError(f"the {role} '{name}' is given twice", hint="give each once")
        values.append(value)
    return values


def _require_port(graph: Graph, value: Value, role: str) -> None:
    """Refuse a port that the op does not have; what it has is not known of every op.

    Raises:
        GraphError: it has fewer outputs.
    """
    from thinflow.analysis.shapes import port_count

    count = port_count(value.node)
    if count is None or value.port < max(count, 1):  # a node without outputs can be asked to run
        return
    has = "1 output" if count == 1 else f"{count or 'no'} outputs"
    last = f"{value.node.name}:{count - 1}" if count > 1 else value.node.name
    raise GraphError(
        f"there is no {role} '{value.name}' in the graph: {value.node.where} has {has}",
        graph.path,
        f"the last is '{last}'" if count > 1 else f"write '{last}'",
    )


def _require_fed(graph: Graph) -> None:
    """Refuse inputs that leave something open which the outputs need.

    Raises:
        GraphError: names the placeholder that nobody feeds, and the inputs with which nothing is open.
    """
    from thinflow.analysis.training_mode import inference_setting
    from thinflow.transforms.strip_unused_nodes import needed_nodes

    sources = [n for n in needed_nodes(graph) if n.op in {"Placeholder", "PlaceholderV2"}]
    missing = sorted((n for n in sources if inference_setting(n) is None), key=lambda n: n.name)
    if not missing:
        return
    names = [v.name for v in graph.inputs]
    beside = [v for v in _beside(graph) if v.name not in names]
    what = " and ".join(f"'{n.name}'" for n in missing[:_SHOWN_NAMES])
    more = f" and {len(missing) - _SHOWN_NAMES} more" if len(missing) > _SHOWN_NAMES else ""
    ports = f", through '{beside[0].name}'" if beside else ""
    rest = ",".join([*names, *([v.name for v in beside] or [n.name for n in missing])])
    raise GraphError(
        f"the outputs also need {what}{more}, which is not among the inputs{ports}",
        graph.path,
        f"name all inputs: --inputs {shlex.quote(rest)}",
    )


def _beside(graph: Graph) -> list[Value]:
    """The ports that are read of nodes of which another port is fed."""
    nodes = dict.fromkeys(v.node for v in graph.inputs)
    return [v for n in nodes for v in n.outputs if v.is_used and not v.is_graph_input]


def _own(graph: Graph, role: str) -> str:
    """The graph's likely inputs or outputs, as a hint for a name like none of them; "" if none are likely."""
    from thinflow.analysis.interface import guess_interface

    guess = guess_interface(graph)
    values = guess.chosen_inputs if role == "input" else guess.chosen_outputs
    shown = ", ".join(v.name for v in values[:_SHOWN_NAMES])
    more = f" and {len(values) - _SHOWN_NAMES} more" if len(values) > _SHOWN_NAMES else ""
    return f"its {role}s seem to be {shown}{more}" if values else ""


def require_outputs(graph: Graph) -> None:
    if not graph.outputs:
        raise GraphError("the graph has no outputs to write", graph.path, hint="name them: outputs=[...]")
