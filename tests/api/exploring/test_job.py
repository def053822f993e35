"""Pages of models: what is measured, compared and refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.checkpoints import write_checkpoint
from tests.load.builders import SIGNATURE, meta_text, product, write_model
from thinflow import zoo
from thinflow.analysis.shapes import infer_shapes
from thinflow.api.exploring.errors import LOUDEST_DB, decibels, measured_layers, measured_over
from thinflow.api.exploring.job import Job, Opening, Overlays
from thinflow.api.exploring.sizes import assumed_sizes
from thinflow.explorer import building
from thinflow.explorer.document import Document, NodeKind
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, Shape
from thinflow.onnx import protos
from thinflow.wire.protos import parse, serialize


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digits model as a graph and in eight bits, and samples for it."""
    folder = tmp_path_factory.mktemp("models")
    samples = {"image": zoo.test_set("digits")["image"][:16]}
    np.savez(folder / "samples.npz", **samples)
    thinflow.save(zoo.build("digits"), folder / "digits.pb")
    thinflow.quantize(folder / "digits.pb", samples).save(folder / "int8.tflite")
    return {name: str(folder / name) for name in ("digits.pb", "int8.tflite", "samples.npz")}


def made(*models: str, tabs: tuple[str, ...] = (), opening: Opening | None = None, **asked: Any) -> Document:
    job = Job(opening or Opening(weights=False), Overlays(**asked))
    return job.make(models[0], models[1] if len(models) > 1 else None, tabs)


def overlay(document: Document, name: str, graph: int = 0) -> Any:
    (found,) = (o for o in document.graphs[graph].overlays if o.id == name)
    return found


def words(document: Document, places: Any) -> list[str]:
    return [document.texts.strings[text] for text in places]


def test_data_is_json_and_in_one_piece(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], files["int8.tflite"])
    data = json.loads(json.dumps(document.data(), allow_nan=False))
    count = len(data["strings"])
    for graph in data["graphs"]:
        nodes = graph["nodes"]
        size = len(nodes["name"])
        assert all(len(nodes[column]) == size for column in ("op", "scope", "kind", "attributes", "outputs"))
        assert max(nodes["name"] + nodes["op"]) < count
        assert all(len(o["values"]) == size for o in graph["overlays"])
        assert max(graph["edges"]["from"] + graph["edges"]["to"]) < size
        assert all(constant["node"] < size for constant in graph["constants"])


def test_operators_of_a_file_are_its_own(files: dict[str, str]) -> None:
    own = made(files["int8.tflite"])
    assert "CONV_2D" in words(own, own.graphs[0].nodes.op)
    assert any("zero_point" in word for words_ in own.graphs[0].nodes.quantization.values()
               for word in words(own, words_))  # fmt: skip
    lifted = made(files["int8.tflite"], opening=Opening(lifted=True))
    assert "Conv2D" in words(lifted, lifted.graphs[0].nodes.op)


def test_noise_is_measured_on_both_sides(files: dict[str, str]) -> None:
    models = files["digits.pb"], files["int8.tflite"]
    document = made(*models, error=models[1], calibration=files["samples.npz"])
    ours, theirs = overlay(document, "error"), overlay(document, "error", 1)
    known = [v for v in ours.values if v is not None]
    assert len(known) >= 5
    assert 10 < min(known) < 60
    assert sorted(v for v in theirs.values if v is not None) == sorted(known)
    assert "codes" in words(document, ours.reasons.values())[0]


def test_noise_is_measured_over_several_samples(files: dict[str, str]) -> None:
    models = files["digits.pb"], files["int8.tflite"]
    document = made(*models, error=models[1], calibration=files["samples.npz"])
    assert "over 8 samples" in overlay(document, "error").about
    assert "over one made-up feed" in overlay(made(*models, error=models[1]), "error").about

    a, b = thinflow.load(models[0]), thinflow.load(models[1])
    images = np.load(files["samples.npz"])["image"]
    feeds = [{"image": images[i : i + 1]} for i in (0, 5)]
    alone = [{layer.name: layer for layer in measured_layers(a, b, feed)} for feed in feeds]
    together = measured_over(a, b, feeds)
    assert {layer.name for layer in together} == set(alone[0])
    for layer in together:
        each = [found[layer.name] for found in alone]
        # Powers are averaged, and the largest difference is that of the worst sample.
        assert layer.noise**2 == pytest.approx(sum(e.noise**2 for e in each) / 2)
        assert layer.difference.largest == max(e.difference.largest for e in each)


