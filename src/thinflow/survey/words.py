"""Words for tables and sentences of a survey."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from thinflow.survey.entry import Entry

# What stands behind a name in a message: the same cause at another node is the same cause.
_WHERE = re.compile(r"^node '[^']*' \(([^)]*)\): ")
_ARTICLE = re.compile(r"^(a|an) ")


def short_kind(entry: Entry) -> str:
    """What an entry is in a column: `GraphDef`, `Keras 2.2.4`."""
    what = _ARTICLE.sub("", entry.what).removesuffix(" model").replace("LiteRT (.tflite)", "LiteRT")
    what = what.replace("binary GraphDef", "GraphDef").replace("text GraphDef", "GraphDef text")
    if entry.maker and entry.maker.startswith(what):
        return entry.maker
    return f"{what} ({entry.maker})" if entry.maker else what


def amount_text(number: float) -> str:
    """`24.9 k`, `4.2 M`."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {letter}"
    return f"{number:g}"


def cause(reason: str) -> str:
    """A reason without the node it is about, with its op: that another node has the same one is no news."""
    found = _WHERE.match(reason)
    if found is None:
        return reason
    rest = reason[found.end() :]
    return rest if found[1] in rest else f"{found[1]}: {rest}"


def by_cause(reasons: Iterable[str]) -> list[str]:
    """Reasons counted, the most frequent first: `12 × TFLite has no form of DecodeWav`."""
    counted = Counter(cause(reason) for reason in reasons)
    return [f"{number} × {text}" for text, number in counted.most_common()]
