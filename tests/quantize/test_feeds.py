"""Samples from folders, files and Python objects."""

from __future__ import annotations

import tracemalloc
import wave
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from thinflow.errors import FeedError, ParameterError
from thinflow.ir.types import BOOL, FLOAT, INT32, STRING, UINT8, TensorSpec
from thinflow.quantize.feeds import open_feeds, spread
from thinflow.quantize.fitting import fit
from thinflow.quantize.sample_files import Scaling, read_input

ONE = {"x": TensorSpec(FLOAT, (1, 2, 3))}
TWO = {"x": TensorSpec(FLOAT, (1, 2)), "n": TensorSpec(INT32, (1,))}
DATA = np.arange(30, dtype=np.float32).reshape(5, 2, 3)


def arrays_of(feeds, name: str = "x") -> np.ndarray:
    return np.stack([feed[name] for feed in feeds])


@pytest.mark.parametrize("kind", ["npy", "npz", "compressed", "fortran", "array", "dict", "list", "function"])
def test_sources_agree(kind: str, tmp_path: Path) -> None:
    file = tmp_path / ("data.npy" if kind in {"npy", "fortran"} else "data.npz")
    sources = {"array": DATA, "dict": {"x": DATA}, "list": list(DATA), "function": lambda: iter(DATA)}
    if kind == "npy":
        np.save(file, DATA)
    elif kind == "fortran":
        np.save(file, np.asfortranarray(DATA))
    elif kind == "npz":
        np.savez(file, x=DATA)
    elif kind == "compressed":
        np.savez_compressed(file, x=DATA)
    feeds = open_feeds(sources.get(kind, file), ONE)
    for _ in range(2):
        found = arrays_of(feeds)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, DATA[:, None])
    if kind != "function":
        assert len(feeds) == 5
    limited = open_feeds(sources.get(kind, file), ONE, limit=2)
    assert len(list(limited)) == 2


def test_unknown_length_is_a_type_error() -> None:
    feeds = open_feeds(lambda: iter(DATA), ONE)
    with pytest.raises(TypeError):
        len(feeds)
    assert len(list(feeds)) == 5


def test_iterator_can_be_walked_once() -> None:
    feeds = open_feeds(iter(DATA), ONE)
    assert len(list(feeds)) == 5
    with pytest.raises(FeedError, match="can be walked once only"):
        list(feeds)


def test_several_inputs(tmp_path: Path) -> None:
    x, n = np.ones((3, 2), np.float64), np.arange(3)
    np.savez(tmp_path / "data.npz", **{"x:0": x, "n": n[:, None], "labels": np.array(["a", "b", "c"])})
    for source in (
        tmp_path / "data.npz",
        {"x": x, "n": n[:, None]},
        [(x[i], n[i : i + 1]) for i in range(3)],
    ):
        feeds = open_feeds(source, TWO)
        assert [int(f["n"][0]) for f in feeds] == [0, 1, 2]
        assert all(f["x"].shape == (1, 2) and f["x"].dtype == np.float32 for f in feeds)
    assert open_feeds(tmp_path / "data.npz", TWO).labels == ["a", "b", "c"]
    with pytest.raises(FeedError, match="the model has 2 inputs, and an array gives one"):
        open_feeds(x, TWO)
    with pytest.raises(FeedError, match="sample 0: the sample has 3 arrays, the model 2 inputs"):
        list(open_feeds([(1, 2, 3)], TWO))


def test_numpys_own_key_is_fine_for_one_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", DATA)
    assert len(list(open_feeds(tmp_path / "data.npz", ONE))) == 5


def test_list_with_the_only_input() -> None:
    assert next(iter(open_feeds(lambda: ([d[None]] for d in DATA), ONE)))["x"].shape == (1, 2, 3)


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="no input 'picure'") as error:
        open_feeds({"picure": DATA}, {"picture": ONE["x"]})
    assert error.value.hint == "did you mean 'picture'?"
    with pytest.raises(FeedError, match="nothing is given for input 'n'"):
        open_feeds({"x": np.zeros((3, 2))}, TWO)
    with pytest.raises(FeedError, match="different numbers of samples"):
        open_feeds({"x": np.zeros((3, 2)), "n": np.zeros((2, 1))}, TWO)
    with pytest.raises(FeedError, match="2 labels for 5 samples"):
        open_feeds({"x": DATA, "labels": np.arange(2)}, ONE)