def test_two_graphs_of_one_kind_are_measured_too(files: dict[str, str], tmp_path: Path) -> None:
    rounded = thinflow.transform(files["digits.pb"], "round_weights(num_steps=16)")
    thinflow.save(rounded, tmp_path / "rounded.pb")
    document = made(files["digits.pb"], error=str(tmp_path / "rounded.pb"))
    known = [v for v in overlay(document, "error").values if v is not None]
    assert 0 < min(known) < 40


def test_ranges_are_those_of_the_samples(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], ranges=files["samples.npz"])
    found = overlay(document, "range")
    graph = thinflow.load(files["digits.pb"])
    name = graph.outputs[0].node.name
    place = words(document, document.graphs[0].nodes.name).index(name)
    # Probabilities.
    assert 0.5 < found.values[place] <= 1.0
    assert words(document, [found.reasons[place]])[0].startswith("from ")
    assert "16 samples" in found.about


def test_placement_tells_the_engine(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], placement="reference")
    found = overlay(document, "placement")
    assert [c.label for c in found.categories] == ["reference"]
    file = overlay(made(files["int8.tflite"], placement="auto"), "placement")
    assert [c.label for c in file.categories] == ["litert"]
    assert set(file.values) == {0, None}


def test_placement_tells_why_not(tmp_path: Path) -> None:
    graph = zoo.build("digits")
    answer = graph.outputs[0] if graph.outputs else thinflow.load(graph).outputs[0]
    graph.add("OpOfNobody", [graph.value(answer.name)], "odd")
    graph.outputs = [graph.value("odd")]
    thinflow.save(graph, tmp_path / "odd.pb")
    document = made(str(tmp_path / "odd.pb"), placement="litert")
    found = overlay(document, "placement")
    place = words(document, document.graphs[0].nodes.name).index("odd")
    assert found.categories[int(found.values[place])].label == "reference"
    assert "OpOfNobody" in words(document, [found.reasons[place]])[0]


def test_time_is_the_profilers(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], profile="reference")
    found = overlay(document, "time")
    assert sum(v is not None for v in found.values) > 10
    assert (found.unit, found.adds, found.worse) == ("ms", True, "high")
    assert "the reference interpreter's kernels" in found.about
    assert re.search(r"A run took [\d.e-]+ ms, of which \d+% are told apart", found.about)
    assert "fed made-up inputs. " in found.about
    samples = [np.full((1, 8, 8, 1), n, np.float32) for n in range(12)]
    found = overlay(made(files["digits.pb"], profile="reference", calibration=samples), "time")
    assert "fed 8 of 12 samples. " in found.about


def test_what_was_asked_for_colours_the_first_picture(files: dict[str, str]) -> None:
    assert made(files["digits.pb"]).overlay == ""
    assert made(files["digits.pb"], placement="reference").data()["overlay"] == "placement"
    both = made(files["digits.pb"], placement="reference", profile="reference")
    assert both.overlay == "time", "what is told first"


def test_time_in_a_delegate_is_told_at_the_nodes(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], profile="litert")
    found = overlay(document, "time")
    if "own profiler" not in found.about:
        pytest.skip("this LiteRT has no profiler that answers")
    said = words(document, found.reasons.values())
    assert any(text.startswith("CONV_2D in the XNNPACK delegate: ") for text in said)


def test_transforms_tell_what_they_did_and_left(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], transforms="fold_old_batch_norms quantize_weights")
    before, after = overlay(document, "transforms"), overlay(document, "transforms", 1)
    labels = {c.label for c in before.categories}
    assert labels == {
        "changed by fold_old_batch_norms",
        "changed by quantize_weights",
        "left by quantize_weights",
    }
    assert "fewer than 1024" in " ".join(words(document, before.reasons.values()))
    assert "made by quantize_weights" in {c.label for c in after.categories}
    assert [g.label for g in document.graphs] == ["digits.pb, before", "after"]
    assert document.comparison is not None
    assert any("fewer than 1024" in w for ws in document.graphs[0].nodes.remarks.values()
               for w in words(document, ws))  # fmt: skip


