"""Models that TensorFlow saved, with the answers it gave, by every road that leads to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.cli import main
from thinflow.formats.checkpoint import open_checkpoint

NAMES = ["ckpt_v1_ref", "ckpt_v2_ref", "ckpt_v2_res_part", "sm_keras_cnn", "sm_tf1", "sm_tf2_module"]
Road = Callable[[], thinflow.Graph]


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest, shared: Path) -> Path:
    folder: Path = shared / "formats" / request.param
    if not folder.is_dir():
        pytest.skip("no such sample")
    return folder


def roads(folder: Path, case: dict[str, Any], out: Path) -> Iterator[tuple[str, Road]]:
    if "saved_model" in case:
        options = {"tags": case["tags"], "signature": case["signature"]}
        yield "load", lambda: thinflow.load(folder, **options)
        yield "file", lambda: thinflow.load(folder / "saved_model.pb", **options)
        yield "freeze", lambda: _frozen_by_command(folder, out, case)
        return
    outputs, checkpoint = [case["output"]], folder / case["checkpoint"]
    yield "meta", lambda: thinflow.freeze(folder / case["meta"])
    for name in ("graph.pb", "graph.pbtxt"):
        for lead in (checkpoint, f"{folder}@latest"):
            yield (
                f"{name} {lead}",
                lambda n=name, c=lead: thinflow.load(folder / n, outputs=outputs, checkpoint=c),
            )
    yield "drop-in", lambda: _frozen_by_drop_in(folder, out, case)


def _frozen_by_command(folder: Path, out: Path, case: dict[str, Any]) -> thinflow.Graph:
    options = ["--tags", case["tags"], "--signature", case["signature"]]
    assert main(["freeze", str(folder), "-o", str(out / "f.pb"), *options]) == 0
    return thinflow.load(out / "f.pb")


def _frozen_by_drop_in(folder: Path, out: Path, case: dict[str, Any]) -> thinflow.Graph:
    flags = [f"--input_graph={folder / 'graph.pbtxt'}", f"--input_checkpoint={folder / case['checkpoint']}"]
    flags += [f"--output_graph={out / 'd.pb'}", f"--output_node_names={case['output']}"]
    assert main(["freeze_graph", *flags]) == 0
    return thinflow.load(out / "d.pb")


def test_every_road_gives_the_right_answers(sample: Path, tmp_path: Path) -> None:
    case, arrays = json.loads((sample / "case.json").read_text()), np.load(sample / "io.npz")
    feeds = {key[3:]: arrays[key] for key in arrays.files if key.startswith("in:")}
    expected = {key[4:]: arrays[key] for key in arrays.files if key.startswith("out:")}
    for name, road in roads(sample, case, tmp_path):
        found = thinflow.run(road(), feeds, list(expected), engine="reference")
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, atol=1e-6, rtol=1e-5, err_msg=name)


def test_inspect_tells_what_it_is(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = json.loads((sample / "case.json").read_text())
    target = sample if "saved_model" in case else sample / case["meta"]
    assert main(["inspect", str(target)]) == 0
    out = capsys.readouterr().out
    assert " is a TensorFlow " in out.splitlines()[0] or " is a MetaGraph" in out.splitlines()[0]
    assert out.splitlines()[-1].startswith("next: thinflow optimize ")


def test_checkpoints_list_their_variables(sample: Path) -> None:
    case = json.loads((sample / "case.json").read_text())
    prefix = sample / "variables" / "variables" if "saved_model" in case else sample / case["checkpoint"]
    checkpoint = open_checkpoint(prefix)
    assert len(checkpoint) > 2
    for name in checkpoint:
        value = checkpoint[name].numpy()
        assert value.shape == checkpoint.spec(name).shape