def test_shapes_and_types() -> None:
    with pytest.raises(
        FeedError, match=r"the arrays, sample 0: input 'x' wants shape \[1,2,3\], found \[3,2\]"
    ):
        list(open_feeds(DATA.transpose(0, 2, 1), ONE))
    open_spec = TensorSpec(FLOAT, (None, None, 3))
    assert fit(DATA[0], "x", open_spec).shape == (1, 2, 3)
    assert fit(DATA, "x", open_spec).shape == (5, 2, 3)
    assert fit(np.array([1.0, 2.0]), "n", TensorSpec(INT32, (2,))).dtype == np.int32
    assert fit(np.array([True]), "x", TensorSpec(FLOAT, (1,))).dtype == np.float32
    assert fit(np.array([0, 1]), "b", TensorSpec(BOOL, (2,))).dtype == np.bool_
    for bad, spec in (
        (np.array([1.5]), TensorSpec(INT32, (1,))),
        (np.array([2**40]), TensorSpec(INT32, (1,))),
        (np.array([-1]), TensorSpec(UINT8, (1,))),
        (np.array([np.nan]), TensorSpec(INT32, (1,))),
    ):
        with pytest.raises(FeedError, match="that it cannot hold"):
            fit(bad, "n", spec)
    with pytest.raises(FeedError, match="wants float, found"):
        fit(np.array(["a"]), "x", TensorSpec(FLOAT, (1,)))
    with pytest.raises(FeedError, match="wants strings, found"):
        fit(np.zeros(1), "s", TensorSpec(STRING, (1,)))


def test_folder_of_arrays_and_labels(tmp_path: Path) -> None:
    for i, name in enumerate(("dog_2", "cat_1", "cow_9_x")):
        np.save(tmp_path / f"{name}.npy", DATA[i])
    (tmp_path / "README.md").write_text("ignored")
    (tmp_path / ".hidden.npy").write_text("ignored")
    feeds = open_feeds(tmp_path, ONE)
    assert feeds.labels == ["cat", "cow", "dog"]
    np.testing.assert_array_equal(arrays_of(feeds)[:, 0], DATA[[1, 2, 0]])
    assert len(open_feeds(tmp_path, ONE, limit=2)) == 2
    np.save(tmp_path / "plain.npy", DATA[0])
    assert open_feeds(tmp_path, ONE).labels is None


def test_folder_of_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(2), n=np.array([7]), labels=np.array(1))
    assert next(iter(open_feeds(tmp_path, TWO)))["n"].tolist() == [7]


def test_string_inputs_get_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "yes_1.wav").write_bytes(b"RIFF\0\0")
    for shape in ((), (1,), (None,)):
        feeds = open_feeds(tmp_path, {"wav": TensorSpec(STRING, shape)})
        found = next(iter(feeds))["wav"]
        assert found.shape == ((1,) if shape else ())
        assert found.item() == b"RIFF\0\0"
        assert feeds.labels == ["yes"]
    with pytest.raises(FeedError, match="a sound file holds one row of samples"):
        list(open_feeds(tmp_path, ONE))
    assert next(iter(open_feeds(["text", b"bytes"], {"s": TensorSpec(STRING, ())})))["s"].item() == b"text"


