"""The main job's results and its verdict: how much faster and smaller, how good, and what to ship."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.analysis.summary import Summary
from thinflow.bench.profile_text import RowProfile
from thinflow.bench.report import BenchmarkReport
from thinflow.errors import ParameterError, ThinflowError, UnsupportedOp
from thinflow.formats.foreign import PARTIAL
from thinflow.ir.ledger import Entry
from thinflow.optimize.coverage import Coverage
from thinflow.optimize.engine_race import EngineRace
from thinflow.optimize.ladder.budget import DEFAULT_MAX_DROP, Budget
from thinflow.optimize.ladder.choice import misfits
from thinflow.optimize.ladder.measured import too_much_lost
from thinflow.optimize.ladder.result import Ladder
from thinflow.optimize.litert import FloatModel
from thinflow.optimize.maker import ModelPair
from thinflow.optimize.onnx import OnnxModel
from thinflow.optimize.quality import Quality
from thinflow.optimize.quality_page import Shown
from thinflow.optimize.quantized import OnnxQuantizedModel, QuantizedModel
from thinflow.quantize.recipe import Recipe
from thinflow.rewrite.runner import Result

if TYPE_CHECKING:
    from thinflow.analysis.stats import Interval
    from thinflow.bench.rows import Ratio

# Files of the same weights differ by metadata, padding and versions of ops alone.
SAME_SIZE = 0.05
WORTH_SMALLER = 1.1
"""A file that shrinks less than this is as large as before."""
# Two models that both take less are equally good for an app: what lies around the run (copying inputs,
# waking a thread) takes longer, and which of them is ahead differs from machine to machine.
SHORT_MS = 0.1
# Unless one takes several times as long, which no change of machine turns round.
SEVERAL_TIMES = 3.0
WIDE = 0.1
"""A ratio whose interval reaches farther, relative to it, is told with the interval."""


def verdict_of(results: JobResults) -> str:
    """The verdict on a job, whatever it could make."""
    if isinstance(results, GraphResults):
        return _graph_verdict(results)
    assert isinstance(results, PairResults)
    if results.is_part:
        return _partial_pair_verdict(results)
    ladder = results.ladder
    sentence = pair_verdict(results) if ladder is None else _ladder_verdict(results, ladder)
    if results.race is not None and (winner := _raced(results)) is not None:
        # The rest is about LiteRT's files, and what of them to ship is settled now.
        rest = sentence.rpartition(": ship ")[0] or sentence
        sentence = f"{results.race.sentence}: ship {winner.name}; in LiteRT {rest}"
    # Whoever reads the first line alone learns of every runtime that misses the budget.
    missed = [one for one in results.ladders if one is not ladder and not one.is_reached] if ladder else []
    sentence = "; ".join([sentence, *(f"{m.runtime}: {m.sentence} is {m.choice.best.name}" for m in missed)])
    return _with_notes(sentence, results.coverages)


def pair_verdict(results: PairResults) -> str:
    """One sentence on whole models: how much faster and smaller, how good, and which file to ship."""
    return f"{results.recipe.scheme} {_speed(results)} {_size(times_smaller(results))}; {_advice(results)}"


def _ladder_verdict(results: PairResults, ladder: Ladder) -> str:
    """One sentence on what was chosen under a budget: whether it is kept, how good it is, and which file."""
    best, smaller = ladder.choice.best, ladder.choice.smaller
    if best.is_float:
        over = ", ".join(misfits(smaller, ladder.budget))
        why = (
            f"nothing smaller fits ({smaller.name} misses its bound on {over})" if over else "less is no gain"
        )
        if lost := smaller.too_wrong(ladder.budget.drop):
            why = f"nothing smaller fits ({lost})"
        return f"{ladder.sentence}: float32, as {why}: {_float_choice(results)}"
    figures = f"{_speed(results)} {_size(times_smaller(results))}; {results.int8_quality.sentence()}"
    return f"{ladder.sentence}: {best.name} {figures}: ship {results.files['int8'].name}"


def _graph_verdict(results: GraphResults) -> str:
    """The verdict where not both LiteRT models could be made."""
    if results.model is not None:
        return _float_verdict(results, results.model.coverage)
    steps = results.ledger.steps
    before, after = steps[0].nodes[0], steps[-1].nodes[1]
    done = f"the graph went from {before} to {after} nodes" if after < before else "the graph stays as it is"
    same = " and computes the same" if any(s.difference is not None for s in steps) else ""
    carrier = "a TensorFlow runtime, or with thinflow's own engines"
    if not results.runs:
        carrier = "the TensorFlow runtime that has the op"
    # Only an op that LiteRT lacks makes a model impossible; others failed here.
    none = "can be made" if isinstance(results.obstacle, UnsupportedOp) else "was written"
    return (
        f"no LiteRT model {none}, because {_sentence(results.obstacle)}; {done}{same}: "
        f"ship {results.files['fp32_pb'].name} with {carrier}"
    )


def _float_verdict(results: GraphResults, coverage: Coverage) -> str:
    """The verdict where there is a float model and no smaller one."""
    failed = f"no {results.scheme} model can be made, because {_sentence(results.obstacle)}"
    if coverage.is_part:
        return _partial_verdict(coverage, [results.files["fp32"]], results.files["fp32_pb"], failed)
    return _with_notes(f"{failed}: {_float_choice(results)}", [coverage])


def _sentence(error: ThinflowError) -> str:
    """The problem, with the node it is about."""
    return f"{error.problem} ({error.where})" if error.where else error.problem


def _partial_verdict(coverage: Coverage, parts: Sequence[Path], whole: Path, also: str = "") -> str:
    """One sentence: which files are parts, what is missing from them and why, and what is whole.

    Args:
        coverage: of the parts.
        parts: the files.
        whole: the file that holds all of the model.
        also: what else did not come off; "" if all did.
    """
    names = " and ".join(p.name for p in parts)
    holds = "hold" if len(parts) > 1 else "holds"
    carrier = "" if whole.suffix == ".onnx" else " with thinflow's own engines or a TensorFlow runtime"
    failed = f"{also}; " if also else ""
    return (
        f"{PARTIAL}{names} {holds} only a part of the model: {coverage.sentence}; "
        f"{failed}the whole model is {whole.name}: run it{carrier}"
    )


def _partial_pair_verdict(results: PairResults) -> str:
    """The verdict on LiteRT models that are parts."""
    parts = [results.files["fp32"], results.files["int8"]]
    if results.onnx is not None and results.onnx.plain.coverage.is_part:
        parts += [results.files["onnx_fp32"], results.files["onnx_int8"]]
    return _partial_verdict(results.coverage, parts, _whole_file(results))


def _whole_file(results: PairResults) -> Path:
    """The file with all of a model that the LiteRT files hold a part of."""
    is_whole = results.onnx is not None and not results.onnx.plain.coverage.is_part
    return results.files["onnx_fp32" if is_whole else "fp32_pb"]


def _with_notes(verdict: str, coverages: Sequence[Coverage]) -> str:
    """A verdict on whole models with what the app has to do, and with what is not whole beside them."""
    notes = [c.note for c in coverages if c.note]
    notes += [f"{PARTIAL}the .onnx files hold only a part: {c.sentence}" for c in coverages if c.is_part]
    return "; ".join([verdict, *dict.fromkeys(notes)])


def _speed(results: PairResults) -> str:
    """The speed of the smaller model beside float, as far as what was measured tells; up to the size.

    Why it is so was not measured, so no reason is given.
    """
    ratio = ratio_of(results)
    if ratio is None or ratio.outcome == "unknown":
        return "is"
    there = f" on {ratio.a.device}" if ratio.a.device else ""
    if is_short(ratio):
        return f"takes less than {SHORT_MS:g} ms a run{there}, as float does, and is"
    if ratio.outcome == "even":
        return _even(ratio.interval, there)
    if ratio.outcome == "faster":
        return f"is {_times(ratio.interval)} faster{there} and"
    return f"is {_times(ratio.interval.inverse())} SLOWER{there or ' here'} and"


def _even(interval: Interval, there: str) -> str:
    """The speed of a model whose time beside float's may be either way, as far as is known."""
    shown = interval if interval.value > 1 else interval.inverse()
    if shown.half_width >= shown.value:
        return f"could not be told from float in speed{there}, as times varied too much, and is"
    if shown.half_width > WIDE * shown.value:
        return f"is {span_text(interval)} as fast as float{there}, as far as was measured, and"
    return f"is as fast as float{there} within what was measured ({span_text(interval)}) and"


