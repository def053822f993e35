"""What `import thinflow` and `thinflow --help` cost, and the public names."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import thinflow
from thinflow import api
from thinflow.cli import COMMANDS, module_of
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT

HEAVY = {
    "PIL",
    "ai_edge_litert",
    "flatbuffers",
    "google.protobuf",
    "ml_dtypes",
    "numpy",
    "onnx",
    "onnxruntime",
    "openvino",
    "rich",
}

SLOW = {
    *("csv", "dataclasses", "difflib", "importlib.metadata", "inspect", "json", "logging", "pathlib"),
    *("shutil", "subprocess", "tempfile", "urllib.parse"),
}
"""Of the standard library, what costs more than the help of a command itself."""

PUBLIC = [
    "load",
    "save",
    "summarize",
    "transform",
    "transform_saved_model",
    "load_plugin",
    "open_device",
    "optimize",
    "progress_bar",
    "quantize",
    "benchmark",
    "check",
    "StatSummarizer",
    "StatSummarizerOptions",
    "verify",
    "freeze",
    "deploy",
    "Deployment",
    "Device",
    "load_checkpoint",
    "compare",
    "reduce",
    "diff",
    "evaluate",
    "fit",
    "convert",
    "inspect",
    "lint",
    "LintFinding",
    "LintReport",
    "survey",
    "SurveyReport",
    "Evaluations",
    "register",
    "run",
    "Rewrite",
    "Session",
    "InferenceInterface",
    "TransformGraph",
    "Graph",
    "Node",
    "Value",
    "Tensor",
    "DType",
    "TensorSpec",
    "ThinflowError",
    "FormatError",
    "WriteError",
    "GraphError",
    "NodeError",
    "ShapeError",
    "UnsupportedOp",
    "ParseError",
    "PartialModel",
    "ParameterError",
    "TransformError",
    "EngineCrashed",
    "EngineUnavailable",
    "Evaluation",
    "FeedError",
    "VerificationError",
    "BenchmarkReport",
    "CheckReport",
    "Checkpoint",
    "Conversion",
    "ConversionDiff",
    "Diff",
    "Fit",
    "GraphReport",
    "OnnxQuantizedModel",
    "OptimizeReport",
    "PagesUnavailable",
    "Quality",
    "QuantizedModel",
    "Recipe",
    "Reduction",
    "Scaling",
    "Summary",
    "Verification",
    "View",
    "convert_verified",
    "view",
]


def modules_loaded_by(code: str) -> set[str]:
    """Names of the modules a fresh interpreter loads for `code`, beyond those it starts with."""
    script = (
        "import sys, os\nbefore = set(sys.modules)\n"
        f"{code}\n"
        "print('loaded:', *sorted(set(sys.modules) - before), file=sys.stderr)\n"
    )
    source = str(Path(thinflow.__file__).parents[1])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.partition("loaded:")[2].split())


def test_import_is_light() -> None:
    loaded = modules_loaded_by("import thinflow")
    assert not loaded & (HEAVY | {"argparse"})
    assert {name for name in loaded if name.startswith("thinflow.")} == {"thinflow._version"}


def test_graph_structure_needs_no_numpy() -> None:
    assert "numpy" not in modules_loaded_by(
        "import thinflow; thinflow.Graph, thinflow.Tensor, thinflow.DType"
    )


def test_types_cost_no_more_than_they_need() -> None:
    assert "numpy" not in modules_loaded_by("from thinflow.typing import FilePath, Progress, Shapes")
    assert "numpy.typing" not in modules_loaded_by("from thinflow.typing import Array")


def test_a_float_conversion_imports_nothing_of_eight_bit_ones() -> None:
    loaded = modules_loaded_by(
        "import thinflow\nthinflow.convert\nimport thinflow.optimize.litert, thinflow.optimize.c_options"
    )
    others = {"climb", "onnx", "openvino", "judging", "layer_by_layer", "calibration_parts"}
    assert not loaded & {f"thinflow.optimize.{name}" for name in others}
    assert not loaded & {"thinflow.cluster.workers", "thinflow.datasets.calibration", "thinflow.pages.report"}
    assert "urllib.request" not in loaded


MOST_MODULES = {"inspect": 180, "convert": 360}
"""Of thinflow's own, for a small graph of layers: a few more than there are."""


