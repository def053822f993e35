"""Whole collections: everything is told for what it is, and nothing stops the rest."""

from __future__ import annotations

import csv
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import thinflow
from tests.survey.collections import a_collection
from thinflow.engines._child import can_fork, in_child
from thinflow.errors import EngineUnavailable, FormatError, ParameterError, WriteError
from thinflow.optimize.job_inputs import _HELD, sole_writer
from thinflow.survey import collection
from thinflow.survey.entry import Entry, Outcome
from thinflow.survey.report import SurveyReport
from thinflow.survey.ship import Job, Shipped
from thinflow.survey.words import by_cause

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> SurveyReport:
    return thinflow.survey(a_collection(tmp_path_factory.mktemp("all") / "models"))


def test_each_thing_is_told_for_what_it_is(found: SurveyReport) -> None:
    entries = {entry.name: entry for entry in found.entries}
    assert {name: entry.kind for name, entry in entries.items()} == {
        "copy.bin": "model",
        "cut.onnx": "broken",
        "cut.tflite": "broken",
        "digits.pb": "model",
        "digits.tflite": "model",
        "empty.pb": "broken",
        "more.zip": "archive",
        "more.zip!inner.tar.gz": "archive",
        "more.zip!inner.tar.gz!deep/digits.pb": "model",
        "more.zip!inner.tar.gz!deep/picture.png": "other",
        "more.zip!readme.txt": "other",
        "noise.dat": "other",
        "notes.txt": "other",
        "picture.png": "other",
        "weights.index": "weights",
        "zeros.bin": "other",
    }
    assert entries["weights.index"].what == "a checkpoint of 1 variables, without a graph"
    assert entries["weights.index"].parameters == 12


def test_a_model_is_told_whole(found: SurveyReport) -> None:
    (digits,) = [entry for entry in found.entries if entry.name == "digits.pb"]
    assert (digits.inputs, digits.outputs) == (
        {"image": "float[?,8,8,1]"},
        {"probabilities": "float[?,10]"},
    )
    assert digits.flops
    assert digits.runs == Outcome(True)
    assert {name for name, outcome in digits.converts.items() if outcome.works} >= {"onnx", "tflite"}
    assert digits.converts["tflite"].size_bytes
    assert digits.findings is not None
    assert "TF301" in digits.findings


def test_copies_and_the_same_weights(found: SurveyReport) -> None:
    entries = {entry.name: entry for entry in found.entries}
    assert entries["digits.pb"].same_as == "copy.bin"
    assert entries["more.zip!inner.tar.gz!deep/digits.pb"].same_as == "copy.bin"
    assert "2 are copies" in found.verdict
    assert "digits.pb: the same bytes as copy.bin" in str(found)


def test_rows_for_other_programs(found: SurveyReport) -> None:
    text = found.to_csv()
    assert len(text.splitlines()) == len(found.entries) + 1
    assert text.startswith("name,kind,what,format,maker,size_bytes,")
    row = next(row for row in found.rows() if row["name"] == "digits.pb")
    assert (row["tflite"], row["inputs"]) == (True, "image: float[?,8,8,1]")


ODD = [
    Entry(
        "=cmd|x", "model", "a model", flops=1 << 80, runs=Outcome(True), converts={"tflite": Outcome(True)}
    ),
    Entry(os.fsdecode(b"na\xffme.pb"), "broken", "a file", reason="it is cut"),
]
"""A formula, more FLOPs than a machine counts, and a name that is no text."""


def test_rows_are_a_table_of_arrow() -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = SurveyReport(["."], ODD).to_arrow()
    assert isinstance(table, arrow.Table)
    assert table.column_names == list(SurveyReport(["."], ODD).rows()[0])
    assert table["name"].to_pylist() == ["=cmd|x", "na\ufffdme.pb"]
    assert table["flops"].to_pylist() == [2.0**80, None]
    assert table["tflite"].to_pylist() == [True, None]
    assert SurveyReport(["."], []).to_arrow().num_rows == 0


