"""Have values printed while the graph runs: a Print stands between a node and its readers.

y = relu(a)  ->  y = relu(print(a))
y = relu(a)  ->  y = relu(identity(a, ^print_v2(string_format(a))))       print_op=PrintV2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ParameterError
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import RESOURCE, VARIANT, DType
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform

SUFFIX = "__print__"


@transform("insert_logging")
@dataclass(frozen=True)
class InsertLogging(Transform):
    """Print what nodes give, whenever the graph runs in TensorFlow.

    `insert_logging(op=RequantizationRange, show_name=true, message="__requant_min_max:")` writes the log that
    `freeze_requantization_ranges` reads.

    Attributes:
        op: which ops; default all but constants and placeholders, `"*"` those too.
        prefix: only nodes whose name starts with one of these.
        message: what each line starts with.
        show_op: put the op before the message.
        show_name: put the name of the Print before the message.
        first_n: how often each node prints, -1 for always.
        summarize: how many elements of each value to print.
        print_op: Print, or PrintV2 for a runtime that has no Print (the log reads the same).
    """

    repeatable = False

    op: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    message: str = ""
    show_op: bool = False
    show_name: bool = False
    first_n: int = -1
    summarize: int = 1024
    print_op: str = "Print"

    def apply(self, graph: Graph, trace: Trace) -> None:
        self._check_options()
        infer_shapes(graph)
        successor: Node | None = None
        # From the back, so that a Print goes in front of the node that follows, not of another Print.
        for node in reversed(list(graph)):
            if self._is_wanted(node):
                try:
                    self._instrument(graph, node, successor, trace)
                except Refuse as refusal:
                    trace.leave(node, refusal.reason)
            successor = node
        for entries in (trace.changes, trace.left):
            entries.reverse()  # told in file order

    def _check_options(self) -> None:
        if self.print_op not in {"Print", "PrintV2"}:
            raise ParameterError(f"there is no print_op '{self.print_op}'", hint="write Print or PrintV2")
        if self.print_op == "PrintV2" and self.first_n != -1:
            raise ParameterError("PrintV2 prints always", hint="leave first_n out")

    def _is_wanted(self, node: Node) -> bool:
        is_source = node.op == "Const" or has(node.op, Trait.PLACEHOLDER)
        selected = not is_source if not self.op else node.op in self.op or "*" in self.op
        return selected and (not self.prefix or node.name.startswith(self.prefix))

    def _instrument(self, graph: Graph, node: Node, successor: Node | None, trace: Trace) -> None:
        """Route the first output that is read through a Print of all that are read.

        Raises:
            Refuse: there is nothing to print, or no way to print it.
        """
        used = [value for value in node.outputs if value.uses]
        types = printable_types(node, used)
        if self.print_op == "PrintV2":
            self._instrument_v2(graph, node, successor, used, types)
        else:
            self._instrument_v1(graph, node, successor, used, types)
        trace.changed(node, f"'{node.name}{SUFFIX}' prints {', '.join(v.name for v in used)}")

    def _instrument_v1(
        self, graph: Graph, node: Node, successor: Node | None, used: list[Value], types: list[DType]
    ) -> None:
        attrs: dict[str, Attr] = {
            "T": types[0],
            "U": tuple(types),
            "first_n": self.first_n,
            "summarize": self.summarize,
        }
        # Print hands on its first input and prints the others.
        values, name = [used[0], *used], f"{node.name}{SUFFIX}"
        printer = graph.add("Print", values, name, attrs=attrs, device=node.device, before=successor)
        printer.origin = self.name
        # The message holds the name that the Print was given, which is known only now.
        printer.attrs["message"] = self._message(node, printer).encode()
        used[0].replace_uses(printer.output(), keep=[printer])

    def _instrument_v2(
        self, graph: Graph, node: Node, successor: Node | None, used: list[Value], types: list[DType]
    ) -> None:
        """PrintV2 gives nothing to read: who reads the value waits for it through an Identity."""
        name = f"{node.name}{SUFFIX}"

        def add(op: str, inputs: list[Value], name: str, attrs: dict[str, Attr]) -> Node:
            made = graph.add(op, inputs, name, attrs=attrs, device=node.device, before=successor)
            made.origin = self.name
            return made

        text = add("StringFormat", used, f"{name}/format", {"T": tuple(types), "summarize": self.summarize})
        printer = add("PrintV2", [text.output()], name, {"output_stream": b"stderr", "end": b"\n"})
        message = self._message(node, printer)
        # A placeholder that the message does not hold, or it would be replaced there, too.
        mark = next(m for n in count() if (m := f"{{{n or ''}}}") not in message)
        # Print puts every value in brackets; StringFormat only what has axes.
        places = "".join(f"[{mark}]" if v.spec.shape in {None, ()} else mark for v in used)
        text.attrs.update(template=f"{message}{places}".encode(), placeholder=mark.encode())
        same = add("Identity", [used[0]], f"{name}/value", {"T": types[0]})
        same.add_control_input(printer)
        used[0].replace_uses(same.output(), keep=[text, same])

    def _message(self, node: Node, printer: Node) -> str:
        shown = [f";{node.op};"] * self.show_op + [f";{printer.name};"] * self.show_name
        return "".join([*shown, self.message])


def printable_types(node: Node, used: Sequence[Value]) -> list[DType]:
    """The element types of the outputs that are read. Needs specs.

    Raises:
        Refuse: the node cannot be printed.
    """
    if not used:
        raise Refuse("nothing reads its value, so a Print would never run")
    definition = registry.find(node.op)
    if definition is not None and definition.has(Trait.CONTROL_FLOW):
        raise Refuse(f"a Print behind {node.op} would break the control flow")
    types = []
    for value in used:
        element = value.spec.dtype
        # Of a foreign op with one result, its attribute is the best there is.
        if element is None and definition is None and len(used) == 1 and value.port == 0:
            element = next((a for k in ("T", "dtype") if isinstance(a := node.attrs.get(k), DType)), None)
        if element is None:
            raise Refuse(f"the type of '{value.name}' is not known")
        if element in {RESOURCE, VARIANT}:
            raise Refuse(f"'{value.name}' is a {element}, which cannot be printed")
        types.append(element)
    return types
