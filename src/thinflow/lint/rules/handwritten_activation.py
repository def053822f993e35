"""Activations in several ops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.handwritten import Activation
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_OPERATORS = {
    "hard swish": "HARD_SWISH",
    "GELU": "GELU",
    "GELU by tanh": "GELU",
    "leaky ReLU": "LEAKY_RELU",
    "PReLU": "PRELU",
    "ELU": "ELU",
}
"""LiteRT's operators. ReLUs are mostly part of the layer before them, and not to be counted."""


@rule("TF312", Severity.INFO)
def handwritten_activation(c: Context) -> Iterator[LintFinding]:
    """Activations that are written in several ops, and that runtimes have one operator for: ReLU6 by minimum
    and maximum, leaky ReLU and PReLU, hard swish, GELU by the error function or by tanh, ELU, sigmoid.

    Why: each op reads and writes the whole activation, and eight bits round between them. Converters know
    some spellings and not others. They are told here by what they compute, whatever the spelling.

    Mend: write them with the framework's own function, such as `tf.nn.relu6`, and export again; the finding
    tells which `thinflow convert` puts together.

    Ignore: a runtime that fuses them itself. A swish, x times its sigmoid, is none: LiteRT has no operator.
    """
    kinds: dict[str, list[Activation]] = defaultdict(list)
    for found in c.handwritten:
        kinds[found.kind].append(found)
    for kind, all_of in kinds.items():
        names = tuple(n.name for found in reversed(all_of) for n in reversed(found.nodes))
        longest = max(len(found.nodes) for found in all_of)
        yield LintFinding(
            f"{len(all_of)} x {kind}, written in {count(longest, 'op')}{_converted(c, kind, len(all_of))}",
            names,
            flops=c.flops(names),
        )


def _converted(c: Context, kind: str, number: int) -> str:
    """What the converter makes of them, behind a semicolon; "" if that is not known."""
    operator = _OPERATORS.get(kind)
    if operator is None or not c.written or c.file.vocabulary:
        return ""
    made = min(c.written[operator], number)
    if made == number:
        return f"; `thinflow convert` makes one {operator} of each for LiteRT"
    stays = "stays" if number - made == 1 else "stay"
    return f"; converted for LiteRT, {number - made} of them {stays} in pieces"