def test_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = 255, 100
    image.fromarray(pixels).save(tmp_path / "red_1.png")
    spec = {"image": TensorSpec(FLOAT, (1, 8, 3, 3))}
    found = next(iter(open_feeds(tmp_path, spec)))["image"]
    assert found.shape == (1, 8, 3, 3)
    assert found.dtype == np.float32
    assert found[0, 0, 0].tolist() == [255, 100, 0]
    scaled = next(iter(open_feeds(tmp_path, spec, scaling=Scaling(127.5, 127.5))))["image"]
    np.testing.assert_allclose(scaled[0, 0, 0], [1, -0.21568628, -1], rtol=1e-6)
    per_channel = Scaling((255, 100, 0), (1, 2, 4))
    assert not next(iter(open_feeds(tmp_path, spec, scaling=per_channel)))["image"].any()
    free = {"image": TensorSpec(FLOAT, (None, None, None, 3))}
    assert next(iter(open_feeds(tmp_path, free)))["image"].shape == (1, 4, 6, 3)
    grey = {"image": TensorSpec(UINT8, (1, 4, 6, 1))}
    assert next(iter(open_feeds(tmp_path, grey)))["image"].dtype == np.uint8
    with pytest.raises(FeedError, match=r"a picture does not fit an input of shape \[1,10\]"):
        list(open_feeds(tmp_path, {"x": TensorSpec(FLOAT, (1, 10))}))
    (tmp_path / "red_2.png").write_bytes(b"not a picture")
    with pytest.raises(FeedError, match=r"red_2.png: the picture cannot be read"):
        list(open_feeds(tmp_path, spec))


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="the folder has no samples"):
        open_feeds(tmp_path, ONE)
    with pytest.raises(FeedError, match="no such file or folder"):
        open_feeds(tmp_path / "nowhere", ONE)
    for empty in ([], np.zeros((0, 2, 3))):
        with pytest.raises(FeedError, match="there are no samples"):
            open_feeds(empty, ONE)
    with pytest.raises(ParameterError, match="limit is 0"):
        open_feeds(DATA, ONE, limit=0)
    with pytest.raises(FeedError, match="samples cannot be read from int"):
        open_feeds(3, ONE)
    (tmp_path / "data.tsv").write_text("1,2")
    with pytest.raises(FeedError, match=r"samples cannot be read from a \.tsv file") as error:
        open_feeds(tmp_path / "data.tsv", ONE)
    assert error.value.hint == "give a folder, a .npz, a .npy or a .csv"
    with pytest.raises(ParameterError, match="std is 0"):
        Scaling(std=0)