def test_rows_are_a_data_frame() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = SurveyReport(["."], ODD).to_pandas()
    assert list(frame["name"]) == ["=cmd|x", "na\ufffdme.pb"]
    assert frame["flops"][0] == 2.0**80
    assert frame["flops"].isna().tolist() == [False, True]
    # What pandas is asked for: numbers sort, texts are texts.
    assert frame.sort_values("size_bytes").groupby("kind").size().to_dict() == {"broken": 1, "model": 1}
    assert len(SurveyReport(["."], []).to_pandas()) == 0


def test_a_name_is_no_formula_in_a_spreadsheet() -> None:
    rows = list(csv.reader(SurveyReport(["."], ODD).to_csv().splitlines()))
    assert [row[0] for row in rows] == ["name", "'=cmd|x", os.fsdecode(b"na\xffme.pb")]


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_tables_need_their_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    report = SurveyReport(["."], ODD)
    with pytest.raises(EngineUnavailable, match=f"{package} is not installed\nhint: pip install {package}"):
        report.to_pandas() if package == "pandas" else report.to_arrow()


def test_what_was_fetched_is_named_by_its_address(tmp_path: Path) -> None:
    fsspec: Any = pytest.importorskip("fsspec", reason="fsspec is not installed")
    files = fsspec.filesystem("memory")
    files.pipe("/models/a/digits.pb", (a_collection(tmp_path) / "digits.pb").read_bytes())
    report = thinflow.survey("memory://models", lint=False, run=False, convert=False)
    assert [entry.name for entry in report.models] == ["memory://models/a/digits.pb"]
    with pytest.raises(FormatError, match="nothing is there"):
        thinflow.survey("memory://none")


@pytest.mark.skipif("fsspec" in sys.modules, reason="fsspec is installed")
def test_fetching_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(FormatError, match="fetching it needs fsspec") as error:
        thinflow.survey("s3://bucket/models")
    assert error.value.hint == "pip install 'thinflow[data]'"


def test_limits_must_be_possible(tmp_path: Path) -> None:
    for wrong in ({"timeout": 0}, {"memory_gib": -1}, {"jobs": -2}, {"job_timeout": float("inf")}):
        with pytest.raises(ParameterError, match="is not possible"):
            thinflow.survey(tmp_path, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="nothing to look at"):
        thinflow.survey([])


def test_a_file_that_takes_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    thinflow.zoo.write("digits", folder / "digits.pb")
    (folder / "a.txt").write_text("a label")
    monkeypatch.setattr(collection, "look", hang_on_models)
    report = thinflow.survey(folder, timeout=1.0)
    assert [(e.name, e.kind, e.reason) for e in report.models] == [("digits.pb", "failed", "not done in 1 s")]
    assert report.verdict == "0 models in 2 things; 1 that the look failed on"


def hang_on_models(unit: Any, depth: Any) -> Any:
    """As a look at a model that an engine hangs on."""
    import time

    from thinflow.survey.look import look

    if unit.path.suffix == ".pb":
        time.sleep(1000)
    return look(unit, depth)


