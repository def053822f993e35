"""TensorFlow's label_image and label_wav, with LiteRT's flags of the former; their flags and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, Setting, is_help
from thinflow.errors import ParameterError
from thinflow.errors.plain_text import csv_cell

if TYPE_CHECKING:
    from pathlib import Path

    from thinflow.compat.label_image import Guess

EXAMPLES = {
    "label_image": """
  thinflow label_image --graph=model.pb --image=picture.jpg --labels=labels.txt
  thinflow label_image --graph=model.tflite --image=pictures/ --labels=labels.txt --input_mean=127.5 \
--input_std=127.5
  thinflow label_image -m model.tflite -i picture.bmp -l labels.txt -c 10
  thinflow label_image --graph=model.pb --image=picture.png --labels=labels.txt --input_layer=x \
--output_layer=y --input_width=224 --input_height=224 --layout=python
""",
    "label_wav": """
  thinflow label_wav --graph=model.pb --wav=clip.wav --labels=labels.txt
  thinflow label_wav --graph=model.pb --wav=clips/ --labels=labels.txt --how_many_labels=1 --csv
  thinflow label_wav --graph=model.pb --wav=clip.wav --labels=labels.txt --input_name=wav_data:0 \
--output_name=labels_softmax:0
""",
}

COMMON: dict[str, tuple[Setting, str]] = {
    "csv": (False, "print comma-separated values: file, rank, label, index, score"),
    "json": (False, "print the same content for machines"),
    "engine": ("auto", "auto, litert, onnxruntime or reference; auto is exact for eight-bit graphs"),
    "num_threads": (1, "threads of the engine"),
}


def required(tool: OldFlags, flags: Mapping[str, Setting], *names: str) -> bool:
    """Whether all of these are given; else usage is printed."""
    missing = [name for name in names if not flags[name]]
    if missing:
        print(f"--{missing[0]} is needed.\n{tool.usage()}", file=sys.stderr)
    return not missing


def number(flags: Mapping[str, Setting], name: str) -> float | None:
    """A flag as a number; None if it is not given.

    Raises:
        ParameterError: it is none.
    """
    if flags[name] == "":
        return None
    try:
        return float(flags[name])
    except ValueError:
        raise ParameterError(f"--{name}={flags[name]} is not a number", hint="give a number") from None


def print_labels(
    found: Iterable[tuple[Path, list[Guess]]], flags: Mapping[str, Setting], line: Callable[[Guess], str]
) -> list[list[Guess]]:
    """Print the labels of each file as soon as they are there, several files under their names."""
    import csv
    import json

    rows: list[tuple[Path, list[Guess]]] = []
    writer: Any = csv.writer(sys.stdout, lineterminator="\n")
    if flags["csv"]:
        writer.writerow(["file", "rank", "label", "index", "score"])
    for file, guesses in found:
        if flags["csv"]:
            writer.writerows(
                [csv_cell(str(file)), rank, csv_cell(g.label), g.index, f"{g.score:.6g}"]
                for rank, g in enumerate(guesses, start=1)
            )
        elif not flags["json"]:
            if rows:
                print()
            # A single file needs no title; of a folder each has one.
            if rows or _is_folder(flags):
                print_lines([f"{file}:"])
            print_lines(map(line, guesses))
        rows.append((file, guesses))
    if flags["json"]:
        print(json.dumps([{"file": str(f), "labels": [g.__dict__ for g in gs]} for f, gs in rows], indent=2))
    return [guesses for _, guesses in rows]


def _is_folder(flags: Mapping[str, Setting]) -> bool:
    from pathlib import Path

    return Path(str(flags.get("image") or flags.get("wav") or "")).expanduser().is_dir()


LITE_ALIASES = {"tflite_model": "graph", "model_file": "graph", "label_file": "labels"}
LITE_ALIASES |= {"num_results": "top_k", "threads": "num_threads"}
LITE_ALIASES |= {"m": "graph", "i": "image", "l": "labels", "b": "input_mean", "s": "input_std", "c": "count"}
LITE_ALIASES |= {"r": "top_k", "t": "num_threads", "v": "verbose", "e": "max_profiling_buffer_entries"}
LITE_ALIASES |= {"a": "accelerated", "d": "old_accelerated", "f": "allow_fp16", "g": "gl_backend"}
LITE_ALIASES |= {"j": "hexagon_delegate", "x": "xnnpack_delegate", "p": "profiling", "w": "warmup_runs"}
# Flags of delegates, profilers and the like: command lines of guides must not fail for them.
_WITHOUT_EFFECT = (
    *("accelerated", "old_accelerated", "allow_fp16", "gl_backend", "hexagon_delegate", "xnnpack_delegate"),
    *("profiling", "max_profiling_buffer_entries", "warmup_runs"),
)
WITHOUT_EFFECT: dict[str, tuple[Setting, str]] = {
    **dict.fromkeys(_WITHOUT_EFFECT, ("", "no effect: the CPU runs the model as it is")),
    "verbose": ("", "no effect: thinflow inspect tells about the model"),
}
MEAN_AND_STD = 127.5
"""Of both programs, unless told otherwise."""

_LAYOUTS = {"tflite_model": "lite", "m": "lite", "model_file": "lite_python", "label_file": "lite_python"}


def layout(argv: Sequence[str]) -> str:
    """The layout of the program whose flags these are: "lite", "lite_python", or "" for TensorFlow's."""
    spelt = {a.lstrip("-").partition("=")[0] for a in argv if a.startswith("-")}
    found = {layout for flag, layout in _LAYOUTS.items() if flag in spelt}
    return max(found, default="")  # -m goes with either; the words only with the script


