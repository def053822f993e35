"""Custom classes and Lambda layers: refused by name, unless somebody says what they compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.keras.written import dense, layer, sequential, source, write_h5, write_keras
from thinflow.cli import main
from thinflow.ir.graph import Value
from thinflow.keras import registry
from thinflow.keras.call import Call

X = np.array([[1.0, -2.0]], np.float32)


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_GIVEN", {})
    monkeypatch.setattr(registry, "_FITTED", set())
    monkeypatch.setattr(registry, "_MET", {})


def twice(c: Call) -> Value:
    c.read |= {"function", "function_type", "module", "factor"}
    return c.emit("Mul", c[0], 2.0)


def lambda_file(folder: Path) -> Path:
    function = layer("Lambda", "double", function=["4wEAAAAAAA==", None, None], function_type="lambda")
    return write_h5(folder / "lambda.h5", sequential(source(2), function))


def custom_file(folder: Path) -> Path:
    own = {**layer("Twice", "own", factor=3), "module": "acme.layers", "registered_name": "Acme>Twice"}
    return write_keras(folder / "own.keras", sequential(source(2), own), {})


def answer(graph: thinflow.Graph) -> list[list[float]]:
    session = thinflow.Session(graph, engine="reference")
    (y,) = session.run(list(session.outputs), {"x": X})
    result: list[list[float]] = y.tolist()
    return result


def test_lambda_layers_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(thinflow.UnsupportedOp, match=r"layer 'double' .Lambda.*never run") as caught:
        thinflow.load(lambda_file(tmp_path))
    assert "--lambda double=FILE.py:FUNCTION" in caught.value.hint


def test_lambda_layers_that_are_given(tmp_path: Path) -> None:
    assert answer(thinflow.load(lambda_file(tmp_path), custom_layers={"double": twice})) == [[2, -4]]


def test_a_function_for_a_lambda_layer_need_not_speak_of_its_bytecode(tmp_path: Path) -> None:
    def halve(c: Call) -> Value:  # as the page on Keras shows it
        return c.emit("Mul", c[0], 0.5)

    assert answer(thinflow.load(lambda_file(tmp_path), custom_layers={"double": halve})) == [[0.5, -1]]
    code = {"class_name": "__lambda__", "config": {"code": "4wE=", "defaults": None, "closure": None}}
    own = layer("Lambda", "double", function=code, output_shape=[2], arguments={})
    path = write_keras(tmp_path / "lambda.keras", sequential(source(2), own), {})
    assert answer(thinflow.load(path, custom_layers={"double": halve})) == [[0.5, -1]]
    own = layer("Lambda", "double", function=code, arguments={"by": 3})
    path = write_keras(tmp_path / "more.keras", sequential(source(2), own), {})
    with pytest.raises(thinflow.UnsupportedOp, match=r"its option arguments .* is not known") as caught:
        thinflow.load(path, custom_layers={"double": halve})
    assert caught.value.hint.startswith("export the model as a SavedModel")


def test_mistakes_of_a_function_that_is_given_are_told_as_such(tmp_path: Path) -> None:
    def careless(c: Call) -> Value:
        return c.nothing_of_the_kind  # type: ignore[attr-defined, no-any-return]

    def plain(x: float) -> float:
        return x * 2.0

    for function, problem in ((careless, "AttributeError"), (plain, "TypeError: unsupported operand")):
        told = f"layer 'double' .*: the function that is given for 'double' fails: {problem}"
        with pytest.raises(thinflow.ParameterError, match=told) as caught:
            thinflow.load(lambda_file(tmp_path), custom_layers={"double": function})
        assert "CONTRIBUTING.md" in caught.value.hint


def test_custom_classes_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(thinflow.UnsupportedOp, match="Acme>Twice is not Keras's own") as caught:
        thinflow.load(custom_file(tmp_path))
    assert "--lambda Twice=FILE.py:FUNCTION" in caught.value.hint


def test_unknown_classes_of_old_files_can_be_given_too(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "old.h5", sequential(source(2), layer("Twice", "own")))
    with pytest.raises(thinflow.UnsupportedOp, match="the layer Twice is not known") as caught:
        thinflow.load(path)
    assert "--lambda Twice=FILE.py:FUNCTION" in caught.value.hint
    assert answer(thinflow.load(path, custom_layers={"Twice": twice})) == [[2, -4]]


@pytest.mark.parametrize("name", ["Twice", "Acme>Twice"])
def test_custom_classes_that_are_given(tmp_path: Path, name: str) -> None:
    assert answer(thinflow.load(custom_file(tmp_path), custom_layers={name: twice})) == [[2, -4]]


def test_what_is_given_reads_the_options(tmp_path: Path) -> None:
    def factor(c: Call) -> Value:
        return c.emit("Mul", c[0], c.number("factor"))

    def careless(c: Call) -> Value:
        return c.emit("Mul", c[0], 3.0)

    assert answer(thinflow.load(custom_file(tmp_path), custom_layers={"Twice": factor})) == [[3, -6]]
    with pytest.raises(thinflow.UnsupportedOp, match=r"its option factor .3. is not known"):
        thinflow.load(custom_file(tmp_path), custom_layers={"Twice": careless})


def test_a_custom_activation(tmp_path: Path) -> None:
    path = write_h5(
        tmp_path / "net.h5",
        sequential(
            source(2), dense(units=2) | {"config": {"name": "dense", "units": 2, "activation": "my_act"}}
        ),
        {"dense": [np.eye(2, dtype=np.float32), np.zeros(2, np.float32)]},
    )
    with pytest.raises(thinflow.UnsupportedOp, match="the activation 'my_act' is not known"):
        thinflow.load(path)
    assert answer(thinflow.load(path, custom_layers={"my_act": twice})) == [[2, -4]]


def test_what_is_given_must_be_a_function(tmp_path: Path) -> None:
    with pytest.raises(thinflow.ParameterError, match="what is given for the layer 'double' is no function"):
        thinflow.load(lambda_file(tmp_path), custom_layers={"double": 3})


def test_custom_layers_go_with_keras_models_only(tmp_path: Path) -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x").output()
    graph.outputs = [graph.add("Relu", [x], "y").output()]
    thinflow.save(graph, tmp_path / "net.pb")
    with pytest.raises(thinflow.ParameterError, match="custom_layers= does not apply"):
        thinflow.load(tmp_path / "net.pb", custom_layers={"double": twice})


def test_what_is_given_must_be_for_a_layer(tmp_path: Path) -> None:
    given = {"double": twice, "duoble": twice}
    with pytest.raises(thinflow.ParameterError, match="custom_layers= for 'duoble' is for a layer") as caught:
        thinflow.load(lambda_file(tmp_path), custom_layers=given)
    assert caught.value.hint == "its Lambda layers and custom classes are: double"
    plain = write_h5(tmp_path / "plain.h5", sequential(source(2), layer("ReLU", "r")))
    with pytest.raises(thinflow.ParameterError) as caught:
        thinflow.load(plain, custom_layers={"double": twice})
    assert "neither Lambda layers nor custom classes" in caught.value.hint


def test_a_flag_for_no_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text("def twice(c):\n    return c.emit('Mul', c[0], 2.0)\n")
    flags = [f"--lambda={name}={tmp_path}/own.py:twice" for name in ("double", "duoble")]
    assert main(["inspect", str(lambda_file(tmp_path)), *flags]) == 1
    told = capsys.readouterr().err
    assert "--lambda duoble= is for a layer that the model does not have" in told
    assert "its Lambda layers and custom classes are: double" in told
    assert main(["inspect", str(lambda_file(tmp_path)), flags[0]]) == 0


def test_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "def twice(c):\n    c.read |= {'function', 'function_type'}\n    return c.emit('Mul', c[0], 2.0)\n"
    (tmp_path / "own.py").write_text(code)
    path = lambda_file(tmp_path)
    target = tmp_path / "net.tflite"
    assert main(["convert", str(path), str(target)]) == 1
    assert "--lambda double=FILE.py:FUNCTION" in capsys.readouterr().err
    assert main(["convert", str(path), str(target), "--lambda", f"double={tmp_path}/own.py:twice"]) == 0
    session = thinflow.Session(target)
    assert session.run(list(session.outputs), {"x": X})[0].tolist() == [[2, -4]]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("double", "not of the form"),
        ("double=own.py", "not of the form"),
        ("double=missing.py:f", "there is no file missing.py"),
        ("double={folder}/own.py:f", "there is no function 'f'"),
        ("double={folder}/own.py:X", "is no function"),
        ("double={folder}/bad.py:f", "the plug-in failed: ZeroDivisionError"),
    ],
)
def test_flags_that_lead_nowhere(
    tmp_path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text("X = 1\n")
    (tmp_path / "bad.py").write_text("1 / 0\n")
    assert main(["inspect", str(lambda_file(tmp_path)), "--lambda", text.format(folder=tmp_path)]) == 1
    assert problem in capsys.readouterr().err
