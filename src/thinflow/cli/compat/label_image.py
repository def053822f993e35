"""`thinflow label_image`: TensorFlow's example of that name, with its flags and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, Setting, is_help
from thinflow.cli.compat._labels import COMMON, number, print_labels, required
from thinflow.cli.compat._lite_labels import ALIASES, MEAN_AND_STD, WITHOUT_EFFECT, layout

if TYPE_CHECKING:
    from pathlib import Path

    from thinflow.compat.label_image import Guess

EXAMPLES = """
  thinflow label_image --graph=model.pb --image=picture.jpg --labels=labels.txt
  thinflow label_image --graph=model.tflite --image=pictures/ --labels=labels.txt --input_mean=127.5 \
--input_std=127.5
  thinflow label_image -m model.tflite -i picture.bmp -l labels.txt -c 10
  thinflow label_image --graph=model.pb --image=picture.png --labels=labels.txt --input_layer=x \
--output_layer=y --input_width=224 --input_height=224 --layout=python
"""
FLAGS = OldFlags(
    "label_image",
    {
        "image": ("", "picture to label, or a folder of pictures"),
        "graph": ("", "model to run"),
        "labels": ("", "names of the classes, one a line"),
        "input_width": (0, "resize the picture to this width; default: the model's, else 299"),
        "input_height": (0, "resize the picture to this height; default: the model's, else 299"),
        "input_mean": ("", "subtract this from every pixel; default: 0"),
        "input_std": ("", "divide by this; default: 255"),
        "input_layer": ("", "name of the input; default: input, or the model's own"),
        "output_layer": ("", "name of the scores; default: those of Inception v3, or the model's own"),
        "self_test": (False, "expect label 653, a military uniform, on top"),
        "root_dir": ("", "folder in front of --graph and --image"),
        "top_k": (5, "how many labels"),
        "bgr": (False, "the model takes blue first"),
        "layout": ("cpp", "of the output: cpp or python; with the flags of LiteRT's: lite, lite_python"),
        "count": (0, "run so often on each picture and print the average time"),
        **COMMON,
        **WITHOUT_EFFECT,
    },
    {"la": "labels", **ALIASES},  # of the flags that TensorFlow's own had, only labels begins so
    python=True,
    examples=EXAMPLES,
)
_SELF_TEST_LABEL = 653
_LAYERS = ("input", "InceptionV3/Predictions/Reshape_1")


_SELF_TEST_LABEL = 653
_DATA = "tensorflow/examples/label_image/data"
# Where TensorFlow's example had its files, the newer ones first.
_USUAL = {
    "image": (f"{_DATA}/grace_hopper.jpg",),
    "graph": (f"{_DATA}/inception_v3_2016_08_28_frozen.pb", f"{_DATA}/tensorflow_inception_graph.pb"),
    "labels": (f"{_DATA}/imagenet_slim_labels.txt", f"{_DATA}/imagenet_comp_graph_label_strings.txt"),
}
_LINES: dict[str, Callable[[Guess], str]] = {
    "cpp": lambda g: f"{g.label} ({g.index}): {g.score:.6g}",
    "python": lambda g: f"{g.label} {g.score:.6g}",
    "lite": lambda g: f"{g.score:.6g}: {g.index} {g.label}",
    "lite_python": lambda g: f"{g.score:08.6f}: {g.label}",
}


def main(argv: Sequence[str]) -> int:
    flags = FLAGS.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    lite = layout(argv)
    places = {name: _place(flags, name) for name in _USUAL}
    if not required(FLAGS, {**flags, **places}, *_USUAL):
        return USAGE_EXIT
    line = _LINES.get(lite or str(flags["layout"]), _LINES["cpp"])
    results = print_labels(_found(flags, places, is_lite=bool(lite)), {**flags, **places}, line)
    if flags["self_test"] and any(guesses[0].index != _SELF_TEST_LABEL for guesses in results):
        print("Self test failed", file=sys.stderr)
        return 1
    return 0


def _place(flags: Mapping[str, Setting], name: str) -> str:
    """The file of a flag; where it is not given, that of TensorFlow's example if it is there; else ""."""
    # The original put the folder in front of the graph and the picture only.
    root = "" if name == "labels" else str(flags["root_dir"])
    if flags[name]:
        return os.path.join(root, os.path.expanduser(str(flags[name])))
    usual = (os.path.join(root, path) for path in _USUAL[name])
    return next(filter(os.path.exists, usual), "")


def _found(
    flags: Mapping[str, Setting], places: Mapping[str, str], *, is_lite: bool
) -> Iterator[tuple[Path, list[Guess]]]:
    from thinflow.compat.labels import label_pictures, preparation

    mean, std = number(flags, "input_mean"), number(flags, "input_std")
    if is_lite:
        mean, std = (MEAN_AND_STD if given is None else given for given in (mean, std))
    sizes = int(flags["input_width"]), int(flags["input_height"])
    return label_pictures(
        places["graph"],
        places["image"],
        places["labels"],
        preparation=preparation(*sizes, mean, std, bgr=bool(flags["bgr"])),
        input_layer=str(flags["input_layer"]),
        output_layer=str(flags["output_layer"]),
        # A .tflite file knows its inputs and outputs.
        defaults=("", "") if is_lite else _LAYERS,
        count=int(flags["top_k"]),
        note=lambda line: print_lines([line], sys.stderr),
        # LiteRT's programs always tell the time of a run, TensorFlow's do not.
        runs=int(flags["count"]) or int(is_lite),
        engine=str(flags["engine"]),
        threads=max(1, int(flags["num_threads"])),
    )
