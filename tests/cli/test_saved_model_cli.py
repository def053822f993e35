"""`thinflow saved_model_cli` prints what TensorFlow's tool prints."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.examples import commands_shown
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.formats import graphdef
from thinflow.wire import protos

Out = pytest.CaptureFixture[str]

BLOCK = """\
The given SavedModel SignatureDef contains the following input(s):
  inputs['x'] tensor_info:
      dtype: DT_FLOAT
      shape: (-1, 3)
      name: x:0
The given SavedModel SignatureDef contains the following output(s):
  outputs['any'] tensor_info:
      dtype: DT_FLOAT
      shape: unknown_rank
      name: z:0
  outputs['y'] tensor_info:
      dtype: DT_FLOAT
      shape: ()
      name: y:0
Method name is: tensorflow/serving/predict
"""


def _tensor(info: object, name: str, shape: tuple[int, ...] | None) -> None:
    info.name, info.dtype = name, 1  # type: ignore[attr-defined]
    info.tensor_shape.unknown_rank = shape is None  # type: ignore[attr-defined]
    for size in shape or ():
        info.tensor_shape.dim.add(size=size)  # type: ignore[attr-defined]


def _signature(message: object) -> None:
    message.method_name = "tensorflow/serving/predict"  # type: ignore[attr-defined]
    _tensor(message.inputs["x"], "x:0", (-1, 3))  # type: ignore[attr-defined]
    _tensor(message.outputs["y"], "y:0", ())  # type: ignore[attr-defined]
    _tensor(message.outputs["any"], "z:0", None)  # type: ignore[attr-defined]


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A SavedModel of two graphs, one with a function a user can call."""
    monkeypatch.chdir(tmp_path)
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[?,3]}\n"
        "axes = Const() {dtype=int32, value=int32[2]{0,1}}\n"
        "y = Sum(x, axes) {T=float, Tidx=int32, keep_dims=false}\nz = Neg(x) {T=float}\np = PrintV2(x)"
    )
    model = protos.message("SavedModel")(saved_model_schema_version=1)
    for tags in (["serve"], ["serve", "gpu"]):
        meta = model.meta_graphs.add()
        meta.meta_info_def.tags.extend(tags)
        meta.graph_def.ParseFromString(graphdef.to_bytes(graph))
        _signature(meta.signature_def["serving_default"])
    objects = model.meta_graphs[0].object_graph_def
    root, function = objects.nodes.add(), objects.nodes.add()
    root.user_object.identifier = "_generic_user_object"
    root.children.add(node_id=1, local_name="f")
    root.children.add(node_id=99, local_name="damaged")
    function.function.concrete_functions.append("__inference_f_1")
    values = objects.concrete_functions["__inference_f_1"].canonicalized_input_signature.tuple_value.values
    arguments, named = values.add(), values.add()
    spec = arguments.tuple_value.values.add().tensor_spec_value
    spec.name, spec.dtype = "x", 1
    spec.shape.dim.add(size=-1)
    arguments.tuple_value.values.add().bool_value = True
    arguments.tuple_value.values.add().none_value.SetInParent()
    arguments.tuple_value.values.add().string_value = "text"
    arguments.tuple_value.values.add().list_value.values.add().int64_value = 4
    named.dict_value.fields["training"].bool_value = False
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "saved_model.pb").write_bytes(protos.serialize(model))
    return "export"


FUNCTIONS = """\

Concrete Functions:
  Function Name: 'f'
    Option #1
      Callable with:
        Argument #1
          x: TensorSpec(shape=(None,), dtype=tf.float32, name='x')
        Argument #2
          DType: bool
          Value: True
        Argument #3
          DType: NoneType
          Value: None
        Argument #4
          text
        Argument #5
          DType: list
          Value: [4]
        Named Argument #1
          training
"""


def show(*flags: str) -> int:
    return main(["saved_model_cli", "show", *flags])


