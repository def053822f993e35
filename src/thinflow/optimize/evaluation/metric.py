"""What is measured of answers besides right and equal ones: metrics by name, and those of one's own.

A class becomes a metric by `@metric("name")`, in the modules of `metrics/`; one from a file is named
`file.py:name`. Its options are the keyword arguments of its constructor. Whatever it counts is kept in its
attributes, as numbers, texts, lists, dicts and `ExactSum`s, so that shards can be stored and merged.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from thinflow.errors import ParameterError, ThinflowError, closest
from thinflow.ir.brief import brief_repr
from thinflow.optimize.exact_sum import ExactSum
from thinflow.optimize.quality import decibels
from thinflow.typing import Array


@brief_repr
@dataclass(frozen=True)
class Figure:
    """One number that a metric found.

    Attributes:
        name: what it is.
        value: in `unit`; None where there is nothing to compute it of.
        unit: "%", "dB" or "".
        low, high: its 95 % interval; None where it has none.
    """

    name: str
    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None


@brief_repr
@dataclass(frozen=True)
class Answered:
    """A sample with what a model answered.

    Attributes:
        outputs: name -> array, with the batch; codes as the numbers they stand for.
        first: the same of the first model; that model's own for itself.
        label: number of the class; None without.
        given_label: as it is stored: a word, a number, a list.
        fields: of the record, those that are not in the way of being read by name.
        names: of the classes, empty if they are not known.
    """

    outputs: Mapping[str, Array]
    first: Mapping[str, Array]
    label: int | None = None
    given_label: Any = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()


class Metric(Protocol):
    """Collects samples of one model; see the top of this file for what it may keep."""

    def add(self, sample: Answered) -> None:
        """One more sample."""

    def merge(self, later: Any) -> None:
        """What another metric of this kind has seen, of the samples that come next."""

    def figures(self) -> list[Figure]:
        """What was found so far."""


_M = TypeVar("_M", bound=type)
_REGISTRY: dict[str, type[Any]] = {}


def metric(name: str) -> Callable[[_M], _M]:
    """Class decorator that makes a metric available under a name."""

    def register(cls: _M) -> _M:
        if name in _REGISTRY:
            raise ParameterError(f"two metrics are called '{name}'")
        _REGISTRY[name] = cls
        return cls

    return register


def metrics() -> Mapping[str, type[Any]]:
    """Every metric that ships with thinflow, by name."""
    package = importlib.import_module("thinflow.optimize.evaluation.metrics")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_REGISTRY.items()))


@dataclass(frozen=True)
class MetricSpec:
    """A metric that was asked for, as it travels to whoever computes it.

    Attributes:
        text: as it was written.
        name: of the metric, or of the function or class in the file.
        options: for its constructor.
        source: content of the file; "" for a metric of ours.
    """

    text: str
    name: str
    options: tuple[tuple[str, Any], ...] = ()
    source: str = field(default="", repr=False)

    @property
    def identity(self) -> list[str]:
        """What tells it from others, for the names of stored results."""
        return [self.name, repr(self.options), hashlib.sha256(self.source.encode()).hexdigest()]

    def make(self) -> Metric:
        """A fresh one.

        Raises:
            ParameterError: there is none of that name, or it has no such option.
        """
        if self.source:
            return _made(_loaded(self), dict(self.options), self.text)
        known = metrics()
        if self.name not in known:
            raise ParameterError(
                f"there is no metric '{self.name}'",
                hint=closest(self.name, known) or f"there are: {', '.join(known)}; or FILE.py:NAME",
            )
        return _made(known[self.name], dict(self.options), self.text)


def _made(maker: Any, options: dict[str, Any], text: str) -> Metric:
    if not inspect.isclass(maker):
        return Mean(maker, text)
    taken = inspect.signature(maker).parameters
    if (odd := next((name for name in options if name not in taken), None)) is not None:
        hint = closest(odd, taken) or f"it has: {', '.join(taken) or 'no options'}"
        raise ParameterError(f"metric '{text}' has no option '{odd}'", hint=hint)
    made: Any = maker(**options)
    return cast("Metric", made)


def _loaded(spec: MetricSpec) -> Any:
    """What a file of one's own defines under that name; its code is run."""
    # A fixed name, so that the same source is the same module wherever it is loaded.
    # A name of its own for each source: two files of one name must not share a module.
    space: dict[str, Any] = {"__name__": f"thinflow_metric_{spec.identity[2][:12]}"}
    try:
        exec(compile(spec.source, spec.text.partition(":")[0], "exec"), space)
    except Exception as error:
        raise ParameterError(
            f"the file of the metric cannot be run: {type(error).__name__}: {error}", spec.text
        ) from error
    found = space.get(spec.name)
    if not callable(found):
        names = [n for n, v in space.items() if callable(v) and not n.startswith("_")]
        raise ParameterError(
            f"the file has no function or class '{spec.name}'",
            spec.text,
            hint=closest(spec.name, names) or f"it has: {', '.join(names)}",
        )
    return found


