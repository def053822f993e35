"""The public functions have their whole signature, and their help teaches it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

import thinflow
from scripts.house import vague_signatures

FUNCTIONS = [name for name in thinflow.__all__ if isinstance(getattr(thinflow, name), FunctionType)]
CLASSES = [name for name in thinflow.__all__ if isinstance(getattr(thinflow, name), type)]

OPENING = {"tags", "signature", "checkpoint"}
WORK = {
    "benchmark": ("thinflow.bench.latency", "benchmark"),
    "evaluate": ("thinflow.optimize.evaluation.evaluate", "evaluate"),
    "optimize": ("thinflow.optimize.job_inputs", "JobOptions"),
    "quantize": ("thinflow.optimize.quantize_job", "QuantizeOptions"),
}
"""Public function -> where the work is done that it hands its arguments to, or the class of its options."""
ELSEWHERE = {
    "optimize": {"opening", "workers", "devices"},
    "quantize": {
        "test",
        "labels",
        "sensitivity",
        "external_data",
        "names",
        "save_recipe",
        "html",
        "workers",
        "of_c",
    },
}
"""Public function -> options that are those of a command, or hold several arguments."""


def documented(function: Callable[..., Any]) -> set[str]:
    """The arguments that a docstring explains."""
    section = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
    listed = re.findall(r"^    (\w+(?:, \w+)*): ", section, re.MULTILINE)
    return {name for names in listed for name in names.split(", ")}


def test_nothing_is_any() -> None:
    assert not vague_signatures()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_explains_every_argument(name: str) -> None:
    function = getattr(thinflow, name)
    assert set(inspect.signature(function).parameters) == documented(function)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_comes_out_is_typed(name: str) -> None:
    returned = inspect.signature(getattr(thinflow, name)).return_annotation
    assert returned is not inspect.Signature.empty
    for result in re.findall(r"\b[A-Z]\w+", str(returned)):
        known = {"Array", "Callable", "Decorated", "Message", "Progress"}
        assert result in {*thinflow.__all__, *known}, f"{name} returns {result}, which nobody can name"


@pytest.mark.parametrize("name", CLASSES)
def test_classes_say_what_they_are(name: str) -> None:
    text = vars(getattr(thinflow, name)).get("__doc__") or ""
    assert text.strip()
    assert not text.startswith(f"{name}("), "a docstring made up by dataclass"


@pytest.mark.parametrize("name", WORK)
def test_defaults_are_those_of_the_work(name: str) -> None:
    """What is public stands in one place, and what it means in another: they must say the same."""
    module, function = WORK[name]
    work = inspect.signature(getattr(importlib.import_module(module), function)).parameters
    public = inspect.signature(getattr(thinflow, name)).parameters
    for key, parameter in work.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and key not in ELSEWHERE.get(name, ()):
            assert public[key].default == parameter.default, key


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"register"}))
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'calibraton'"):
        getattr(thinflow, name)(calibraton=1)


@pytest.mark.parametrize("option", [{"opset": 17}, {"activations": "int8"}, {"reduce_range": False}])
def test_options_of_onnx_need_onnx(option: dict[str, Any]) -> None:
    with pytest.raises(thinflow.ParameterError, match="goes with ONNX models only") as caught:
        thinflow.quantize("model.pb", **option)
    assert caught.value.hint == 'say format="onnx"'


@pytest.mark.parametrize(
    "name", ["load", "optimize", "quantize", "transform", "verify", "diff", "run", "convert"]
)
def test_every_model_can_be_opened_everywhere(name: str) -> None:
    assert set(inspect.signature(getattr(thinflow, name)).parameters) >= OPENING


def test_help_teaches_the_main_job() -> None:
    text = inspect.getdoc(thinflow.optimize) or ""
    for section in ("report = thinflow.optimize(", "Args:", "Returns:", "Raises:"):
        assert section in text
    assert "seconds: time for each pair" in text
    assert "percentage points" in text


def test_functions_for_two_models_are_told_apart() -> None:
    for name in ("verify", "diff", "compare"):
        others = {"verify", "diff", "compare"} - {name}
        text = inspect.getdoc(getattr(thinflow, name)) or ""
        assert all(f"`{other}`" in text for other in others), name
    assert thinflow.inspect is thinflow.summarize
    assert "`inspect` is another name" in (inspect.getdoc(thinflow.summarize) or "")


def test_types_of_arguments_are_there_at_run_time() -> None:
    """For those who look at annotations; a type checker sees them without numpy being imported."""
    from thinflow import typing

    for name in ("Array", "ArrayLike", "Feed", "FilePath", "Progress", "Sample", "Samples", "Shapes"):
        assert getattr(typing, name)
    with pytest.raises(AttributeError, match=r"'thinflow.typing' has no attribute 'Arrays'"):
        _ = typing.Arrays
