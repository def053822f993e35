"""How options are declared and read, and how transforms are registered."""

from __future__ import annotations

import math
import pkgutil
from dataclasses import dataclass

import pytest

from thinflow import transforms
from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.rewrite import discovery
from thinflow.rewrite.rule import (
    Trace,
    Transform,
    configure,
    options,
    read_value,
    registered,
    transform,
)
from thinflow.transforms import find, names, resolve


@dataclass(frozen=True)
class Sample(Transform):
    """One option of each kind."""

    name = "sample"

    count: int = 3
    rate: float = 0.5
    label: str = "x"
    flag: bool = False
    op: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    limit: float | None = None
    name_: tuple[str, ...] = ()

    def apply(self, graph: Graph, trace: Trace) -> None:
        del graph, trace


@dataclass(frozen=True)
class Needy(Transform):
    """An option without a default."""

    name = "needy"

    what: str

    def apply(self, graph: Graph, trace: Trace) -> None:
        del graph, trace


def set_up(**params: list[str]) -> Sample:
    configured = configure(Sample, params)
    assert isinstance(configured, Sample)
    return configured


def test_absent_options_take_their_defaults() -> None:
    assert set_up() == Sample()


def test_every_kind_of_option() -> None:
    sample = set_up(
        count=["-7"], rate=["2.5"], label=["a b"], flag=["true"], op=["A", "B"], sizes=["1", "2"], limit=["1"]
    )
    assert sample == Sample(-7, 2.5, "a b", True, ("A", "B"), (1, 2), 1.0)


def test_an_underscore_keeps_an_option_apart_from_the_class() -> None:
    assert set_up(name=["a", "b"]).name_ == ("a", "b")
    assert set_up(name=["a"]).name == "sample"
    assert options(Sample)["name"][1] == ()
    assert "name_" not in options(Sample)


INTS = [("5", 5), (" 5 ", 5), ("-5", -5), ("0", 0), ("007", 7), ("9223372036854775807", (1 << 63) - 1)]
NOT_INTS = ["1.5", "0x10", "+1", "abc", "", "--1", "9223372036854775808", "1_000", "1e3", "٣", "1 2"]
FLOATS = [
    ("0.5", 0.5),
    ("-1e3", -1000.0),
    (" 2 ", 2.0),
    ("0x1p-2", 0.25),
    ("inf", math.inf),
    ("-INF", -math.inf),
    ("7", 7.0),
]
NOT_FLOATS = ["abc", "", "1,5", "nan", "NaN", "0xzz", "1 2"]
BOOLS = [(t, True) for t in ("true", "1", "True", "YES", "on")] + [
    (t, False) for t in ("false", "0", "False", "no", "OFF")
]
NOT_BOOLS = ["maybe", "", "2", "-1", "t"]


@pytest.mark.parametrize(("text", "value"), INTS)
def test_whole_numbers(text: str, value: int) -> None:
    assert read_value("p", text, int) == value


@pytest.mark.parametrize("text", NOT_INTS)
def test_not_whole_numbers(text: str) -> None:
    with pytest.raises(ParameterError, match="Couldn't interpret the p argument as a number:"):
        read_value("p", text, int)


@pytest.mark.parametrize(("text", "value"), FLOATS)
def test_numbers(text: str, value: float) -> None:
    assert read_value("p", text, float) == value


@pytest.mark.parametrize("text", NOT_FLOATS)
def test_not_numbers(text: str) -> None:
    with pytest.raises(ParameterError, match="Couldn't interpret the p argument as a float number:"):
        read_value("p", text, float)


@pytest.mark.parametrize(("text", "value"), BOOLS)
def test_truths(text: str, value: bool) -> None:
    assert read_value("p", text, bool) is value


@pytest.mark.parametrize("text", NOT_BOOLS)
def test_not_truths(text: str) -> None:
    with pytest.raises(ParameterError, match=r"argument as a boolean:.*expected true, false, 0 or 1"):
        read_value("p", text, bool)


def test_an_optional_option_is_read_as_what_it_may_be() -> None:
    assert read_value("p", "2", float | None) == 2.0


