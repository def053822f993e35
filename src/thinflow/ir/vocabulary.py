"""Vocabularies: whose ops a graph is written in, beside TensorFlow's own.

One record each; what a vocabulary's own modules need not be asked for is asked of the record, so that another
one is a line here, a format, and a folder of lifting rules.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The ops of one kind of files.

    Attributes:
        name: of the format of its files, and what `Graph.vocabulary` says.
        prefix: how its ops begin.
        label: how people call it in a sentence.
        title: how people call a file of it, with an article.
        runtime: what people run such files with.
        engine: our name of that; "" if it is not run here.
        advice: what helps where an op has no counterpart and nothing here runs it.
        idle_options: options of any op that do not bear on results: they repeat types and shapes, or say how
            kernels compute.
    """

    name: str
    prefix: str
    label: str
    title: str
    runtime: str
    engine: str = ""
    advice: str = "export the model otherwise"
    idle_options: frozenset[str] = frozenset()


LITERT = Vocabulary(
    "tflite",
    "tfl.",
    "LiteRT",
    "a LiteRT model",
    "LiteRT",
    "litert",
    idle_options=frozenset(
        {
            *("asymmetric_quantize_inputs", "pot_scale_int16", "quantized_bias_type", "validate_indices"),
            # proj_clip: rules read it where there is a projection, and else there is nothing to clip.
            *("in_data_type", "out_data_type", "values_count", "new_shape", "keep_num_dims", "proj_clip"),
        }
    ),
)
TFL_CUSTOM = "tfl.custom."
"""In front of the name of a custom op of LiteRT."""
# consumed_inputs: memory that version 1 of ops reused.
ONNX = Vocabulary(
    "onnx",
    "onnx.",
    "ONNX",
    "an ONNX model",
    "ONNX Runtime",
    "onnxruntime",
    idle_options=frozenset({"consumed_inputs"}),
)
DECOMPOSED = "decomposed"
"""The fact of a graph whose ops are in their simplest form already, so that this is no advice."""
EXPORT = 'torch.export.save(torch.export.export(model.eval(), (example,)), "model.pt2")'
"""The line of PyTorch that writes a file that is read here."""
EXPORT_HINT = f"export it with PyTorch 2.9 or newer: {EXPORT}"
# ATen is PyTorch's library of ops, in which its exporter writes. Nothing runs such files here.
ATEN = Vocabulary(
    "pt2",
    "aten.",
    "PyTorch",
    "a PyTorch exported program",
    "PyTorch",
    advice="export it in core ATen: torch.export.save(program.run_decompositions(), 'model.pt2')",
)
# MIL is the language of Core ML's programs. Core ML runs on Apple's systems only.
COREML = Vocabulary(
    "coreml",
    "coreml.",
    "Core ML",
    "a Core ML package",
    "Core ML",
    advice="convert the model that it was made from",
    # `name` is the operation's own; kernels are told by the others how exact to be, which ours always are.
    idle_options=frozenset({"name", "validate_indices"}),
)
# Its files are run and not read.
OPENVINO = Vocabulary(
    "openvino",
    "openvino.",
    "OpenVINO",
    "an OpenVINO model",
    "OpenVINO",
    "openvino",
    advice="convert the model that it was made from",
)
VOCABULARIES = (LITERT, ONNX, ATEN, COREML, OPENVINO)
PREFIXES = tuple(v.prefix for v in VOCABULARIES)


def vocabulary_of(op: str) -> Vocabulary | None:
    """The vocabulary that an op belongs to; None for an op of TensorFlow."""
    return next((v for v in VOCABULARIES if op.startswith(v.prefix)), None)


def vocabulary_named(name: str) -> Vocabulary | None:
    """The vocabulary of a graph, by what its `vocabulary` says; None for TensorFlow's ("")."""
    return next((v for v in VOCABULARIES if v.name == name), None)