def test_the_main_job_on_all(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    thinflow.zoo.write("digits", folder / "digits.pb")
    (folder / "copy.pb").write_bytes((folder / "digits.pb").read_bytes())
    report = thinflow.survey(folder, lint=False, run=False, optimize=tmp_path / "out", effort="none")
    assert report.shipped is not None
    (one,) = report.shipped
    assert one.name == "copy.pb"
    assert (tmp_path / "out" / one.file).stat().st_size == one.after_bytes
    assert (tmp_path / "out" / "copy.pb" / "report.html").is_file()
    assert f"shipped: 1 of 1 model, {one.before_bytes / 1000:.1f} kB became" in str(report)


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be locked there")
def test_two_runs_into_one_folder(tmp_path: Path) -> None:
    """Files of two runs would belong to neither: the second is refused, and says what to do."""
    thinflow.zoo.write("digits", tmp_path / "digits.pb")
    out = tmp_path / "deep" / "out"
    with sole_writer(out):
        for run in (
            lambda: thinflow.optimize(tmp_path / "digits.pb", out),
            lambda: thinflow.survey(tmp_path, optimize=out),
        ):
            with pytest.raises(WriteError, match=r"out: another run is writing .*\nhint: wait") as error:
                run()
            assert "name another folder" in error.value.hint
        # A child that outlives its parent keeps nobody out.
        if can_fork():
            assert in_child(lambda: len(_HELD), "", "looking") == 0
    assert not (tmp_path / "deep").exists()
    with sole_writer(out):
        (out / "kept").touch()
    with sole_writer(out):
        assert (out / "kept").exists()


def test_causes_are_counted_together() -> None:
    assert by_cause(
        [
            "node 'a' (Foo): TFLite has no form of Foo",
            "node 'b' (Foo): TFLite has no form of Foo",
            "node 'c' (Bar): its shape is open",
        ]
    ) == ["2 × TFLite has no form of Foo", "1 × Bar: its shape is open"]


def test_a_report_of_failures() -> None:
    entries = [Entry("a.pb", "model", "a binary GraphDef", runs=Outcome(False, "no kernel"))]
    reasons = {"a.pb": "node 'x' cannot", "b.pb": "node 'y' cannot"}
    shipped = [Shipped(name, 1000, reason=reason) for name, reason in reasons.items()]
    report = SurveyReport(["models"], entries, 1.0, shipped)
    assert "  2 × node ... cannot" in report.lines()
    assert "shipped: 0 of 2 models, 0 bytes became 0 bytes" in report.lines()
    assert report.data()["shipped"][0]["reason"] == "node 'x' cannot"
    assert Job(thinflow.optimize).options == {}


def test_the_reference_models(shared: Path) -> None:
    """Every file of the reference folders is told right: models as what they are, the rest as no models."""
    report = thinflow.survey([shared / "zoo", shared / "formats"], run=False, convert=False, lint=False)
    formats = {entry.name: entry.format for entry in report.models}
    assert all(entry.kind == "model" for entry in report.models)
    by_suffix = {".tflite": "tflite", ".onnx": "onnx", ".h5": "keras", ".hdf5": "keras", ".keras": "keras"}
    for name, kind in formats.items():
        suffix = Path(name).suffix
        assert kind == by_suffix.get(suffix, kind), name
    others = {Path(e.name).suffix for e in report.entries if not e.is_model}
    assert others <= {".npz", ".md", ".json", ".txt", ".jpg"}
    assert sum(kind == "savedmodel" for kind in formats.values()) == 4
    assert sum(kind == "metagraph" for kind in formats.values()) == 3
    # When, and by what: in words of their own where they name no program.
    makers = {Path(entry.name).name: entry.maker for entry in report.models}
    assert makers["carnd_keras1.h5"] == "Keras 1.2.1"
    assert makers["mnist_cntk.onnx"] == "CNTK 2.5.1"
    assert makers["micro_speech_quantized.tflite"] == "TOCO Converted, for runtimes from 1.5.0"
    assert makers["graph.pb"] == "TensorFlow 2.21, GraphDef version 2474"
    assert all(entry.maker for entry in report.models), [e.name for e in report.models if not e.maker]


def test_what_an_app_decodes_is_nothing_that_lacks(shared: Path, tmp_path: Path) -> None:
    """As `convert` writes it: samples of sound go in, and the bytes of a file stay outside."""
    (tmp_path / "kws.pb").write_bytes((shared / "models" / "kws_DS_CNN_S.pb").read_bytes())
    (entry,) = thinflow.survey(tmp_path, run=False, lint=False).entries
    assert {name: outcome.works for name, outcome in entry.converts.items()} == {
        "c": True,
        "onnx": True,
        "tflite": True,
    }
    assert all(outcome.size_bytes for outcome in entry.converts.values())


def test_an_archive_of_nothing_ends_nothing(tmp_path: Path) -> None:
    """What systems leave beside files is no content."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(".DS_Store", "x")
        archive.writestr("__pycache__/x.pyc", "x")
    (tmp_path / "b.txt").write_text("x", "utf-8")
    found = thinflow.survey(tmp_path, jobs=1)
    assert [(entry.name, entry.kind) for entry in found.entries] == [("a.zip", "archive"), ("b.txt", "other")]
