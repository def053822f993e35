"""The function library of a GraphDef, decoded one function at a time when somebody asks for it.

Writing is in `_function_writer`.

Inputs in a body are spelled `argument`, `node:output:index` or `^node`.
Source: TensorFlow's `function.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from thinflow.errors import FormatError, GraphError, closest
from thinflow.formats._attrs import decode_attr
from thinflow.formats._node_reader import KnownAttrs
from thinflow.ir.attrs import Attr, PlaceholderAttr
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.ports import OutputArg, flat_port, output_args
from thinflow.ir.types import DType, dtype
from thinflow.wire import protos


class Library(Mapping[str, Function]):
    """Functions by name, from the bytes of a GraphDef's `library` field."""

    is_stored: ClassVar[bool] = True

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._messages: dict[str, Any] | None = None
        self.known = KnownAttrs()
        self._single: dict[str, bool] = {}
        self._functions: dict[str, Function] = {}

    @property
    def messages(self) -> Mapping[str, Any]:
        """The FunctionDef messages by name."""
        if self._messages is None:
            functions = protos.parse("GraphDef", self._raw).library.function
            self._messages = {message.signature.name: message for message in functions}
        return self._messages

    def __getitem__(self, name: str) -> Function:
        if name not in self._functions:
            message = self.messages[name]
            try:
                self._functions[name] = _decode(message, self)
            except (FormatError, GraphError) as error:
                raise error.at(f"function '{name}'") from error
        return self._functions[name]

    def __contains__(self, name: object) -> bool:
        return name in self.messages

    def __iter__(self) -> Iterator[str]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def has_one_output(self, op: str) -> bool:
        """True if an op or function has a single output, or a single list of outputs."""
        is_single = self._single.get(op)
        if is_single is None:
            is_single = self._single[op] = not self.output_args(op)
        return is_single

    def output_args(self, op: str) -> tuple[OutputArg, ...]:
        """The outputs of an op or of a function that is called by its name."""
        message = self.messages.get(op)
        if message is None:
            return output_args(op)
        return tuple(
            OutputArg(a.name, a.number_attr or a.type_list_attr) for a in message.signature.output_arg
        )


class BodyRecord:
    """The NodeDef a body node was read from; its attributes are decoded on first use."""

    __slots__ = ("_attrs", "_known", "message")

    def __init__(self, message: Any, known: KnownAttrs) -> None:
        self.message = message
        self._known = known
        self._attrs: Mapping[str, Attr] | None = None

    def attrs(self) -> Mapping[str, Attr]:
        if self._attrs is None:
            if self.message.op == "Const":  # shared by nobody, and possibly large
                self._attrs = self._decoded()
            else:
                data = protos.serialize(self.message)
                self._attrs = self._known.of(data, 0, len(data), self._decoded)
        return self._attrs

    def _decoded(self) -> Mapping[str, Attr]:
        try:
            return {k: decode_attr(v) for k, v in self.message.attr.items()}
        except FormatError as error:
            raise error.at(f"node '{self.message.name}' ({self.message.op})") from error


def _decode(message: Any, library: Library, given: Mapping[str, Attr] | None = None) -> Function:
    """The function; one with lists among its arguments for a caller's attributes, if they are given."""
    signature = message.signature
    body = Graph()
    body.functions = library
    lists: Lists = {}
    inputs = [v for arg in signature.input_arg for v in _arguments(body, message, arg, given, lists)]
    for number, value in enumerate(inputs):
        value.node.attrs["index"] = number
    for node in message.node_def:
        body.restore(Node(node.name, node.op, node.device, BodyRecord(node, library.known)))
    for node in message.node_def:
        # Behind the loop that makes all nodes: a body need not be in an order in which it can run.
        _connect(body, body.node(node.name), node.input, library, lists)
    missing = [arg.name for arg in signature.output_arg if arg.name not in message.ret]
    if missing:
        raise FormatError(f"its result '{missing[0]}' is not computed", hint="the file is damaged")
    results = [(arg, _results(body, message, arg, library, given, lists)) for arg in signature.output_arg]
    plain = not any(_length_attr(a) for a in (*signature.input_arg, *signature.output_arg))
    return Function(
        signature.name,
        body,
        inputs,
        [v for _, values in results for v in values],
        [body.node(name) for name in message.control_ret.values()],
        [_element(arg) for arg in signature.input_arg for _ in lists.get(arg.name, inputs[:1])],
        [_element(arg) for arg, values in results for _ in values],
        {k: decode_attr(v) for k, v in message.attr.items()},
        {a.name: decode_attr(a.default_value) for a in signature.attr if a.HasField("default_value")},
        source=message,
        specialized=None if plain or given is not None else lambda attrs: _decode(message, library, attrs),
    )