def test_transforms_that_changed_nothing_tell_why(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], transforms="fold_old_batch_norms merge_duplicate_nodes")
    assert dict(document.graphs[0].facts)["transforms"].endswith(" changes")
    document = made(files["digits.pb"], transforms="drop_quantization quantize_weights(minimum_size=9999999)")
    facts = [dict(view.facts)["transforms"] for view in document.graphs]
    assert facts[0] == facts[1]
    assert facts[0].startswith("nothing changed; ")
    assert "quantize_weights: left " in facts[0]
    assert "fewer than 9999999" in facts[0]


def test_the_same_model_twice_differs_nowhere(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], files["digits.pb"])
    assert document.comparison is not None
    assert set(document.comparison.differs) == {0}
    assert len(document.comparison.differs) == len(document.graphs[0].nodes.name)


def test_what_differs_is_told(files: dict[str, str], tmp_path: Path) -> None:
    graph = zoo.build("digits")
    node = next(n for n in graph if n.op == "Conv2D")
    node.attrs["padding"] = b"VALID"
    thinflow.save(graph, tmp_path / "other.pb")
    document = made(files["digits.pb"], str(tmp_path / "other.pb"))
    found = document.comparison
    assert found is not None
    lines = [line for places in found.differences.values() for line in words(document, places)]
    assert 'attribute: padding: "SAME" -> "VALID"' in lines


def test_fused_operators_are_paired_with_all_they_came_from(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], files["int8.tflite"])
    found = document.comparison
    assert found is not None
    lines = {line for places in found.differences.values() for line in words(document, places)}
    assert any(line.endswith("became CONV_2D") and "Conv2D" in line for line in lines)
    pairs = list(zip(found.pairs[::2], found.pairs[1::2], strict=True))
    assert len(pairs) == len(set(pairs)) == len(found.differs)


def test_constants_are_told_at_what_reads_them(files: dict[str, str], tmp_path: Path) -> None:
    thinflow.save(thinflow.load(files["digits.pb"]), tmp_path / "float.tflite")
    document = made(str(tmp_path / "float.tflite"), files["int8.tflite"])
    found = document.comparison
    assert found is not None
    lines = {
        place: words(document, found.differences[number])
        for number, place in enumerate(found.pairs[::2])
        if found.differs[number] == 2
    }
    nodes = document.graphs[0].nodes
    operators = {place: said for place, said in lines.items() if nodes.kind[place] is not NodeKind.CONSTANT}
    # Two convolutions, a depthwise one and a dense layer of which nothing else changed.
    assert list(operators.values()) == [["weights float -> int8", "constant float -> int32"]] * 4
    constants = {p for p, kind in enumerate(document.graphs[1].nodes.kind) if kind is NodeKind.CONSTANT}
    assert constants <= set(found.pairs[1::2])