@pytest.mark.parametrize("verb", MOST_MODULES)
def test_a_small_model_imports_what_it_needs(verb: str, tmp_path: Path) -> None:
    graph = thinflow.Graph()
    attrs = {"dtype": FLOAT, "shape": ShapeAttr((1, 8, 8, 3))}
    x = graph.add("Placeholder", [], "x", attrs=attrs).output()
    w = graph.constant(np.ones((3, 3, 3, 4), np.float32), "w")
    attrs = {"T": FLOAT, "strides": (1, 1, 1, 1), "padding": "SAME"}
    y = graph.add("Conv2D", [x, w], "conv", attrs=attrs).output()
    graph.outputs = [graph.add("Relu", [y], "y", attrs={"T": FLOAT}).output()]
    path = tmp_path / "small.pb"
    thinflow.save(graph, path)
    output = "" if verb == "inspect" else f", {str(tmp_path / 'small.tflite')!r}"
    loaded = modules_loaded_by(f"import thinflow\nthinflow.{verb}({str(path)!r}{output})")
    own = {name for name in loaded if name.startswith("thinflow")}
    assert len(own) <= MOST_MODULES[verb]
    # Rules and ops of other networks.
    assert not own & {"thinflow.ops.sparse", "thinflow.ops.unicode", "thinflow.decompose.fourier"}


def test_help_is_light() -> None:
    loaded = modules_loaded_by("from thinflow.cli import main\nassert main(['--help']) == 0")
    assert not loaded & (HEAVY | {"argparse", "difflib", "importlib.metadata", "logging"})
    own = {name for name in loaded if name.startswith("thinflow.")}
    assert own == {
        "thinflow._version",
        "thinflow.cli",
        "thinflow.cli._commands",
        "thinflow.cli._gate",
        "thinflow.errors",
        "thinflow.errors.plain_text",
    }


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_of_a_command_loads_only_that_command(verb: str) -> None:
    loaded = modules_loaded_by(f"from thinflow.cli import main\nassert main([{verb!r}, '--help']) == 0")
    assert not loaded & (HEAVY | SLOW)
    assert not {module_of(other) for other in COMMANDS} & loaded - {module_of(verb)}
    assert not {name for name in loaded if name.startswith("thinflow.")} - {
        *(name for name in loaded if name.startswith("thinflow.cli")),
        "thinflow._version",
        "thinflow.errors",
        "thinflow.errors.plain_text",
        # What lists the transforms in the help of the old tool, without importing them.
        "thinflow.ir",
        "thinflow.ir.discovery",
        "thinflow.rewrite",
        "thinflow.rewrite.discovery",
    }


def test_all_commands_together_import_nothing_heavy() -> None:
    """What a module of a command imports when it is loaded, every command pays for in its help."""
    loaded = modules_loaded_by(
        "from importlib import import_module\n"
        "from thinflow.cli import COMMANDS, module_of\n"
        "for verb in COMMANDS:\n    import_module(module_of(verb))"
    )
    assert {module_of(verb) for verb in COMMANDS} <= loaded
    assert not loaded & (HEAVY | SLOW)
    assert "thinflow.api" not in loaded


def test_public_names_are_pinned() -> None:
    assert sorted(thinflow.__all__) == sorted(PUBLIC)
    assert set(PUBLIC) <= set(dir(thinflow))


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_resolves(name: str) -> None:
    found = getattr(thinflow, name)
    assert callable(found)
    assert getattr(thinflow, name) is found


@pytest.mark.parametrize("package", [thinflow, api])
def test_type_checkers_see_the_same_names(package: ModuleType) -> None:
    """The imports under TYPE_CHECKING are a second list; it must say the same as the one used at run time."""
    tree = ast.parse(Path(package.__file__ or "").read_text("utf-8"))
    seen = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if package is api:  # the other name of `summarize` is an assignment there
        assert set(api._HOME) == set(api.__all__)
        seen["inspect"] = seen["summarize"]
    assert seen == package._HOME


def test_all_errors_are_public() -> None:
    from thinflow import errors

    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert classes <= set(thinflow.__all__)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'thinflow' has no attribute 'lode'"):
        _ = thinflow.lode


@pytest.mark.parametrize("name", ["compare", "load", "optimize", "quantize"])
def test_a_submodule_does_not_hide_the_function_of_its_name(name: str) -> None:
    if importlib.util.find_spec(f"thinflow.{name}") is None:
        pytest.skip(f"there is no module thinflow.{name}")
    modules_loaded_by(f"import thinflow.{name}\nassert type(thinflow.{name}).__name__ == 'function'")


@pytest.mark.parametrize("module", ["litert", "maker", "source_proof"])
def test_a_float_model_does_not_wait_for_what_it_does_without(module: str) -> None:
    """Quantizing, and comparing with a file's own runtime: as long to import as a small model to convert."""
    source = Path(thinflow.__file__).parent / "optimize" / f"{module}.py"
    late = ("quantized", "beside_source", "quality", "layer_errors", "climb")
    body = ast.parse(source.read_text("utf-8")).body
    names = [node.module or "" for node in body if isinstance(node, ast.ImportFrom)]
    imported = {name.rpartition(".")[2] for name in names if name.startswith("thinflow.optimize.")}
    assert imported
    assert imported.isdisjoint(late)
