"""Keep only what the outputs need, and cut the graph at its inputs.

x = DecodeJpeg(f); y = Relu(x); z = Log(y)  ->  x = Placeholder(); y = Relu(x)      inputs x, outputs y
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.analysis.shapes import infer_shapes, placeholder_spec
from thinflow.errors import GraphError, ParameterError, ThinflowError
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.function import ARGUMENT, Selection, reachable
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.ledger import Entry
from thinflow.ir.types import FLOAT, DType, Shape, TensorSpec, dtype
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Trace, Transform, transform
from thinflow.transforms.flow.library import note_functions
from thinflow.transforms.shared.effects import drop_idle_control


@transform("strip_unused_nodes")
@dataclass(frozen=True)
class StripUnusedNodes(Transform):
    """Remove what no output needs; an input that is computed becomes a Placeholder.

    What a new Placeholder declares: the values given for its name, else `type` and `shape`, else what shape
    inference and its readers tell, else an unknown rank. Placeholders that exist keep what they declare.

    Attributes:
        type: element type of new placeholders.
        shape: their shape: "1,224,224,3"; `?` or -1 for a size that varies, "[]" for a scalar, "unknown"
            for any rank.
        name_: inputs with a type or shape of their own; may be repeated.
        type_for_name: one type per name, or none at all.
        shape_for_name: one shape per name, or none at all.
        override: let existing placeholders take the given types and shapes, too.
        missing_ok: a name in `name` that is no input of the graph is fine.
        keep_control: keep control edges that make nobody wait, and with them what they alone hold.
    """

    renames = True  # cutting at two ports of one node gives two inputs

    type: str | None = None
    shape: str | None = None
    name_: tuple[str, ...] = ()
    type_for_name: tuple[str, ...] = ()
    shape_for_name: tuple[str, ...] = ()
    override: bool = False
    missing_ok: bool = False
    keep_control: bool = False

    def __post_init__(self) -> None:
        for option, given in (("type_for_name", self.type_for_name), ("shape_for_name", self.shape_for_name)):
            if given and len(given) != len(self.name_):
                problem = f"'name' is given {len(self.name_)} times and '{option}' {len(given)} times"
                raise ParameterError(problem, hint=f"give one {option} per name, or none")
        if self.name_ and not self.type_for_name and not self.shape_for_name:
            raise ParameterError(
                "'name' is given without a type or shape", hint="add type_for_name or shape_for_name"
            )
        for text in (self.type, *self.type_for_name):
            if text is not None:
                read_type(text)
        for text in (self.shape, *self.shape_for_name):
            if text is not None:
                read_shape(text)

    def apply(self, graph: Graph, trace: Trace) -> None:
        self.strip(graph, trace)
        prune_functions(graph, trace)

    def for_function(self) -> StripUnusedNodes:
        return _StripBody(keep_control=self.keep_control)

    def strip(self, graph: Graph, trace: Trace) -> None:
        """As `apply`, but the function library stays."""
        if not graph.outputs:
            raise GraphError(
                "no outputs are given, so nothing is needed", graph.path, hint="name them: outputs=[...]"
            )
        self.check_names(graph, trace)
        note_functions(graph, trace, "its nodes stay")
        if not self.keep_control:
            for source, waiter in drop_idle_control(graph):
                trace.changed(waiter, f"no longer waits for '{source.name}', which has no effect")
        cuts: dict[Node, list[Value]] = {}
        for value in graph.inputs:
            # Arguments of a function are no nodes to cut at.
            if value.node.op == ARGUMENT:
                continue
            if value.node.op != "Placeholder":  # PlaceholderV2 and PlaceholderWithDefault become one
                cuts.setdefault(value.node, []).append(value)
            else:
                self.free(value.node, trace)
                self.declare(value.node, value, trace)
        specs = self.specs(graph, [v for values in cuts.values() for v in values], trace)
        needed = needed_nodes(graph)
        for node in cuts:
            if node not in needed:
                node.set_inputs(())
                node.set_control_inputs(())
        # Inputs stay even if no output needs them: callers feed them.
        gone = [n for n in graph if n not in needed and not any(v.is_graph_input for v in n.outputs)]
        for node in gone:
            trace.changed(node, "not needed by any output")
        graph.remove(*gone)
        for node, values in cuts.items():
            self.cut(graph, node, values, specs, trace, keep=node in needed)

    def free(self, node: Node, trace: Trace) -> None:
        """Let a placeholder wait for nothing: it is fed, so nothing has to run for it."""
        for awaited in node.control_inputs:
            trace.changed(node, f"no longer waits for '{awaited.name}': it is fed")
        node.set_control_inputs(())

    def check_names(self, graph: Graph, trace: Trace) -> None:
        """Every `name` must be an input of the graph.

        Raises:
            GraphError: one is not.
        """
        inputs = [v.name for v in graph.inputs]
        for name in self.name_:
            # `x:0` and `x` are the same value.
            if name.removesuffix(":0") in inputs:
                continue
            if not self.missing_ok:
                hint = f"the inputs are: {', '.join(inputs) or 'none'}; missing_ok=true goes on without it"
                raise GraphError(f"'{name}' is not an input of the graph", graph.path, hint=hint)
            trace.warnings.append(f"'{name}' is not an input of the graph")

    def specs(self, graph: Graph, values: list[Value], trace: Trace) -> dict[Value, TensorSpec]:
        """Type and shape for each new placeholder: given, else found."""
        if values:
            infer_shapes(graph)
        specs = {}
        for value in values:
            inferred = inferred_spec(value)
            # A placeholder with a default has a type and shape of its own, which the general ones do not
            # replace.
            specs[value] = self.spec_of(
                value, inferred, general=self.override or not has(value.node.op, Trait.PLACEHOLDER)
            )
            known = value.spec.dtype
            if known is not None and known != specs[value].dtype:
                trace.warnings.append(
                    f"'{value.name}' becomes {specs[value].dtype}, but its readers expect {known}"
                )
        return specs

    def spec_of(self, value: Value, inferred: TensorSpec, *, general: bool) -> TensorSpec:
        """Type and shape of an input: the user's, or what was found where the user says nothing."""
        element: DType | None = read_type(self.type) if self.type is not None and general else inferred.dtype
        shape: Shape = read_shape(self.shape) if self.shape is not None and general else inferred.shape
        for index, name in enumerate(self.name_):
            if name.removesuffix(":0") == value.name:
                element = read_type(self.type_for_name[index]) if self.type_for_name else element
                shape = read_shape(self.shape_for_name[index]) if self.shape_for_name else shape
        return TensorSpec(element, shape)

    def declare(self, node: Node, value: Value, trace: Trace) -> None:
        """Apply given types and shapes to a placeholder that was there before, or say why not."""
        now = placeholder_spec(node)
        new = self.spec_of(value, now, general=True)
        if new == now:
            return
        if not self.override:
            trace.leave(node, f"it is a Placeholder already and stays {now}; override=true makes it {new}")
            return
        trace.changed(node, f"declared {now}, now {new}")
        node.attrs.update(_attrs(new))

    def cut(
        self,
        graph: Graph,
        node: Node,
        values: list[Value],
        specs: dict[Value, TensorSpec],
        trace: Trace,
        *,
        keep: bool,
    ) -> None:
        """Let placeholders stand where the graph is to be fed; the node goes unless its other ports are
        needed.
        """
        alone = len(values) == 1 and not keep
        for value in values:
            trace.changed(node, f"{value.name} is fed from now on, {specs[value]}")
            name = node.name if alone else f"{node.name}_{value.port}"
            # Cut at several ports, or with ports that are still computed, a node gives several placeholders.
            fed = graph.add("Placeholder", name=name, attrs=_attrs(specs[value]), before=node)
            fed.origin = self.name
            _keep_name(graph, value.name, name)
            if alone:
                graph.replace(node, fed, {value.port: fed.output()})
                return
            value.replace_uses(fed.output())
            graph.inputs = [fed.output() if v is value else v for v in graph.inputs]
            graph.outputs = [fed.output() if v is value else v for v in graph.outputs]
            trace.warnings.append(f"the input '{value.name}' is called '{fed.name}' now")
            for waiter in () if keep else node.control_outputs:
                waiter.remove_control_input(node)
                waiter.add_control_input(fed)
        if not keep:
            graph.remove(node)


