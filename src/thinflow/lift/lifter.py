"""One op of another vocabulary on its way to TensorFlow's, and the graph that grows from all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from thinflow.analysis import foreign
from thinflow.analysis.shapes import constant_spec
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.names import LEGAL_NAME
from thinflow.ir.types import Shape, TensorSpec
from thinflow.lift.contents import Computed, compute, content_of
from thinflow.lift.specs import Disputed, are_apart, both, has_old_batch, inferred, of_kind, types_of

if TYPE_CHECKING:
    import numpy as np


class Call:
    """One op on its way: its operands by position, its options, and where results go.

    Attributes:
        node: the op in the file.
        sources: its operands in the file by position, None for one that is absent.
        facts: what the file says of itself.
        xs: operands in the new graph; None for one that is absent.
        spec: what the file says of the first output.
        given: options that the rule is to take for the file's.
        read_options, read_operands: what the rule has looked at so far.
    """

    def __init__(self, lifter: Lifter, node: Node, xs: list[Value | None]) -> None:
        self._lifter = lifter
        self.node = node
        self.facts = lifter.facts
        self.sources = foreign.operands(node, node.inputs)
        self.xs = xs
        self.given: dict[str, Any] = {}
        self.read_options: set[str] = set()
        self.read_operands: set[int] = set()
        stated = foreign.stated(node)
        self.spec = stated[0] if stated else TensorSpec()

    def __getitem__(self, place: int) -> Value:
        """An operand.

        Raises:
            UnsupportedOp: it is absent.
        """
        self.read_operands.add(place)
        value = self.xs[place] if place < len(self.xs) else None
        if value is None:
            raise UnsupportedOp(f"its operand {place} is absent")
        return value

    def has(self, place: int) -> bool:
        """True if an operand is given."""
        self.read_operands.add(place)
        return place < len(self.xs) and self.xs[place] is not None

    def get(self, option: str, default: Any = None) -> Any:
        """An option of the file.

        Raises:
            UnsupportedOp: it is not of the default's type.
        """
        self.read_options.add(option)
        given = self.given[option] if option in self.given else self.node.get(option, default)
        return of_kind(option, given, default)

    def flag(self, option: str, *, default: bool = False) -> bool:
        """An option that is on or off.

        Raises:
            UnsupportedOp: it is neither.
        """
        given = self.get(option, default)
        if given not in (0, 1):
            raise UnsupportedOp(f"its option '{option}' is {given!r}, which is neither on nor off")
        return bool(given)

    def state(self, place: int) -> Value:
        """A state before the first step.

        Raises:
            UnsupportedOp: something else reads it, which would see what the op leaves there.
        """
        source = self.sources[place]
        # Order in time decides what it would see, and a graph has none.
        if source is not None and len(source.uses) > 1:
            raise UnsupportedOp("its state is read by other ops too")
        return self[place]

    @property
    def scope(self) -> str:
        """The function that the op is in; "" for the main graph."""
        return self._lifter.scope

    @property
    def name(self) -> str:
        """What the names of its nodes begin with."""
        return f"{self._lifter.prefix}{self.node.name}"

    @property
    def lifter(self) -> Lifter:
        """What the op is lifted by."""
        return self._lifter

    def sizes(self, place: int) -> tuple[int, ...]:
        """The sizes of an operand.

        Raises:
            UnsupportedOp: they are not all known.
        """
        shape = self[place].spec.shape
        if shape is None or None in shape:
            raise UnsupportedOp(f"the sizes of its operand {place} are not known")
        return tuple(n for n in shape if n is not None)

    def constant(
        self, content: np.ndarray[Any, Any] | Sequence[int] | float, like: Value | None = None
    ) -> Value:
        """A new constant; numbers take the type of `like`, integers are int32."""
        import numpy as np

        # Shapes and axes are most of the constants, and TensorFlow's ops take int32 for these.
        element = like.dtype.numpy() if like is not None and like.dtype is not None else np.dtype(np.int32)
        array = content if isinstance(content, np.ndarray) else np.array(content, element)
        graph = self._lifter.graph
        value = graph.constant(array, self._lifter.free_name(f"{self.name}/constant"))
        assert value.node.tensor is not None
        value.spec = constant_spec(value.node.tensor)
        return value

    def known(self, place: int) -> np.ndarray[Any, Any]:
        """The elements of an operand that is a constant, or that follows from sizes that are known.

        Raises:
            UnsupportedOp: it is computed.
        """
        content = self.content(self[place])
        if content is None:
            raise UnsupportedOp(f"its operand {place} is computed, which only its own engine can follow")
        return content

    def content(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The elements of a value in the new graph; None if they depend on what is fed."""
        return content_of(value, self._lifter.computed)

    def leave(self, place: int, value: Value) -> None:
        """Let the variable behind an operand hold a value from this op on, as the next run will find it.

        Nothing happens where the operand is no variable.
        """
        # Only variables are read by this op; a state that is fed is not kept here.
        read = self.xs[place] if place < len(self.xs) else None
        if read is None or read.node.op != "ReadVariableOp":
            return
        # The variable has the shape of the file; what a rule leaves may have another, as SVDF's memory does.
        shape = self.constant(tuple(n or 0 for n in read.spec.shape or ()))
        whole = self.emit("Reshape", value, shape)
        assigned = self.many("AssignVariableOp", read.node.inputs[0], whole, dtype=whole.dtype)
        self._lifter.effects.append(assigned)

    def variable_read(self, handle: Value) -> Value:
        """The value of a resource variable after the last write before this op."""
        history = self._lifter.history(handle)
        read = self.many("ReadVariableOp", handle, T=None, dtype=handle.node.get("dtype"))
        # Every read behind the last write, and every write behind all reads before: the order of the file.
        read.set_control_inputs([history.write] if history.write is not None else [])
        history.reads.append(read)
        return read.output()

    def variable_written(self, handle: Value, value: Value) -> None:
        """Let a resource variable hold a value from this op on."""
        history = self._lifter.history(handle)
        wrote = self.many("AssignVariableOp", handle, value, T=None, dtype=value.dtype)
        before = [history.write] if history.write is not None else []
        wrote.set_control_inputs([*before, *history.reads])
        history.write, history.reads = wrote, []

    def started_by(self) -> list[Graph]:
        """The subgraphs of the file that run once, before the first run."""
        return self._lifter.once

    def function(self, option: str) -> Attr:
        """An option that names a subgraph, as TensorFlow's function.

        Raises:
            UnsupportedOp: it has none.
        """
        self.read_options.add(option)
        return self._lifter.called(self.node.attrs.get(option))

    def functions(self, option: str) -> tuple[FunctionAttr, ...]:
        """An option that names several subgraphs, as TensorFlow's functions.

        Raises:
            UnsupportedOp: one of them is missing.
        """
        self.read_options.add(option)
        named = self.node.attrs.get(option)
        if not isinstance(named, tuple) or not named:
            raise UnsupportedOp("the subgraphs that it chooses from are missing")
        return tuple(self._lifter.called(n) for n in named if isinstance(n, FunctionAttr))

    def body(self, option: str) -> Function:
        """The function of the file behind such an option, as it is there.

        Raises:
            UnsupportedOp: it has none.
        """
        self.read_options.add(option)
        return self._lifter.source_function(self.node.attrs.get(option))

    def body_named(self, name: str) -> Function:
        """A function of the file by its name.

        Raises:
            UnsupportedOp: there is none.
        """
        return self._lifter.source_function(FunctionAttr(name))

    def made(self, function: Function) -> Attr:
        """A function written in TensorFlow's ops, for the new library."""
        name, count = function.name, 0
        while name in self._lifter.made or name in self._lifter.wanted:
            name, count = f"{function.name}_{count}", count + 1
        self._lifter.made[name] = replace(function, name=name)
        return FunctionAttr(name)

    def emit(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        """The first output of a new node."""
        return self.many(op, *inputs, **attrs).output()

    def many(self, op: str, *inputs: Value, **attrs: Any) -> Node:
        """A new node. What TensorFlow wants to be told of the inputs' types follows from them."""
        element = inputs[0].dtype if inputs else None
        given = attrs | types_of(op, inputs)
        # Attributes given as None are left out.
        known = {key: attr for key, attr in given.items() if attr is not None}
        node = self._lifter.graph.add(op, inputs, self._lifter.free_name(f"{self.name}/{op}"), attrs=known)
        # Shape inference says nothing where it is at a loss; the type of the first input is the likeliest.
        node.output().spec = TensorSpec(element)
        for port, spec in enumerate(inferred(node)):
            node.output(port).spec = spec
        compute(node, self._lifter.computed)
        return node


@dataclass
class History:
    """The accesses to a resource variable so far: the last write, and the reads since."""

    write: Node | None = None
    reads: list[Node] = field(default_factory=list)


class Lifter:
    """The new graph while it grows."""

    def __init__(self, source: Graph, facts: Mapping[str, str] | None = None, scope: str = "") -> None:
        self.graph = Graph()
        self.keeps_grids, self.behind = False, dict[Value, Value]()  # see `grids`
        self.facts = source.facts if facts is None else facts
        self.graph.path, self.graph.aliases = source.path, dict(source.aliases)
        self.wanted: dict[str, Function] = {}
        """Functions that lifted ops call."""
        self.made: dict[str, Function] = {}
        """Functions that rules wrote."""
        self.effects: list[Node] = []
        """Writes to variables of the op that is being placed; its results wait for them."""
        self.scope, self.prefix = scope, ""
        self.calls: tuple[int, list[int]] = (0, [0])
        """How deep this is inside functions put into the place of their calls; the nodes of all of those."""
        self.computed: Computed = {}
        """Values that follow from constants and sizes, see `contents`."""
        self.disputed: Disputed | None = None
        """Where to note what the file states and cannot be; None if nobody asks."""
        ends = [v.spec.shape for v in source.inputs if v.spec.shape]
        self._has_open_batch = bool(ends) and all(shape[0] is None for shape in ends)
        self._histories: dict[Attr, History] = {}
        self._source = self._file = source
        self._values: dict[Value, Value | None] = {}
        self._placed: set[Node] = set()

    def copy(self, node: Node) -> None:
        """Take over an input or a constant."""
        # Quantization parameters stay known by the source's node: in the new graph values are real numbers.
        attrs = {k: v for k, v in node.attrs.items() if not k.startswith("quantization_")}
        copy = self.graph.add(node.op, [self.of(v) for v in node.inputs], node.name, attrs=attrs)
        copy.output().spec = node.output().spec if copy.tensor is None else constant_spec(copy.tensor)
        self._values[node.output()] = copy.output()
        self._placed.add(copy)

    def defines(self, op: str) -> bool:
        """True if the model defines an op by a function of its own."""
        function = self._source.functions.get(op)
        return function is not None and "domain" in function.attrs

    def call(self, node: Node) -> Call:
        """An op with its operands in the new graph."""
        return Call(
            self, node, [None if v is None else self._values[v] for v in foreign.operands(node, node.inputs)]
        )

    def place(self, node: Node, results: list[Value]) -> None:
        """Put what a rule made of an op into its place; the last node takes its name."""
        results = self.after_effects(results)
        if not results:
            return
        # It has a node and a name already, as an operand handed on; or a node's first output has its name.
        if results[0].node in self._placed or results[0].port:
            handed = results[0]
            results[0] = self.graph.add("Identity", [handed], node.name).output()
            results[0].spec = handed.spec
        else:
            self.graph.rename(results[0].node, node.name)
        self.note(node, results)
        for port, value in enumerate(results):
            self._placed.add(value.node)
            # Ports of the new op may be others; the name by which the file knows the value leads there.
            if value.name != node.output(port).name:
                self.graph.aliases[node.output(port).name] = value.name

    def free_name(self, wished: str) -> str:
        """A name that no node has, neither here nor in the file, where one may come to be placed yet."""
        name, count = self.graph.unique_name(wished), 0
        while name in self._file:
            count += 1
            name = self.graph.unique_name(f"{wished}_{count}")
        return name

    def note(self, node: Node, results: list[Value]) -> None:
        """Let values stand for the outputs of an op."""
        for port, value in enumerate(results):
            own = node.output(port)
            if self.disputed is not None and self._is_disputed(value.spec.shape, own.spec.shape):
                self.disputed.setdefault(own, (value.spec, own.spec))
            value.spec = both(value.spec, own.spec)
            self._values[own] = value

    def _is_disputed(self, made: Shape, stated: Shape) -> bool:
        return are_apart(made, stated) or (self._has_open_batch and has_old_batch(made, stated))

    def after_effects(self, results: list[Value]) -> list[Value]:
        """The results, which come only once variables hold what the op leaves in them."""
        effects, self.effects = self.effects, []
        if not effects:
            return results
        waiting = [self.graph.add("Identity", [v], v.node.name, control_inputs=effects) for v in results]
        for node, value in zip(waiting, results, strict=True):
            node.output().spec = value.spec
        return [n.output() for n in waiting]

    def called(self, function: Attr | None) -> FunctionAttr:
        """A function that an op calls, lifted into the new library.

        Raises:
            UnsupportedOp: there is none of that name.
        """
        body = self.source_function(function)
        self.wanted.setdefault(body.name, body)
        return FunctionAttr(body.name)

    def source_function(self, function: Attr | None) -> Function:
        """A function of the source's library.

        Raises:
            UnsupportedOp: there is none of that name.
        """
        if not isinstance(function, FunctionAttr) or function.name not in self._source.functions:
            raise UnsupportedOp("the subgraph that it calls is missing")
        return self._source.functions[function.name]

    def history(self, handle: Value) -> History:
        """The accesses to the variable of a handle so far."""
        # By the variable's name: several handles may lead to the same one.
        return self._histories.setdefault(handle.node.attrs["shared_name"], History())

    @property
    def once(self) -> list[Graph]:
        """The bodies of the file's subgraphs that run once."""
        named = (n.attrs.get("init_subgraph_index") for n in self._source if n.op == "tfl.CALL_ONCE")
        return [self.source_function(name).graph for name in named]

    def finished(self) -> Graph:
        """The graph with its inputs and outputs."""
        self.graph.inputs = [self.of(v) for v in self._source.inputs]
        outputs = [self._named(v) for v in self._source.outputs]
        writes = [h.write for h in self._histories.values() if h.write is not None]
        waiting = {v: self._behind(v, writes) for v in dict.fromkeys(outputs)} if writes else {}
        self.graph.outputs = [waiting.get(v, v) for v in outputs]
        return self.graph

    def _behind(self, value: Value, writes: Sequence[Node]) -> Value:
        """The value under its name, once variables hold what the run leaves in them."""
        wished, node = value.node.name, value.node
        # Inputs keep their name, under which they are fed, and an op's further outputs have none to give.
        own = value.port == 0 and value not in self.graph.inputs
        if own:
            self.graph.rename(node, self.graph.unique_name(f"{wished}/value"))
        behind = self.graph.add("Identity", [value], wished, control_inputs=writes).output()
        behind.spec = value.spec
        if not own:
            self.graph.aliases[value.name] = behind.name
        return behind

    def _named(self, value: Value) -> Value:
        """An output, behind a node of its own where the file's name for it is not that of a node's output."""
        result = self.of(value)
        names = [other for other, own in self._source.aliases.items() if own == value.name]
        free = [n for n in names if n not in self.graph and LEGAL_NAME.match(n)]
        # Output 0 has the node's name; other ports would be `node:port`, which is not the file's name.
        if not value.port or not free:
            return result
        self.graph.aliases.pop(free[0], None)
        named = self.graph.add("Identity", [result], free[0]).output()
        named.spec = result.spec
        return named

    def of(self, value: Value) -> Value:
        """The new value that stands for one of the source.

        Raises:
            UnsupportedOp: it is absent, as an operand may be that a function leaves to its caller.
        """
        result = self._values[value]
        if result is None:
            raise UnsupportedOp(f"'{value.name}' is absent")
        return result
