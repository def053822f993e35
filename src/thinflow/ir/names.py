"""Names and file order of nodes: which names are legal, which are taken and by whom; who comes next."""

from __future__ import annotations

import re
from collections.abc import Mapping

from thinflow.errors import GraphError
from thinflow.ir.node import Node

# The pattern of TensorFlow's framework/ops.py, with `\Z`, since `$` would also match before a newline.
LEGAL_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>\-]*\Z")
"""The node names that TensorFlow accepts."""
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.\\/>\-]")


class Names:
    """Names and the nodes that have them. A damaged file may give a name twice: the newer node is then
    found, the older kept.

    Attributes:
        by_name: name -> node; of nodes of the same name the newest.
        missing: stand-ins for nodes that are referred to and do not exist.
    """

    __slots__ = ("_has_illegal", "_serial", "_shadowed", "by_name", "missing")

    def __init__(self) -> None:
        self.by_name: dict[str, Node] = {}
        self.missing: dict[str, Node] = {}
        self._shadowed: dict[str, list[Node]] = {}
        self._serial: dict[str, int] = {}  # base -> the last number that `unique` gave
        self._has_illegal: bool | None = None

    @property
    def duplicates(self) -> list[str]:
        """Names that more than one node has."""
        return [name for name, nodes in self._shadowed.items() if nodes]

    def enter(self, node: Node) -> None:
        """Note a node under its name, even if that is taken. O(1)."""
        name = node._name
        older = self.by_name.get(name)
        # The older node keeps its edges and its place in the file; only its name leads to the newer one.
        if older is not None:
            self._shadowed.setdefault(name, []).append(older)
        self.by_name[name] = node

    def forget(self, node: Node) -> None:
        """Free the name of a node; an older one of that name is found again."""
        shadowed = self._shadowed.get(node.name)
        if self.by_name.get(node.name) is node:
            del self.by_name[node.name]
            if shadowed:
                self.by_name[node.name] = shadowed.pop()
        elif shadowed and node in shadowed:
            shadowed.remove(node)

    def is_taken(self, name: str) -> bool:
        """True if a node has the name, or is referred to by it. O(1)."""
        # A new node under a missing name would come to feed whoever refers to that.
        return name in self.by_name or name in self.missing

    def unique(self, base: str) -> str:
        """`base` if it is free, else `base_1`, `base_2`... O(1) on average."""
        taken, missing = self.by_name, self.missing  # not `is_taken`: new nodes come by the hundred thousand
        if base not in taken and base not in missing:
            return base
        # From the last number given: counting from 1 each time would be quadratic for names such as `Const`.
        count = self._serial.get(base, 0)
        while True:
            count += 1
            name = f"{base}_{count}"
            if name not in taken and name not in missing:
                self._serial[base] = count
                return name

    def legal(self, name: str) -> str:
        """The name; among illegal ones, the nearest legal one.

        Raises:
            GraphError: it is illegal, and all others are legal.
        """
        if LEGAL_NAME.match(name):
            return name
        # In a graph that came with illegal names, a name made from one of those is nobody's mistake here.
        if self._has_illegal is None:  # O(nodes), once
            self._has_illegal = not all(LEGAL_NAME.match(other) for other in self.by_name)
        if not self._has_illegal:
            require_legal(name)
        return _made_legal(name)

    def copy(self, twins: Mapping[Node, Node]) -> Names:
        """The same names for the twins of the nodes."""
        copy = Names()
        copy.by_name = {name: twins[node] for name, node in self.by_name.items()}
        copy.missing = {name: twins[node] for name, node in self.missing.items()}
        copy._shadowed = {name: [twins[n] for n in nodes] for name, nodes in self._shadowed.items()}
        copy._serial = dict(self._serial)
        return copy


class NodeList:
    """The order of a graph's nodes, kept in the nodes themselves. Every edit is O(1)."""

    __slots__ = ("_count", "_first", "_last")

    def __init__(self) -> None:
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def now(self) -> list[Node]:
        """The nodes of this moment. O(nodes)."""
        nodes = []
        node = self._first
        while node is not None:
            nodes.append(node)
            node = node._next
        return nodes

    def insert(self, node: Node, before: Node | None) -> None:
        """Put a node that is not in the list in front of one that is, None for the end."""
        # The links are fields of the nodes: a list would have to be searched for each insertion and removal.
        previous = self._last if before is None else before._previous
        node._previous, node._next = previous, before
        if previous is None:
            self._first = node
        else:
            previous._next = node
        if before is None:
            self._last = node
        else:
            before._previous = node
        self._count += 1

    def remove(self, node: Node) -> None:
        """Take out a node that is in the list."""
        if node._previous is None:
            self._first = node._next
        else:
            node._previous._next = node._next
        if node._next is None:
            self._last = node._previous
        else:
            node._next._previous = node._previous
        node._previous = node._next = None
        self._count -= 1


def require_legal(name: str) -> None:
    """Refuse what TensorFlow does not accept as a node name.

    Raises:
        GraphError: it is illegal.
    """
    if not LEGAL_NAME.match(name):
        raise GraphError(f"'{name}' is not a legal node name", hint="use letters, digits and _ . / -")


def _made_legal(name: str) -> str:
    """The nearest name that TensorFlow accepts."""
    legal = _ILLEGAL.sub("_", name)
    # What begins with `_`, `/` or `-` consists of legal characters and is illegal all the same.
    return legal if LEGAL_NAME.match(legal) else f"n{legal}"


def parse_value_name(name: str) -> tuple[str, int]:
    """`a` and `a:0` are ("a", 0); `a:2` is ("a", 2).

    Raises:
        GraphError: what follows the colon is not a port number.
    """
    node, colon, port = name.strip().partition(":")
    # `isdecimal` alone would take digits of other scripts, which `int` reads as well.
    if colon and not (port.isascii() and port.isdecimal() and len(port) < 8):
        raise GraphError(
            f"'{name}' is not a tensor name", hint="write node or node:port, for example conv1:0"
        )
    if node.startswith("^"):
        raise GraphError(f"'{name}' is a control input, not a tensor", hint="leave out the ^")
    return node, int(port or 0)
