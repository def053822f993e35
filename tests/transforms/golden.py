"""Golden cases: graphs as text, before and after a transform. One file per transform, `<transform>.txt`,
many cases each.

    ## name of the case
    > strip_unused_nodes(type=float)
    x = Placeholder() {dtype=float, shape=shape[1,?]}
    w = Const() {value=float[2]{1,2}}
    y = Mul(x, w, ^init) {T=float} @/cpu:0
    inputs: x
    outputs: y
    =>
    (the graph afterwards, or the one word `unchanged`)
    left:
      w: the reason it was left alone
    warnings:
      a sentence

Functions of the library stand behind the graph, each from `def body(x: float, n: int32)` to `return y, n`,
which may end with `effects` and the nodes that run in every call.

`left:` and `warnings:` are optional, and then complete: every refusal is listed, in order. Instead of `=>`
and a graph, `error: text` expects a ThinflowError whose message contains the text. `#` starts a comment line.

Beyond what `ir.text` prints, constants may be written as `float[40]{range}` (0, 1, 2...), `float[40]{normal
7}` (seeded random numbers) and `float[100]{2.5 x 100}` (one value stored once); an attribute is a float if
it has a point or exponent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.attrs import Attr, FunctionAttr, PlaceholderAttr, ShapeAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import STRING, dtype

FOLDER = Path(__file__).parent

_NODE = re.compile(
    r"(?P<name>\S+) = (?P<op>\w+)\((?P<inputs>[^)]*)\)(?: (?P<attrs>\{.*\}))?(?: @(?P<device>\S+))?$"
)
_TENSOR = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,]*)\]\{")
_FUNCTION = re.compile(
    r"def (?P<name>\w+)\((?P<arguments>[^)]*)\)\n(?P<body>.*?)"
    r"^return ?(?P<results>[^\n]*?)(?: effects (?P<effects>[^\n]*))?$",
    re.DOTALL | re.MULTILINE,
)
_SHAPE = re.compile(r"shape(?:\?|\[(?P<sizes>[^\]]*)\])")
_NUMBER = re.compile(r"-?(?:inf|nan|[0-9][0-9.]*(?:e[+-]?[0-9]+)?)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def trimmed(text: str) -> str:
    """The text without blanks at the ends of lines."""
    return "".join(line.strip() + "\n" for line in text.splitlines())


@dataclass
class Case:
    """One golden case; see the module's docstring."""

    file: str
    name: str
    pipeline: str = ""
    before: str = ""
    after: str = ""
    error: str = ""
    left: list[str] | None = None
    warnings: list[str] | None = None
    line: int = 0

    def graph(self) -> Graph:
        """The graph before."""
        return parse_graph(self.before)

    def __str__(self) -> str:
        return f"{self.file.removesuffix('.txt')}-{self.name.replace(' ', '_')}"


def all_cases() -> list[Case]:
    """The cases of every .txt file here."""
    return [
        case
        for path in sorted(FOLDER.glob("*.txt"))
        for case in read_cases(path.read_text("utf-8"), path.name)
    ]


def read_cases(text: str, file: str) -> list[Case]:
    """The cases in the text of one file."""
    cases: list[Case] = []
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            cases.append(Case(file, line[3:].strip(), line=number))
            section = "before"
        elif not line.strip() or line.startswith("#"):
            continue
        elif not cases:
            raise ValueError(f"{file}:{number}: text before the first case")
        else:
            section = _read_line(cases[-1], section, line)
    return cases


def _read_line(case: Case, section: str, line: str) -> str:
    if line.startswith("> "):
        case.pipeline += (" " if case.pipeline else "") + line[2:].strip()
    elif line.startswith("error:"):
        case.error = line.removeprefix("error:").strip()
    elif line.strip() == "=>":
        return "after"
    elif line.strip() in {"left:", "warnings:"}:
        section = line.strip().removesuffix(":")
        setattr(case, section, [])
    elif section in {"left", "warnings"}:
        getattr(case, section).append(line.strip())
    else:
        setattr(case, section, getattr(case, section) + line.strip() + "\n")
    return section