Lists = dict[str, list[Value]]
"""Arguments that are lists -> what they consist of."""
# The length is an attribute of the caller: a damaged one could ask for any number of arguments.
MAX_LIST = 10_000


def _length_attr(arg: Any) -> str:
    """The attribute that says how long a list is; empty for what is none."""
    return str(arg.number_attr or arg.type_list_attr)


def _length(arg: Any, given: Mapping[str, Attr]) -> int:
    value = given.get(_length_attr(arg))
    count = len(value) if isinstance(value, tuple) else value
    if not isinstance(count, int) or not 0 <= count <= MAX_LIST:
        raise FormatError(f"the caller does not say how long '{arg.name}' is", hint="the file is damaged")
    return count


def _arguments(
    body: Graph, message: Any, arg: Any, given: Mapping[str, Attr] | None, lists: Lists
) -> list[Value]:
    """The value of an argument; several for a list."""
    if not _length_attr(arg):
        element: Attr = PlaceholderAttr(arg.type_attr) if arg.type_attr else dtype(int(arg.type))
        return [_new_node(body, arg.name, ARGUMENT, {"T": element}).output()]
    count = _mentioned(message, arg.name) if given is None else _length(arg, given)
    outputs = []
    for index in range(count):
        own = _list_element(arg, index, given)
        outputs.append(_new_node(body, f"{arg.name}_{index}", ARGUMENT, {"T": own}).output())
    lists[arg.name] = outputs
    return outputs


def _list_element(arg: Any, index: int, given: Mapping[str, Attr] | None) -> Attr:
    types = given.get(arg.type_list_attr) if given is not None else None
    if isinstance(types, tuple):
        return types[index]
    if arg.type_attr or arg.type_list_attr:
        return PlaceholderAttr(arg.type_attr or arg.type_list_attr)
    return dtype(int(arg.type))


def _mentioned(message: Any, name: str) -> int:
    """Number of members of a list that the body mentions."""
    places = [0]
    for text in (*(t for node in message.node_def for t in node.input), *message.ret.values()):
        first, _, rest = text.partition(":")
        # isascii, as int() and isdecimal() take digits of other scripts, too; a short
        # length keeps a hostile number small.
        if first == name and rest.isascii() and rest.isdecimal() and len(rest) < 5:
            places.append(int(rest))
    return max(places) + 1


def _results(
    body: Graph, message: Any, arg: Any, library: Library, given: Mapping[str, Attr] | None, lists: Lists
) -> list[Value]:
    """The value of a result; several for a list."""
    text = message.ret[arg.name]
    if text in lists:
        return lists[text]
    first = _value(body, text, library, lists)
    count = _length(arg, given) if _length_attr(arg) and given is not None else 1
    return [first.node.output(first.port + i) for i in range(count)]


def _new_node(body: Graph, name: str, op: str, attrs: dict[str, Attr]) -> Node:
    node = Node(name, op)
    node.attrs.update(attrs)
    body.restore(node)
    return node


def _element(arg: Any) -> DType | None:
    return None if arg.type_attr or arg.type_list_attr else dtype(int(arg.type))


def _connect(body: Graph, node: Node, references: Sequence[str], library: Library, lists: Lists) -> None:
    values: list[Value] = []
    for text in references:
        if text.startswith("^"):
            # Control inputs name a node; a port after it says nothing more.
            name = text[1:].partition(":")[0]
            node.add_control_input(body.find(name) or body.stand_in(name))
        else:
            values += lists[text] if text in lists else [_value(body, text, library, lists)]
    node.set_inputs(values)


def _value(body: Graph, text: str, library: Library, lists: Lists) -> Value:
    """The value that a body calls `argument`, `argument:0` or `node:output:index`."""
    name, _, rest = text.partition(":")
    output, _, index = rest.partition(":")
    if name in lists:
        place = int(output) if output.isascii() and output.isdecimal() and len(output) < 5 else -1
        if not 0 <= place < len(lists[name]):
            raise FormatError(f"'{text}' is not in a list of {len(lists[name])}", hint="the file is damaged")
        return lists[name][place]
    node = body.find(name)
    if node is None:
        raise GraphError(
            f"'{text}' refers to a node that does not exist", hint=closest(name, (n.name for n in body))
        )
    if node.op == ARGUMENT:
        return node.output()
    if index == "0" and library.has_one_output(node.op):
        return node.output()
    if index and not (index.isascii() and index.isdecimal() and len(index) < 8):
        raise FormatError(f"'{text}' is not an input", hint="the file is damaged")
    try:
        port = flat_port(library.output_args(node.op), node.attrs_view, output, int(index or 0))
    except GraphError as error:
        raise error.at(node.where) from error
    return node.output(port)
