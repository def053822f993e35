"""ONNX's ops on texts in TensorFlow's words."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.sizes import flat, scalar, size, sizes_of, vector
from thinflow.lift.onnx.values import integers, rank, text
from thinflow.lift.rules import lifts
from thinflow.typing import Array


def texts(c: Call, option: str) -> Array | None:
    """An option that is a list of texts, as bytes; None where it is not given."""
    given = c.get(option)
    if given is None:
        return None
    words = given if isinstance(given, tuple) else (given,)
    return np.array([w if isinstance(w, bytes) else str(w).encode() for w in words], object)


def one_text(c: Call, content: bytes) -> Value:
    """A scalar of text."""
    return c.constant(np.array(content, object))


@lifts("onnx.StringConcat")
def _string_concat(c: Call) -> Value:
    """Pairs of texts, one behind the other; their shapes broadcast."""
    x, y = c[0], c[1]
    one, other = x.spec.shape, y.spec.shape
    # TensorFlow repeats scalars alone.
    if () not in (one, other) and (one is None or one != other or None in one):
        shapes = (c.emit("Shape", v, out_type=INT64) for v in (x, y))
        shape = c.emit("BroadcastArgs", *shapes)
        x, y = (c.emit("BroadcastTo", v, shape) for v in (x, y))
    return c.emit("StringJoin", x, y, separator="")


@lifts("onnx.RegexFullMatch")
def _regex_full_match(c: Call) -> Value:
    """Both standards mean the same engine's syntax."""
    return c.emit("StaticRegexFullMatch", c[0], pattern=text(c, "pattern", ""))


@lifts("onnx.StringSplit")
def _string_split(c: Call) -> list[Value]:
    """[...] -> the parts of each text [..., most], with empty ones behind, and how many there are [...]."""
    limit = c.get("maxsplit")
    sizes = sizes_of(c, c[0], rank(c))
    mark, x = text(c, "delimiter", ""), flat(c, c[0])
    if limit is not None and not mark:
        # What is left behind the last cut keeps no white space at its end, as TensorFlow would let it.
        x = c.emit("StringStrip", x)
    delimiter = one_text(c, mark.encode())
    node = c.many("StringSplitV2", x, delimiter, maxsplit=-1 if limit is None else limit)
    places, parts, shape = (node.output(i) for i in range(3))
    table = c.emit("SparseToDense", places, shape, parts, one_text(c, b""), validate_indices=True)
    most = c.emit("GatherV2", shape, c.constant(1), c.constant(0))
    y = c.emit("Reshape", table, vector(c, [*sizes, most]))
    rows = c.emit("StridedSlice", places, integers(c, (0, 0)), integers(c, (0, 1)), integers(c, (1, 1)),
                  begin_mask=1, end_mask=1, shrink_axis_mask=2)  # fmt: skip
    ones = c.emit("OnesLike", rows)
    # A text of nothing but white space has no parts.
    counts = c.emit("UnsortedSegmentSum", ones, rows, c.emit("GatherV2", shape, c.constant(0), c.constant(0)))
    return [y, c.emit("Reshape", counts, vector(c, sizes))]


@lifts("onnx.StringNormalizer")
def _string_normalizer(c: Call) -> Value:
    """[n] or [1, n] -> without some words, in small or large letters; one empty text if none is left."""
    count = rank(c)
    if count not in (1, 2):
        raise UnsupportedOp(f"its texts have {count} dimensions")
    words, y = texts(c, "stopwords"), flat(c, c[0])
    is_exact = c.flag("is_case_sensitive")
    if words is not None and words.size:
        y = _without(c, y, words, is_exact)
    action = text(c, "case_change_action", "NONE")
    if action not in {"NONE", "LOWER", "UPPER"}:
        raise UnsupportedOp(f"it changes letters by '{action}'")
    # Elsewhere other letters belong together, as the two i of Turkish.
    locale = text(c, "locale", "")
    if not locale.startswith(("en", "C", "POSIX")) and locale and (action != "NONE" or not is_exact):
        raise UnsupportedOp(f"it changes letters as in the locale '{locale}'")
    if action != "NONE":
        y = c.emit(f"String{action.title()}", y, encoding="utf-8")
    return c.emit("Reshape", y, integers(c, (-1,) if count == 1 else (1, -1)))


def _without(c: Call, x: Value, words: Array, is_exact: bool) -> Value:
    """The texts that are none of the words; an empty one if that leaves nothing."""
    if is_exact:
        compared, listed = x, c.constant(words)
    else:
        compared = c.emit("StringLower", x, encoding="utf-8")
        listed = c.constant(np.array([w.decode("utf-8", "replace").lower().encode() for w in words], object))
    same = c.emit("Equal", c.emit("ExpandDims", compared, c.constant(1)), listed)
    stays = c.emit("LogicalNot", c.emit("Any", same, c.constant([1]), keep_dims=False))
    kept = c.emit("GatherV2", x, flat(c, c.emit("Where", stays)), c.constant(0), batch_dims=0)
    number = c.emit("Maximum", scalar(c, size(c, kept, 0)), integers(c, 1))
    more = c.emit("ConcatV2", kept, c.constant(np.array([b""], object)), c.constant(0))
    return c.emit("Slice", more, integers(c, (0,)), c.emit("Reshape", number, integers(c, (1,))))