def metric_spec(text: str) -> MetricSpec:
    """`map`, `wer(blank=0)` or `file.py:name` read.

    Raises:
        ParameterError: it is none, or the file cannot be read.
    """
    before, colon, name = text.rpartition(":")
    if colon and before.endswith(".py"):
        try:
            source = Path(before).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"the file of the metric cannot be read: {error}", text) from error
        spec = MetricSpec(text, name.partition("(")[0], _options(name, text), source)
    else:
        spec = MetricSpec(text, text.partition("(")[0], _options(text, text))
    # Now, and not an hour later on another machine.
    spec.make()
    return spec


def _options(call: str, text: str) -> tuple[tuple[str, Any], ...]:
    """The keyword arguments of `name(a=1, b=two)`; words need no quotes."""
    if "(" not in call:
        return ()
    try:
        tree = ast.parse(call, mode="eval").body
        if not isinstance(tree, ast.Call) or tree.args:
            raise ValueError
        return tuple((str(k.arg), _value(k.value)) for k in tree.keywords)
    except (SyntaxError, ValueError) as error:
        raise ParameterError(
            f"'{text}' cannot be read as a metric", hint="write NAME(OPTION=VALUE, ...)"
        ) from error


def _value(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


class Mean:
    """The mean of what a function says of each sample, which may be NaN for "does not count"."""

    def __init__(self, function: Callable[[Answered], float], text: str) -> None:
        self._function, self._text = function, text
        self.count = 0
        self.sum, self.squares = ExactSum(), ExactSum()

    def add(self, sample: Answered) -> None:
        """See `Metric`.

        Raises:
            ParameterError: the function fails, or says no number.
        """
        try:
            value = float(self._function(sample))
        except ThinflowError:
            raise
        except Exception as error:
            raise ParameterError(f"the metric failed: {type(error).__name__}: {error}", self._text) from error
        # NaN is not equal to itself: the function says that this sample does not count.
        if value == value:
            self.count += 1
            self.sum.add(value)
            self.squares.add(value * value)

    def merge(self, later: Mean) -> None:
        """See `Metric`."""
        self.count += later.count
        self.sum.merge(later.sum)
        self.squares.merge(later.squares)

    def figures(self) -> list[Figure]:
        """The mean with its interval, for which the samples are many."""
        return [mean_figure(self._text.rpartition(":")[2], self.sum, self.squares, self.count)]


def mean_figure(name: str, total: ExactSum, squares: ExactSum, count: int, unit: str = "") -> Figure:
    """A mean and what other samples of the same kind may give, by the normal distribution (95 %)."""
    if not count:
        return Figure(name, None, unit)
    mean = total.total / count
    if count < 2:
        return Figure(name, mean, unit)
    # The difference of two large sums may come out a little below zero.
    spread = max(0.0, squares.total / count - mean * mean) * count / (count - 1)
    half = 1.959964 * (spread / count) ** 0.5
    return Figure(name, mean, unit, mean - half, mean + half)


def figure_text(figure: Figure) -> str:
    """`top 5 99.20% (98.1% to 99.7%)`."""
    if figure.value is None:
        return f"{figure.name} -"
    value, low, high = (_amount(x, figure.unit) for x in (figure.value, figure.low, figure.high))
    return f"{figure.name} {value}" + (f" ({low} to {high})" if figure.low is not None else "")


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "dB":
        return decibels(value)
    return f"{value:.2f}%" if unit == "%" else f"{value:.6g}"


# --------------------------------------------------------------------------------------------------- on disk


def metric_state(one: Metric) -> dict[str, Any]:
    """The public attributes of a metric as JSON holds them.

    Raises:
        ParameterError: it keeps what cannot be stored.
    """
    return {name: _stored(value, one) for name, value in vars(one).items() if not name.startswith("_")}


def restored(one: Metric, state: Mapping[str, Any]) -> Metric:
    """A fresh metric with the state of another."""
    for name, value in state.items():
        setattr(one, name, _restored(value))
    return one


def _stored(value: Any, one: Metric) -> Any:
    # As a text: JSON's numbers are floats to most readers, and this one has two thousand bits.
    if isinstance(value, ExactSum):
        return {"exact": str(value)}
    if isinstance(value, Mapping):
        # Pairs, since JSON would make texts of the keys.
        return {"map": [[_stored(k, one), _stored(v, one)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_stored(item, one) for item in value]}
    if isinstance(value, list):
        return [_stored(item, one) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise ParameterError(
        f"a metric cannot keep a {type(value).__name__}",
        type(one).__name__,
        hint="keep numbers, texts, lists and dicts; what begins with _ is not kept",
    )


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "exact":
        return ExactSum(inner)
    items = [_restored(item) for item in inner]
    return dict(items) if kind == "map" else tuple(items)
