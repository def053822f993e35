"""What tflite_convert and toco share: the flags of TensorFlow 1 and what they stand for here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, Setting, is_help
from thinflow.errors import ParameterError

T = TypeVar("T")

FLAGS: dict[str, tuple[Setting, str]] = {
    "output_file": ("", "file to write"),
    "graph_def_file": ("", "GraphDef to convert, binary or text"),
    "saved_model_dir": ("", "SavedModel to convert"),
    "keras_model_file": ("", "not read here: save the model as a SavedModel"),
    "input_arrays": ("", "inputs, comma-separated; default: the model's own"),
    "output_arrays": ("", "outputs, comma-separated; default: the model's own"),
    "input_shapes": ("", "sizes by input, as in 1,224,224,3:1,20; default: those of the graph"),
    "saved_model_tag_set": ("", "tags of the SavedModel's graph; default: serve, or the only one"),
    "saved_model_signature_key": (
        "",
        "signature of the SavedModel; default: serving_default, or the only one",
    ),
    "inference_type": ("FLOAT", "FLOAT, QUANTIZED_UINT8 or INT8; integers need mean_values and known ranges"),
    "inference_input_type": ("", "of the inputs; default: the inference type"),
    "mean_values": ("", "real = (code - mean) / std_dev, one per input"),
    "std_dev_values": ("", "see mean_values"),
    "default_ranges_min": ("", "range of tensors without FakeQuant, for trying speed and size"),
    "default_ranges_max": ("", "see default_ranges_min"),
    "post_training_quantize": (False, "store weights in eight bits"),
    "quantize_to_float16": (False, "with post_training_quantize: store weights as float16 instead"),
    "output_format": ("TFLITE", "TFLITE, TENSORFLOW_GRAPHDEF or GRAPHVIZ_DOT"),
    "input_format": ("TENSORFLOW_GRAPHDEF", "TENSORFLOW_GRAPHDEF"),
    "target_ops": ("TFLITE_BUILTINS", "TFLITE_BUILTINS; others are named and left to the app"),
    "allow_custom_ops": (False, "refused: what LiteRT cannot run is named and left to the app"),
    "reorder_across_fake_quant": (False, "told and ignored: fusing looks through FakeQuant anyway"),
    "drop_control_dependency": (True, "told and ignored: a .tflite has no control dependencies"),
    "change_concat_input_ranges": (
        False,
        "told and ignored: inputs of a concatenation share their range anyway",
    ),
    "drop_fake_quant": (False, "told and ignored: float models keep FakeQuant, integer ones take its range"),
    "dump_graphviz_dir": ("", "told and ignored: thinflow view draws graphs"),
    "dump_graphviz_video": (False, "as dump_graphviz_dir"),
    "conversion_summary_dir": ("", "told and ignored: the summary is printed"),
    "enable_v1_converter": (False, "told and ignored: these are its flags"),
    "experimental_new_converter": (True, "told and ignored: this is another converter"),
    "experimental_new_quantizer": (True, "told and ignored: this is another converter"),
    "allow_nonexistent_arrays": (False, "told and ignored: an unknown name is always an error"),
    "allow_nudging_weights_to_use_fast_gemm_kernel": (False, "told and ignored"),
    "dedupe_array_min_size_bytes": ("", "told and ignored: equal constants are always stored once"),
}
ALIASES = {
    "input_array": "input_arrays",
    "output_array": "output_arrays",
    "input_shape": "input_shapes",
    "mean_value": "mean_values",
    "std_dev_value": "std_dev_values",
    "std_value": "std_dev_values",
    "std_values": "std_dev_values",
    "input_file": "graph_def_file",
    "savedmodel_directory": "saved_model_dir",
    "savedmodel_tagset": "saved_model_tag_set",
    "input_data_type": "inference_input_type",
    "input_data_types": "inference_input_type",
    "inference_input_types": "inference_input_type",
    "quantize_weights": "post_training_quantize",
    "dump_graphviz": "dump_graphviz_dir",
}
_SOURCES = ("graph_def_file", "saved_model_dir", "keras_model_file")
_OTHER_BUILTINS = ("TFLITE_BUILTINS", "TFLITE_BUILTINS_INT8")


def convert(tool: str, argv: Sequence[str], examples: str) -> int:
    """Convert as one of the two names of the tool asks."""
    parser = OldFlags(tool, FLAGS, ALIASES, python=True, examples=examples)
    flags = parser.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    given = [name for name in _SOURCES if flags[name]]
    if len(given) != 1 or not flags["output_file"]:
        missing = (
            "--output_file is needed" if given else "one of --graph_def_file and --saved_model_dir is needed"
        )
        print("give one model only" if len(given) > 1 else missing, file=sys.stderr)
        print(parser.usage(), file=sys.stderr)
        return USAGE_EXIT
    return _converted({name: str(value).strip() for name, value in flags.items()}, given[0], flags)


def _converted(texts: Mapping[str, str], source: str, flags: Mapping[str, Setting]) -> int:
    from thinflow.api.old_converting import OldConversion, convert_as_before
    from thinflow.cli._console import human_bytes

    _refuse(texts)
    wanted = OldConversion(
        source=os.path.expanduser(texts[source]),
        target=os.path.expanduser(texts["output_file"]),
        input_arrays=_items(texts, "input_arrays", str) or None,
        output_arrays=_items(texts, "output_arrays", str) or None,
        input_shapes=_read_shapes(texts["input_shapes"]),
        inference_type=texts["inference_type"],
        input_type=_one_type(texts["inference_input_type"]),
        means=_items(texts, "mean_values", float),
        deviations=_items(texts, "std_dev_values", float),
        default_range=_default_range(texts),
        weights=_weights(flags),
        output_format=texts["output_format"].upper(),
        tags=texts["saved_model_tag_set"] or None,
        signature=texts["saved_model_signature_key"] or None,
    )
    for line in _inert(flags):
        print(line, file=sys.stderr)
    made = convert_as_before(wanted)
    print(f"wrote {made.path}: {human_bytes(made.size_bytes)}; {made.proof}")
    print("".join(f"  {line}\n" for line in made.notes), end="")
    return 0


def _refuse(texts: Mapping[str, str]) -> None:
    """Refuse what this conversion does not have, whatever the rest says.

    Raises:
        ParameterError: it is asked for.
    """
    if texts["keras_model_file"]:
        raise ParameterError(
            "a Keras file cannot be read here", hint="save it as a SavedModel: model.export('folder')"
        )
    if texts["input_format"].upper() != "TENSORFLOW_GRAPHDEF":
        raise ParameterError(
            f"--input_format={texts['input_format']} is not supported",
            hint="give the TensorFlow model that the file was made from",
        )
    if texts["allow_custom_ops"] == "True":
        raise ParameterError(
            "custom ops are not written: what LiteRT cannot run is named and left to the app",
            hint="leave --allow_custom_ops out",
        )
    others = [t for t in _items(texts, "target_ops", str) if t.upper() not in _OTHER_BUILTINS]
    if others:
        raise ParameterError(
            f"ops of {others[0]} are not written: what LiteRT cannot run is named and left to the app",
            hint="give --target_ops=TFLITE_BUILTINS",
        )


def _inert(flags: Mapping[str, Setting]) -> list[str]:
    """A line for each flag that was set and changes nothing."""
    lines = []
    for name, (default, text) in FLAGS.items():
        if "ignored" in text and flags[name] != default:
            why = text.partition("ignored")[2].lstrip(": ") or "it has no counterpart here"
            lines.append(f"--{name} changes nothing: {why}")
    return lines


def _items(texts: Mapping[str, str], name: str, read: Callable[[str], T]) -> list[T]:
    """The items of a list flag.

    Raises:
        ParameterError: one cannot be read.
    """
    try:
        return [read(item.strip()) for item in texts[name].split(",") if item.strip()]
    except ValueError:
        raise ParameterError(
            f"--{name}={texts[name]} is no list of numbers", hint=f"write --{name}=128 or --{name}=128,0"
        ) from None


def _read_shapes(text: str) -> list[list[int]]:
    """`1,224,224,3:1,20`; an empty item is a scalar.

    Raises:
        ParameterError: it is not written so.
    """
    if not text:
        return []
    try:
        return [[int(n) for n in item.split(",") if n.strip()] for item in text.split(":")]
    except ValueError:
        raise ParameterError(
            f"--input_shapes={text} cannot be read",
            hint="write 1,224,224,3 or, for two inputs, 1,224,224,3:1,20",
        ) from None


def _one_type(text: str) -> str:
    """The type of the inputs, which must be the same for all."""
    types = {t.strip().upper() for t in text.split(",") if t.strip()}
    if len(types) > 1:
        raise ParameterError(f"the inputs cannot have the types {text}", hint="give one type")
    return types.pop() if types else ""


def _default_range(texts: Mapping[str, str]) -> tuple[float, float] | None:
    low, high = texts["default_ranges_min"], texts["default_ranges_max"]
    if not low and not high:
        return None
    try:
        return float(low), float(high)
    except ValueError:
        raise ParameterError(
            "--default_ranges_min and --default_ranges_max are two numbers that go together",
            hint="write --default_ranges_min=0 --default_ranges_max=6",
        ) from None


def _weights(flags: Mapping[str, Setting]) -> str:
    if not flags["post_training_quantize"]:
        if flags["quantize_to_float16"]:
            raise ParameterError(
                "--quantize_to_float16 goes with --post_training_quantize", hint="give both, or neither"
            )
        return ""
    return "float16" if flags["quantize_to_float16"] else "dynamic"
