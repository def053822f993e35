"""Stands for LiteRT's benchmark_model on the phone of phones.py: checks flags, prints what a real one does.

Where answers are asked for, LiteRT computes them, from the files that were sent.
"""

import os
import sys
import time

PHONE = os.environ["THINFLOW_TEST_PHONE"]
# As the tool's own help lists them, those that are used.
FLAGS = set(
    """graph num_threads num_runs min_secs max_secs warmup_runs warmup_min_secs input_layer input_layer_shape
    input_layer_value_files enable_op_profiling report_peak_memory_footprint
    memory_footprint_check_interval_ms use_gpu gpu_backend gpu_precision_loss_allowed use_nnapi
    nnapi_accelerator_name use_xnnpack xnnpack_force_fp16 use_hexagon external_delegate_path
    output_filepath""".split()  # noqa: SIM905
)


def main(path, arguments):
    with open(os.path.join(PHONE, "phone.txt"), encoding="utf-8") as file:
        phone = eval(file.read())
    with open(os.path.join(PHONE, "running"), "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {' '.join([path, *arguments])}")
    mask = os.environ.get("THINFLOW_TEST_MASK", "")
    with open(os.path.join(PHONE, "tools.txt"), "a", encoding="utf-8") as file:
        file.write(repr(["mask=" + mask, *arguments]) + "\n")
    known = FLAGS - (set() if phone["knows_outputs"] else {"output_filepath"})
    flags, unknown = {}, []
    for argument in arguments:
        name, equals, value = argument.lstrip("-").partition("=")
        if not argument.startswith("--") or not equals or name in flags:
            surprised("flag " + argument)
        if name in known:
            flags[name] = value
        else:
            unknown.append(argument)
            if name not in FLAGS:
                surprised("no such flag: " + argument)
    check(flags)
    if phone.get("status") is not None:
        print(phone.get("says", ""))
        return phone["status"]
    if unknown:
        print("WARN: Unconsumed cmdline flags: " + " ".join(unknown))
    name = next((reply for flag, reply in phone["replies"].items() if flag in flags), phone["reply"])
    with open(os.path.join(phone["outputs"], name + ".txt"), encoding="utf-8") as file:
        text = file.read()
    sys.stdout.write(text.replace("/data/local/tmp/m.tflite", flags["graph"]))
    sys.stdout.flush()
    if "ERROR: Benchmarking failed" in text:
        return 1
    if phone.get("hangs"):
        time.sleep(60)
    if "output_filepath" in flags:
        answer(flags)
    return 0


def surprised(what):
    with open(os.path.join(PHONE, "surprises.txt"), "a", encoding="utf-8") as file:
        file.write("benchmark_model: " + what + "\n")
    sys.exit(98)


def check(flags):
    """What a real one would refuse, or take without a word and do something else."""
    import hashlib

    graph = flags.get("graph", "")
    if not os.path.isfile(graph):
        surprised("no graph: " + graph)
    with open(graph, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest()[:32] != os.path.basename(graph).partition(".")[0]:
            surprised("the graph is not the one that was sent")
    names, files = flags.get("input_layer"), flags.get("input_layer_value_files")
    if (names is None) != (files is None) or (names is None) != (flags.get("input_layer_shape") is None):
        surprised("inputs are told by halves")
    if names is not None:
        shapes = flags["input_layer_shape"].split(":")
        pairs = [pair.rsplit(":", 1) for pair in files.split(",")]
        if [name for name, _ in pairs] != names.split(",") or len(shapes) != len(pairs):
            surprised(f"inputs do not fit: {names}, {shapes}, {files}")
        for _, file in pairs:
            if not os.path.isfile(file):
                surprised("no file of an input: " + file)
    if not flags.get("num_threads", "").isdigit():
        surprised("num_threads")


def answer(flags):
    import site

    site.main()  # what needs none of it is started without, which is quicker
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    made = Interpreter(model_path=flags["graph"], num_threads=1)
    details = made.get_input_details()
    shapes = [[int(n) for n in s.split(",") if n] for s in flags["input_layer_shape"].split(":")]
    for detail, shape in zip(details, shapes, strict=False):
        made.resize_tensor_input(detail["index"], shape)
    made.allocate_tensors()
    for detail, shape, pair in zip(
        details, shapes, flags["input_layer_value_files"].split(","), strict=False
    ):
        array = np.fromfile(pair.rsplit(":", 1)[1], detail["dtype"])
        made.set_tensor(detail["index"], array.reshape(shape))
    made.invoke()
    with open(flags["output_filepath"], "wb") as file:
        for detail in made.get_output_details():
            file.write(made.get_tensor(detail["index"]).tobytes())


def run():
    sys.exit(main(sys.argv[1], sys.argv[2:]))
