"""Public names of the Python API by what they are for, in the order of the reference page."""

from __future__ import annotations

GROUPS = {
    "Open and save": "load save convert convert_verified Conversion freeze load_checkpoint Checkpoint",
    "Look": "inspect summarize Summary view View fit Fit lint LintReport LintFinding survey SurveyReport",
    "Deploy": "deploy Deployment",
    "Optimize and quantize": (
        "optimize OptimizeReport GraphReport quantize QuantizedModel OnnxQuantizedModel Recipe Scaling"
    ),
    "Transform": "transform transform_saved_model Rewrite register load_plugin TransformGraph",
    "Prove and compare": (
        "verify Verification diff Diff ConversionDiff compare evaluate Evaluation Evaluations Quality reduce "
        "Reduction"
    ),
    "Run and measure": (
        "run Session benchmark BenchmarkReport check CheckReport open_device Device InferenceInterface "
        "StatSummarizer StatSummarizerOptions progress_bar"
    ),
    "Graphs": "Graph Node Value Tensor TensorSpec DType",
    "Errors": (
        "ThinflowError FormatError ParseError WriteError GraphError NodeError ShapeError ParameterError "
        "TransformError UnsupportedOp PartialModel FeedError VerificationError EngineUnavailable "
        "EngineCrashed PagesUnavailable"
    ),
}
"""Title -> names, parted by blanks; a result stands behind the function that gives it."""


def grouped(names: list[str]) -> dict[str, list[str]]:
    """Title -> names, each of `names` once; those of no group come last."""
    groups = {title: [n for n in listed.split() if n in names] for title, listed in GROUPS.items()}
    known = {name for group in groups.values() for name in group}
    rest = [name for name in names if name not in known]
    return {**groups, **({"More": rest} if rest else {})}