LABEL_IMAGE = OldFlags(
    "label_image",
    {
        "image": ("", "picture to label, or a folder of pictures"),
        "graph": ("", "model to run"),
        "labels": ("", "names of the classes, one a line; default: those in the model's file"),
        "input_width": (0, "resize the picture to this width; default: the model's, else 299"),
        "input_height": (0, "resize the picture to this height; default: the model's, else 299"),
        "input_mean": ("", "subtract this from every pixel; default: what the model's file says, else 0"),
        "input_std": ("", "divide by this; default: what the model's file says, else 255"),
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
    {"la": "labels", **LITE_ALIASES},  # of the flags that TensorFlow's own had, only labels begins so
    python=True,
    examples=EXAMPLES["label_image"],
)
# What Grace Hopper wears on the picture of the example, among the labels of Inception v3.
_SELF_TEST_LABEL = 653
_LAYERS = ("input", "InceptionV3/Predictions/Reshape_1")
_DATA = "tensorflow/examples/label_image/data"
# Where TensorFlow's example had its files, the newer ones first.
_USUAL = {
    "image": (f"{_DATA}/grace_hopper.jpg",),
    "graph": (f"{_DATA}/inception_v3_2016_08_28_frozen.pb", f"{_DATA}/tensorflow_inception_graph.pb"),
    "labels": (f"{_DATA}/imagenet_slim_labels.txt", f"{_DATA}/imagenet_comp_graph_label_strings.txt"),
}
# As the originals print them, for scripts that read these lines.
_LINES: dict[str, Callable[[Guess], str]] = {
    "cpp": lambda g: f"{g.label} ({g.index}): {g.score:.6g}",
    "python": lambda g: f"{g.label} {g.score:.6g}",
    "lite": lambda g: f"{g.score:.6g}: {g.index} {g.label}",
    "lite_python": lambda g: f"{g.score:08.6f}: {g.label}",
}


def label_image(argv: Sequence[str]) -> int:
    flags = LABEL_IMAGE.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    lite = layout(argv)
    places = {name: _place(flags, name) for name in _USUAL}
    if not required(LABEL_IMAGE, {**flags, **places}, "image", "graph"):
        return USAGE_EXIT
    if not places["labels"] and not _has_labels(places["graph"]):
        required(LABEL_IMAGE, {**flags, **places}, "labels")
        return USAGE_EXIT
    line = _LINES.get(lite or str(flags["layout"]), _LINES["cpp"])
    results = print_labels(_found(flags, places, is_lite=bool(lite)), {**flags, **places}, line)
    if flags["self_test"] and any(guesses[0].index != _SELF_TEST_LABEL for guesses in results):
        print("Self test failed", file=sys.stderr)
        return 1
    return 0


def _has_labels(model: str) -> bool:
    from thinflow.compat.labels import has_labels

    return has_labels(model)


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
    if is_lite and (mean, std) != (None, None):
        mean, std = (MEAN_AND_STD if given is None else given for given in (mean, std))
    sizes = int(flags["input_width"]), int(flags["input_height"])
    return label_pictures(
        places["graph"],
        places["image"],
        places["labels"],
        scale=MEAN_AND_STD if is_lite else None,
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


LABEL_WAV = OldFlags(
    "label_wav",
    {
        "wav": ("", "sound to label, or a folder of sounds"),
        "graph": ("", "model to run"),
        "labels": ("", "names of the classes, one a line; default: those in the model's file"),
        "input_name": ("", "name of the input; default: wav_data:0, or the model's own"),
        "output_name": ("", "name of the scores; default: labels_softmax:0, or the model's own"),
        "how_many_labels": (3, "how many labels"),
        "sample_rate": (16000, "samples a second that the model expects; 0: any"),
        "layout": ("python", "of the output: python, or cpp as label_wav.cc prints it"),
        **COMMON,
    },
    {"l": "labels", "la": "labels"},  # of the flags that the original had, only this one begins so
    python=True,
    examples=EXAMPLES["label_wav"],
)


def label_wav(argv: Sequence[str]) -> int:
    flags = LABEL_WAV.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    if not required(LABEL_WAV, flags, "wav", "graph"):
        return USAGE_EXIT
    if not flags["labels"] and not _has_labels(os.path.expanduser(str(flags["graph"]))):
        required(LABEL_WAV, flags, "labels")
        return USAGE_EXIT
    from thinflow.compat.labels import label_sounds

    found = label_sounds(
        os.path.expanduser(str(flags["graph"])),
        os.path.expanduser(str(flags["wav"])),
        os.path.expanduser(str(flags["labels"])),
        input_name=str(flags["input_name"]),
        output_name=str(flags["output_name"]),
        count=int(flags["how_many_labels"]),
        sample_rate=int(flags["sample_rate"]),
        note=lambda line: print_lines([line], sys.stderr),
        engine=str(flags["engine"]),
        threads=max(1, int(flags["num_threads"])),
    )
    if flags["layout"] == "cpp":
        print_labels(found, flags, lambda g: f"{g.label} ({g.index}): {g.score:.6g}")
    else:
        # As label_wav.py prints them.
        print_labels(found, flags, lambda g: f"{g.label} (score = {g.score:.5f})")
    return 0
