"""The commands of the mobile guides and what each promises, as data.

The commands are spelled as the guides spell them, with the path of the program replaced by `thinflow`.
"""

from __future__ import annotations

from dataclasses import dataclass

RECIPE = (
    'strip_unused_nodes(type=float, shape="1,224,224,3")\n fold_constants(ignore_errors=true)\n'
    " fold_batch_norms\n fold_old_batch_norms"
)
INCEPTION_RECIPE = RECIPE.replace("1,224,224,3", "1,299,299,3")
EIGHT_BIT = (
    'add_default_attributes strip_unused_nodes(type=float, shape="1,224,224,3") remove_nodes(op=Identity, '
    "op=CheckNumerics) fold_constants(ignore_errors=true) fold_batch_norms fold_old_batch_norms "
    "quantize_weights quantize_nodes strip_unused_nodes sort_by_execution_order"
)
INCEPTION_EIGHT_BIT = (
    'add_default_attributes strip_unused_nodes(type=float, shape="1,299,299,3") remove_nodes(op=Identity, '
    "op=CheckNumerics) fold_old_batch_norms quantize_weights quantize_nodes strip_unused_nodes"
)
LABEL = "label_image --input_mean=128 --input_std=128 --input_layer=Mul --output_layer=softmax"
LOGGING = 'insert_logging(op=RequantizationRange, show_name=true, message="__requant_min_max:")'
RESNET = "--inputs=input --outputs=resnet_v2_50/predictions/Reshape_1"
INCEPTION = "--inputs=Mul --outputs=softmax"


@dataclass(frozen=True)
class Row:
    """One command.

    Attributes:
        name: for the report.
        command: split as a shell would.
        says: regular expressions that must be found in what it prints; output and log together.
        writes: files that must be there afterwards, with the largest size in MB; 0: any.
        needs: files that an earlier row writes.
    """

    name: str
    command: str
    says: tuple[str, ...] = ()
    writes: tuple[tuple[str, float], ...] = ()
    stderr_to: str = ""