def _times(interval: Interval) -> str:
    """A ratio above 1, near 1 with the digit that tells it from 1; with its interval where that is wide."""
    shown = f"{interval.value:.1f}x" if interval.value >= 1.1 else f"{interval.value:.2f}x"
    return f"{shown} ({span_text(interval)})" if interval.half_width > WIDE * interval.value else shown


def span_text(interval: Interval) -> str:
    """Both ends, each as far off as the farther one, since `Ratio.outcome` judges by that."""
    # Turned so that it is above 1, as it is told; both ends then lie as far off as the farther.
    shown = interval if interval.value > 1 else interval.inverse()
    # An end at 0 or below is no factor.
    if shown.half_width >= shown.value:
        return f"ratio {interval}"
    low, high = shown.value - shown.half_width, shown.value + shown.half_width
    if interval.value <= 1:
        low, high = 1 / high, 1 / low
    digits = 2 if high - low < WIDE else 1
    return f"{low:.{digits}f}x to {high:.{digits}f}x"


def _size(times_smaller: float) -> str:
    if abs(times_smaller - 1) < SAME_SIZE:
        return "of the same size"
    return f"{times_smaller:.1f}x smaller" if times_smaller >= 1 else f"{1 / times_smaller:.1f}x LARGER"


def _advice(results: PairResults) -> str:
    """The quality of the smaller model, and which file to ship."""
    if results.synthetic:
        quality = "how good its answers are only real samples can tell"
        is_known = (ratio := ratio_of(results)) is not None and ratio.outcome != "unknown"
        if is_known and times_smaller(results) < WORTH_SMALLER and "faster" not in _speed(results):
            return f"{_float_choice(results)}: {results.recipe.scheme} brings nothing here"
        until = "it is calibrated" if results.int8.quantized.measured else "real samples have been tried"
        choice = _float_choice(results)
        return f"{quality}: {choice}{',' if ',' in choice else ''} until {until}"
    quality = results.int8_quality.sentence()
    against = _objection(results)
    if not against:
        return f"{quality}: ship {results.files['int8'].name}"
    return f"{quality}: {_float_choice(results)}: {against}"


