"""Ways from eight bits to floats and straight back."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has

_REMOVES = "remove_redundant_quantizations"


@rule("TF602", Severity.WARNING)
def quantize_round_trip(c: Context) -> Iterator[LintFinding]:
    """Dequantized values that are quantized again at once.

    Why: both convert every element, and the second may round again.

    Mend: for a GraphDef the transform `remove_redundant_quantizations`; a .tflite is better made again.

    Ignore: where the second changes the scale on purpose, one requantization does it cheaper.
    """
    pairs = [
        (n, reader)
        for n in c.file
        if _is(n.op, Trait.DEQUANTIZE, "tfl.DEQUANTIZE") and n.name in c.needed_names
        for reader in n.readers
        if _is(reader.op, Trait.QUANTIZE, "tfl.QUANTIZE") and reader.inputs[0].node is n
    ]
    if pairs:
        names = dict.fromkeys(node.name for pair in pairs for node in pair)
        yield LintFinding(
            f"{count(len(pairs), 'dequantized value')} quantized again at once",
            tuple(names),
            mend="" if c.file.vocabulary else f"thinflow transform MODEL OUT -t {_REMOVES}",
        )


def _is(op: str, trait: Trait, name: str) -> bool:
    return op == name or has(op, trait)