@pytest.mark.filterwarnings("ignore")  # numpy warns of headers it repairs
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_damaged_files(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"data.{suffix}"
    if suffix == "npy":
        np.save(file, DATA)
    else:
        np.savez_compressed(file, x=DATA)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    for cut in range(0, len(whole) - 1, 7):
        file.write_bytes(whole[:cut])
        with pytest.raises(FeedError):
            list(open_feeds(file, ONE))
    for _ in range(300):
        broken = bytearray(whole)
        broken[rng.integers(len(whole))] = rng.integers(256)
        file.write_bytes(broken)
        try:
            list(open_feeds(file, ONE))
        except FeedError:
            continue


def test_objects_and_numbers_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(FeedError, match="Python objects are stored there"):
        open_feeds(tmp_path / "a.npy", ONE)
    np.save(tmp_path / "b.npy", np.float32(1))
    with pytest.raises(FeedError, match="one number, not samples"):
        open_feeds(tmp_path / "b.npy", ONE)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_memory_does_not_grow_with_the_samples(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"data.{suffix}"
    data = np.zeros((4000, 2, 300), np.float32)  # 9.6 MB
    if suffix == "npy":
        np.save(file, data)
    else:
        np.savez_compressed(file, x=data)
    feeds = open_feeds(file, {"x": TensorSpec(FLOAT, (1, 2, 300))})
    tracemalloc.start()
    for _ in feeds:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


def test_one_input_from_one_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", DATA[0])
    np.savez(tmp_path / "a.npz", DATA[0])
    np.savetxt(tmp_path / "a.txt", DATA[0])
    np.savetxt(tmp_path / "a.csv", DATA[0], delimiter=",")
    np.savetxt(tmp_path / "flat.txt", DATA[0].reshape(-1))
    for file in tmp_path.iterdir():
        np.testing.assert_array_equal(read_input(file, "x", ONE["x"]), DATA[:1])
    text = TensorSpec(STRING, ())
    assert read_input(tmp_path / "a.txt", "s", text).item() == (tmp_path / "a.txt").read_bytes()
    (tmp_path / "bad.txt").write_text("one two")
    np.savez(tmp_path / "empty.npz")
    for name, message in (
        ("bad.txt", "the file cannot be read"),
        ("empty.npz", "it has no arrays"),
        ("none.npy", "there is no such file"),
        ("a.bin", r"cannot be read from a \.bin file"),
    ):
        with pytest.raises(FeedError, match=message):
            read_input(tmp_path / name, "x", ONE["x"])


def test_a_few_samples_are_of_all_classes(tmp_path: Path) -> None:
    for label in ("cat", "cow", "dog"):
        for number in range(20):
            np.save(tmp_path / f"{label}_{number:02}.npy", DATA[0] + number)
    feeds = open_feeds(tmp_path, ONE, limit=7)
    assert sorted(Counter(feeds.labels or ()).values()) == [2, 2, 3]
    assert (len(feeds), feeds.total, feeds.classes) == (7, 60, 3)
    numbers = arrays_of(feeds)[:, 0, 0, 0]
    assert numbers.min() < 10 <= numbers.max()
    np.testing.assert_array_equal(arrays_of(open_feeds(tmp_path, ONE, limit=7)), arrays_of(feeds))


def test_a_few_of_an_array_are_spread_over_its_classes_and_rows() -> None:
    rows, labels = np.repeat(np.arange(90.0), 6).reshape(90, 2, 3), np.repeat([7, 3, 5], 30)
    feeds = open_feeds({"x": rows, "labels": labels}, ONE, limit=6)
    assert feeds.labels == [7, 7, 3, 3, 5, 5]
    assert [int(n) // 15 for n in arrays_of(feeds)[:, 0, 0, 0]] == [0, 1, 2, 3, 4, 5]
    plain = arrays_of(open_feeds(rows, ONE, limit=3))[:, 0, 0, 0]
    assert [int(n) // 30 for n in plain] == [0, 1, 2]
    assert len(list(open_feeds(open_feeds(rows, ONE), ONE, limit=3))) == 3
    assert [int(f["x"][0, 0, 0]) // 30 for f in open_feeds(list(rows), ONE, limit=3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("count", "limit", "labels"),
    [(5, None, None), (5, 9, None), (5, 2, None), (9, 4, "aaaaaaaab"), (6, 3, "abcdef"), (6, 5, "aabbbb")],
)
def test_so_many_as_asked_for_each_once(count: int, limit: int | None, labels: str | None) -> None:
    chosen = spread(count, limit, labels)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(count, limit or count)
    classes = {labels[n] for n in chosen} if labels else set()
    assert len(classes) == (min(len(set(labels)), len(chosen)) if labels else 0)


def test_a_folder_of_folders_is_labelled_by_them(tmp_path: Path) -> None:
    for name in ("no", "yes"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "1.npy", DATA[0])
    feeds = open_feeds(tmp_path, ONE)
    assert feeds.labels == ["no", "yes"]
    assert len(list(feeds)) == 2


def wav(path: Path, samples: list[int], rate: int = 8000) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(np.array(samples, "<i2").tobytes())


def test_models_of_numbers_take_the_samples_of_a_sound(tmp_path: Path) -> None:
    wav(tmp_path / "a_1.wav", [16384, -32768])
    wanted = {"sound": TensorSpec(FLOAT, (4, 1)), "rate": TensorSpec(INT32, ())}
    (feed,) = open_feeds(tmp_path, wanted)
    assert feed["sound"].tolist() == [[0.5], [-1], [0], [0]]
    assert feed["rate"] == 8000
    for shape, found in (((None,), (2,)), ((1, 3), (1, 3)), ((None, 1), (2, 1)), ((1, None, 1), (1, 2, 1))):
        (feed,) = open_feeds(tmp_path, {"x": TensorSpec(FLOAT, shape)})
        assert feed["x"].shape == found
    with pytest.raises(FeedError, match="a sound does not go into x"):
        list(open_feeds(tmp_path, {"x": TensorSpec(FLOAT, (4,)), "y": TensorSpec(FLOAT, (4,))}))
