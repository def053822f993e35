"""Freezing in TensorFlow itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

Arrays = dict[str, np.ndarray[Any, Any]]


def frozen_in_tensorflow(path: Path, feeds: Mapping[str, Any], names: Mapping[str, str]) -> Arrays:
    """What a GraphDef gives, fetched twice as a session would.

    Args:
        path: the file.
        feeds: by node name.
        names: result -> name of the value to fetch.
    """
    message = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.import_graph_def(message, name="")
        fetches = {key: name if ":" in name else f"{name}:0" for key, name in names.items()}
        fed = {f"{name}:0": x for name, x in feeds.items()}
        session.run(fetches, fed)
        return dict(session.run(fetches, fed))


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        ours, value = np.asarray(found[name]), np.asarray(value)
        assert ours.shape == value.shape, name
        if value.dtype.kind in "OS":
            assert ours.ravel().tolist() == value.ravel().tolist(), name
        else:
            assert ours.dtype == value.dtype, name
            np.testing.assert_allclose(ours, value, rtol=1e-5, atol=1e-5, err_msg=name)
