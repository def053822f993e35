"""Layers with vocabularies: texts or whole numbers by their place in a list, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import STRING, DType, dtype
from thinflow.keras.call import Call
from thinflow.keras.layers.preprocessing import encoded
from thinflow.keras.registry import Result, layer
from thinflow.typing import Array

_INT64 = dtype("int64")
_PUNCTUATION = r"""[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']"""
"""What Keras strips from texts."""
_UNKNOWN = "[UNK]"
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
    found = _found(c, x, keys, places, -1)
    if element is STRING:
        others = c.emit("StringToHashBucketFast", x, T=None, num_buckets=unknown)
    else:
        others = c.cast(c.emit("FloorMod", x, unknown), _INT64)
    others = c.emit("AddV2", others, first)
    return c.emit("SelectV2", c.emit("Equal", found, -1), others, found, T=_INT64)


def _lookup(c: Call, element: DType, mask: object, other: object) -> Result:
    unknown = c.integer("num_oov_indices", 1)
    if c.get("idf_weights") is not None or c.get("output_mode") == "tf_idf":
        raise c.refuse("it weighs tokens by how rare they are (tf_idf)")
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
    if unknown == 0:
        raise c.refuse(
            "it stops at tokens that it does not know (num_oov_indices=0)", "set num_oov_indices=1 in Keras"
        )
    if mask is not None and not is_plain:
        raise c.refuse("it drops a token from its counts (mask_token)")
    x = c[0] if element is STRING else c.cast(c[0], element)
    numbers = _numbered(c, x, tokens, element, first, unknown)
    if mask is not None:
        hidden = c.const(_keys([mask], element)[0:1].reshape(()), "mask")
        is_hidden = c.emit("Equal", x, hidden)
        numbers = c.emit("SelectV2", is_hidden, c.emit("ZerosLike", numbers), numbers, T=_INT64)
    return _counted(c, numbers, first + unknown + len(tokens))


def _depth(c: Call, tokens: int) -> int:
    """How many categories there are."""
    return c.integer("max_tokens") if c.flag("pad_to_max_tokens") else tokens


def _counted(c: Call, numbers: Value, tokens: int) -> Value:
    """Numbers as `output_mode` wants them; Keras 3 counts in whole numbers."""
    y = encoded(c, numbers, _depth(c, tokens))
    return c.cast(y, _INT64) if c.generation > 2 else y


@layer("StringLookup", ignores=_LEARNING)
def string_lookup(c: Call) -> Result:
    return _lookup(c, STRING, c.get("mask_token"), c.get("oov_token", _UNKNOWN))


@layer("IntegerLookup", ignores=(*_LEARNING, "max_values"))
def integer_lookup(c: Call) -> Result:
    return _lookup(c, _INT64, c.get("mask_token"), c.get("oov_token", -1))


# --- texts --------------------------------------------------------------------------------------------------


@layer("TextVectorization", ignores=_LEARNING)
def text_vectorization(c: Call) -> Result:
    """Texts cut at blanks, and each word by its place in the vocabulary."""
    x = _standardized(c, c[0])
    if c.get("ngrams") is not None:
        raise c.refuse("it joins words that stand together (ngrams)")
    if c.flag("ragged"):
        raise c.refuse("its output is ragged")
    if c.get("split", "whitespace") != "whitespace":
        raise c.refuse(f"it splits texts by {str(c.get('split'))[:40]!r}; only whitespace is known")
    x = c.squeeze(x, -1) if c.rank(x) > 1 else x
    split = c.node("StringSplitV2", x, c.const(np.array(b"", object), "sep"), T=None, maxsplit=-1)
    places, words, size = (split.output(n) for n in range(3))
    mode = c.choice("output_mode", "int", "multi_hot", "count", "tf_idf", "tf-idf", "binary")
    is_plain = mode == "int"
    first = 1 if is_plain else 0
    tokens = _tokens(c, [*([""] * first), _UNKNOWN])
    numbers = _numbered(c, words, tokens, STRING, first, 1)
    depth = _depth(c, first + 1 + len(tokens))
    if is_plain:
        return _rows(c, places, numbers, size)
    if mode.startswith("tf"):
        raise c.refuse("it weighs tokens by how rare they are (tf_idf)")
    c.read.add("output_sequence_length")
    # Places without a word count as a category that is none.
    return _counted(c, _dense(c, places, numbers, size, depth), first + 1 + len(tokens))


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
