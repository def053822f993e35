"""Variables whose names in graph and checkpoint differ: averages, renames, and what may be meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thinflow.errors import ThinflowError, closest
from thinflow.formats.checkpoint import Checkpoint
from thinflow.ir.graph import Node
from thinflow.load.restoring import Key

_AVERAGE_SUFFIXES = ("ExponentialMovingAverage", "moving_avg", "avg")


def use_averages(keys: Mapping[str, Key], checkpoint: Checkpoint) -> dict[str, Key]:
    """The same, with the shadow value of a moving average in place of a variable's own where there is one."""
    changed = {}
    for name, key in keys.items():
        shadow = next((f"{key.name}/{s}" for s in _AVERAGE_SUFFIXES if f"{key.name}/{s}" in checkpoint), None)
        changed[name] = key if shadow is None else Key(shadow, key.part, "a moving average")
    return changed


def renamed(names: Sequence[str], renames: Mapping[str, str], checkpoint: Checkpoint) -> dict[str, Key]:
    """Keys for variables whose names begin otherwise in the checkpoint.

    Args:
        names: of variables.
        renames: beginning of a name in the graph -> what stands for it in the checkpoint.
        checkpoint: where the keys are.
    """
    found = {}
    for name in names:
        for old, new in renames.items():
            if name.startswith(old) and new + name[len(old) :] in checkpoint:
                found[name] = Key(new + name[len(old) :], told_by="--rename")
    return found


def suggestion(missing: Sequence[Node], checkpoint: Checkpoint, used: set[str]) -> str:
    """What may be the matter with variables that have no value: a prefix that differs, or a similar name."""
    free = [name for name in checkpoint if name not in used]
    for node in missing:
        for name in free:
            prefix = _prefix_rename(node.name, name)
            if prefix is not None and _fits(node, checkpoint, name):
                return f"the names begin differently? try --rename '{prefix[0]}={prefix[1]}'"
    near = closest(missing[0].name, free) if missing else ""
    return near or "give the checkpoint that belongs to this graph"


def _prefix_rename(name: str, key: str) -> tuple[str, str] | None:
    """The beginnings in which two names differ, if they end alike from a `/` on."""
    ours, theirs = name.split("/"), key.split("/")
    same = 0
    while same < min(len(ours), len(theirs)) and ours[-1 - same] == theirs[-1 - same]:
        same += 1
    if same < 1 or (same == len(ours) == len(theirs)):
        return None
    tail = "/".join(ours[len(ours) - same :])
    return name[: len(name) - len(tail)], key[: len(key) - len(tail)]


def _fits(node: Node, checkpoint: Checkpoint, key: str) -> bool:
    shape = node.attrs.get("shape")
    sizes = getattr(shape, "dims", None)
    try:
        found = checkpoint.spec(key)
    except ThinflowError:
        return False
    return sizes is None or tuple(sizes) == found.shape
