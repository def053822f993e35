"""A Keras application with seeded weights as a frozen GraphDef: freeze_keras.py NAME OUT.pb."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf  # noqa: TID251
from tensorflow.python.framework.convert_to_constants import (  # noqa: TID251
    convert_variables_to_constants_v2,
)


def main() -> None:
    name, target = sys.argv[1:]
    model = getattr(tf.keras.applications, name)(weights=None)
    rng = np.random.default_rng(0)
    for variable in model.variables:
        spread = 0.1 * rng.standard_normal(variable.shape)
        variable.assign(
            variable.numpy() + spread if len(variable.shape) != 1 else np.abs(variable.numpy() + spread)
        )
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec([1, *model.inputs[0].shape[1:]], tf.float32))
    frozen = convert_variables_to_constants_v2(concrete)
    Path(target).write_bytes(frozen.graph.as_graph_def().SerializeToString())
    print(frozen.inputs[0].op.name, frozen.outputs[0].op.name)


main()
