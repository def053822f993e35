"""Inputs as saved_model_cli takes them: files, expressions and examples, each `name=...;name=...`."""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from thinflow.errors import FeedError, FormatError

if TYPE_CHECKING:
    from thinflow.ir.types import DType

_FILE = re.compile(r"([^=]+)=([^\[\]]+)(?:\[([^\[\]]+)\])?\Z")
# What is called is looked up here by name: nothing of numpy that touches files
# or runs code is in these lists.
_MAKERS = frozenset("arange array empty eye full linspace ones zeros".split())  # noqa: SIM905
_RANDOM = frozenset("normal rand randint randn random uniform".split())  # noqa: SIM905
_METHODS = frozenset({"astype", "reshape"})
# Where the makers that take sizes have them: the place of the argument, and its name.
_SIZES = {
    **dict.fromkeys(("zeros", "ones", "empty", "full"), (0, "shape")),
    **dict.fromkeys(("randint", "uniform", "normal"), (2, "size")),
    "random": (0, "size"),
    "linspace": (2, "num"),
}
_MAX_ELEMENTS = 1 << 28
_MAX_ELEMENT_BYTES = 1 << 10
_HOW = (
    "write numbers, lists, or np.zeros, ones, full, arange, eye, linspace, random.rand with numbers in them"
)


def split_pairs(text: str) -> Iterator[tuple[str, str]]:
    """`a=1;b=2` as pairs; semicolons inside quotes and brackets do not separate.

    Raises:
        FeedError: a part without a name.
    """
    for part in _parts(text):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise FeedError(f"'{part.strip()}' has no name", hint="write name=value;name=value")
        yield name.strip(), value.strip()


def _parts(text: str) -> Iterator[str]:
    # By hand, since an expression that is malformed must still be cut at its own end.
    depth, quote, start, is_escaped = 0, "", 0, False
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote and not is_escaped else quote
            # A backslash behind a backslash escapes nothing.
            is_escaped = char == "\\" and not is_escaped
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == ";" and depth <= 0:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


# --- files --------------------------------------------------------------------------------------------------


