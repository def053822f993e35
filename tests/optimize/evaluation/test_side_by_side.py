"""Several models on the same samples: tables, tests of a difference, metrics, and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.optimize.evaluation.digit_files import digits, tfrecord_bytes
from thinflow import zoo
from thinflow.cli import main
from thinflow.errors import FeedError, ParameterError
from thinflow.optimize.evaluation.metric import Answered, Figure, metric_spec
from thinflow.optimize.evaluation.metrics.detection import overlaps
from thinflow.optimize.evaluation.metrics.words import distance


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """A model, one with coarser weights, and samples for both."""
    folder = tmp_path_factory.mktemp("side")
    zoo.write("digits", folder / "good.pb")
    coarse = thinflow.transform(folder / "good.pb", "round_weights(num_steps=3)", verify=False)
    thinflow.convert(folder / "good.pb", folder / "good.tflite")
    thinflow.convert(coarse, folder / "coarse.tflite")
    (folder / "test.tfrecord").write_bytes(tfrecord_bytes(*digits(300)))
    return str(folder / "good.tflite"), str(folder / "coarse.tflite"), str(folder / "test.tfrecord")


def test_what_parts_two_models(models: tuple[str, str, str]) -> None:
    good, coarse, data = models
    both = thinflow.evaluate([good, coarse], data, shard_samples=70)
    alone = [thinflow.evaluate(model, data) for model in (good, coarse)]
    assert [one.correct for one in both] == [one.correct for one in alone]
    second = both[1]
    assert second.correct_before == both[0].correct
    assert second.lost - second.gained == (both[0].correct or 0) - (second.correct or 0)
    assert second.lost > 0
    wrong = list(both.answers())
    assert len({one.number for one in wrong}) == len(wrong)
    mine = list(second.wrong())
    assert len(mine) == 300 - (second.correct or 0)
    assert all(one.label != one.answers[0] for one in mine)
    assert sum(c.samples for c in second.per_class) == 300
    assert sum(second.confusion.values()) == 300
    assert (second.figure("top 5") or 0) >= (second.accuracy or 0)
    assert 0 < (second.figure("cosine") or 0) < 1 == both[0].figure("cosine")


def test_the_command(
    models: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, coarse, data = models
    table = tmp_path / "table.csv"
    assert main(["evaluate", coarse, good, "--data", data, "--wrong", "--csv", str(table)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("good.tflite is ")
    assert "McNemar's exact test, p = " in printed[0]
    assert any(line.startswith("coarse.tflite") for line in printed)
    assert sum("test.tfrecord, record" in line for line in printed) >= 3
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["coarse.tflite", "good.tflite"]
    assert main(["evaluate", coarse, good, "--data", data, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"][1]["accuracy"] == float(rows[1]["accuracy"])
    assert found["beside_first"][0]["p"] == float(rows[1]["p"])
    assert main(["evaluate", good]) == 1
    assert "it is not said which samples" in capsys.readouterr().err


def test_a_store_is_gone_on_from(models: tuple[str, str, str], tmp_path: Path) -> None:
    good, coarse, data = models
    store = tmp_path / "store"
    first = thinflow.evaluate([good, coarse], data, shard_samples=50, store=store)
    files = sorted(store.iterdir())
    assert len(files) == 6
    before = [file.stat().st_mtime_ns for file in files]
    # One is lost, one was cut: both are made again, and the others are not touched.
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:100])
    again = thinflow.evaluate([good, coarse], data, shard_samples=50, store=store)
    assert again.rows() == first.rows()
    assert [file.stat().st_mtime_ns for file in files][2:] == before[2:]
    # Other options are other results, beside those.
    thinflow.evaluate([coarse, good], data, shard_samples=50, store=store)
    assert len(list(store.iterdir())) == 12


def test_a_metric_of_ones_own(models: tuple[str, str, str], tmp_path: Path) -> None:
    good, _, data = models
    (tmp_path / "mine.py").write_text(
        "def sure(sample):\n    return float(next(iter(sample.outputs.values())).max())\n"
        "def broken(sample):\n    return 1 / 0\n"
    )
    found = thinflow.evaluate(good, data, metrics=[f"{tmp_path}/mine.py:sure"], shard_samples=40)
    value = found.figure("sure")
    assert value is not None
    assert value > 0.5
    whole = thinflow.evaluate(good, data, metrics=[f"{tmp_path}/mine.py:sure"]).figure("sure")
    assert whole == value
    with pytest.raises(ParameterError, match="the metric failed: ZeroDivisionError"):
        thinflow.evaluate(good, data, metrics=[f"{tmp_path}/mine.py:broken"])
    for text, told in (
        (f"{tmp_path}/mine.py:shure", "no function or class 'shure'"),
        ("mapp", "there is no metric 'mapp'"),
        ("top(n=3)", r"metric 'top\(n=3\)' has no option 'n'"),
        ("top(k=0)", "the best 0 cannot be looked at"),
        ("none.py:f", "the file of the metric cannot be read"),
    ):
        with pytest.raises(ParameterError, match=told):
            thinflow.evaluate(good, data, metrics=[text])


def test_metrics_are_columns_beside_what_is_always_counted(models: tuple[str, str, str]) -> None:
    good, coarse, data = models
    found = thinflow.evaluate([good, coarse], data)
    # One's own metric may be called as a column is, and find nothing of one of the models.
    found[1].figures = [*found[1].figures, Figure("accuracy", 0.5), Figure("sure", 0.25)]
    rows = found.rows()
    assert list(rows[0]) == list(rows[1])
    assert (rows[1]["accuracy"], rows[1]["accuracy (metric)"]) == (found[1].accuracy, 0.5)
    assert (rows[0]["sure"], rows[1]["sure"]) == (None, 0.25)
    assert [row["sure"] for row in csv.DictReader(found.to_csv().splitlines())] == ["", "0.25"]
    assert found[0].rows() == [{name: rows[0][name] for name in found[0].rows()[0]}]


def test_results_as_a_table_of_arrow(models: tuple[str, str, str]) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    good, coarse, data = models
    found = thinflow.evaluate([good, coarse], data)
    assert found.to_arrow().to_pylist() == found.rows()
    assert found[1].to_arrow().to_pylist() == found[1].rows()


def test_results_as_a_data_frame(models: tuple[str, str, str]) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    good, coarse, data = models
    found = thinflow.evaluate([good, coarse], data)
    frame = found.to_pandas().set_index("model")
    assert frame["accuracy"].to_dict() == {
        f"{n}.tflite": o.accuracy for n, o in zip(("good", "coarse"), found, strict=True)
    }
    assert frame["lost"].isna().tolist() == [True, False]
    assert frame.loc["coarse.tflite", "lost"] == found[1].lost
    assert found[0].to_pandas()["samples"].tolist() == [300]


def test_word_errors() -> None:
    assert distance(["the", "cat", "sat"], ["the", "cat", "sat"]) == 0
    assert distance(["the", "cat", "sat"], ["a", "cat", "sat", "down"]) == 2
    metric = metric_spec("wer(blank=0)").make()
    scores = np.eye(4, dtype=np.float32)[[1, 1, 0, 1, 2, 3, 0]][None]
    metric.add(Answered({"y": scores}, {}, given_label="aa b", names=("-", "a", " ", "b")))
    rate, whole = metric.figures()
    assert (rate.value, whole.value) == (0.0, 100.0)


def heard(*tokens: int) -> dict[str, np.ndarray]:
    """Scores of CTC: blank, "a", space, "b"."""
    return {"y": np.eye(4, dtype=np.float32)[list(tokens)][None]}


def test_word_errors_counted_by_hand() -> None:
    one, other = metric_spec("wer").make(), metric_spec("wer").make()
    # the cat SIT on - mat: one word is another one, one is missing.
    text = np.array(["the cat sit on mat"], object)
    one.add(Answered({"y": text}, {}, given_label="the cat sat on the mat"))
    # One too many: 1 of 2. Right: 0 of 2. Nothing heard: 3 of 3.
    other.add(Answered({"y": np.array([b"good big day"], object)}, {}, given_label="good day"))
    other.add(Answered({"y": np.array(["good day"], object)}, {}, given_label=" good  day "))
    other.add(Answered({"y": np.array([""], object)}, {}, given_label="a b c"))
    one.merge(other)
    rate, whole = one.figures()
    assert rate.value == pytest.approx(100 * (2 + 1 + 0 + 3) / (6 + 2 + 2 + 3))
    assert whole.value == 25.0
    # A rate of more than 100 %: three words where one was said.
    more = metric_spec("wer").make()
    more.add(Answered({"y": np.array(["x y z"], object)}, {}, given_label="a"))
    assert more.figures()[0].value == 300.0


def test_repetitions_of_ctc_are_one_unless_a_blank_parts_them() -> None:
    names = ("", "a", " ", "b")
    for tokens, said in (((1, 1, 3, 3, 3), "ab"), ((1, 0, 1, 2, 2, 3), "aa b"), ((0, 0, 1, 0, 0), "a")):
        metric = metric_spec("wer(blank=0)").make()
        metric.add(Answered(heard(*tokens), {}, given_label=said, names=names))
        assert metric.figures()[1].value == 100.0, said


def detected(*rows: tuple[int, float, list[float]]) -> dict[str, np.ndarray]:
    """Outputs of class, score and box."""
    return {
        "boxes": np.array([[row[2] for row in rows]], np.float32).reshape(1, -1, 4),
        "classes": np.array([[row[0] for row in rows]], np.float32),
        "scores": np.array([[row[1] for row in rows]], np.float32),
    }


def test_mean_average_precision_computed_by_hand() -> None:
    """COCO's definition: 101 points of recall, ten overlaps, the mean over the classes that occur."""
    first, second = metric_spec("map").make(), metric_spec("map").make()
    outputs = detected(
        (1, 0.9, [0, 0, 10, 10]),  # right at every overlap
        (1, 0.8, [0, 0, 10, 8]),  # the same object again: a mistake
        (1, 0.7, [20, 20, 30, 26.2]),  # overlap 0.62: right at 0.5, 0.55 and 0.6
        (2, 0.3, [0, 0, 10, 10]),  # right at every overlap
        (7, 0.9, [0, 0, 10, 10]),  # a class that is nowhere does not count
    )
    truth = {
        "boxes": np.array([[0, 0, 10, 10], [20, 20, 30, 30], [0, 0, 10, 10]]),
        "classes": np.array([1, 1, 2]),
    }
    first.add(Answered(outputs, outputs, fields=truth))
    # Beside its object, which is missed.
    outputs = detected((1, 0.6, [40, 40, 50, 50]))
    second.add(
        Answered(outputs, outputs, fields={"boxes": np.array([[0, 0, 10, 10]]), "classes": np.array([1])})
    )
    first.merge(second)
    # Class 1, three objects. Up to 0.6: right, wrong, right, wrong, so that precision is 1 up to a recall of
    # 1/3 (34 of the 101 points) and 2/3 up to 2/3 (33 points). Above only the first one is right.
    low, high = (34 + 33 * 2 / 3) / 101, 34 / 101
    told = {figure.name: figure.value for figure in first.figures()}
    assert told["mAP"] == pytest.approx(100 * ((3 * low + 7 * high) / 10 + 1) / 2, abs=1e-9)
    assert told["mAP at 0.5"] == pytest.approx(100 * (low + 1) / 2, abs=1e-9)
    assert told["mAP at 0.75"] == pytest.approx(100 * (high + 1) / 2, abs=1e-9)


