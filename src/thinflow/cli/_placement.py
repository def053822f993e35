"""Placement of nodes on engines, in lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def placement_lines(
    placement: Mapping[str, str], reasons: Mapping[str, str], most: int | None = None
) -> list[str]:
    """How many nodes each engine runs; then the nodes that fell back with the reason, at most so many.

    Without a limit every node has a line.
    """
    lines = ["placement:"]
    for engine, count in Counter(placement.values()).most_common():
        lines.append(f"  {count} node{'s' if count != 1 else ''} on {engine}")
    # Nodes on the engine that was asked for are the rule and need no line.
    listed = [(n, e) for n, e in placement.items() if most is None or n in reasons]
    for name, engine in listed[:most]:
        why = reasons.get(name, "")
        lines.append(f"  {name}  {engine}" + (f"  ({why})" if why else ""))
    if len(listed) > len(listed[:most]):
        lines.append(f"  ... and {len(listed) - len(listed[:most])} more (--all)")
    return lines
