"""Writes docs/keras.md: what becomes of each layer and function of Keras that a model's file may hold.

python docs/_make_keras_table.py
"""

from __future__ import annotations

import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from thinflow.keras import activations  # noqa: E402
from thinflow.keras.operations import refused  # noqa: E402
from thinflow.keras.registry import Entry, registry  # noqa: E402

PAGE = Path(__file__).with_name("keras.md")

INTRODUCTION = """# Keras layers

A Keras model is opened without Keras and without TensorFlow: `.h5` and `.hdf5` files of Keras 1, of Keras
2 and `tf.keras`, and of Keras 3; `.keras` archives of Keras 2.12 and later, also as a folder; files of
weights alone beside which the model's JSON or YAML lies (`model.to_json()` or `model.to_yaml()`, in
`NAME.json` or `NAME.yaml` beside `NAME.h5`, `NAME_weights.h5` or `NAME.weights.h5`), and weights in several
files, by their list `NAME.weights.json`. Each layer becomes the ops that it has in a frozen TensorFlow graph,
so every command works on the result:

```sh
thinflow optimize model.keras out
thinflow convert model.h5 model.tflite
```

- Sequential and Functional models, nested ones, shared layers, several inputs and outputs, masks. The
  version in the file decides where a name changed its meaning, such as `hard_sigmoid`.
- A layer is read with the options that are known; one with another option is refused by the option's
  name, never read without it.
- Weights must be those of the config: another number or another shape is an error that names the layer.
  Weights in `.npz` are refused, as Keras pickles them.
- Nothing is run from a file. A **Lambda layer** is Python's bytecode, and a **custom class** is only a
  name: both are refused by name, unless you say what they compute, by `--lambda NAME=FILE.py:FUNCTION` or
  `thinflow.load(path, custom_layers={"NAME": function})`; a name that no layer has is an error. So are
  functions that call one of Python (`keras.ops.map`, `scan`), by the name of their layer; what is given then
  stands for the whole. The function gets the call, as in [A Keras layer](../CONTRIBUTING.md#a-keras-layer):

  ```python
  def halve(c):
      return c.emit("Mul", c[0], 0.5)
  ```

- Recurrent layers with `stateful=True` and a fixed batch keep their state from run to run where you ask for
  it (`--state keep`; `.tflite` files do), or it becomes inputs and outputs (`--state inputs`).
- Models of mixed precision are computed in float32. Quantized Keras models (`model.quantize`) are
  refused: save them before.
- A SavedModel is computed by its functions; what Keras 2 noted beside them (`keras_metadata.pb`) is told by
  `inspect`.
- Subclassed models hold Python code and no description: export them with their framework
  (`model.export("dir")`).
- HDF5 files are read here, with every size checked; those of newer forms than Keras writes need `pip
  install "thinflow[keras]"`.

Names: inputs keep those of their layers, and `--outputs NAME` takes the name of any layer.

"""
REFUSED = {
    "ContrastLimitedAdaptiveHistogramEqualization": "histograms of tiles",
    "DenseFeatures": "its columns are Python objects that are not in the file",
    "FlaxLayer": "a function of JAX",
    "JaxLayer": "a function of JAX",
    "Lambda": "Python's bytecode; say what it computes",
    "TFSMLayer": "a SavedModel in another folder",
    "TorchModuleWrapper": "a pickled module of PyTorch",
}
"""Layers without a function -> why."""
LIMITS = {
    "MaxNumBoundingBoxes": "pictures alone",
    "BatchNormalization": "not in training mode, not with renorm",
    "Conv1DTranspose": "one group",
    "Conv2DTranspose": "one group",
    "Conv3DTranspose": "one group",
    "Flatten": "open sizes only where the batch is fixed",
    "LocallyConnected1D": "padding `valid`, channels last",
    "LocallyConnected2D": "padding `valid`, channels last",
}
"""What of a layer is refused."""


def subject(entry: Entry) -> str:
    """What the module of a function is about: the first sentence of its docstring."""
    text = import_module(entry.rule.__module__).__doc__ or ""
    return text.partition("\n")[0].partition(".")[0]


def page() -> str:
    """The page, from the functions that there are."""
    known = registry()
    by_subject: dict[str, list[str]] = defaultdict(list)
    for name, entry in known.layers.items():
        by_subject[subject(entry)].append(name)
    parts = [
        INTRODUCTION,
        f"## Layers\n\n{len(known.layers)} classes are read.\n\n| layer | limits |\n|---|---|\n",
    ]
    for title, names in sorted(by_subject.items()):
        parts.append(f"| **{title}** | |\n")
        parts += [f"| `{name}` | {LIMITS.get(name, '')} |\n" for name in sorted(names)]
    parts.append("\nRefused by name:\n\n| layer | why |\n|---|---|\n")
    parts += [f"| `{name}` | {why} |\n" for name, why in sorted(REFUSED.items())]
    parts += ["\n## Activations\n\n", listed(activations.names())]
    operations = known.operations
    new = sorted(name for name in operations if name[0].isupper())
    old = sorted(set(operations) - set(new))
    parts += [
        "\n## Functions on tensors\n\nOf Keras 3 (`keras.ops`), by their classes in the config:\n\n",
        listed(new),
    ]
    calling = ", ".join(f"`{name}`" for name in sorted(refused.CALLING))
    parts += ["\nRefused by name:\n\n| function | why | instead |\n|---|---|---|\n"]
    parts += [f"| `{name}` | {why} | {hint} |\n" for name, (why, hint) in sorted(refused.REFUSED.items())]
    parts += [f"| {calling} | they call a function of Python | `--lambda NAME=FILE.py:FUNCTION` |\n"]
    parts += ["\nOf TensorFlow, in models of `tf.keras`:\n\n", listed(old)]
    return "".join(parts)


def listed(names: list[str]) -> str:
    """Names with commas, in lines of a length for reading."""
    lines, line = [], ""
    for name in names:
        word = f"`{name}`, "
        if len(line) + len(word) > 120:
            lines.append(line.rstrip())
            line = ""
        line += word
    return "\n".join([*lines, line.rstrip(", ")]) + ".\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
