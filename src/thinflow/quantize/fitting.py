"""One sample as the model wants it: by input name, with a batch dimension, of the right type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from thinflow.errors import FeedError, closest
from thinflow.ir.types import STRING, TensorSpec, shape_text
from thinflow.typing import Array

Inputs = Mapping[str, TensorSpec]
"""Input name -> what the model wants there, the batch dimension included."""
_LABELS = ("label", "labels", "target")
"""Names of what data sets hold besides what a model is fed."""


def samples_of(item: Any, inputs: Inputs) -> Iterator[Any]:
    """The samples of one step of a data set: itself, or those of a batch as loaders of PyTorch and `tf.data`
    make them; tensors as arrays.

    Args:
        item: an array or tensor; a tuple or a dict of such, behind or in which a label may stand.
        inputs: of the model, which takes one sample at a time.
    """
    item = in_numpy(item)
    size = _batch_size(item, inputs)
    if size is None:
        yield item
        return
    for number in range(size):
        yield _taken(item, number)


def is_batch(item: Any, inputs: Inputs) -> bool:
    """Whether one step of a data set is several samples, as `samples_of` parts them."""
    return _batch_size(in_numpy(item), inputs) is not None


def in_numpy(item: Any) -> Any:
    """A sample with arrays in place of the tensors of PyTorch, TensorFlow and others; parts by themselves."""
    if isinstance(item, Mapping):
        return {name: in_numpy(part) for name, part in item.items()}
    # Long lists of numbers are arrays already, as it were.
    if isinstance(item, tuple | list) and any(_is_tensor(p) or isinstance(p, Mapping | tuple) for p in item):
        return tuple(in_numpy(part) for part in item)
    if not _is_tensor(item) or isinstance(item, np.ndarray | np.generic):
        return item
    # PyTorch gives no array of what training follows, or of what lies on a graphics card.
    for step in ("detach", "cpu"):
        item = getattr(item, step)() if hasattr(item, step) else item
    return np.asarray(item)


def _is_tensor(item: Any) -> bool:
    return hasattr(item, "__array__") and hasattr(item, "shape")


def _batch_size(item: Any, inputs: Inputs) -> int | None:
    """The samples of a batch; None for a single sample."""
    features = item[0] if isinstance(item, tuple) and item else item
    name, spec = next(iter(inputs.items()))
    if isinstance(features, Mapping):
        plain = {key.removesuffix(":0"): value for key, value in features.items()}
        features = plain.get(name.removesuffix(":0"), next(iter(features.values()), None))
    if not isinstance(features, np.ndarray) or spec.shape is None or features.ndim != len(spec.shape):
        return None
    # A batch of one is a sample as well, and where the model leaves the size open all of it is fed at once.
    return features.shape[0] if spec.shape[:1] == (1,) and features.shape[0] > 1 else None


def _taken(item: Any, number: int) -> Any:
    """One sample of a batch."""
    if isinstance(item, Mapping):
        return {name: _taken(part, number) for name, part in item.items()}
    if isinstance(item, tuple):
        return tuple(_taken(part, number) for part in item)
    return item[number]


def fitted_sample(item: Any, inputs: Inputs, where: str) -> dict[str, Array]:
    """Input name -> array of one sample that comes as a dict, a tuple or an array; a label is left out.

    Raises:
        FeedError: names, shapes or types do not fit.
    """
    item = _without_label(item, inputs)
    if isinstance(item, Mapping):
        named = named_arrays(item, inputs, where)
    elif isinstance(item, (tuple, list)) and len(inputs) > 1:
        if len(item) != len(inputs):
            raise FeedError(f"the sample has {len(item)} arrays, the model {len(inputs)} inputs", where)
        named = dict(zip(inputs, item, strict=True))
    else:
        # What data sets made for TFLiteConverter yield: a list with the only input in it.
        is_wrapped = isinstance(item, (tuple, list)) and len(item) == 1 and isinstance(item[0], np.ndarray)
        named = {only_input(inputs, "an array"): item[0] if is_wrapped else item}
    return {name: fit(as_array(x), name, inputs[name], where) for name, x in named.items()}


def _without_label(item: Any, inputs: Inputs) -> Any:
    """What a model is fed of a sample as data sets for training have it."""
    if isinstance(item, tuple | list) and 1 <= len(item) <= 2 and isinstance(item[0], Mapping):
        item = item[0]
    elif isinstance(item, tuple | list) and len(item) == len(inputs) + 1 and isinstance(item[0], np.ndarray):
        # Of one input a pair may be an array of two rows, too; a label has fewer dimensions than that.
        item = item[:-1] if len(inputs) > 1 or np.ndim(item[1]) < item[0].ndim else item
    if isinstance(item, Mapping):
        plain = {name.removesuffix(":0") for name in inputs}
        return {
            name: part
            for name, part in item.items()
            if name not in _LABELS or name in plain or len(item) == 1
        }
    return item


def as_array(item: Any) -> Array:
    """The item as an array; a string as a scalar of objects, which keeps zeros at its end."""
    if isinstance(item, (bytes, str)):
        # numpy's own "S" type takes zero bytes at the end for padding.
        raw: Array = np.empty((), object)
        raw[()] = item
        return raw
    return np.asarray(item)


def only_input(inputs: Inputs, what: str) -> str:
    """The name of the model's one input.

    Raises:
        FeedError: it has several, and `what` gives one array.
    """
    if len(inputs) != 1:
        raise FeedError(
            f"the model has {len(inputs)} inputs, and {what} gives one",
            hint=f"name them: {', '.join(inputs)}",
        )
    return next(iter(inputs))


def named_arrays(given: Mapping[str, Any], inputs: Inputs, where: str) -> dict[str, Any]:
    """Arrays by the model's own input names.

    "x:0" stands for "x", and numpy's "arr_0" for a single input.

    Raises:
        FeedError: the model has no such input, or nothing is given for one.
    """
    plain = {name.removesuffix(":0"): name for name in inputs}
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = key if key in inputs else plain.get(key.removesuffix(":0"))
        if name is None and len(inputs) == 1 and set(given) == {"arr_0"}:
            name = next(iter(inputs))
        if name is None:
            raise FeedError(
                f"the model has no input '{key}'",
                where,
                hint=closest(key, inputs) or f"it has: {', '.join(inputs)}",
            )
        found[name] = value
    missing = [name for name in inputs if name not in found]
    if missing:
        raise FeedError(f"nothing is given for input '{missing[0]}'", where)
    return {name: found[name] for name in inputs}


def fit(array: Array, name: str, spec: TensorSpec, where: str = "") -> Array:
    """The array as the model wants it: with a batch dimension, and cast if no value changes beyond rounding.

    Raises:
        FeedError: the shape is wrong, or integers would be cut or overflow.
    """
    if spec.dtype is STRING:
        array = _as_bytes(array, name, where)
    shape, found = spec.shape, array.shape
    if shape is not None:
        # One sample without its batch; only where a batch of one is possible, else the rank is a mistake.
        if array.ndim == len(shape) - 1 and shape[0] in (1, None):
            array = array[None]
        same_rank = array.ndim == len(shape)
        if not same_rank or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
            raise FeedError(
                f"input '{name}' wants shape {shape_text(shape)}, found {shape_text(found)}", where
            )
    if spec.dtype is None or spec.dtype is STRING:
        return array
    wanted = spec.dtype.numpy()
    if array.dtype == wanted:
        return array
    if array.dtype.kind not in "biuf" and array.dtype != wanted:
        raise FeedError(f"input '{name}' wants {spec.dtype}, found {array.dtype}", where)
    # What overflows an integer is found by the comparison below, with a message that names the input.
    with np.errstate(all="ignore"):
        converted = array.astype(wanted)
    # Floats may lose digits, as float64 feeds of float32 inputs do; integers have to come through unchanged.
    if wanted.kind in "biu" and not np.array_equal(converted, array):
        raise FeedError(
            f"input '{name}' wants {spec.dtype}, found {array.dtype} values that it cannot hold", where,
            hint="convert them before",
        )  # fmt: skip
    return converted


def _as_bytes(array: Array, name: str, where: str) -> Array:
    if array.dtype.kind not in "OSU":
        raise FeedError(f"input '{name}' wants strings, found {array.dtype}", where)
    strings = np.empty(array.shape, object)
    flat, source = strings.reshape(-1), array.reshape(-1).tolist()
    for i, item in enumerate(source):
        flat[i] = item.encode() if isinstance(item, str) else bytes(item)
    return strings