def test_a_repeated_option_that_takes_one_value() -> None:
    with pytest.raises(ParameterError, match="Expected a single 'label' parameter, but found 2 occurrences"):
        set_up(label=["a", "b"])


def test_an_unknown_option_offers_the_nearest() -> None:
    with pytest.raises(ParameterError, match="'sample' has no parameter 'cout'") as caught:
        set_up(cout=["1"])
    assert "'count'" in caught.value.hint
    with pytest.raises(ParameterError) as caught:
        set_up(qqqqqq=["1"])
    assert "it takes count, rate" in caught.value.hint
    with pytest.raises(ParameterError, match="has no parameter 'ignore_error'") as caught:
        set_up(ignore_error=["true"])
    assert caught.value.hint == "did you mean 'ignore_errors'?"


def test_a_missing_option() -> None:
    with pytest.raises(ParameterError, match="'needy' needs the parameter 'what'") as caught:
        configure(Needy, {})
    assert "needy(what=...)" in caught.value.hint


def test_a_transform_is_written_with_what_differs_from_its_defaults() -> None:
    assert str(Sample()) == "sample"
    assert str(Sample(count=4, name_=("a",))) == "sample(count=4, name=a)"


def test_the_sources_tell_which_file_registers_a_name() -> None:
    for name in names():
        found = find(name)
        assert found.name == name
        assert found.__module__.startswith("thinflow.transforms.")
        assert registered(name) is found


def test_every_transform_is_found_by_its_line() -> None:
    found = discovery.shipped_transforms()
    modules = [m.name for m in pkgutil.walk_packages(transforms.__path__, f"{transforms.__name__}.")]
    assert discovery._by_importing(modules) == found, 'write @transform("name") at the margin'


def test_every_transform_says_what_it_does() -> None:
    for name in names():
        assert (find(name).__doc__ or "").strip(), name
        assert options(find(name)) is not None


def test_one_name_cannot_mean_two_transforms() -> None:
    class Other(Transform):
        """A second round_weights."""

    find("round_weights")
    with pytest.raises(RuntimeError, match=r"defined in both thinflow\.transforms\.round_weights and"):
        transform("round_weights")(Other)


def test_an_unknown_transform_offers_the_nearest() -> None:
    with pytest.raises(ParameterError, match="Transform 'round_weihgts' not recognized") as caught:
        resolve("round_weihgts")
    assert "'round_weights'" in caught.value.hint
    with pytest.raises(ParameterError, match="'REMOVE_DEVICE' not recognized"):
        resolve("REMOVE_DEVICE")


def test_an_old_name_still_works() -> None:
    assert isinstance(resolve("obsfucate_names")[0].transform, find("obfuscate_names"))


def test_a_pipeline_may_be_a_list() -> None:
    given = [
        "remove_device round_weights",
        ("set_device", {"device": "/cpu:0", "if_default": True, "op": ["A", "B"]}),
        find("merge_duplicate_nodes")(),
    ]
    steps = resolve(given)
    assert [s.transform.name for s in steps] == [
        "remove_device",
        "round_weights",
        "set_device",
        "merge_duplicate_nodes",
    ]
    assert str(steps[2].transform) == "set_device(device=/cpu:0, if_default=true, op=A, op=B)"


@pytest.mark.parametrize(
    ("text", "ignored"), [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False)]
)
def test_ignore_errors(text: str, ignored: bool) -> None:
    assert resolve(f"remove_device(ignore_errors={text})")[0].ignore_errors is ignored


def test_ignore_errors_is_off_by_default() -> None:
    assert resolve("remove_device")[0].ignore_errors is False


def test_nonsense_for_ignore_errors() -> None:
    with pytest.raises(ParameterError, match="ignore_errors should be true or false, found maybe"):
        resolve("remove_device(ignore_errors=maybe)")


def test_errors_name_the_transform() -> None:
    with pytest.raises(ParameterError) as caught:
        resolve("remove_device round_weights(num_steps=x)")
    assert caught.value.where == "transform 'round_weights'"
