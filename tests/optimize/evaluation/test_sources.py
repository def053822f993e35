"""The same samples from every kind of source, in shards of any size: the same figures, bit for bit."""

from __future__ import annotations

import gzip
import io
import math
import wave
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.night import AT_NIGHT
from tests.optimize.evaluation.digit_files import digits, tfrecord_bytes, write_all, write_table
from thinflow import zoo
from thinflow.datasets import places
from thinflow.datasets.fields import Feeding
from thinflow.datasets.opening import open_dataset
from thinflow.datasets.shard import Record
from thinflow.errors import EngineUnavailable, FeedError, FormatError, ParameterError
from thinflow.ir.types import FLOAT, INT32, TensorSpec
from thinflow.quantize.fitting import fitted_sample

COUNT = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits")
    zoo.write("digits", path / "digits.pb")
    thinflow.convert(path / "digits.pb", path / "digits.tflite")
    thinflow.quantize(path / "digits.pb", calibration={"image": digits(40)[0]}, scheme="int8").save(
        path / "int8.tflite"
    )
    return path


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[str, str]:
    return write_all(folder, COUNT)


KINDS = (
    *("plain.tfrecord", "gzip.tfrecord", "zlib.tfrecord", "snappy.tfrecord", "plain.npz", "packed.npz"),
    *("data.tar", "part-*.tar", "part-{0..1}.tar", "classes", "numbers.csv", "paths.csv", "bare.csv"),
)


@pytest.fixture(scope="module")
def expected(folder: Path) -> Any:
    images, labels = digits(COUNT)
    models = [folder / "digits.tflite", folder / "int8.tflite"]
    return thinflow.evaluate(models, {"image": images, "labels": labels}, shard_samples=COUNT).rows()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shard_samples", [7, 1000])
def test_every_source_gives_the_same(
    kind: str, shard_samples: int, folder: Path, files: dict[str, str], expected: Any
) -> None:
    models = [folder / "digits.tflite", folder / "int8.tflite"]
    found = thinflow.evaluate(models, files[kind], shard_samples=shard_samples)
    # Sums are exact: neither the order of the samples nor where they are cut changes a bit.
    assert found.rows() == expected
    assert found[0].samples == COUNT


def test_arrays_and_python_objects(folder: Path, expected: Any) -> None:
    images, labels = digits(COUNT)
    models = [folder / "digits.tflite", folder / "int8.tflite"]

    class Dataset:
        """As PyTorch has them."""

        def __len__(self) -> int:
            return COUNT

        def __getitem__(self, index: int) -> tuple[Any, int]:
            return images[index], int(labels[index])

    pairs = [(image, label) for image, label in zip(images, labels, strict=True)]
    dicts = [{"image": image, "label": label} for image, label in pairs]
    for data in (Dataset(), pairs, iter(dicts), lambda: iter(dicts)):
        assert thinflow.evaluate(models, data, shard_samples=9).rows() == expected


