"""Replace node names by short ones that tell nothing; inputs and outputs keep theirs.

conv1/weights, conv1/bias, ...  ->  0, 1, ..., 9, a, ..., z, A, ..., Z, 10, 11, ...
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from thinflow.errors import ParameterError, WriteError
from thinflow.ir.graph import Graph
from thinflow.ir.names import LEGAL_NAME
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.rename_node import rename_all

_DIGITS = string.digits + string.ascii_lowercase + string.ascii_uppercase


@transform("obfuscate_names")
@dataclass(frozen=True)
class ObfuscateNames(Transform):
    """Number the nodes in file order, in base 62.

    Attributes:
        prefix: stands before every number.
        mapping: a JSON file to write with old name -> new name; the only way back.
    """

    prefix: str = ""
    mapping: str = ""

    def __post_init__(self) -> None:
        if not LEGAL_NAME.match(self.prefix + "0"):
            raise ParameterError(
                f"no node name may start with '{self.prefix}'", hint="use letters, digits and _ . / -"
            )

    def for_function(self) -> ObfuscateNames | None:
        return None if self.mapping else self  # the file holds the names of one graph

    def apply(self, graph: Graph, trace: Trace) -> None:
        protected = {v.node.name for v in (*graph.inputs, *graph.outputs)}
        # A number may be the name of an input or output already.
        fresh = (name for name in numbered(self.prefix) if name not in protected)
        plan = {node.name: next(fresh) for node in graph if node.name not in protected}
        changed = {old: new for old, new in plan.items() if old != new}
        # Told by the old names, before they are gone.
        for old, new in changed.items():
            trace.changed(graph.node(old), f"is now '{new}'")
        for name in sorted(protected):
            trace.leave(graph.node(name), "it is an input or output, which keep their names")
        rename_all(graph, changed)
        if self.mapping:
            self.write(plan)

    def write(self, plan: dict[str, str]) -> None:
        """Store the mapping.

        Raises:
            WriteError: the file cannot be written.
        """
        try:
            with open(self.mapping, "w", encoding="utf-8") as file:
                json.dump(plan, file, indent=1, ensure_ascii=True)
                file.write("\n")
        except OSError as error:
            raise WriteError(
                f"cannot be written: {error.strerror or error}", self.mapping, hint="choose another path"
            ) from error


def numbered(prefix: str) -> Iterator[str]:
    """0, 1, ..., Z, 10, 11, ... in base 62, most significant digit first."""
    for number in count():
        digits = ""
        while True:
            number, digit = divmod(number, len(_DIGITS))
            digits = _DIGITS[digit] + digits
            if not number:
                break
        yield prefix + digits