@pytest.mark.parametrize("names", [("boxes", "classes", "iscrowd"), ("", "", "image/object/is_crowd")])
def test_what_lies_in_a_crowd_is_neither_right_nor_wrong(names: tuple[str, str, str]) -> None:
    """COCO's definition: a crowd is nothing to be found, holds any number of boxes, and is covered by what of
    a box lies in it; a box goes to an object that is not taken before it goes to a crowd.
    """
    metric = metric_spec("map").make()
    outputs = detected(
        (1, 0.9, [0, 0, 10, 10]),  # the object, though it lies in the crowd as well
        (1, 0.8, [0, 0, 10, 10]),  # once more: one of the crowd
        (1, 0.7, [50, 50, 60, 60]),  # one of the crowd, of which it is a small part
        (1, 0.6, [90, 0, 110, 10]),  # half in the crowd: one of it at 0.5, and wrong above
        (1, 0.5, [200, 0, 210, 10]),  # the other object
        (2, 0.9, [0, 0, 10, 10]),  # a class with no more than a crowd does not count
    )
    corners = np.array([[0, 0, 100, 100], [0, 0, 10, 10], [200, 0, 210, 10], [0, 0, 100, 100]], float)
    classes, crowds = np.array([1, 1, 1, 2]), np.array([1, 0, 0, 1])
    truth = {names[0]: corners, names[1]: classes, names[2]: crowds}
    if not names[0]:
        sides = zip(("ymin", "xmin", "ymax", "xmax"), corners.T, strict=True)
        truth = {f"image/object/bbox/{side}": places for side, places in sides}
        truth |= {"image/object/class/label": classes, names[2]: crowds}
    metric.add(Answered(outputs, outputs, fields=truth))
    figures = {one.name: one.value for one in metric.figures()}
    # At 0.5 right, right. Above: right, wrong, right, so that 51 points have a precision of 1, 50 of 2/3.
    above = 100 * (51 + 50 * 2 / 3) / 101
    assert figures["mAP at 0.5"] == pytest.approx(100)
    assert figures["mAP at 0.75"] == pytest.approx(above)
    assert figures["mAP"] == pytest.approx((100 + 9 * above) / 10)
    with pytest.raises(FeedError, match="4 boxes and 3 marks of crowds"):
        metric.add(Answered(outputs, outputs, fields=truth | {names[2]: crowds[:3]}))


