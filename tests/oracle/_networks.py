"""Networks with control flow, by TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
X = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
Network = Callable[[Any], Any]


def _array(x: Any) -> Any:
    def body(i: Any, y: Any, items: Any) -> tuple[Any, ...]:
        return i + 1, tf.tanh(y * 1.5 + 0.1), items.write(i, y)

    return tf.while_loop(lambda i, *_: i < 5, body, [0, x, tf.TensorArray(tf.float32, 5)])[2].stack()


def _nested(x: Any) -> Any:
    def inner(i: Any, y: Any) -> Any:
        def body(j: Any, z: Any) -> tuple[Any, Any]:
            return j + 1, z * 0.9 + tf.cast(i, tf.float32) * x

        return tf.while_loop(lambda j, _: j < i + 1, body, [0, y])[1]

    return tf.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, inner(i, y)), [0, x])[1]


def _branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, tf.ones([4, 3])), lambda: x[:, :3] - 1.0)


def _branch_in_branch(x: Any) -> Any:
    def then() -> Any:
        return tf.cond(tf.reduce_max(x) > 1, lambda: x * 2, lambda: x + tf.constant(3.0))

    return tf.cond(tf.reduce_sum(x) > 0, then, lambda: tf.constant(7.0) * tf.ones([2, 4]))


def _constants(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.constant(1.0), lambda: tf.constant(2.0))


def _two_results(x: Any) -> Any:
    a, b = tf.cond(tf.reduce_sum(x) > 0, lambda: (x, x * 2), lambda: (x + 1, x))
    return a + b


def _loop_in_branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: _nested(x), lambda: _array(x)[1])


def _branch_in_loop(x: Any) -> Any:
    def body(i: Any, y: Any) -> tuple[Any, Any]:
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * 0.5, lambda: y + tf.cast(i, tf.float32))

    return tf.while_loop(lambda i, _: i < 6, body, [0, x])[1]


def _one_after_another(x: Any) -> Any:
    a = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x)
    b = tf.cond(tf.reduce_sum(a) > 1, lambda: a - 1, lambda: a * a)
    return tf.cond(tf.reduce_sum(b) > 1, lambda: b - 1, lambda: b * b)


def _swapping(x: Any) -> Any:
    return tf.while_loop(lambda i, *_: i < 3, lambda i, a, b: (i + 1, b, a * 2), [0, x, x + 1])[2]


def _guarded(x: Any) -> Any:
    with tf.control_dependencies([v1.assert_greater(tf.reduce_sum(x * x), 0.0)]):
        return x * 2


def _until_large(x: Any) -> Any:
    def body(i: Any, y: Any) -> tuple[Any, Any]:
        return i + 1, tf.abs(y) * 2 + 1

    return tf.while_loop(lambda _, y: tf.reduce_sum(y) < 100.0, body, [0, x])[0]


def _never_turning(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 0, lambda i, y: (i + 1, y * 2), [0, x])[1]


def _recurrent(x: Any) -> Any:
    """What dynamic_rnn builds: steps read from one TensorArray, states written to another."""
    w = tf.constant(np.random.default_rng(2).normal(size=(6, 8)).astype(np.float32))
    steps = tf.TensorArray(tf.float32, 3).unstack(tf.stack([x, x * 2, x - 1]))

    def body(t: Any, c: Any, h: Any, out: Any) -> tuple[Any, ...]:
        i, j, f, o = tf.split(tf.matmul(tf.concat([steps.read(t), h], 1), w), 4, 1)
        c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return t + 1, c, h, out.write(t, h)

    start = [tf.constant(0), tf.zeros([2, 2]), tf.zeros([2, 2]), tf.TensorArray(tf.float32, 3)]
    return tf.while_loop(lambda t, *_: t < 3, body, start)[3].stack()


NETWORKS: dict[str, Network] = {
    "array": _array,
    "nested": _nested,
    "branch": _branch,
    "branch_in_branch": _branch_in_branch,
    "constants": _constants,
    "two_results": _two_results,
    "loop_in_branch": _loop_in_branch,
    "branch_in_loop": _branch_in_loop,
    "one_after_another": _one_after_another,
    "swapping": _swapping,
    "guarded": _guarded,
    "until_large": _until_large,
    "never_turning": _never_turning,
    "recurrent": _recurrent,
    "map": lambda x: tf.map_fn(lambda r: tf.reduce_sum(r) * r, x),
    "scan": lambda x: tf.scan(lambda a, r: a * 0.5 + r, x),
    "fold": lambda x: tf.foldl(lambda a, r: a + r * a, x),
}
