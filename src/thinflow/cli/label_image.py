"""`thinflow label_image`: TensorFlow's example of that name, with its flags and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from thinflow.cli._labels import COMMON, number, print_labels, required
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, is_help

EXAMPLES = """
  thinflow label_image --graph=model.pb --image=picture.jpg --labels=labels.txt
  thinflow label_image --graph=model.tflite --image=pictures/ --labels=labels.txt --input_mean=127.5 \
--input_std=127.5
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
        "layout": ("cpp", "of the output: cpp, or python as label_image.py prints it"),
        **COMMON,
    },
    {"l": "labels", "la": "labels"},  # of the flags that the original had, only this one begins so
    python=True,
    examples=EXAMPLES,
)
_SELF_TEST_LABEL = 653


def main(argv: Sequence[str]) -> int:
    flags = FLAGS.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    if not required(FLAGS, flags, "image", "graph", "labels"):
        return USAGE_EXIT
    from thinflow.api import label_pictures, preparation

    def place(name: str) -> str:
        return os.path.join(str(flags["root_dir"]), os.path.expanduser(str(flags[name])))

    found = label_pictures(
        place("graph"),
        place("image"),
        os.path.expanduser(str(flags["labels"])),
        preparation=preparation(
            int(flags["input_width"]),
            int(flags["input_height"]),
            number(flags, "input_mean"),
            number(flags, "input_std"),
            bgr=bool(flags["bgr"]),
        ),
        input_layer=str(flags["input_layer"]),
        output_layer=str(flags["output_layer"]),
        count=int(flags["top_k"]),
        note=lambda line: print(line, file=sys.stderr),
        engine=str(flags["engine"]),
        threads=max(1, int(flags["num_threads"])),
    )
    if flags["layout"] == "python":
        results = print_labels(found, flags, lambda g: f"{g.label} {g.score:.6g}")
    else:
        results = print_labels(found, flags, lambda g: f"{g.label} ({g.index}): {g.score:.6g}")
    if flags["self_test"] and any(guesses[0].index != _SELF_TEST_LABEL for guesses in results):
        print("Self test failed", file=sys.stderr)
        return 1
    return 0