def test_a_hundred_boxes_of_each_class_count() -> None:
    metric = metric_spec("map").make()
    many = [(2, 0.9, [0.0, 0, 10, 10])] * 120
    outputs = detected(*many, (1, 0.1, [0, 0, 10, 10]))
    truth = {"boxes": np.array([[0, 0, 10, 10]]), "classes": np.array([1])}
    metric.add(Answered(outputs, outputs, fields=truth))
    # A hundred better ones of another class take no place from it.
    assert metric.figures()[0].value == pytest.approx(100)
    assert len(metric.found[2]) == 100


def test_of_equal_overlaps_the_last_object_is_taken_as_coco_does() -> None:
    metric = metric_spec("map").make()
    # The first box covers both objects by half; the second is the last object itself, which is taken then.
    outputs = detected((1, 0.9, [0, 0, 10, 20]), (1, 0.8, [0, 10, 10, 20]))
    truth = {"boxes": np.array([[0, 0, 10, 10], [0, 10, 10, 20]]), "classes": np.array([1, 1])}
    metric.add(Answered(outputs, outputs, fields=truth))
    assert metric.figures()[1].value == pytest.approx(100 * 51 / 101)


def test_mean_average_precision() -> None:
    def judged(boxes: list[list[float]], scores: list[float]) -> float | None:
        metric = metric_spec("map").make()
        outputs = {
            "boxes": np.array([boxes], np.float32),
            "classes": np.ones((1, len(boxes)), np.float32),
            "scores": np.array([scores], np.float32),
        }
        truth = {"boxes": np.array([[0, 0, 1, 1], [2, 2, 3, 3]]), "classes": np.array([1, 1])}
        metric.add(Answered(outputs, outputs, fields=truth))
        return metric.figures()[0].value

    right = [[0, 0, 1, 1], [2, 2, 3, 3]]
    assert judged([*map(list, right)], [0.9, 0.8]) == pytest.approx(100)
    # The second of two is missed: 51 of 101 points of recall are reached.
    assert judged([[0, 0, 1, 1], [8, 8, 9, 9]], [0.9, 0.8]) == pytest.approx(100 * 51 / 101)
    assert overlaps(np.array([[0.0, 0, 2, 2]]), np.array([[1.0, 1, 3, 3]])).tolist() == [[1 / 7]]
