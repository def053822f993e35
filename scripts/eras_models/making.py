"""How a model is made known, made, saved and asked: each way of saving that people had is a decorator here.

    @keras_model(x=floats(None, 8))          the function gets Keras inputs and gives outputs; makes k3_NAME
    @function_model(x=floats(None, 8))       it gets a tf.Module for variables and gives a function; tf2_NAME
    @tf1_model(x=floats(None, 8))            it gets placeholders and gives tensors by name; tf1_NAME

Three inputs each: two of a batch of one, and one of three where the batch is open (None).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import io
import pickle
import shutil
import tempfile
import types
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
v1 = tf.compat.v1

RECIPE = 1
"""Counts changes to this module that change what is made, so that caches are made anew."""


@dataclass(frozen=True)
class Spec:
    """An input.

    Attributes:
        shape: None in front for an open batch; another None is open in the model and is `length` here.
        draw: random generator and shape -> numbers.
        length: for further open sizes.
    """

    shape: tuple[int | None, ...]
    dtype: Any
    draw: Callable[[np.random.Generator, tuple[int, ...]], Any]
    length: int = 6

    def numbers(self, random: np.random.Generator, batch: int) -> Array:
        sizes = [self.length if size is None else size for size in self.shape]
        if self.shape and self.shape[0] is None:
            sizes[0] = batch
        drawn = np.asarray(self.draw(random, tuple(sizes)))
        return drawn if drawn.dtype == object else drawn.astype(self.dtype.as_numpy_dtype)


def floats(
    *shape: int | None, low: float = -1.0, high: float = 1.0, dtype: Any = tf.float32, length: int = 6
) -> Spec:
    """Uniform numbers."""
    return Spec(shape, dtype, lambda random, sizes: random.uniform(low, high, sizes), length)


def ints(*shape: int | None, high: int, low: int = 0, dtype: Any = tf.int32, length: int = 6) -> Spec:
    """Whole numbers from low to high - 1."""
    return Spec(shape, dtype, lambda random, sizes: random.integers(low, high, sizes), length)


def bools(*shape: int | None) -> Spec:
    return Spec(shape, tf.bool, lambda random, sizes: random.integers(0, 2, sizes) > 0)


def texts(*shape: int | None, of: Sequence[bytes]) -> Spec:
    """Some of these."""

    def draw(random: np.random.Generator, sizes: tuple[int, ...]) -> Array:
        picked = np.empty(sizes, object)
        for place in np.ndindex(sizes):
            picked[place] = of[int(random.integers(len(of)))]
        return picked

    return Spec(shape, tf.string, draw)


def drawn(
    *shape: int | None, dtype: Any = tf.float32, length: int = 6
) -> Callable[[Callable[..., Any]], Spec]:
    """Numbers by a function of one's own: `drawn(None, 3)(lambda random, sizes: ...)`."""
    return lambda draw: Spec(shape, dtype, draw, length)


@dataclass(frozen=True)
class Model:
    """A maker with what it needs.

    Attributes:
        save: writes the model into a folder; the path to open, relative to it.
        answers: what TensorFlow says of that path: feeds -> outputs by name.
        tolerance: relative to the largest value of an output.
        source: text that decides whether a cached model is still the same.
        signature: name to open it by, where it takes one.
    """

    name: str
    specs: Mapping[str, Spec]
    save: Callable[[Path], str]
    answers: Callable[[Path, Sequence[Feeds]], list[dict[str, Array]]]
    tolerance: float
    source: Callable[[], str]
    signature: str | None = None

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{RECIPE} {tf.__version__} {self.source()}".encode()).hexdigest()[:12]

    @property
    def is_open(self) -> bool:
        """Whether the batch is open."""
        return any(spec.shape and spec.shape[0] is None for spec in self.specs.values())

    def feeds(self) -> list[Feeds]:
        """Three inputs: two of one, one of three where the batch is open."""
        random = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [{n: s.numbers(random, batch) for n, s in self.specs.items()} for batch in (1, 1, 3)]


@dataclass
class Made:
    """A model on disk, and what TensorFlow answers.

    Attributes:
        path: of the model.
        feeds: by input name.
        answers: by output name, one dict for each feed.
    """

    path: Path
    feeds: list[Feeds]
    answers: list[dict[str, Array]]
    is_open: bool
    tolerance: float
    signature: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)