ROWS = (
    # 1. Look at an unknown graph
    Row(
        "summarize-resnet-one-dash",
        "summarize_graph -in_graph=resnet_v2_50.pb",
        (
            r"Found 1 possible inputs: \(name=input, type=float\(1\), shape=\[1,224,224,3\]\)",
            r"No variables spotted\.",
            r"Found 1 possible outputs: \(name=resnet_v2_50/predictions/Reshape_1, op=Reshape\)",
            r"Found 25615936 \(25\.61M\) const parameters, 0 \(0\) variable parameters, and 0 control_edges",
            r"Op types used: 328 Const, 272 Identity, 147 Mul, ",
            r"benchmark_model",
        ),
    ),
    Row(
        "summarize-inception-two-dashes",
        "summarize_graph --in_graph=tensorflow_inception_graph.pb",
        (
            r"No inputs spotted\.",
            r"Found 1 possible outputs: \(name=softmax, op=Softmax\)",
            r"Found 23885411 \(23\.89M\) const parameters, 0 \(0\) variable parameters, and 99 control_edges",
            r"Op types used: 489 Const, 99 CheckNumerics, 99 Identity, 94 BatchNormWithGlobalNormalization, "
            r"94 Conv2D, 94 Relu, 11 Concat, 9 AvgPool, 5 MaxPool, ",
            r"1 Sub\b",
        ),
    ),
    Row(
        "tensorboard",
        "import_pb_to_tensorboard --model_dir resnet_v2_50.pb --log_dir tb",
        (r"tensorboard --logdir",),
    ),
    Row(
        "dot",
        "graph_to_dot --graph=tensorflow_inception_graph.pb --dot_output=g.dot",
        (),
        (("g.dot", 2),),
    ),
    # 3. The 32-bit recipe
    Row(
        "recipe-resnet",
        f"transform_graph --in_graph=resnet_v2_50.pb --out_graph=optimized_resnet_v2_50_fp32.pb {RESNET} "
        f"--transforms='{RECIPE}'",
        (),
        (("optimized_resnet_v2_50_fp32.pb", 103),),
    ),
    Row(
        "recipe-inception",
        "transform_graph --in_graph=tensorflow_inception_graph.pb --out_graph=optimized_inception_graph.pb "
        f"--inputs='Mul' --outputs='softmax' --transforms='{INCEPTION_RECIPE}'",
        (),
        (("optimized_inception_graph.pb", 96),),
    ),
    Row(
        "cut-inception-has-an-input",
        "summarize_graph --in_graph=optimized_inception_graph.pb",
        (r"Found 1 possible inputs: \(name=Mul, type=float\(1\), shape=\[1,299,299,3\]\)",),
    ),
    # 4. Shrink
    Row(
        "quantize-weights",
        "transform_graph --in_graph=optimized_inception_graph.pb --out_graph=q.pb --inputs='Mul:0' "
        "--outputs='softmax:0' --transforms='quantize_weights'",
        (),
        (("q.pb", 25),),
    ),
    Row(
        "round-weights",
        "transform_graph --in_graph=optimized_inception_graph.pb --out_graph=r.pb --inputs=Mul "
        "--outputs=softmax --transforms='round_weights(num_steps=256)'",
        (),
        (("r.pb", 96),),
    ),
    Row(
        "obfuscate-names",
        "transform_graph --in_graph=optimized_inception_graph.pb --out_graph=o.pb --inputs=Mul "
        "--outputs=softmax --transforms='obfuscate_names'",
        (),
        (("o.pb", 96),),
    ),
    Row(
        "obfuscate-names-as-documented",
        "transform_graph --in_graph=optimized_inception_graph.pb --out_graph=o2.pb --inputs=Mul "
        "--outputs=softmax --transforms='obsfucate_names'",
        (),
        (("o2.pb", 96),),
    ),
    # 5. The eight-bit recipe
    Row(
        "eight-bit-resnet",
        f"transform_graph --in_graph=resnet_v2_50.pb --out_graph=resnet_int8.pb {RESNET} "
        f"--transforms='{EIGHT_BIT}'",
        (),
        (("resnet_int8.pb", 26.5),),
    ),
    Row(
        "eight-bit-inception",
        "transform_graph --in_graph=tensorflow_inception_graph.pb --out_graph=quantized_graph.pb "
        f"{INCEPTION} --transforms='{INCEPTION_EIGHT_BIT}'",
        (),
        (("quantized_graph.pb", 25),),
    ),
    Row(
        "label-float",
        f"{LABEL} "
        "--graph=optimized_inception_graph.pb --labels=imagenet_comp_graph_label_strings.txt "
        "--image=picture.png",
        (r"^label \d+ \(\d+\): 0\.\d+",),
    ),
    Row(
        "label-whole-graph",
        "label_image --graph=tensorflow_inception_graph.pb --output_layer=softmax:0 "
        "--labels=imagenet_comp_graph_label_strings.txt --image=picture.png",
        (r"^label \d+ \(\d+\): 0\.\d+", r"the file goes into 'DecodeJpeg/contents'"),
    ),
    Row(
        "label-eight-bit",
        f"{LABEL} "
        "--graph=quantized_graph.pb --labels=imagenet_comp_graph_label_strings.txt "
        "--image=picture.png",
        (r"^label \d+ \(\d+\): 0\.\d+",),
    ),
    Row(
        "insert-logging",
        "transform_graph --logtostderr --in_graph=quantized_graph.pb --out_graph=logged_quantized_graph.pb "
        f"{INCEPTION} --transforms='\\\n{LOGGING}\\\n'",
        (),
        (("logged_quantized_graph.pb", 25),),
    ),
    Row(
        "log-ranges",
        f"{LABEL} --logtostderr "
        "--graph=logged_quantized_graph.pb --labels=imagenet_comp_graph_label_strings.txt "
        "--image=picture.png",
        (r"requant_range__print__;__requant_min_max:\[-?[\d.e+-]+\]\[-?[\d.e+-]+\]",),
        stderr_to="logged_ranges.txt",
    ),
    Row(
        "freeze-ranges",
        "transform_graph --in_graph=quantized_graph.pb --out_graph=ranged_quantized_graph.pb "
        f"{INCEPTION} --transforms='freeze_requantization_ranges(min_max_log_file=logged_ranges.txt)'",
        (),
        (("ranged_quantized_graph.pb", 25),),
    ),
    Row(
        "label-frozen-ranges",
        f"{LABEL} "
        "--graph=ranged_quantized_graph.pb --labels=imagenet_comp_graph_label_strings.txt "
        "--image=picture.png",
        (r"^label \d+ \(\d+\): 0\.\d+",),
    ),
    # 6. Benchmark and profile
    Row(
        "benchmark-resnet",
        "benchmark_model --num_threads=1 --graph=optimized_resnet_v2_50_fp32.pb --input_layer='input' "
        "--input_layer_shape='1,224,224,3' --input_layer_type='float' "
        "--output_layer='resnet_v2_50/predictions/Reshape_1' --max_num_runs=3",
        (
            r"Top by Computation Time",
            r"Summary by node type",
            r"Timings \(microseconds\): count=3 first=\d+ curr=\d+ min=\d+ max=\d+ avg=[\d.e+]+ std=\d+",
            r"\d+ nodes defined \d+ nodes observed",
        ),
    ),
    Row(
        "benchmark-inception",
        'benchmark_model --graph=optimized_inception_graph.pb --input_layer="Mul:0" '
        '--input_layer_shape="1,299,299,3" --input_layer_type="float" --output_layer="softmax:0" '
        "--show_run_order=false --show_time=false --show_memory=false --show_summary=true --show_flops=true "
        "--logtostderr --max_num_runs=2",
        (
            r"FLOPs estimate: 11\.\d+B",
            r"Summary by node type",
            r"Timings \(microseconds\): count=2 ",
            r"Memory \(bytes\): count=2 curr=\d+\(all same\)",
        ),
    ),
    # 7. Ship
    Row(
        "memmapped",
        "convert_graphdef_memmapped_format --in_graph=optimized_inception_graph.pb --out_graph=mapped.pb",
        (r"Converted \d+ nodes",),
        (("mapped.pb", 96),),
    ),
    Row(
        "label-memmapped",
        f"{LABEL} --graph=mapped.pb --labels=imagenet_comp_graph_label_strings.txt --image=picture.png",
        (r"^label \d+ \(\d+\): 0\.\d+",),
    ),
    Row(
        "tflite-convert",
        "tflite_convert --graph_def_file=optimized_inception_graph.pb --output_file=inception.tflite "
        "--input_arrays=Mul --output_arrays=softmax --input_shapes=1,299,299,3 "
        "--target_ops=TFLITE_BUILTINS,SELECT_TF_OPS --allow_custom_ops",
        (r"LiteRT agrees with the graph",),
        (("inception.tflite", 96),),
    ),
    Row(
        "label-lite",
        "label_image -m inception.tflite -i picture.png -l imagenet_comp_graph_label_strings.txt -c 2 -f 1",
        (r"^0\.\d+: \d+ label \d+$", r"^average time: [\d.]+ ms$"),
    ),
    Row(
        "selective-registration",
        "print_selective_registration_header --graphs=optimized_inception_graph.pb",
        (r"#ifndef OPS_TO_REGISTER", r"\"Conv2DOp<CPUDevice, float>\","),
    ),
    # The newer verbs that docs/guides/shrink-resnet.md goes on with
    Row(
        "inspect-resnet",
        "inspect resnet_v2_50.pb",
        (r"25\.6 M constants, 103 MB, 7\.00 GFLOP a run", r"^latency floor: "),
    ),
    Row(
        "quantize-resnet",
        "quantize resnet_v2_50.pb resnet_v2_50_int8.tflite --samples 4",
        (r"3\.8x smaller than float",),
        (("resnet_v2_50_int8.tflite", 27),),
    ),
    Row(
        "compare-resnet",
        "benchmark optimized_resnet_v2_50_fp32.pb resnet_v2_50_int8.tflite --seconds 5",
        # On a busy machine it says that nothing could be told.
        (r"(faster|slower) than|as fast|no difference between .* could be measured",),
    ),
)