def test_tag_sets(export: str, capsys: Out) -> None:
    assert show("--dir", export) == 0
    assert capsys.readouterr().out == (
        "The given SavedModel contains the following tag-sets:\n'serve'\n'gpu, serve'\n"
    )


def test_keys_and_ops(export: str, capsys: Out) -> None:
    assert show(f"--dir={export}", "--tag_set=gpu,serve", "--list_ops") == 0
    assert capsys.readouterr().out == (
        "The MetaGraph with tag set ['serve', 'gpu'] contains the following ops: "
        "{'Const', 'Neg', 'Placeholder', 'PrintV2', 'Sum'}\n"
        "The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:\n"
        'SignatureDef key: "serving_default"\n'
    )


def test_signature(export: str, capsys: Out) -> None:
    assert show("--dir", export, "--tag_set", "serve", "--signature_def", "serving_default") == 0
    assert capsys.readouterr().out == BLOCK


def test_everything(export: str, capsys: Out) -> None:
    assert show("--dir", export, "--all") == 0
    out = capsys.readouterr().out
    assert out.startswith("\nMetaGraphDef with tag-set: 'serve' contains the following SignatureDefs:\n\n")
    indented = "".join(f"  {line}\n" for line in BLOCK.splitlines())
    assert out.count(f"signature_def['serving_default']:\n{indented}The MetaGraph with tag set") == 2
    assert out.endswith(FUNCTIONS)


def test_for_machines(export: str, capsys: Out) -> None:
    assert show("--dir", export, "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["ops"] == {"Const": 1, "Neg": 1, "Placeholder": 1, "PrintV2": 1, "Sum": 1}
    assert first["functions"] == ["f"]
    assert second["tags"] == ["serve", "gpu"]
    assert second["signatures"]["serving_default"]["outputs"]["any"]["shape"] is None


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["show", "--dir", "export", "--tag_set", "train"], 1, "there is no graph tagged {train}"),
        (
            ["show", "--dir", "export", "--tag_set", "serve", "--signature_def", "serving"],
            1,
            "did you mean 'serving_default'",
        ),
        (["show", "--dir", "nowhere"], 1, "there is no such file"),
        (["show"], 2, "required: --dir"),
        (["convert", "--dir", "export"], 1, "thinflow convert export OUT.tflite"),
        ([], 2, "usage: thinflow saved_model_cli show|run|scan"),
    ],
)
def test_mistakes(export: str, capsys: Out, argv: list[str], code: int, words: str) -> None:
    assert main(["saved_model_cli", *argv]) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["show", "--dir=export", "--noall"],
        ["show", "-dir", "export", "--all=false", "--nolist_ops"],
        ["show", "--di", "export", "--al", "no"],
        ["--dir", "export", "show"],
    ],
)
def test_spellings(export: str, capsys: Out, argv: list[str]) -> None:
    assert main(["saved_model_cli", *argv]) == 0
    assert capsys.readouterr().out.startswith(
        "The given SavedModel contains the following tag-sets:\n'serve'"
    )


def test_a_folder_called_like_a_command(export: str, capsys: Out) -> None:
    os.rename(export, "run")
    assert main(["saved_model_cli", "--dir", "run", "show"]) == 0
    assert "contains the following tag-sets" in capsys.readouterr().out


def test_ops_need_a_graph(export: str, capsys: Out) -> None:
    assert show("--dir", export, "--list_ops") == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "--list_ops must be paired with a tag-set or with --all."
    assert second == "The given SavedModel contains the following tag-sets:"


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["shwo"], 2, "there is no command 'shwo'\nhint: did you mean 'show'?\nusage: "),
        (["show", "--dir=x", "--sinature_def=y"], 2, "hint: did you mean '--signature_def'?\n"),
        (["show", "--dir=x", "--all=maybe"], 2, "'maybe' is neither true nor false"),
        (["convert", "--dir", "my model", "tensorrt"], 1, "hint: thinflow convert 'my model' OUT.tflite"),
        (
            ["--dir=x", "aot_compile_cpu"],
            1,
            "machine code, with XLA's compiler\nhint: thinflow convert x OUT",
        ),
        (["freeze_model"], 1, "hint: thinflow freeze DIR -o frozen.pb\n"),
    ],
)
def test_what_is_not_there(capsys: Out, argv: list[str], code: int, words: str) -> None:
    assert main(["saved_model_cli", *argv]) == code
    captured = capsys.readouterr()
    assert words in captured.err
    assert not captured.out