def made(model: Model, cache: Path) -> Made:
    """The model from the cache, or made now and put there."""
    folder = cache / f"{model.name}-{model.key}"
    if not (folder / "made.pkl").exists():
        cache.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=cache, prefix=f".{model.name}-"))
        aside.chmod(0o755)
        _make(model, aside)
        with contextlib.suppress(OSError):  # someone else was faster
            aside.rename(folder)
        shutil.rmtree(aside, ignore_errors=True)
    content = pickle.loads((folder / "made.pkl").read_bytes())
    return Made(
        folder / content["path"],
        content["feeds"],
        content["answers"],
        model.is_open,
        model.tolerance,
        model.signature,
    )


def _make(model: Model, folder: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):  # Keras 2 lists what it exports
        path = model.save(folder)
    feeds = model.feeds()
    answers = model.answers(folder / path, feeds)
    (folder / "made.pkl").write_bytes(pickle.dumps({"path": path, "feeds": feeds, "answers": answers}))


# --- what TensorFlow answers ---


def saved_model_answers(
    path: Path, feeds: Sequence[Feeds], signature: str = "serving_default"
) -> list[Feeds]:
    """Each input meets the model as it was loaded: state does not go from one to the next."""
    found = []
    for feed in feeds:
        loaded = tf.saved_model.load(str(path))
        answer = loaded.signatures[signature](**{n: tf.constant(x) for n, x in feed.items()})
        found.append({name: np.asarray(y.numpy()) for name, y in answer.items()})
    return found


def graph_answers(path: Path, feeds: Sequence[Feeds], outputs: Sequence[str]) -> list[Feeds]:
    """Of a frozen graph."""
    with running(v1.GraphDef.FromString(path.read_bytes()), outputs) as run:
        return [run(feed) for feed in feeds]


@contextlib.contextmanager
def running(graph_def: Any, outputs: Sequence[str]) -> Iterator[Callable[[Mapping[str, Any]], Feeds]]:
    """What the real TensorFlow computes of feeds, which may be more than the graph takes."""
    with tf.Graph().as_default() as graph, _session(graph) as session:
        tf.import_graph_def(graph_def, name="")
        names = {op.name for op in graph.get_operations()}

        def run(feed: Mapping[str, Any]) -> Feeds:
            given = {_port(n): x for n, x in feed.items() if n.split(":")[0] in names}
            found = session.run([_port(n) for n in outputs], given)
            return {n: np.asarray(y) for n, y in zip(outputs, found, strict=True)}

        yield run


def _session(graph: Any) -> Any:
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # what was written is what runs
    return v1.Session(graph=graph, config=config)


def _port(name: str) -> str:
    return name if ":" in name else f"{name}:0"


# --- Keras ---

KERAS: dict[str, str] = {"k3": "keras", "k2": "tf_keras"}
"""Prefix of a name -> package."""