def parse_graph(text: str) -> Graph:
    """A graph from the text that `ir.text.graph_text` writes; nodes may stand in any order."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("def ")), len(lines))
    graph = _parse_body(lines[:first])
    graph.functions = _parse_library("\n".join(lines[first:]))
    return graph


def _parse_library(text: str) -> dict[str, Function]:
    library: dict[str, Function] = {}
    for found in _FUNCTION.finditer(text):
        arguments = [entry.split(": ") for entry in _names(found["arguments"])]
        declared = [f"{name} = _Arg() {{T={element}}}" for name, element in arguments]
        body = _parse_body([*declared, *found["body"].splitlines()])
        library[found["name"]] = Function(
            found["name"],
            body,
            [body.value(name) for name, _ in arguments],
            [body.value(name) for name in _names(found["results"])],
            [body.node(name) for name in _names(found["effects"] or "")],
        )
    for function in library.values():
        function.graph.functions = library
    for name, function in library.items():
        infer_shapes(function.graph)
        library[name] = replace(function, output_types=[v.dtype for v in function.outputs])
    return library


def _parse_body(lines: list[str]) -> Graph:
    graph = Graph()
    inputs: list[tuple[Node, list[str]]] = []
    roles = {"inputs": "", "outputs": ""}
    for line in lines:
        role, colon, names = line.strip().partition(":")
        if colon and role in roles:
            roles[role] = names
        elif line.strip():
            inputs.append(_parse_node(graph, line.strip()))
    for node, names_read in inputs:
        node.set_inputs([graph.value(n) for n in names_read if not n.startswith("^")])
        node.set_control_inputs([graph.node(n[1:]) for n in names_read if n.startswith("^")])
    graph.inputs = [graph.value(n) for n in _names(roles["inputs"])]
    graph.outputs = [graph.value(n) for n in _names(roles["outputs"])]
    return graph


def _parse_node(graph: Graph, line: str) -> tuple[Node, list[str]]:
    found = _NODE.match(line)
    if found is None:
        raise ValueError(f"this is not a node: {line}")
    attrs = _Reader(found["attrs"]).attrs() if found["attrs"] else {}
    value = attrs.get("value")
    if found["op"] == "Const" and isinstance(value, Tensor):
        attrs.setdefault("dtype", value.dtype)
    node = graph.add(found["op"], name=found["name"], attrs=attrs, device=found["device"] or "")
    if node.name != found["name"]:
        raise ValueError(f"there are two nodes '{found['name']}'")
    return node, _names(found["inputs"])


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_attr(text: str) -> Attr:
    """One attribute value from the text that `ir.attrs.attr_text` writes."""
    reader = _Reader(text)
    value = reader.value()
    if reader.at != len(text):
        raise ValueError(f"cannot read {text[reader.at :]!r}")
    return value


@dataclass
class _Reader:
    """Reads attribute values from left to right."""

    text: str
    at: int = field(default=0)

    def attrs(self) -> dict[str, Attr]:
        """`{name=value, ...}`."""
        attrs: dict[str, Attr] = {}
        self.expect("{")
        while not self.take("}"):
            name = self.match(_WORD)
            if name is None:
                raise self.error("a name")
            self.expect("=")
            attrs[name[0]] = self.value()
            self.take(",")
            self.take(" ")
        return attrs

    def value(self) -> Any:
        if self.take('"'):
            return self.quoted()
        if self.take("["):
            return tuple(self.items("]"))
        if self.take("@"):
            return FunctionAttr(self.word())
        if self.take("$"):
            return PlaceholderAttr(self.word())
        tensor = self.match(_TENSOR)
        if tensor is not None:
            return self.tensor(tensor["dtype"], tensor["shape"])
        shape = self.match(_SHAPE)
        if shape is not None:
            return ShapeAttr(None if shape["sizes"] is None else tuple(_sizes(shape["sizes"])))
        number = self.match(_NUMBER)
        if number is not None:
            return int(number[0]) if re.fullmatch(r"-?[0-9]+", number[0]) else float(number[0])
        word = self.word()
        return word == "true" if word in {"true", "false"} else dtype(word)

    def items(self, end: str) -> Iterator[Any]:
        while not self.take(end):
            yield self.value()
            self.take(",")

    def quoted(self) -> bytes:
        end = self.at
        while self.text[end] != '"':
            end += 2 if self.text[end] == "\\" else 1
        raw = self.text[self.at : end]
        self.at = end + 1
        return unescape(raw)

    def tensor(self, element: str, sizes: str) -> Tensor:
        end = self.text.index("}", self.at)
        body = self.text[self.at : end]
        self.at = end + 1
        shape = tuple(int(size) for size in sizes.split(",") if size)
        return make_tensor(element, shape, body)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def word(self) -> str:
        found = self.match(_WORD)
        if found is None:
            raise self.error("a value")
        return found[0]

    def take(self, text: str) -> bool:
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(repr(text))

    def error(self, what: str) -> ValueError:
        return ValueError(f"{what} expected at {self.text[self.at :]!r}")


def _sizes(text: str) -> Iterator[int | None]:
    for size in _names(text):
        yield None if size == "?" else int(size)


def unescape(raw: str) -> bytes:
    """What `attr_text` did to a byte string, undone."""
    result = b""
    at = 0
    while at < len(raw):
        if raw[at] != "\\":
            result += raw[at].encode()
            at += 1
        elif raw[at + 1] == "x":
            result += bytes([int(raw[at + 2 : at + 4], 16)])
            at += 4
        else:
            result += {"n": b"\n"}.get(raw[at + 1], raw[at + 1].encode())
            at += 2
    return result


def make_tensor(element: str, shape: tuple[int, ...], body: str) -> Tensor:
    """A constant from its type, its shape and what stands between the braces."""
    kind = dtype(element)
    count = int(np.prod(shape, dtype=np.int64))
    if kind is STRING:
        strings = np.empty(count, object)
        strings[:] = [unescape(s) for s in (body.split(",") if count else [])]
        return Tensor.from_array(strings.reshape(shape), STRING)
    if body == "range":
        numbers = np.arange(count)
    elif body.startswith("normal "):
        numbers = np.random.default_rng(int(body.removeprefix("normal "))).standard_normal(count)
    elif " x " in body:
        one = np.asarray(float(body.partition(" x ")[0])).astype(kind.numpy())
        return Tensor.from_array(np.broadcast_to(one, shape), kind)
    else:
        numbers = np.array([_number(item) for item in _names(body)])
    if len(numbers) != count:
        raise ValueError(f"{len(numbers)} values do not fill {element}{list(shape)}")
    return Tensor.from_array(numbers.astype(kind.numpy()).reshape(shape), kind)


def _number(text: str) -> int | float | bool:
    if text in {"True", "False"}:
        return text == "True"
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else float(text)