class _StripBody(StripUnusedNodes):
    """In the body of a function: what its library needs, only the whole graph tells."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        self.strip(graph, trace)


def prune_functions(graph: Graph, trace: Trace) -> None:
    """Keep only the functions that a node may call, directly or through others. O(nodes of their bodies)."""
    try:
        called = reachable(graph) if graph.functions else set()
    except ThinflowError as error:
        trace.warnings.append(f"the function library stays whole: {error.message}")
        return
    called &= set(graph.functions)
    count = len(graph.functions) - len(called)
    if count:
        graph.functions = Selection(graph.functions, called)
        trace.changes.append(Entry("library", "", f"{count} functions that nothing calls were dropped"))


def needed_nodes(graph: Graph) -> set[Node]:
    """The nodes that must run for the outputs when the inputs are fed. O(nodes + edges)."""
    cut = {v.node for v in graph.inputs}
    # An output that is fed is not computed at all.
    stack = [v.node for v in graph.outputs if not v.is_graph_input]
    needed: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(v.node for v in node.inputs if not v.is_graph_input)
            # What waited for a fed node does not need it to run.
            stack.extend(n for n in node.control_inputs if n not in cut)
    return needed


def _keep_name(graph: Graph, old: str, new: str) -> None:
    """Let the name that a fed value had go on meaning it, and what was an alias of that."""
    for alias, name in graph.aliases.items():
        if name.removesuffix(":0") == old:
            graph.aliases[alias] = new
    if old != new:
        graph.aliases[old] = new


def _attrs(spec: TensorSpec) -> dict[str, Attr]:
    return {"dtype": spec.dtype or FLOAT, "shape": ShapeAttr(spec.shape)}


def read_type(text: str) -> DType:
    """A type by its name.

    Raises:
        ParameterError: there is none of that name.
    """
    try:
        return dtype(text.strip())
    except ParameterError as error:
        hint = error.hint or "write float, int32, uint8..."
        raise ParameterError(f"Couldn't understand type argument '{text}'", hint=hint) from None


def read_shape(text: str) -> Shape:
    """A shape from "1,224,224,3"; sizes of -1 or ? are unknown.

    Raises:
        ParameterError: it is not one.
    """
    body = text.strip().removeprefix("[").removesuffix("]").strip()
    if body == "unknown":
        return None
    # "[]" is a scalar; without brackets an empty text is a mistake.
    if not body and "[" in text:
        return ()
    sizes: list[int | None] = []
    for item in body.split(","):
        size = item.strip()
        if size in {"-1", "?"}:
            sizes.append(None)
        elif size.isascii() and size.isdecimal() and int(size) < 1 << 63:
            sizes.append(int(size))
        else:
            hint = 'write sizes like "1,224,224,3"; ? for any size, "[]" for a scalar'
            raise ParameterError(f"Could not parse as shape: '{text}'", hint=hint)
    return tuple(sizes)


def inferred_spec(value: Value) -> TensorSpec:
    """Type and shape of a value that is to be fed, from its producer, shape inference and its readers.

    A type nobody tells is float, which most inputs are.
    """
    declared = placeholder_spec(value.node) if has(value.node.op, Trait.PLACEHOLDER) else value.spec
    shape = value.spec.shape if declared.shape is None else declared.shape
    return TensorSpec(declared.dtype or value.spec.dtype or _type_around(value) or FLOAT, shape)


def _type_around(value: Value) -> DType | None:
    reading = [(use.node, name) for use in value.uses for name in ("T", "SrcT")]
    producing = [(value.node, name) for name in ("dtype", "DstT", "out_type", "T")]
    for node, name in reading + producing:
        element = node.attrs_view.get(name)
        if isinstance(element, DType):
            return element
    return None