def from_files(text: str, *, allow_pickle: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Arrays from `.npy`, `.npz` and pickle files: `x=a.npy;y=b.npz[var]`; and what to warn of.

    Raises:
        FeedError: malformed, or a file that does not hold one array.
        FormatError: a file cannot be read, or is a pickle and those are not allowed.
    """
    found: dict[str, Any] = {}
    warnings: list[str] = []
    for part in filter(str.strip, text.split(";")):
        match = _FILE.match(part.strip())
        if match is None:
            raise FeedError(f"'{part.strip()}' names no file", hint="write name=FILE or name=FILE[VARIABLE]")
        name, path, variable = match.groups()
        content = _read(path, allow_pickle)
        if isinstance(content, Mapping):
            content = _member(content, path, variable)
        elif variable is not None:
            warnings.append(f"{path} holds one array: [{variable}] is ignored")
        found[name] = content
    return found, warnings


def _read(path: str, allow_pickle: bool) -> Any:
    import pickle

    import numpy as np

    try:
        loaded = np.load(path, allow_pickle=allow_pickle)
        return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except FileNotFoundError as error:
        raise FormatError("there is no such file", path, "check the path") from error
    except (OSError, ValueError, EOFError, pickle.UnpicklingError) as error:
        hint = "save it with numpy.save; a pickle can run any program when it is read: --allow_pickle does"
        raise FormatError(f"no array can be read from it: {error}", path, hint) from error


def _member(arrays: Mapping[str, Any], path: str, name: str | None) -> Any:
    if name is None:
        if len(arrays) == 1:
            return next(iter(arrays.values()))
        raise FeedError(
            f"{path} holds {len(arrays)} arrays", hint=f"name one: {path}[{next(iter(arrays), '')}]"
        )
    if name not in arrays:
        raise FeedError(f"there is no array '{name}' in {path}", hint=f"there is {', '.join(arrays)}")
    return arrays[name]


# --- expressions --------------------------------------------------------------------------------------------


def from_expressions(text: str) -> dict[str, Any]:
    """Values of Python literals and of numpy's makers of arrays: `x=[[1, 2]];y=np.ones((2, 3))`.

    Raises:
        FeedError: anything else; nothing is run that is not known to be harmless.
    """
    found = {}
    for name, expression in split_pairs(text):
        try:
            found[name] = _value(ast.parse(expression, mode="eval").body)
        except FeedError:
            raise
        except SyntaxError as error:
            raise FeedError(f"{name}={expression[:60]}: {error.msg}", hint=_HOW) from error
        except (ValueError, TypeError, MemoryError, RecursionError, OverflowError) as error:
            raise FeedError(f"{name}={expression[:60]}: {error}", hint=_HOW) from error
    return found


def _value(tree: ast.expr) -> Any:
    if isinstance(tree, ast.Call):
        return _called(tree)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_value(tree.operand)
    if isinstance(tree, ast.List):
        return [_value(item) for item in tree.elts]
    if isinstance(tree, ast.Tuple):
        return tuple(_value(item) for item in tree.elts)
    if isinstance(tree, ast.Attribute) and _dotted(tree) is not None:
        return _element_type(tree.attr)
    # Takes literals alone; names, operators and comprehensions are errors.
    return ast.literal_eval(tree)


def _element_type(name: str) -> Any:
    from thinflow.ir.types import dtype

    return dtype(name).numpy()


def _called(tree: ast.Call) -> Any:
    import numpy as np

    arguments = [_value(a) for a in tree.args]
    named = {k.arg: _value(k.value) for k in tree.keywords if k.arg is not None}
    path = _dotted(tree.func)
    is_maker = path is not None and len(path) == 1 and path[0] in _MAKERS
    is_random = path is not None and len(path) == 2 and path[0] == "random" and path[1] in _RANDOM
    is_method = isinstance(tree.func, ast.Attribute) and tree.func.attr in _METHODS
    if not (is_maker or is_random or is_method):
        raise FeedError(f"'{ast.unparse(tree.func)[:60]}' is not run", hint=_HOW)
    # Before the call: `np.zeros((1 << 20, 1 << 20))` is short to write.
    _require_affordable("" if path is None else path[-1], arguments, named)
    if path is not None and (is_maker or is_random):
        return getattr(np.random if is_random else np, path[-1])(*arguments, **named)
    assert isinstance(tree.func, ast.Attribute)
    return getattr(np.asarray(_value(tree.func.value)), tree.func.attr)(*arguments, **named)


def _dotted(tree: ast.expr) -> list[str] | None:
    """`np.random.rand` as ["random", "rand"]; None unless it begins with numpy's name."""
    names: list[str] = []
    while isinstance(tree, ast.Attribute):
        names.insert(0, tree.attr)
        tree = tree.value
    return names if isinstance(tree, ast.Name) and tree.id in ("np", "numpy") else None


def _require_affordable(maker: str, arguments: list[Any], named: dict[str, Any]) -> None:
    """Refuse sizes that would take all memory, of an array or of one element ("U1000000000")."""
    if any(_element_size(value) > _MAX_ELEMENT_BYTES for value in (*arguments, *named.values())):
        raise FeedError(
            "elements of this size are not made here", hint="save them to a .npy file and give that"
        )
    if _elements(maker, arguments, named) > _MAX_ELEMENTS:
        raise FeedError("an array of this size is not made here", hint="save it to a .npy file and give that")


def _element_size(value: object) -> int:
    """Bytes of an element, where a text names a type of numpy; 0 for anything else."""
    import numpy as np

    try:
        return np.dtype(value).itemsize if isinstance(value, str) else 0
    except TypeError:
        return 0


def _elements(maker: str, arguments: list[Any], named: dict[str, Any]) -> float:
    """How many elements a maker of numpy will make; literals, which a text spells out, count as one."""
    if maker == "arange":
        bounds = [*arguments, *(named[k] for k in ("start", "stop", "step") if k in named)]
        start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        return abs((stop - start) / step) if step else math.inf
    if maker in ("rand", "randn", "eye"):
        sizes: Any = [*arguments[:2], *named.values()] if maker == "eye" else arguments
        # One size of an identity matrix is both.
        sizes = [*sizes, *sizes] if maker == "eye" and len(sizes) == 1 else sizes
    else:
        place, name = _SIZES.get(maker, (len(arguments), ""))
        sizes = arguments[place] if len(arguments) > place else named.get(name, ())
    # In Python's whole numbers, which do not overflow; the sizes of a matrix may be written as floats.
    return math.prod(abs(int(n)) for n in (sizes if isinstance(sizes, (tuple, list)) else (sizes,)))


# --- examples -----------------------------------------------------------------------------------------------


def from_examples(text: str) -> dict[str, Any]:
    """Lists of dicts as serialized tf.Example messages: `x=[{"age": [22.0], "name": ["a"]}]`.

    Raises:
        FeedError: something else, or a feature of mixed or unknown type.
    """
    found = {}
    for name, expression in split_pairs(text):
        try:
            examples = ast.literal_eval(expression)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise FeedError(f"{name}={expression[:60]}: {error}", hint="write a list of dicts") from error
        if not isinstance(examples, list) or not all(isinstance(e, dict) for e in examples):
            raise FeedError(f"'{name}' is no list of dicts", hint='write name=[{"feature": [1.0]}]')
        found[name] = [_example(e) for e in examples]
    return found


def _example(features: Mapping[str, Any]) -> bytes:
    """A serialized Example."""
    from thinflow.ops._example import example_bytes

    for name, values in features.items():
        if not isinstance(values, list):
            raise FeedError(f"the feature '{name}' is no list", hint=f'write "{name}": [{values!r}]')
    return example_bytes((str(n).encode(), *_feature(str(n), values)) for n, values in features.items())


def _feature(name: str, values: list[Any]) -> tuple[DType, list[Any]]:
    """The type of a feature, which its first value decides, and the values in it."""
    from thinflow.ir.types import FLOAT, INT64, STRING

    first = values[0] if values else None
    # In this order: a bool is an int, and whole numbers may stand among floats.
    for kind, types in ((STRING, (str, bytes)), (INT64, (int,)), (FLOAT, (int, float))):
        if not isinstance(first, types):
            continue
        if not all(isinstance(v, types) for v in values):
            raise FeedError(f"the values of the feature '{name}' are not of one type")
        if kind is INT64 and not all(-(1 << 63) <= v < 1 << 63 for v in values):
            raise FeedError(f"the feature '{name}' has a number that does not fit into 64 bits")
        if kind is FLOAT:
            _require_float32(name, values)
        return kind, [v.encode() if isinstance(v, str) else v for v in values]
    raise FeedError(f"the type of the feature '{name}' is not supported", hint="give numbers or texts")


def _require_float32(name: str, values: list[float]) -> None:
    try:
        struct.pack(f"<{len(values)}f", *values)
    except (struct.error, OverflowError) as error:
        raise FeedError(f"the feature '{name}' has a number that does not fit into 32 bits") from error
