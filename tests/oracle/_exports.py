"""SavedModels of both generations, and files to feed them, for the tests of saved_model_cli."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def write_exports(folder: Path) -> None:
    """`one`, `one_text`, `two`, `risky`, `hidden`, and arrays in files of all kinds."""
    _first_generation(folder / "one")
    _second_generation(folder / "two")
    _risky(folder)
    ones = np.ones((2, 3), np.float32)
    np.save(folder / "x.npy", ones)
    np.save(folder / "x64.npy", ones.astype(np.float64))
    np.save(folder / "n.npy", np.int32(4))
    np.savez(folder / "single.npz", v=2 * ones)
    np.savez(folder / "several.npz", a=ones, b=0 * ones)
    (folder / "x.pkl").write_bytes(pickle.dumps(ones))
    (folder / "d.pkl").write_bytes(pickle.dumps({"v": 3 * ones}))
    (folder / "text.txt").write_text("hello")


def _first_generation(folder: Path) -> None:
    """Three graphs with sessions' signatures; and the first of them as text."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        n = v1.placeholder(tf.int32, [], name="n")
        u = v1.placeholder(tf.float32, None, name="u")
        w = v1.get_variable("w", initializer=np.arange(6, dtype=np.float32).reshape(3, 2))
        y = tf.matmul(x, w, name="y")
        doubled, text = tf.identity(n * 2, name="z"), tf.strings.as_string(n, name="t")
        session.run(v1.global_variables_initializer())
        define = v1.saved_model.predict_signature_def
        signatures = {
            "serving_default": define({"x": x}, {"y": y}),
            "two": define({"x": x, "n": n}, {"y": y, "z": doubled, "t": text}),
            "open": define({"u": u}, {"q": tf.identity(u + 1.0, name="q")}),
            "examples": define(*_parsing()),
            "nested": define({"x": x}, {"a/b": y}),
        }
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.add_meta_graph(["serve", "gpu"], {"only": signatures["serving_default"]})
        builder.add_meta_graph(["train"], {})
        builder.save()
        builder = v1.saved_model.Builder(f"{folder}_text")
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save(as_text=True)


def _parsing() -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and outputs of a signature that takes tf.Example messages."""
    examples = v1.placeholder(tf.string, [None], name="ex")
    features = {
        "a": tf.io.FixedLenFeature([2], tf.float32),
        "i": tf.io.FixedLenFeature([], tf.int64, default_value=7),
        "s": tf.io.FixedLenFeature([], tf.string, default_value="d"),
    }
    parsed = v1.io.parse_example(examples, features)
    return {"ex": examples}, {"p": tf.identity(parsed["a"] * 2, name="p"), **parsed}


class _Callable(tf.Module):
    """Functions with arguments of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable([1.0, 2.0, 3.0])
        self.child = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def serve(self, x: Any) -> dict[str, Any]:
        return {"y": x * self.w, "x2": x}

    @tf.function
    def options(self, x: Any, training: bool = False, scale: float = 2.0, opts: Any = None) -> Any:
        return x * self.w * scale

    @tf.function
    def mode(self, x: Any, mode: str = "a") -> Any:
        return x

    @tf.function
    def lists(self, xs: Any, d: Any) -> Any:
        return xs[0] * d["k"]

    @tf.function
    def words(self, x: Any, names: Any) -> Any:
        return x

    @tf.function
    def named(self, x: Any, *, factor: Any) -> Any:
        return x * factor

    @tf.function
    def nothing(self) -> Any:
        return self.w


def _second_generation(folder: Path) -> None:
    module, x = _Callable(), tf.ones([1, 3])
    module.options(x)
    module.options(x, True)
    module.options(x, scale=3.0)
    module.options(x, opts=(1, 2))
    module.mode(x, "b")
    module.lists([x, x], {"k": x})
    module.lists((x,), {"k": x})
    module.words(x, ["a b", "c"])
    module.named(x, factor=x)
    module.nothing()
    extra = module.named.get_concrete_function(
        x=tf.TensorSpec([None, 3], name="x"), factor=tf.TensorSpec([], name="factor")
    )
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve, "extra": extra})


def _risky(folder: Path) -> None:
    """Reading files: in the signature; and only in a function that is there to be called."""

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
        def serve(self, path: Any) -> dict[str, Any]:
            tf.print("reading", path)
            return {"s": tf.io.read_file(path)}

    class Hidden(Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def harmless(self, x: Any) -> dict[str, Any]:
            return {"y": x * 2.0}

    module, hidden = Module(), Hidden()
    tf.saved_model.save(module, str(folder / "risky"), signatures=module.serve)
    tf.saved_model.save(hidden, str(folder / "hidden"), signatures=hidden.harmless)