def test_too_large_graphs_are_not_compared(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MOST_NODES", 50)
    document = made(files["digits.pb"], files["digits.pb"])
    assert document.comparison is None
    assert "the two are not compared" in document.notes[-1]


def test_tabs_are_not_compared(files: dict[str, str]) -> None:
    document = made(files["digits.pb"], tabs=(files["int8.tflite"],))
    assert [g.label for g in document.graphs] == ["digits.pb", "int8.tflite"]
    assert document.comparison is None


def test_a_checkpoint_alone(tmp_path: Path) -> None:
    ones = Tensor.from_array(np.ones((3, 4), np.float32))
    write_checkpoint(tmp_path / "model", {"layer/w": ones})
    document = made(str(tmp_path / "model.index"), opening=Opening())
    assert words(document, document.graphs[0].nodes.name) == ["layer/w"]
    (constant,) = document.graphs[0].constants
    assert constant.statistics is not None
    assert constant.statistics.mean == 1.0


def test_transforms_and_a_second_model_do_not_go_together(files: dict[str, str]) -> None:
    with pytest.raises(thinflow.ParameterError, match="before and after") as error:
        made(files["digits.pb"], files["int8.tflite"], transforms="fold_constants")
    assert "leave the second" in error.value.hint


def test_noise_needs_a_second_model(files: dict[str, str]) -> None:
    with pytest.raises(thinflow.ParameterError, match="against a second model"):
        thinflow.view(files["digits.pb"], error=True)


@pytest.mark.parametrize(
    ("noise", "found"), [(0.1, 20), (0, LOUDEST_DB), (1e-30, LOUDEST_DB), (float("inf"), -LOUDEST_DB)]
)
def test_decibels(noise: float, found: float) -> None:
    assert decibels(noise) == pytest.approx(found)


def test_values_of_variables_come_from_the_checkpoint(tmp_path: Path) -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    folder = write_model(
        tmp_path / "model", meta_text(product(), signatures=SIGNATURE), values={"w": weights}
    )
    document = made(str(folder), opening=Opening())
    (graph,) = document.graphs
    (constant,) = graph.constants
    assert words(document, [graph.nodes.name[constant.node]]) == ["w"]
    assert graph.nodes.kind[constant.node] is NodeKind.VARIABLE
    assert constant.statistics is not None
    assert (constant.statistics.minimum, constant.statistics.maximum, constant.statistics.mean) == (0, 5, 2.5)
    assert constant.values == "0,1,2,3,4,5"
    assert document.notes == []


def test_a_damaged_checkpoint_hides_only_the_values(tmp_path: Path) -> None:
    folder = write_model(
        tmp_path / "model", meta_text(product(), signatures=SIGNATURE), values={"w": np.ones((2, 3))}
    )
    index = folder / "variables" / "variables.index"
    index.write_bytes(index.read_bytes()[:-8])
    document = made(str(folder), opening=Opening())
    assert "w" in words(document, document.graphs[0].nodes.name)
    assert document.graphs[0].constants == []
    (note,) = document.notes
    assert note.startswith("the values of variables are not shown: ")


def without_inner_shapes(path: Path) -> None:
    """An ONNX file as some exporters write it: only the ends have shapes, and a picture any size."""
    model: Any = parse(protos.message("ModelProto"), path.read_bytes())
    del model.graph.value_info[:]
    path.write_bytes(serialize(model))


def test_shapes_that_a_file_leaves_out_are_worked_out(files: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "digits.onnx"
    thinflow.convert(files["digits.pb"], path)
    whole = made(str(path))
    without_inner_shapes(path)
    bare = made(str(path))
    for document in (whole, bare):
        outputs = [words(document, texts) for texts in document.graphs[0].nodes.outputs]
        assert not any("*" in texts for texts in outputs)
    flops = [sum(v or 0 for v in overlay(document, "flops").values) for document in (whole, bare)]
    assert flops[0] == flops[1] > 0


def test_open_sizes_are_assumed_and_named() -> None:
    graph = thinflow.Graph()
    x = graph.add(
        "Placeholder", name="picture", attrs={"dtype": FLOAT, "shape": ShapeAttr((None, None, None, 3))}
    ).output()
    filters = graph.constant(np.ones((3, 3, 3, 4), np.float32), "filters")
    strides = {"strides": (1, 1, 1, 1), "padding": b"SAME"}
    y = graph.add("Conv2D", [x, filters], "conv", attrs=strides).output()
    graph.inputs, graph.outputs = [x], [y]
    document = Job(Opening(weights=False), Overlays()).make(graph, None, ())
    found = overlay(document, "flops")
    assert "picture 1×96×96×3" in found.about
    assert sum(v or 0 for v in found.values) == 2 * 96 * 96 * 4 * 27
    # What is shown of the tensor is what is known.
    assert any("?,?,?,4" in words(document, texts) for texts in document.graphs[0].nodes.outputs)


@pytest.mark.parametrize(
    ("shape", "assumed"),
    [
        ((None, 8), (1, 8)),
        ((None, None), (1, 8)),
        ((None, None, 64), (1, 8, 64)),
        ((None, None, 3), None),
        ((None, None, None, 1), (1, 96, 96, 1)),
        ((2, 3), None),
        (None, None),
    ],
)
def test_only_sizes_that_can_be_guessed_are_assumed(shape: Shape, assumed: tuple[int, ...] | None) -> None:
    graph = thinflow.Graph()
    attrs = {"dtype": FLOAT, "shape": ShapeAttr(shape)}
    x = graph.add("Placeholder", name="x", attrs=attrs).output()
    graph.inputs = [x]
    infer_shapes(graph)
    found = assumed_sizes(graph)
    assert (found[x].shape if x in found else None) == assumed