def _float_choice(results: JobResults) -> str:
    """What to ship where it is not the smaller model: float, or the file that it came from."""
    kept = kept_source(results)
    if kept is None:
        return f"ship {results.files['fp32'].name}"
    times = results.sizes["fp32"] / results.quantized_source_bytes
    return f"keep {kept.name}, which is quantized already and {times:.1f}x smaller than float"


def kept_source(results: JobResults) -> Path | None:
    """The quantized file that the model came from, where its float twin is larger: nobody ships that instead;
    else None.
    """
    own = results.quantized_source_bytes
    return Path(results.source) if own and results.sizes.get("fp32", 0) > own else None


def _raced(results: PairResults) -> Path | None:
    """The file of the engine that won the race; None if there was none, or if it is float and the model came
    from a smaller file.
    """
    winner = None if results.race is None else results.race.winner
    file = None if winner is None else winner.file
    roles = {path: role for role, path in results.files.items()}
    is_float = file is not None and "fp32" in roles.get(file, "")
    return None if is_float and kept_source(results) is not None else file


def times_smaller(results: PairResults) -> float:
    return results.sizes["fp32"] / max(results.sizes["int8"], 1)


def shipped(results: PairResults) -> Path:
    """The file that the verdict says to ship; of models that are parts, the one that is whole. It may be the
    one that the model came from.
    """
    if results.is_part:
        return _whole_file(results)
    if (winner := _raced(results)) is not None:
        return winner
    if results.ladder is not None:
        is_float = results.ladder.choice.best.is_float
    else:
        is_float = results.synthetic or bool(_objection(results))
    kept = kept_source(results) if is_float else None
    return kept or results.files["fp32" if is_float else "int8"]


def _objection(results: PairResults) -> str:
    """The argument against the quantized model; empty if there is none."""
    name, ratio = results.recipe.scheme, ratio_of(results)
    if lost := too_much_lost(name, results.int8_quality, results.max_drop):
        return lost
    is_decided = ratio is not None and not is_short(ratio)
    if is_decided and ratio is not None and ratio.outcome == "slower":
        return f"float is faster on {ratio.a.device}" if ratio.a.device else "float is faster here"
    is_faster = is_decided and ratio is not None and ratio.outcome == "faster"
    # Smaller but not faster is still worth something; neither is not.
    if ratio is not None and not is_faster and times_smaller(results) < WORTH_SMALLER:
        return f"{name} brings nothing here"
    return ""


