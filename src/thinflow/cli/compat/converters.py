"""TensorFlow's tflite_convert, and toco, its older name with flags in the singular too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from thinflow.cli._console import print_lines
from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, Setting, is_help
from thinflow.errors import ParameterError, closest

EXAMPLES = {
    "tflite_convert": """
  thinflow tflite_convert --graph_def_file=a.pb --output_file=a.tflite --input_arrays=x --output_arrays=y
  thinflow tflite_convert --graph_def_file=a.pb --output_file=b --input_arrays=x --input_shapes=1,224,224,3
  thinflow tflite_convert --saved_model_dir=saved --output_file=a.tflite --post_training_quantize
""",
    "toco": """
  thinflow toco --input_file=a.pb --output_file=a.tflite --input_array=x --output_array=y
  thinflow toco --input_file=a.pb --output_file=a.tflite --input_array=x --input_shape=1,224,224,3
  thinflow toco --saved_model_dir=saved --output_file=a.tflite --post_training_quantize
""",
}

FLAGS: dict[str, tuple[Setting, str]] = {
    "output_file": ("", "file to write"),
    "graph_def_file": ("", "GraphDef to convert, binary or text"),
    "saved_model_dir": ("", "SavedModel to convert"),
    "keras_model_file": ("", "Keras model: .h5 or .keras"),
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
    "input_format": (
        "TENSORFLOW_GRAPHDEF",
        "TENSORFLOW_GRAPHDEF or TFLITE; the file itself tells",
    ),
    "batch_size": (0, "size of a first axis that the model leaves open; default: 1"),
    "target_ops": ("TFLITE_BUILTINS", "TFLITE_BUILTINS is what is written, whatever else is named"),
    "enable_select_tf_ops": (False, "as SELECT_TF_OPS in target_ops"),
    "force_select_tf_ops": (False, "refused: ops of TensorFlow are not written"),
    "allow_custom_ops": (False, "told: of custom ops those are written that LiteRT comes with"),
    "custom_opdefs": ("", "refused: ops of your own are not written"),
    "experimental_select_user_tf_ops": ("", "refused: ops of your own are not written"),
    "reorder_across_fake_quant": (False, "told and ignored: fusing looks through FakeQuant anyway"),
    "drop_control_dependency": (True, "told and ignored: a .tflite has no control dependencies"),
    "change_concat_input_ranges": (
        False,
        "told and ignored: inputs of a concatenation share their range anyway",
    ),
    "drop_fake_quant": (False, "told and ignored: float models keep FakeQuant, integer ones take its range"),
    "dump_graphviz_dir": ("", "folder for drawings of the graph before and after, in DOT"),
    "dump_graphviz_video": (False, "told and ignored: the drawings are of before and after, not in between"),
    "conversion_summary_dir": ("", "told and ignored: the summary is printed"),
    "enable_v1_converter": (False, "told and ignored: these are its flags"),
    "experimental_new_converter": (True, "told and ignored: this is another converter"),
    "experimental_new_quantizer": (True, "told and ignored: this is another converter"),
    "allow_nonexistent_arrays": (False, "told and ignored: an unknown name is always an error"),
    "allow_nudging_weights_to_use_fast_gemm_kernel": (False, "told and ignored"),
    "allow_nonascii_arrays": (False, "told and ignored: names may be any text"),
    "allow_bfloat16": (False, "told and ignored: floats stay as they are"),
    "accumulation_type": ("", "told and ignored: LiteRT adds up as it does"),
    "arrays_extra_info_file": ("", "refused: ranges come from FakeQuant or default_ranges_min and _max"),
    "debug_disable_recurrent_cell_fusion": (False, "told and ignored"),
    "default_int16_ranges_min": ("", "told and ignored: there are no int16 models here"),
    "default_int16_ranges_max": ("", "told and ignored: there are no int16 models here"),
    "model_checks": ("", "told and ignored: the model is checked by running it"),
    "model_flags_file": ("", "refused: give the flags themselves"),
    "propagate_fake_quant_num_bits": (False, "told and ignored"),
    "rnn_states": ("", "told and ignored: loops are read from the graph"),
    "split_tflite_lstm_inputs": (True, "told and ignored"),
    "unfold_batchmatmul": (True, "told and ignored"),
    "variable_batch": (False, "told and ignored: an open axis stays open where it can"),
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
    "input_type": "inference_input_type",  # what toco called it until TensorFlow 1.5
    "input_types": "inference_input_type",
    "quantize_weights": "post_training_quantize",
    "dump_graphviz": "dump_graphviz_dir",
}


T = TypeVar("T")

_SOURCES = ("graph_def_file", "saved_model_dir", "keras_model_file")
_BUILTINS = ("TFLITE_BUILTINS", "TFLITE_BUILTINS_INT8")
_SELECT = "SELECT_TF_OPS"
_REFUSED = ("custom_opdefs", "experimental_select_user_tf_ops", "arrays_extra_info_file", "model_flags_file")


TFLITE_CONVERT = OldFlags("tflite_convert", FLAGS, ALIASES, python=True, examples=EXAMPLES["tflite_convert"])
TOCO = OldFlags("toco", FLAGS, ALIASES, python=True, examples=EXAMPLES["toco"])


def convert(parser: OldFlags, argv: Sequence[str]) -> int:
    """Convert as one of the two names of the tool asks."""
    flags = parser.parse(argv)
    if flags is None:
        return 0 if is_help(argv) else USAGE_EXIT
    given = [name for name in _SOURCES if flags[name]]
    if len(given) != 1 or not flags["output_file"]:
        missing = (
            "--output_file is needed"
            if given
            else f"one of {', '.join(f'--{s}' for s in _SOURCES)} is needed"
        )
        print("give one model only" if len(given) > 1 else missing, file=sys.stderr)
        print(parser.usage(), file=sys.stderr)
        return USAGE_EXIT
    return _converted({name: str(value).strip() for name, value in flags.items()}, given[0], flags)


def _converted(texts: Mapping[str, str], source: str, flags: Mapping[str, Setting]) -> int:
    from thinflow.cli._console import human_bytes
    from thinflow.compat.toco import OldConversion, convert_as_before

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
        batch=int(texts["batch_size"]),
        drawings=os.path.expanduser(texts["dump_graphviz_dir"]),
    )
    for line in _inert(flags):
        print_lines([line], sys.stderr)
    made = convert_as_before(wanted)
    print(f"wrote {made.path}: {human_bytes(made.size_bytes)}; {made.proof}")
    print_lines(f"  {line}" for line in made.notes)
    return 0


def _refuse(texts: Mapping[str, str]) -> None:
    """Refuse what this conversion does not have, whatever the rest says.

    Raises:
        ParameterError: it is asked for.
    """
    formats = ("TENSORFLOW_GRAPHDEF", "TFLITE")
    if texts["input_format"].upper() not in formats:
        raise ParameterError(
            f"--input_format={texts['input_format']} is not supported",
            hint=closest(texts["input_format"].upper(), formats)
            or "leave it out: the file itself tells; `thinflow convert` reads files of more formats",
        )
    for name in _REFUSED:
        if texts[name]:
            why = FLAGS[name][1].removeprefix("refused: ")
            raise ParameterError(f"--{name} is not supported: {why}", hint="leave it out")
    _refuse_ops(texts)


def _refuse_ops(texts: Mapping[str, str]) -> None:
    """Refuse to write ops of TensorFlow only, or of a set nobody knows."""
    sets = [t.upper() for t in _items(texts, "target_ops", str)]
    if unknown := next((t for t in sets if t not in (*_BUILTINS, _SELECT)), ""):
        raise ParameterError(
            f"ops of {unknown} are not written: what LiteRT cannot run is named and left to the app",
            hint=closest(unknown, (*_BUILTINS, _SELECT)) or "give --target_ops=TFLITE_BUILTINS",
        )
    # Texts of all flags: that of a switch is Python's.
    if sets == [_SELECT] or texts["force_select_tf_ops"] == "True":
        raise ParameterError(
            "ops of TensorFlow are not written: what LiteRT cannot run is named and left to the app",
            hint="give --target_ops=TFLITE_BUILTINS",
        )


def _inert(flags: Mapping[str, Setting]) -> list[str]:
    """A line for each flag that was set and changes nothing."""
    lines = []
    for name, (default, text) in FLAGS.items():
        # The help of each flag is the one place that says whether it does something.
        if "ignored" in text and flags[name] != default:
            why = text.partition("ignored")[2].lstrip(": ") or "it has no counterpart here"
            lines.append(f"--{name} changes nothing: {why}")
    if _SELECT in str(flags["target_ops"]).upper() or flags["enable_select_tf_ops"]:
        lines.append(f"{_SELECT}: ops of TensorFlow are not written; what LiteRT cannot run is named below")
    if flags["allow_custom_ops"]:
        lines.append("--allow_custom_ops: those that LiteRT comes with are written, with or without it")
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
    items = [[n.strip() for n in item.split(",")] if item.strip() else [] for item in text.split(":")]
    try:
        return [[int(n) for n in item] for item in items]
    except ValueError:
        hint = "write 1,224,224,3 or, for two inputs, 1,224,224,3:1,20"
        if any("" in item for item in items):
            hint = f"a size is missing: is a variable of the shell not set? {hint}"
        raise ParameterError(f"--input_shapes={text} cannot be read", hint=hint) from None


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


def tflite_convert(argv: Sequence[str]) -> int:
    return convert(TFLITE_CONVERT, argv)


def toco(argv: Sequence[str]) -> int:
    return convert(TOCO, argv)