@pytest.mark.parametrize("command", [[], ["show"], ["run"], ["scan"]])
def test_help_has_examples(capsys: Out, command: list[str]) -> None:
    assert main(["saved_model_cli", *command, "--help"]) == 0
    examples = commands_shown(capsys.readouterr().out)
    assert examples
    assert all(line.startswith(" ".join(["thinflow saved_model_cli", *command])) for line in examples)


def test_kernels_of_an_export(export: str, capsys: Out) -> None:
    assert main(["print_selective_registration_header", "--graphs", export, "--ops_list"]) == 0
    ops = [op for op, _ in json.loads(capsys.readouterr().out)]
    assert {"Neg", "Placeholder", "Sum"} <= set(ops)


def test_scan(export: str, capsys: Out) -> None:
    assert main(["saved_model_cli", "scan", "--dir", export]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "MetaGraph with tag set ['serve'] contains the following denylisted ops: {'PrintV2'}"
    assert len(lines) == 2
    assert (
        main(["saved_model_cli", "scan", "--dir", export, "--tag_set=serve", "--op_denylist=ReadFile,Log"])
        == 0
    )
    line = "MetaGraph with tag set ['serve'] does not contain the denylisted ops: {'Log', 'ReadFile'}\n"
    assert capsys.readouterr().out == line


# --- run ----------------------------------------------------------------------------------------------------


def run(*flags: str) -> int:
    target = ["--dir", "export", "--tag_set", "serve", "--signature_def", "serving_default"]
    return main(["saved_model_cli", "run", *target, *flags])


def test_run_from_files(export: str, capsys: Out) -> None:
    np.save("x.npy", np.float64([[1, 2, 3]]))
    assert run("--inputs", "x=x.npy", "--outdir", "out/puts") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Result for output key any:",
        "[[-1. -2. -3.]]",
        "Output any is saved to out/puts/any.npy",
        "Result for output key y:",
        "6.0",
        "Output y is saved to out/puts/y.npy",
    ]
    assert np.load("out/puts/y.npy") == 6
    assert run("--inputs", "x=x.npy", "--outdir", "out/puts") == 1
    assert "this file exists" in capsys.readouterr().err
    assert run("--inputs", "x=x.npy", "--outdir", "out/puts", "--overwrite") == 0


def test_run_with_flags_that_change_nothing(export: str, capsys: Out) -> None:
    np.save("x.npy", np.ones((1, 3), np.float32))
    assert run("--inputs=x=x.npy", "--outdir=", "--use_tfrt=false", "--tf_debug", "--worker=w") == 0
    captured = capsys.readouterr()
    assert "saved to" not in captured.out
    assert captured.err.count("warning: ") == 2
    assert "warning: --tf_debug changes nothing" in captured.err


