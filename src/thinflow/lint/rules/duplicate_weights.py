"""Weights that are stored more than once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.weights import Constant
from thinflow.lint.words import count

_SMALLEST = 256
"""Bytes. Every graph has axes and shapes that are alike."""


@rule("TF202", Severity.WARNING)
def duplicate_weights(c: Context) -> Iterator[LintFinding]:
    """Constants of 256 bytes and more of which the file has another with the same bits.

    Why: each copy is downloaded, mapped and, in most runtimes, packed anew.

    Mend: `--fix` lets all readers share one.

    Ignore: copies that are to be trained apart.
    """
    alike: dict[tuple[object, ...], list[Constant]] = defaultdict(list)
    for constant in c.constants:
        if constant.is_needed and constant.stored_bytes >= _SMALLEST:
            alike[constant.tensor.dtype, constant.tensor.shape].append(constant)
    groups: dict[bytes, list[Constant]] = defaultdict(list)
    for candidates in alike.values():
        # Reading and digesting all elements is for those that may be alike.
        for constant in candidates if len(candidates) > 1 else ():
            groups[constant.tensor.fingerprint()].append(constant)
    copies = [one for group in groups.values() for one in _stored_again(group)]
    if copies:
        yield LintFinding(
            f"{count(len(copies), 'constant')} with the bits of another",
            tuple(one.node.name for one in copies),
            size_bytes=sum(one.stored_bytes for one in copies),
            fix="merge_duplicate_nodes",
        )


def _stored_again(group: list[Constant]) -> Iterator[Constant]:
    """Those of equal constants that take room of their own: a file may give one place to several."""
    places = {group[0].place}
    for one in group[1:]:
        if one.place not in places:
            places.add(one.place)
            yield one
