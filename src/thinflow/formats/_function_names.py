"""Names for functions that were edited: another body under the old name would clash in one process.

TensorFlow 2 keeps the functions of all graphs that a process imports in one library, and refuses a second one
of a name whose body differs. So the model as it came and what was made of it could not be imported together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from thinflow.ir.function import edited_name

_LINKS = ("forward_function_name", "backward_function_name")
"""Attributes of a function that name another one as text."""


def new_names(messages: Mapping[str, Any], edited: Collection[str]) -> dict[str, str]:
    """Old name -> new one, of the functions that were edited and of those that mention them.

    Args:
        messages: the FunctionDef of every function, by its old name.
        edited: those whose body is another one by now.

    Returns:
        Names that end in what depends on all edited bodies, and on nothing else.
    """
    if not edited:
        return {}
    # Of all edited bodies together: the same edit gives the same names again, so that
    # writing twice gives equal files.
    digest = hashlib.blake2b(digest_size=4)
    for name in sorted(edited):
        digest.update(messages[name].SerializeToString(deterministic=True))
    concerned = set(edited)
    callers = {name: set(_mentioned(message)) for name, message in messages.items() if name not in edited}
    # Those who call a renamed function have another body now, too, and so have their callers.
    while more := {name for name, called in callers.items() if name not in concerned and called & concerned}:
        concerned |= more
    return {name: edited_name(name, digest.hexdigest()) for name in concerned}


def rename_in_function(message: Any, names: Mapping[str, str]) -> None:
    """Put new names into a FunctionDef: its own, and those of the functions that it mentions."""
    message.signature.name = names.get(message.signature.name, message.signature.name)
    for node in message.node_def:
        rename_in_node(node, names)
    for key in _LINKS:
        if key in message.attr:
            text = message.attr[key].s.decode("utf-8", "replace")
            message.attr[key].s = names.get(text, text).encode()


def rename_in_node(message: Any, names: Mapping[str, str]) -> None:
    """Put new names into a NodeDef that calls or mentions functions."""
    message.op = names.get(message.op, message.op)
    for called in _called(message.attr):
        called.name = names.get(called.name, called.name)


def _mentioned(message: Any) -> Iterator[str]:
    for node in message.node_def:
        yield node.op
        yield from (called.name for called in _called(node.attr))
    yield from (message.attr[key].s.decode("utf-8", "replace") for key in _LINKS if key in message.attr)


def _called(attrs: Mapping[str, Any]) -> Iterator[Any]:
    """The NameAttrList messages in attributes, those in their own attributes included."""
    for attr in attrs.values():
        kind = attr.WhichOneof("value")
        for called in [attr.func] if kind == "func" else attr.list.func if kind == "list" else ():
            yield called
            yield from _called(called.attr)