def keras_model(
    eras: str = "k3", *, tolerance: float = 1e-4, dtype: str | None = None, settle: bool = True, **specs: Spec
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of Keras (the package) and its inputs that gives outputs, a Model or a layer.

    Args:
        eras: `k3` for Keras 3, `k2` for Keras 2, or both.
        dtype: policy, such as mixed_float16.
        settle: whether to give zeros and ones of fresh layers numbers as if trained.
    """

    def known(build: Callable[..., Any]) -> Callable[..., Any]:
        for era in eras.split():
            name = f"{era}_{build.__name__.strip('_')}"
            save = functools.partial(_save_keras, build, era, specs, dtype, settle)
            _register(
                Model(name, specs, save, saved_model_answers, tolerance, functools.partial(_source, build))
            )
        return build

    return known


def _save_keras(
    build: Callable[..., Any],
    era: str,
    specs: Mapping[str, Spec],
    dtype: str | None,
    settle: bool,
    folder: Path,
) -> str:
    import importlib

    k = importlib.import_module(KERAS[era])
    k.utils.set_random_seed(zlib.crc32(build.__name__.encode()) % 2**31)
    mixed = k.mixed_precision if era == "k2" else k.config
    setting = mixed.set_global_policy if era == "k2" else mixed.set_dtype_policy
    if dtype is not None:
        setting(dtype)
    try:
        inputs = {
            n: k.Input(s.shape[1:], batch_size=s.shape[0], dtype=s.dtype.name, name=n)
            for n, s in specs.items()
        }
        outputs = build(k, **inputs)
        model = outputs if isinstance(outputs, k.Model) else k.Model(list(inputs.values()), outputs)
        if settle:
            _settle(model, era)
        how: dict[str, Any] = {"verbose": False} if era == "k3" else {}
        if era == "k3" and not any(spec.shape[0] is None for spec in specs.values()):
            how["input_signature"] = [tf.TensorSpec(s.shape, s.dtype, name=n) for n, s in specs.items()]
        model.export(str(folder / "saved"), **how)
    finally:
        if dtype is not None:
            setting("float32")
    return "saved"


def _settle(model: Any, era: str) -> None:
    """Numbers as if trained for what starts as zeros and ones: biases, statistics, scales."""
    random = np.random.default_rng(11)
    for weight in model.weights:
        name = (weight.path if era == "k3" else weight.name).split("/")[-1].split(":")[0]
        old = np.asarray(weight.numpy())
        if old.dtype.kind != "f" or "seed" in name:
            continue
        if name in ("gamma", "moving_variance", "variance"):
            weight.assign(old * random.uniform(0.6, 1.4, old.shape))
        elif name in ("beta", "bias", "moving_mean", "b"):
            weight.assign(old + random.uniform(-0.2, 0.2, old.shape))


# --- functions of TensorFlow 2 ---


def function_model(
    eras: str = "tf2", *, tolerance: float = 1e-4, **specs: Spec
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of a tf.Module, which keeps what is set on it, that gives the function to save.

    Args:
        eras: `tf2` for a SavedModel, `fz2` for a frozen graph of TF2 with functions, or both.
    """

    def known(build: Callable[..., Any]) -> Callable[..., Any]:
        plain = build.__name__.strip("_")
        for era in eras.split():
            name = f"{era}_{plain}"
            if era == "tf2":
                save = functools.partial(_save_function, build, specs)
                _register(
                    Model(
                        name, specs, save, saved_model_answers, tolerance, functools.partial(_source, build)
                    )
                )
            else:
                save = functools.partial(_save_frozen_function, build, specs)
                _register(
                    Model(
                        name, specs, save, _named_graph_answers, tolerance, functools.partial(_source, build)
                    )
                )
        return build

    return known


def variable(name: str, *shape: int, low: float = -0.5, high: float = 0.5, dtype: Any = tf.float32) -> Any:
    """Seeded by its name."""
    return tf.Variable(_weights(name, shape, low, high), dtype=dtype, name=name)


def _weights(name: str, shape: Sequence[int], low: float, high: float) -> Array:
    return np.random.default_rng(zlib.crc32(name.encode())).uniform(low, high, shape)


def _traced(build: Callable[..., Any], specs: Mapping[str, Spec]) -> tuple[Any, Any]:
    module = tf.Module()
    call = build(module)
    module.traced = tf.function(
        call, input_signature=[tf.TensorSpec(s.shape, s.dtype, name=n) for n, s in specs.items()]
    )
    return module, module.traced


def _save_function(build: Callable[..., Any], specs: Mapping[str, Spec], folder: Path) -> str:
    module, traced = _traced(build, specs)
    tf.saved_model.save(module, str(folder / "saved"), signatures=traced.get_concrete_function())
    return "saved"


def _save_frozen_function(build: Callable[..., Any], specs: Mapping[str, Spec], folder: Path) -> str:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    _module, traced = _traced(build, specs)
    frozen = convert_variables_to_constants_v2(traced.get_concrete_function(), lower_control_flow=False)
    outputs = [t.name.removesuffix(":0") for t in frozen.outputs]
    (folder / "outputs.pkl").write_bytes(pickle.dumps(outputs))
    (folder / "frozen.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    return "frozen.pb"


def _named_graph_answers(path: Path, feeds: Sequence[Feeds]) -> list[Feeds]:
    return graph_answers(path, feeds, pickle.loads((path.parent / "outputs.pkl").read_bytes()))


# --- TensorFlow 1 ---


def tf1_model(
    saved: str = "frozen", *, tolerance: float = 1e-4, prefix: str = "tf1", **specs: Spec
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of placeholders that gives tensors by the names of their outputs.

    Args:
        saved: frozen, saved_model or checkpoint (a MetaGraph beside it), or several of them.
        prefix: of the name.
    """

    def known(build: Callable[..., Any]) -> Callable[..., Any]:
        ways = saved.split()
        for way in ways:
            writer, answers = _TF1[way]
            end = "" if way == "frozen" else f"_{way}"
            name = f"{prefix}_{build.__name__.strip('_')}{end}"
            save = functools.partial(_save_tf1, build, specs, writer)
            _register(Model(name, specs, save, answers, tolerance, functools.partial(_source, build)))
        return build

    return known


def weights(name: str, *shape: int, low: float = -0.5, high: float = 0.5, trainable: bool = True) -> Any:
    """A variable of TensorFlow 1, seeded by its name."""
    numbers = _weights(name, shape, low, high).astype(np.float32)
    return v1.get_variable(name, initializer=tf.constant(numbers), use_resource=False, trainable=trainable)


def _save_tf1(
    build: Callable[..., Any], specs: Mapping[str, Spec], write: Callable[..., str], folder: Path
) -> str:
    was_on = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            v1.set_random_seed(7)
            inputs = {n: v1.placeholder(s.dtype, s.shape, name=n) for n, s in specs.items()}
            outputs = {n: tf.identity(y, name=n) for n, y in build(**inputs).items()}
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            (folder / "outputs.pkl").write_bytes(pickle.dumps(list(outputs)))
            return write(session, inputs, outputs, folder)
    finally:
        if was_on:
            v1.enable_control_flow_v2()


def _write_frozen(session: Any, _inputs: Any, outputs: Mapping[str, Any], folder: Path) -> str:
    frozen = v1.graph_util.convert_variables_to_constants(
        session, session.graph.as_graph_def(), list(outputs)
    )
    (folder / "frozen.pb").write_bytes(frozen.SerializeToString())
    return "frozen.pb"


def _write_saved_model(
    session: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], folder: Path
) -> str:
    builder = v1.saved_model.Builder(str(folder / "saved"))
    signature = v1.saved_model.predict_signature_def(dict(inputs), dict(outputs))
    builder.add_meta_graph_and_variables(
        session, ["serve"], {"serving_default": signature}, main_op=v1.tables_initializer()
    )
    builder.save()
    return "saved"


def _write_checkpoint(session: Any, _inputs: Any, _outputs: Any, folder: Path) -> str:
    v1.train.Saver().save(session, str(folder / "model.ckpt"))
    return "model.ckpt.meta"


def _checkpoint_answers(path: Path, feeds: Sequence[Feeds]) -> list[Feeds]:
    outputs = pickle.loads((path.parent / "outputs.pkl").read_bytes())
    found = []
    with tf.Graph().as_default() as graph, _session(graph) as session:
        v1.train.import_meta_graph(str(path)).restore(session, str(path).removesuffix(".meta"))
        for feed in feeds:
            answers = session.run([_port(n) for n in outputs], {_port(n): x for n, x in feed.items()})
            found.append({n: np.asarray(y) for n, y in zip(outputs, answers, strict=True)})
    return found


_TF1: dict[str, tuple[Callable[..., str], Callable[..., list[Feeds]]]] = {
    "frozen": (_write_frozen, _named_graph_answers),
    "saved_model": (_write_saved_model, saved_model_answers),
    "checkpoint": (_write_checkpoint, _checkpoint_answers),
}


# --- the list ---

MODELS: dict[str, Model] = {}


def _register(model: Model) -> None:
    if model.name in MODELS:
        raise ValueError(f"two models are called {model.name}")
    MODELS[model.name] = model


def register(
    name: str,
    save: Callable[[Path], str],
    answers: Callable[[Path, Sequence[Feeds]], list[Feeds]] = saved_model_answers,
    *,
    tolerance: float = 1e-4,
    signature: str | None = None,
    **specs: Spec,
) -> None:
    """A model that is saved in a way of its own."""
    _register(Model(name, specs, save, answers, tolerance, functools.partial(_source, save), signature))


def _source(build: Callable[..., Any]) -> str:
    """What decides whether a cached model is still the same: the text of its maker's module."""
    module = inspect.getmodule(build)
    assert isinstance(module, types.ModuleType)
    return inspect.getsource(build) + _helpers(module)


def _helpers(module: types.ModuleType) -> str:
    """The functions a module's makers share: those with an underscore in front, undecorated."""
    found = [
        inspect.getsource(f)
        for n, f in vars(module).items()
        if n.startswith("_") and inspect.isfunction(f) and f.__module__ == module.__name__
    ]
    return "".join(text for text in found if not text.lstrip().startswith("@"))