def ratio_of(results: PairResults) -> Ratio | None:
    """Float time over the quantized model's time at the first thread count; None if not measured."""
    if results.latency is None:
        return None
    try:
        ratio = results.latency.ratio(results.files["fp32"], results.files["int8"])
    except ParameterError:  # a device may run the one and refuse the other
        return None
    # A median of 0 has no ratio.
    return ratio if math.isfinite(ratio.value) else None


def is_short(ratio: Ratio) -> bool:
    """True if both runs are so short, and so alike, that it does not matter which is shorter."""
    longest = max(ratio.a.median_ms, ratio.b.median_ms)
    return longest < SHORT_MS and 1 / SEVERAL_TIMES < ratio.value < SEVERAL_TIMES


def speed_data(results: PairResults) -> dict[str, Any] | None:
    """Float time over the quantized model's, with its interval and what may be said of it; for JSON."""
    ratio = ratio_of(results)
    return None if ratio is None else {**ratio.interval.data(), "outcome": ratio.outcome}


@dataclass(repr=False, kw_only=True)
class JobResults:
    """Findings of the job about every model, and what it always makes: the optimized graph."""

    source: str
    summary: Summary
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    ledger: Result
    recipe: Recipe
    samples: str
    synthetic: bool
    files: dict[str, Path]
    sizes: dict[str, int]
    budget: Budget | None = None
    latency: BenchmarkReport | None = None
    quantized_source_bytes: int = 0
    origin: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)

    @property
    def misses_budget(self) -> bool:
        """True if a budget was given and what is shipped does not keep it."""
        # Where no smaller model can be made, nothing was measured.
        return self.budget is not None


@dataclass(repr=False, kw_only=True)
class PairResults(JobResults):
    """Results of a job that made both LiteRT models; the attributes are told by `OptimizeReport`."""

    model_inputs: list[tuple[str, str]]
    model_outputs: list[tuple[str, str]]
    outside: dict[str, str]
    float_difference: float
    float_quality: Quality
    int8_quality: Quality
    int8: QuantizedModel
    tested_on: str = ""
    max_drop: float = DEFAULT_MAX_DROP
    ladder: Ladder | None = None
    onnx: ModelPair[OnnxModel, OnnxQuantizedModel] | None = None
    openvino: ModelPair[OnnxModel, OnnxQuantizedModel] | None = None
    race: EngineRace | None = None
    coverage: Coverage
    left: dict[str, list[Entry]] = field(default_factory=dict)
    profiles: list[RowProfile] = field(default_factory=list)
    shown: Shown = field(default_factory=Shown)
    alike: str = ""

    @property
    def is_part(self) -> bool:
        """True if the LiteRT models hold only a part of the graph."""
        return self.coverage.is_part

    @property
    def ladders(self) -> list[Ladder]:
        """What was chosen from under a budget, for each runtime; empty without a budget."""
        both = (self.ladder, None if self.onnx is None else self.onnx.ladder)
        return [ladder for ladder in both if ladder is not None]

    @property
    def misses_budget(self) -> bool:
        return any(not ladder.is_reached for ladder in self.ladders)

    @property
    def coverages(self) -> list[Coverage]:
        """Of the LiteRT models, and of those for ONNX Runtime if there are any."""
        return [self.coverage] if self.onnx is None else [self.coverage, self.onnx.plain.coverage]

    @property
    def qualities(self) -> dict[str, Quality]:
        """Of each model, by the role of its file."""
        found = {"fp32": self.float_quality, "int8": self.int8_quality}
        for pair in (self.onnx, self.openvino):
            found |= {} if pair is None else pair.qualities
        return found


@dataclass(repr=False, kw_only=True)
class GraphResults(JobResults):
    """Results of a job that could not make both LiteRT models; the attributes are told by `GraphReport`."""

    obstacle: ThinflowError
    runs: bool = True
    model: FloatModel | None = None

    @property
    def scheme(self) -> str:
        """The scheme in which the model was to be quantized."""
        return self.recipe.scheme

    @property
    def is_part(self) -> bool:
        """True if there is a float model, of a part of the graph."""
        return self.model is not None and self.model.coverage.is_part
