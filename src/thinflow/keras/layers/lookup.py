"""Layers with vocabularies: texts or whole numbers by their place in a list, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import STRING, DType, dtype
from thinflow.keras.call import Call
from thinflow.keras.config import LayerConfig
from thinflow.keras.layers.preprocessing import category_counts, encoded
from thinflow.keras.registry import Inside, Result, Slot, Slots, layer
from thinflow.typing import Array

_INT64 = dtype("int64")
_PUNCTUATION = r"""[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']"""
"""What Keras strips from texts."""
_UNKNOWN = "[UNK]"
_UNKNOWN_NUMBER, _NONE = -1, -2
"""What stands for a token that is not in the vocabulary, and for one that is to be in no category."""
_LEARNING = ("max_tokens", "vocabulary_size", "has_input_vocabulary", "encoding", "vocabulary_dtype")


def _tokens(c: Call, special: Sequence[object]) -> list[object]:
    """The vocabulary without the tokens that stand in front of it."""
    given = c.get("vocabulary")
    if isinstance(given, str):
        raise c.refuse(f"its vocabulary is in the file '{given}'", "save the layer with its vocabulary")
    listed = given if isinstance(given, list) and given else _stored(c)
    if listed is None:
        raise c.refuse("its vocabulary is not in the file", "save the model as .keras with Keras 3")
    return listed[len(special) :] if list(listed[: len(special)]) == list(special) else list(listed)


def _stored(c: Call) -> list[object] | None:
    """The vocabulary that Keras writes beside the weights, a token a line."""
    content = c.builder.asset(f"{c.path}/vocabulary.txt")
    if content is None:
        return None
    lines: list[object] = list(content.decode("utf-8").splitlines())
    while lines and lines[-1] == "":
        lines.pop()
    return lines


def _keys(tokens: Sequence[object], element: DType) -> Array:
    """Tokens as an array of texts or of whole numbers."""
    if element is STRING:
        return np.array([str(t).encode() for t in tokens], object)
    return np.array([int(str(t)) for t in tokens], element.numpy())


def _found(c: Call, x: Value, keys: Array, values: Array, missing: object) -> Value:
    """What a table has for each element; another value for those that it lacks."""
    keys_value, values_value = c.const(keys, "keys"), c.const(values, "values")
    kinds = c.type_of(keys_value), c.type_of(values_value)
    name = f"{c.layer.name}_table".encode()
    table = c.emit(
        "HashTableV2",
        name="table",
        key_dtype=kinds[0],
        value_dtype=kinds[1],
        container=b"",
        shared_name=name,
        use_node_name_sharing=True,
    )
    filled = c.node(
        "InitializeTableV2", table, keys_value, values_value, T=None, Tkey=kinds[0], Tval=kinds[1]
    )
    default = c.const(np.array(missing, values.dtype), "default")
    found = c.node("LookupTableFindV2", table, x, default, T=None, Tin=kinds[0], Tout=kinds[1])
    # The table is filled before anybody looks something up.
    found.set_control_inputs([filled])
    y = found.output()
    y.spec = y.spec.with_shape(x.spec.shape)
    return y


def _numbered(c: Call, x: Value, tokens: Sequence[object], element: DType, first: int, unknown: int) -> Value:
    """The place of each token, behind `first` places for unknown ones, of which there are `unknown`."""
    keys = _keys(tokens, element)
    places = np.arange(len(keys), dtype=np.int64) + first + unknown
    if unknown == 1:
        return _found(c, x, keys, places, first)
    found = _found(c, x, keys, places, _UNKNOWN_NUMBER)
    if unknown == 0:
        return found
    if element is STRING:
        others = c.emit("StringToHashBucketFast", x, T=None, num_buckets=unknown)
    else:
        others = c.cast(c.emit("FloorMod", x, unknown), _INT64)
    others = c.emit("AddV2", others, first)
    return c.emit("SelectV2", c.emit("Equal", found, _UNKNOWN_NUMBER), others, found, T=_INT64)


def _hidden(c: Call, x: Value, numbers: Value, mask: Array, is_plain: bool) -> Value:
    """The numbers of tokens, where that of one [1] is 0, or that of no category if they are not plain."""
    is_hidden = c.emit("Equal", x, c.const(mask.reshape(()), "mask"))
    nothing = c.emit("ZerosLike", numbers) if is_plain else c.const(np.array(_NONE, np.int64), "none")
    return c.emit("SelectV2", is_hidden, nothing, numbers, T=_INT64)


def _all_known(c: Call, numbers: Value) -> Value:
    """The numbers, if no token is unknown: else Keras stops, and so does the interpreter."""
    known = c.emit("NotEqual", numbers, _UNKNOWN_NUMBER)
    every = c.reduce("All", known, list(range(c.rank(known))))
    says = c.const(np.array(b"a token is not in the vocabulary (num_oov_indices=0)", object), "says")
    check = c.node("Assert", every, says, T=(STRING,), summarize=1)
    checked = c.node("Identity", numbers)
    checked.set_control_inputs([check])
    return checked.output()


def _lookup(c: Call, element: DType, mask: object, other: object) -> Result:
    unknown = c.integer("num_oov_indices", 1)
    if c.get("oov_method") not in (None, "floormod") or c.get("salt") is not None:
        raise c.refuse("it hashes unknown tokens with a salt, or numbers by FarmHash")
    is_plain = c.get("output_mode", "int") == "int"
    first = 1 if mask is not None and is_plain else 0
    tokens = _tokens(c, [*([mask] * first), *([other] * unknown)])
    keys = _keys(tokens, element)
    if c.flag("invert"):
        front: list[object] = [mask] if first else []
        values = np.concatenate([_keys([*front, *([other] * unknown)], element), keys])
        texts = str(other).encode() if element is STRING else int(str(other))
        x = c.cast(c[0], _INT64)
        return _found(c, x, np.arange(len(values), dtype=np.int64), values, texts)
    x = c[0] if element is STRING else c.cast(c[0], element)
    numbers = _numbered(c, x, tokens, element, first, unknown)
    if mask is not None:
        numbers = _hidden(c, x, numbers, _keys([mask], element), is_plain)
    if unknown == 0:
        numbers = _all_known(c, numbers)
    if _is_weighed(c.layer):
        return _weighed(c, numbers, unknown, unknown + len(tokens), "idf_weights")
    return _counted(c, numbers, first + unknown + len(tokens))


def _is_weighed(layer: LayerConfig) -> bool:
    """True if tokens are counted by how rare they are."""
    return layer.options.get("output_mode") in ("tf_idf", "tf-idf")


def _weight_slots(path: str) -> Slots:
    """The weights of tokens, which were learnt unless the config gives them."""

    def slots(config: LayerConfig, inside: Inside) -> list[Slot]:
        is_learnt = _is_weighed(config) and config.options.get("idf_weights") is None
        return [Slot(path, False, in_archives=True)] if is_learnt else []

    return slots


def _weighed(c: Call, numbers: Value, front: int, tokens: int, path: str) -> Value:
    """Each token's count times its weight.   [..., n] -> [..., tokens]

    Args:
        front: unknown tokens, whose weight is the mean of all others if they have none.
        tokens: how many there are, unknown ones among them.
        path: of the weights, if they were learnt.
    """
    c.read.update(("output_mode", "idf_weights"))
    depth = _depth(c, tokens)
    stated = c.get("idf_weights")
    rare = c.array(path) if stated is None else np.asarray(stated, c.compute.numpy())
    if len(rare) == tokens - front:
        rare = np.concatenate([np.full(front, rare.mean(dtype=np.float64)), rare])
    if len(rare) != depth:
        rare = np.pad(rare, (0, max(depth - len(rare), 0)))[:depth]
    counts = category_counts(c, numbers, depth)
    return c.emit("Mul", counts, c.const(rare, "idf_weights", like=counts))


def _depth(c: Call, tokens: int) -> int:
    """How many categories there are."""
    return c.integer("max_tokens") if c.flag("pad_to_max_tokens") else tokens


def _counted(c: Call, numbers: Value, tokens: int) -> Value:
    """Numbers as `output_mode` wants them; Keras 3 counts in whole numbers."""
    y = encoded(c, numbers, _depth(c, tokens))
    return c.cast(y, _INT64) if c.generation > 2 else y


@layer("StringLookup", ignores=_LEARNING, weights=_weight_slots("idf_weights"))
def string_lookup(c: Call) -> Result:
    return _lookup(c, STRING, c.get("mask_token"), c.get("oov_token", _UNKNOWN))


@layer("IntegerLookup", ignores=(*_LEARNING, "max_values"), weights=_weight_slots("idf_weights"))
def integer_lookup(c: Call) -> Result:
    return _lookup(c, _INT64, c.get("mask_token"), c.get("oov_token", -1))


# --- texts --------------------------------------------------------------------------------------------------


@layer("TextVectorization", ignores=_LEARNING, weights=_weight_slots("lookup_layer/idf_weights"))
def text_vectorization(c: Call) -> Result:
    """Texts cut at blanks, and each word by its place in the vocabulary."""
    x = _standardized(c, c[0])
    if c.flag("ragged"):
        raise c.refuse("its output is ragged")
    how = c.get("split", "whitespace")
    if how not in (None, "whitespace", "character"):
        raise c.refuse("it splits texts by a Python function (split)")
    if how is None:
        return _whole_texts(c, x)
    x = c.squeeze(x, -1) if c.rank(x) > 1 else x
    starts = None
    if how == "character":
        words, starts = _characters(c, x)
    else:
        split = c.node("StringSplitV2", x, c.const(np.array(b"", object), "sep"), T=None, maxsplit=-1)
        places, words, size = (split.output(n) for n in range(3))
    if c.get("ngrams") is not None:
        words, starts = _runs(c, words, _starts(c, places, size) if starts is None else starts)
    mode = c.choice("output_mode", "int", "multi_hot", "count", "tf_idf", "tf-idf", "binary")
    is_plain = mode == "int"
    first = 1 if is_plain else 0
    tokens = _tokens(c, [*([""] * first), _UNKNOWN])
    numbers = _numbered(c, words, tokens, STRING, first, 1)
    depth = _depth(c, first + 1 + len(tokens))
    if is_plain and starts is not None:
        length = c.get("output_sequence_length")
        return _dense_runs(
            c, numbers, starts, 0, -1 if length is None else c.integer("output_sequence_length")
        )
    if is_plain:
        return _rows(c, places, numbers, size)
    c.read.add("output_sequence_length")
    # Places without a word count as a category that is none.
    numbers = (
        _dense(c, places, numbers, size, depth) if starts is None else _dense_runs(c, numbers, starts, depth)
    )
    if _is_weighed(c.layer):
        return _weighed(c, numbers, 1, 1 + len(tokens), "lookup_layer/idf_weights")
    return _counted(c, numbers, first + 1 + len(tokens))


def _whole_texts(c: Call, x: Value) -> Result:
    """Each text by its place in the vocabulary, [..., n]."""
    if c.get("ngrams") is not None:
        raise c.refuse("it joins texts that it does not split (ngrams)")
    is_plain = c.get("output_mode", "int") == "int"
    if not is_plain and c.rank(x) != 2:
        raise c.refuse("it counts the texts of the whole batch")
    first = 1 if is_plain else 0
    tokens = _tokens(c, [*([""] * first), _UNKNOWN])
    numbers, length = _numbered(c, x, tokens, STRING, first, 1), c.get("output_sequence_length")
    numbers = _hidden(c, x, numbers, _keys([""], STRING), is_plain)
    if _is_weighed(c.layer):
        return _weighed(c, numbers, 1, 1 + len(tokens), "lookup_layer/idf_weights")
    if not is_plain or length is None:
        return _counted(c, numbers, first + 1 + len(tokens))
    c.read |= {"output_mode", "pad_to_max_tokens"}
    last, count = c.rank(numbers) - 1, c.integer("output_sequence_length")
    behind = max(0, count - c.size(numbers, last))
    numbers = c.sliced(numbers, [0] * (last + 1), [*([None] * last), min(count, c.size(numbers, last))])
    return c.pad(numbers, [*([(0, 0)] * last), (0, behind)])


def _characters(c: Call, x: Value) -> tuple[Value, Value]:
    """The characters of all texts, and where those of each begin, the end behind them."""
    coded: dict[str, Any] = {"errors": b"replace", "replacement_char": 0xFFFD}
    split = c.node("UnicodeDecode", x, T=None, input_encoding=b"UTF-8", Tsplits=_INT64, **coded)
    starts, points = split.output(0), split.output(1)
    alone = _counting(c, c.emit("Size", points, out_type=_INT64))
    words = c.emit("UnicodeEncode", points, alone, T=None, output_encoding=b"UTF-8", Tsplits=_INT64, **coded)
    words.spec = words.spec.with_shape((None,))
    return words, starts


def _counting(c: Call, count: Value) -> Value:
    """0, 1, ... and the count itself."""
    zero, one = (c.const(np.array(n, np.int64), name) for n, name in ((0, "zero"), (1, "one")))
    numbers = c.emit("Range", zero, c.emit("AddV2", count, one), one, T=None, Tidx=_INT64)
    numbers.spec = numbers.spec.with_shape((None,))
    return numbers


def _starts(c: Call, places: Value, size: Value) -> Value:
    """Where the words of each text begin, the end behind them.

    Args:
        places: row and column of each word [m, 2].
        size: rows, and the words of the longest.
    """
    rows = c.transpose(c.sliced(places, [0, 0], [None, 1]), (1, 0), "rows")
    wanted = _counting(c, c.squeeze(c.sliced(size, [0], [1]), 0))
    starts = c.emit("LowerBound", rows, c.expand(wanted, 0), Tvalues=None, out_type=_INT64)
    return c.squeeze(starts, 0)


def _runs(c: Call, words: Value, starts: Value) -> tuple[Value, Value]:
    """Runs of neighbouring words, joined by blanks, for each text those of each width in turn; and the place
    where those of each text begin, the end behind them.

    Args:
        words: [m].
        starts: where the words of each text begin, the end behind them.
    """
    given, widths = c.get("ngrams"), c.ints("ngrams")
    if not isinstance(given, list):
        widths = tuple(range(1, widths[0] + 1))
    made = c.node(
        "StringNGrams", words, starts, T=None, Tsplits=_INT64, ngram_widths=widths,
        separator=b" ", left_pad=b"", right_pad=b"", pad_width=0, preserve_short_sequences=False,
    )  # fmt: skip
    return made.output(0), made.output(1)


def _dense_runs(c: Call, numbers: Value, starts: Value, default: int, count: int = -1) -> Value:
    """Numbers [texts, runs], with a default behind the last of each, cut to a count unless that is -1."""
    shape = c.const(np.array([-1, count], np.int64), "sizes")
    fill = c.const(np.array(default, np.int64), "default")
    y = c.emit(
        "RaggedTensorToTensor",
        shape,
        numbers,
        fill,
        starts,
        T=_INT64,
        Tindex=_INT64,
        Tshape=_INT64,
        num_row_partition_tensors=1,
        row_partition_types=(b"ROW_SPLITS",),
    )
    y.spec = y.spec.with_shape((None, None if count < 0 else count))
    return y


def _standardized(c: Call, x: Value) -> Value:
    how = c.get("standardize", "lower_and_strip_punctuation")
    known = (None, "lower", "strip_punctuation", "lower_and_strip_punctuation")
    if how not in known:
        raise c.refuse("it changes texts by a Python function (standardize)")
    if how in ("lower", "lower_and_strip_punctuation"):
        x = c.emit("StringLower", x, T=None, encoding=b"")
    if how in ("strip_punctuation", "lower_and_strip_punctuation"):
        x = c.emit(
            "StaticRegexReplace", x, T=None, pattern=_PUNCTUATION.encode(), rewrite=b"", replace_global=True
        )
    return x


def _dense(c: Call, places: Value, numbers: Value, size: Value, default: int) -> Value:
    fill = c.const(np.array(default, np.int64), "default")
    y = c.emit("SparseToDense", places, size, numbers, fill, T=_INT64, Tindices=_INT64, validate_indices=True)
    y.spec = y.spec.with_shape((None, None))
    return y


def _rows(c: Call, places: Value, numbers: Value, size: Value) -> Value:
    """Numbers [texts, words], with zeros behind the last word, and as many words as asked for."""
    length = c.get("output_sequence_length")
    if length is None:
        return _dense(c, places, numbers, size, 0)
    count = c.integer("output_sequence_length")
    least = c.const(np.array([0, count], np.int64), "least")
    y = _dense(c, places, numbers, c.emit("Maximum", size, least), 0)
    y = c.sliced(y, [0, 0], [None, count])
    y.spec = y.spec.with_shape((None, count))
    return y