def test_run_from_archives_and_expressions(export: str, capsys: Out) -> None:
    np.savez("x.npz", a=np.ones((2, 3)), b=np.zeros((1, 3)))
    assert run("--inputs", "x=x.npz[a]") == 0
    assert "\n6.0\n" in capsys.readouterr().out
    assert run("--inputs", "x=x.npz[b]", "--input_exprs", "x=np.full((1, 3), 5)") == 0
    captured = capsys.readouterr()
    assert "\n15.0\n" in captured.out
    assert "warning: 'x' is given twice" in captured.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "no inputs are given"),
        (["--inputs", "x=none.npy"], "none.npy: there is no such file"),
        (["--inputs", "x"], "'x' names no file"),
        (["--inputs", "x=x.npz"], "x.npz holds 2 arrays"),
        (["--inputs", "x=x.npz[c]"], "there is no array 'c' in x.npz"),
        (["--inputs", "x=pickled.npy"], "--allow_pickle does"),
        (["--input_exprs", "w=[1]"], "'w' is not an input of the signature"),
        (["--input_exprs", "x=[[1, 'a']]"], "cannot be turned into float"),
        (["--input_exprs", "x=__import__('os').getcwd()"], "is not run"),
        (["--input_exprs", "x=np.load('a')"], "is not run"),
        (["--input_exprs", "x=np.ones((99999, 99999))"], "an array of this size is not made here"),
        (["--input_exprs", "x=np.arange(0, 1e6, 1e-4)"], "an array of this size is not made here"),
        (["--input_exprs", "x=np.arange(1, 2, 0)"], "an array of this size is not made here"),
        (["--input_exprs", "x=np.eye(99999)"], "an array of this size is not made here"),
        (["--input_exprs", "x=np.linspace(0, 1, num=999999999)"], "an array of this size is not made here"),
        (["--input_exprs", "x=np.random.rand(99999, 99999)"], "an array of this size is not made here"),
        (["--input_exprs", "x=np.ones(2).astype('U99999')"], "elements of this size are not made here"),
        (["--input_exprs", "x=[1"], "x=[1"),
        (["--input_exprs", "7"], "'7' has no name"),
        (["--input_examples", "x={}"], "'x' is no list of dicts"),
        (["--input_examples", 'x=[{"a": 1}]'], "the feature 'a' is no list"),
        (["--input_examples", 'x=[{"a": [1, "b"]}]'], "not of one type"),
        (["--input_examples", 'x=[{"a": [None]}]'], "the type of the feature 'a' is not supported"),
        (["--input_examples", 'x=[{"a": [1.0, 1e39]}]'], "does not fit into 32 bits"),
        (["--input_examples", 'x=[{"a": [9223372036854775808]}]'], "does not fit into 64 bits"),
    ],
)
def test_run_mistakes(export: str, capsys: Out, flags: list[str], words: str) -> None:
    np.savez("x.npz", a=np.ones(1), b=np.ones(1))
    np.save("pickled.npy", np.array([{}], object), allow_pickle=True)
    assert run(*flags) == 1
    assert words in capsys.readouterr().err


def test_examples_are_messages() -> None:
    from thinflow.compat.input_texts import from_examples, from_expressions

    (raw,) = from_examples('x=[{"age": [22.5], "n": [-1, 3], "s": ["a", "b"]}]')["x"]
    assert raw.startswith(b"\x0a")
    assert b"age" in raw
    assert np.float32(22.5).tobytes() in raw
    found = from_expressions(
        "a=np.arange(6).reshape(2, 3).astype('float32');b=-1.5;c='x;y';d=np.zeros(2, dtype=np.int8)"
    )
    assert found["a"].shape == (2, 3)
    assert (found["b"], found["c"], found["d"].dtype) == (-1.5, "x;y", np.int8)


def test_real_models(shared: Path, capsys: Out) -> None:
    folder = shared / "formats" / "sm_tf2_module"
    assert show("--dir", str(folder), "--all") == 0
    out = capsys.readouterr().out
    assert "    outputs['n'] tensor_info:\n        dtype: DT_INT32\n        shape: ()\n" in out
    assert "          x: TensorSpec(shape=(None, 4), dtype=tf.float32, name='x')\n" in out


def test_real_numbers(shared: Path) -> None:
    from thinflow.compat.saved_models import run_signature

    folder = shared / "formats" / "sm_tf2_module"
    with np.load(folder / "io.npz") as cases:
        named = {name: cases[name] for name in cases}
    feeds = {n.removeprefix("in:").partition(":")[0]: a for n, a in named.items() if n.startswith("in:")}
    results = run_signature(folder, "serve", "serving_default", feeds)
    for name, want in named.items():
        if name.startswith("out:"):
            np.testing.assert_allclose(results[name.removeprefix("out:").partition(":")[0]], want, rtol=1e-5)