class Tensor:
    """What PyTorch and TensorFlow have in common, and PyTorch's refusal of what training follows."""

    def __init__(self, array: Any, *, is_followed: bool = True) -> None:
        self._array, self._is_followed = np.asarray(array), is_followed
        self.shape = self._array.shape

    def detach(self) -> Tensor:
        return Tensor(self._array, is_followed=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        assert not self._is_followed, "call detach() first"
        return self._array if dtype is None else self._array.astype(dtype)


class Loader:
    """As PyTorch's DataLoader and a batched `tf.data`: its length is the number of batches."""

    def __init__(self, batch: int, form: str) -> None:
        self._batch, self._form = batch, form

    def __len__(self) -> int:
        return -(-COUNT // self._batch)

    def __iter__(self) -> Any:
        images, labels = digits(COUNT)
        for start in range(0, COUNT, self._batch):
            part = slice(start, start + self._batch)
            image, label = Tensor(images[part]), Tensor(labels[part])
            yield {
                "dict": {"image": image, "label": label},
                "list": [image, label],
                "features": ({"image": image}, label),
            }[self._form]


class IndexedLoader(Loader):
    """As Keras's `PyDataset`: batches by number."""

    def __getitem__(self, index: int) -> Any:
        return list(Loader(self._batch, self._form))[index]


@pytest.mark.parametrize("form", ["dict", "list", "features"] if AT_NIGHT else ["dict"])
def test_loaders_of_torch_and_tf_data_work_as_they_are(form: str, folder: Path, expected: Any) -> None:
    images, labels = digits(COUNT)
    models = [folder / "digits.tflite", folder / "int8.tflite"]
    plain = thinflow.quantize(folder / "digits.pb", {"image": images}).content
    # The last batch of 16 holds two samples, of 7 one alone.
    for data in (Loader(16, form), Loader(7, form), Loader(1, form), IndexedLoader(16, form)):
        assert thinflow.evaluate(models, data, shard_samples=9).rows() == expected
        assert thinflow.quantize(folder / "digits.pb", data).content == plain
    unbatched = [(Tensor(image), Tensor(label)) for image, label in zip(images, labels, strict=True)]
    assert thinflow.evaluate(models, iter(unbatched), shard_samples=9).rows() == expected
    assert thinflow.quantize(folder / "digits.pb", unbatched).content == plain


@pytest.mark.parametrize("batch", [1, 16])
def test_samples_by_number_are_made_once(batch: int, folder: Path) -> None:
    images, labels = digits(32)
    asked: list[int] = []

    class Dataset:
        def __len__(self) -> int:
            return 32 // batch

        def __getitem__(self, index: int) -> tuple[Any, Any]:
            asked.append(index)
            part = index if batch == 1 else slice(index * batch, (index + 1) * batch)
            return images[part], labels[part]

    assert thinflow.evaluate(folder / "digits.tflite", Dataset()).samples == 32
    assert asked == list(range(32 // batch))


def test_an_object_with_len_and_getitem_alone_calibrates(folder: Path) -> None:
    images, labels = digits(COUNT)

    class Dataset:
        def __len__(self) -> int:
            return COUNT

        def __getitem__(self, index: int) -> tuple[Any, int]:
            return Tensor(images[index]), int(labels[index])

    plain = thinflow.quantize(folder / "digits.pb", {"image": images}).content
    assert thinflow.quantize(folder / "digits.pb", Dataset()).content == plain


def test_a_sound_fills_the_rate_beside_its_numbers() -> None:
    inputs = {"sound": TensorSpec(FLOAT, (4, 1)), "rate": TensorSpec(INT32, ())}
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(np.array([16384, -32768], "<i2").tobytes())
    sound = {"wav": content.getvalue()}
    feed = Feeding(inputs).feed(Record(sound, "yes.wav"))
    assert feed["sound"].tolist() == [[0.5], [-1], [0], [0]]
    assert feed["rate"] == 8000
    # Where a sample names an input itself, the rest has to be named as well.
    with pytest.raises(FeedError, match="nothing is given for input 'sound'"):
        Feeding(inputs).feed(Record(sound | {"rate": 16000}, "yes.wav"))
    with pytest.raises(FeedError, match="a sound does not go into"):
        Feeding({"a": TensorSpec(FLOAT, (4,)), "b": TensorSpec(FLOAT, (4,))}).feed(Record(sound, "yes.wav"))


def test_rows_of_one_array_are_no_label(tmp_path: Path) -> None:
    # A pair of arrays is a sample of two rows as long as the second is as deep as the first.
    inputs = {"x": TensorSpec(FLOAT, (1, 2, 3))}
    pair = [np.zeros(3, np.float32), np.ones(3, np.float32)]
    assert fitted_sample(pair, inputs, "").popitem()[1].tolist() == [[[0, 0, 0], [1, 1, 1]]]


def test_shards_are_the_same_each_time_and_say_when_files_change(tmp_path: Path) -> None:
    images, labels = digits(10)
    file = tmp_path / "a.tfrecord"
    file.write_bytes(tfrecord_bytes(images, labels))
    data = open_dataset(str(file), 4)
    first = [shard.identity for shard in data.shards()]
    assert first == [shard.identity for shard in data.shards()]
    assert len(set(first)) == 3
    assert [shard.size for shard in data.shards()] == [4, 4, 2]
    shard = next(data.shards())
    file.write_bytes(tfrecord_bytes(images[:9], labels[:9]))
    assert shard.identity not in {shard.identity for shard in data.shards()}
    with pytest.raises(FeedError, match="changed since it was listed"):
        next(data.records(shard))


# ---------------------------------------------------------------------------------------- what is damaged


def test_a_damaged_record_is_left_out_and_told(tmp_path: Path, folder: Path) -> None:
    content = bytearray(tfrecord_bytes(*digits(20)))
    # In the data of the first record: its length is well, so that the others can be read.
    content[40] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(content)
    found = thinflow.evaluate(folder / "digits.tflite", tmp_path / "a.tfrecord")
    assert (found.samples, found.left_out.samples) == (19, 1)
    assert found.left_out.first[0][1] == "its checksum is wrong"
    assert found.left_out.first[0][0].endswith("record 0")
    with pytest.raises(FeedError, match="its checksum is wrong"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "a.tfrecord", strict=True)


def test_a_shard_that_is_cut_short_is_named_and_the_rest_goes_on(tmp_path: Path, folder: Path) -> None:
    content = tfrecord_bytes(*digits(20))
    (tmp_path / "a.tfrecord").write_bytes(content[:-3])
    found = thinflow.evaluate(folder / "digits.tflite", tmp_path / "a.tfrecord", shard_samples=5)
    assert found.samples == 15
    (told,) = found.left_out.shards.values()
    assert "record 19: the file ends inside it, 3 bytes too early" in told
    with pytest.raises(FormatError, match="too early"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "a.tfrecord", shard_samples=5, strict=True)
    with pytest.raises(FeedError, match=r"no sample could be read: .*too early"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "a.tfrecord")


@pytest.mark.parametrize("suffix", ["tfrecord", "tar", "npz", "csv", "parquet"])
def test_one_damaged_file_of_several_is_named_and_the_rest_goes_on(
    suffix: str, tmp_path: Path, folder: Path, files: dict[str, str]
) -> None:
    names = {"tfrecord": "plain.tfrecord", "tar": "data.tar", "npz": "packed.npz", "csv": "numbers.csv"}
    if suffix == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        images, labels = digits(COUNT)
        table = pyarrow.table({"image": images.reshape(COUNT, -1).tolist(), "label": labels})
        parquet.write_table(table, tmp_path / "0.parquet")
        content = (tmp_path / "0.parquet").read_bytes()
    else:
        content = Path(files[names[suffix]]).read_bytes()
    odd = b"\xff\xfe" * 300 if suffix == "csv" else content[: len(content) // 2048 * 1024 + 700]
    for name, written in (("0", content), ("1", odd), ("2", content)):
        (tmp_path / f"{name}.{suffix}").write_bytes(written)
    found = thinflow.evaluate(folder / "digits.tflite", str(tmp_path / f"*.{suffix}"))
    assert found.samples == 2 * COUNT
    assert [Path(place).name for place in found.left_out.shards] == [f"1.{suffix}"]
    with pytest.raises((FeedError, FormatError), match=rf"1\.{suffix}"):
        thinflow.evaluate(folder / "digits.tflite", str(tmp_path / f"*.{suffix}"), strict=True)


def test_a_tar_that_ends_between_members_is_told(tmp_path: Path, folder: Path, files: dict[str, str]) -> None:
    whole = Path(files["data.tar"]).read_bytes()
    # Of each sample a header and a block of the array, a header and a block of the label.
    for cut, left in (
        (whole[:10240], 4),
        (whole[:11264], 5),
        (whole[:10247], 4),
        (gzip.compress(whole[:10240]), 4),
    ):
        (tmp_path / "cut.tar").write_bytes(cut)
        found = thinflow.evaluate(folder / "digits.tflite", tmp_path / "cut.tar")
        # Of the last sample a member may be missing.
        assert (found.samples, found.left_out.samples) == (left, 1)
        assert "without a mark of its end" in found.left_out.first[0][1]
    # A damaged head in the middle is no end either.
    (tmp_path / "cut.tar").write_bytes(whole[:10240] + b"odd" + whole[10243:])
    with pytest.raises(FeedError, match="the tar file is damaged: bad checksum"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "cut.tar")


@pytest.mark.parametrize("suffix", ["tfrecord", "tar", "npz", "csv", "npy"])
@pytest.mark.parametrize("content", [b"\0" * 600, b"\x1f\x8b" + b"x" * 600, b"a,b\n\xff\xfe", b""])
def test_damaged_files_are_told_by_name(suffix: str, content: bytes, tmp_path: Path, folder: Path) -> None:
    file = tmp_path / f"odd.{suffix}"
    file.write_bytes(content)
    with pytest.raises((FeedError, FormatError), match=r"odd|there are no samples"):
        thinflow.evaluate(folder / "digits.tflite", file)


def test_truncated_archives_never_hang(tmp_path: Path, folder: Path, files: dict[str, str]) -> None:
    for kind in ("data.tar", "gzip.tfrecord", "snappy.tfrecord", "packed.npz", "plain.npz"):
        content = Path(files[kind]).read_bytes()
        # A tar is filled up with zeros, which nobody misses.
        for end in (7, len(content) // 3, len(content) - (12_000 if kind == "data.tar" else 5)):
            file = tmp_path / f"cut{end}{places.suffix_of(kind)}"
            file.write_bytes(content[:end])
            # A tar may end between two samples, or with one that lost its label; nothing else passes.
            with suppress(FeedError, FormatError):
                assert thinflow.evaluate(folder / "digits.tflite", file).samples < COUNT


def test_labels_that_do_not_fit(tmp_path: Path, folder: Path) -> None:
    images, labels = digits(6)
    np.savez(tmp_path / "far.npz", image=images, labels=labels + 40)
    with pytest.raises(FeedError, match=r"is labelled 4.*the model has 10 classes"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "far.npz")
    rows = [["path", "label"], ["a.npy", "cat"]]
    np.save(tmp_path / "a.npy", images[0])
    write_table(tmp_path / "words.csv", rows)
    with pytest.raises(ParameterError, match=r"labelled with words \(cat\)"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "words.csv")
    names = ["cart", *"bcdefghij"]
    with pytest.raises(FeedError, match="'cat', which is no class of the model") as caught:
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "words.csv", labels=names)
    assert "did you mean 'cart'" in str(caught.value)


def test_fields_are_named_where_names_do_not_tell(tmp_path: Path, folder: Path) -> None:
    images, labels = digits(6)
    np.savez(tmp_path / "odd.npz", pixels=images, truth=labels, more=labels)
    with pytest.raises(
        FeedError, match="nothing is given for input 'image': the sample has pixels"
    ) as caught:
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "odd.npz")
    assert "--fields image=FIELD" in str(caught.value)
    fields = {"image": "pixels", "label": "truth"}
    assert thinflow.evaluate(folder / "digits.tflite", tmp_path / "odd.npz", fields=fields).samples == 6
    with pytest.raises(FeedError, match="no field 'pixel'"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "odd.npz", fields={"image": "pixel"})
    with pytest.raises(ParameterError, match="no input 'imag'"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "odd.npz", fields={"imag": "pixels"})


def test_what_is_not_there(tmp_path: Path, folder: Path) -> None:
    for path, told in (
        ("none.npz", "there is no such file"),
        ("none-*.tar", "no file matches"),
        ("none-{3..1}.tar", "is no range"),
        ("odd.xyz", "samples cannot be read from a .xyz file"),
        ("empty", "the folder has no samples"),
    ):
        (tmp_path / "odd.xyz").write_bytes(b"hello")
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(FeedError, match=told):
            thinflow.evaluate(folder / "digits.tflite", tmp_path / path)


def test_urls_need_fsspec(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fsspec", None)
    places._filesystem.cache_clear()
    with pytest.raises(FeedError, match=r"s3:// needs fsspec\nhint: pip install 'thinflow\[data\]'"):
        thinflow.evaluate(folder / "digits.tflite", "s3://bucket/a.npz")
    places._filesystem.cache_clear()


def test_what_goes_wrong_at_a_url_is_told() -> None:
    pytest.importorskip("fsspec")
    # As fsspec tells over HTTP, whatever it was.
    down = FileNotFoundError("http://a/b")
    down.__cause__ = ConnectionError("refused")
    for error, told in (
        (down, r"memory://a: it cannot be read: ConnectionError: refused\nhint: is the address right"),
        (FileNotFoundError("a"), r"there is no such file or folder\nhint: check the address"),
        (RuntimeError("401, message='Unauthorized'"), r"Unauthorized'\nhint: log in to memory://"),
        (PermissionError("no"), "hint: log in to memory://"),
    ):
        with pytest.raises(FeedError, match=told), places.reaching("memory://a"):
            raise error


def test_a_store_that_needs_credentials_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")

    def filesystem(scheme: str) -> None:
        raise ValueError("Must provide either a connection_string or account_name with credentials!!")

    monkeypatch.setattr(fsspec, "filesystem", filesystem)
    places._filesystem.cache_clear()
    with pytest.raises(FeedError, match=r"az:// cannot be read: Must provide .*\nhint: log in to az://"):
        places.exists("az://a/b")
    places._filesystem.cache_clear()


def test_urls(folder: Path, files: dict[str, str], expected: Any) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    assert files
    models = [folder / "digits.tflite", folder / "int8.tflite"]
    for kind in ("plain.tfrecord", "gzip.tfrecord", "packed.npz", "part-0.tar", "part-1.tar", "numbers.csv"):
        memory.pipe_file(f"/data/{kind}", (folder / kind).read_bytes())
    for path in Path(files["classes"]).rglob("*.npy"):
        memory.pipe_file(f"/classes/{path.parent.name}/{path.name}", path.read_bytes())
    for url in (
        *("memory://data/plain.tfrecord", "memory://data/gzip.tfrecord", "memory://data/packed.npz"),
        *("memory://data/part-*.tar", "memory://data/part-{0..1}.tar", "memory://classes"),
        "memory://data/numbers.csv",
    ):
        assert thinflow.evaluate(models, url, shard_samples=9).rows() == expected, url
    with pytest.raises(FeedError, match="there is no such file or folder"):
        thinflow.evaluate(models, "memory://data/none.npz")
    with pytest.raises(FeedError, match="nothing here reads abc://"):
        thinflow.evaluate(models, "abc://data/none.npz")


def test_parquet(tmp_path: Path, folder: Path, expected: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    images, labels = digits(COUNT)
    table = pyarrow.table({"image": images.reshape(COUNT, -1).tolist(), "label": labels})
    file = tmp_path / "a.parquet"
    parquet.write_table(table, file, row_group_size=8)
    models = [folder / "digits.tflite", folder / "int8.tflite"]
    assert [s.size for s in open_dataset(str(file), 10).shards()] == [16, 16, 16, 2]
    assert thinflow.evaluate(models, file, shard_samples=10).rows() == expected
    file.write_bytes(file.read_bytes()[:-300])
    with pytest.raises(FeedError, match="the table is damaged"):
        thinflow.evaluate(models, file)


@pytest.mark.parametrize("name", ["a.parquet", "a.tfrecord", "part-*.tar", "memory://calibration/a.parquet"])
def test_every_source_calibrates_as_arrays_do(
    name: str, tmp_path: Path, folder: Path, files: dict[str, str]
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    images, labels = digits(COUNT)
    table = pyarrow.table({"image": images.reshape(COUNT, -1).tolist(), "label": labels})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=8)
    (tmp_path / "a.tfrecord").write_bytes(tfrecord_bytes(images, labels))
    place = files[name] if name in files else name if "://" in name else str(tmp_path / name)
    if "://" in name:
        fsspec = pytest.importorskip("fsspec")
        fsspec.filesystem("memory").pipe_file("/calibration/a.parquet", (tmp_path / "a.parquet").read_bytes())
    found = thinflow.quantize(folder / "digits.pb", place)
    plain = thinflow.quantize(folder / "digits.pb", {"image": images, "labels": labels})
    assert found.content == plain.content
    assert list(found.calibration.ranges.values()) == list(plain.calibration.ranges.values())


def test_parquet_needs_pyarrow(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(EngineUnavailable, match=r"needs pyarrow\nhint: pip install 'thinflow\[data\]'"):
        thinflow.evaluate(folder / "digits.tflite", tmp_path / "a.parquet")


# -------------------------------------------------------------------------------------------- exact sums


def test_sums_do_not_depend_on_order_or_parts() -> None:
    from thinflow.optimize.exact_sum import ExactSum

    rng = np.random.default_rng(0)
    values = (rng.standard_normal(2000) * 10.0 ** rng.integers(-300, 300, 2000)).tolist()
    whole, parts = ExactSum(), [ExactSum() for _ in range(7)]
    for number, value in enumerate(values):
        whole.add(value)
        parts[number % 7].add(value)
    merged = ExactSum()
    for part in reversed(parts):
        merged.merge(ExactSum(str(part)))
    assert str(merged) == str(whole)
    assert whole.total == math.fsum(values)
    whole.add(math.inf)
    assert ExactSum(str(whole)).total == math.inf
