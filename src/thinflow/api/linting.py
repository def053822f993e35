"""What an expert would notice in a model, and what can be mended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.load.graphs import Source, opening
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.lint.context import Context
    from thinflow.lint.finding import Severity
    from thinflow.lint.report import LintReport
    from thinflow.lint.rules import Rule
    from thinflow.lint.settings import Settings
    from thinflow.typing import FilePath, Samples


_THERE_AND_BACK = "goes through TensorFlow's ops and back, and writes nothing if that takes more operators"
_FOREIGN = (
    "only its own runtime knows its ops, which transforms leave alone; export it without what was found"
)


def lint(
    source: Source,
    *,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    fix: FilePath | None = None,
    calibration: Samples | None = None,
    synthetic: bool = False,
    profile: str | None = None,
    settings: FilePath | bool = False,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
) -> LintReport:
    """What an expert would notice in a trained network, each with its evidence, cost and remedy.

        for finding in thinflow.lint("model.pb", ignore=["TF4"]).findings:
            print(finding.code, finding.message, finding.nodes)

    Args:
        source: path or Graph.
        select: codes of rules, their names, or prefixes such as "TF3"; default: all. `thinflow lint --list`
            has them.
        ignore: the same, for rules that are not to look. A longer prefix wins over a shorter one.
        fix: a file to write with all mended that transforms can mend, each step proven; its suffix chooses
            the format. The report is then on that file. Nothing is written if nothing can be mended.
        calibration: samples to run the model on, as for `optimize`, for rules that look at activations.
        synthetic: whether those may run it on made-up inputs.
        profile: an engine to time the model in, so that findings tell the milliseconds of their nodes: "auto"
            for the usual one, "litert", "onnxruntime" or "reference". Default: nothing is timed.
        settings: a thinflow.toml, or True for the nearest one above the model; what is given here counts
            more. Default: none.
        inputs, outputs: names; default: those of the graph.
        shapes: input name -> shape to assume.
        seed: for the made-up inputs of proofs.
        progress: called with (done, total, label).
        tags, signature, checkpoint: how to open the model, as for `load`.

    Raises:
        FormatError: no such file, or not a model.
        ParameterError: a rule or an engine does not exist, a setting cannot be, or no such files are written.
        FeedError: no samples are at `calibration`, or the first does not fit the inputs.
    """
    from thinflow.lint.context import Context
    from thinflow.lint.fix import steps_of
    from thinflow.lint.look import look, path_of
    from thinflow.lint.selection import selected
    from thinflow.lower.targets import target_for

    if fix is not None:
        check_lint_target(path_of(source), fix)
    if profile is not None:
        check_lint_engine(profile)
    chosen = _settings(settings, path_of(source))
    rules = selected(
        select if select is not None else chosen.select, [*ignore, *(() if select else chosen.ignore)]
    )
    ends: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "shapes": shapes}
    samples: dict[str, Any] = {"calibration": calibration, "synthetic": synthetic}
    options = opening(tags, signature, checkpoint)
    context = Context(source, **samples, **ends, **options)
    if any(one.needs_runs for one in rules):
        context.check_samples()
    report = look(context, rules, progress=progress, model=path_of(source))
    report.settings = chosen.path
    own = f"OUT.{context.file.vocabulary}"
    if fix is None and report.fixable and target_for(own) is not None:
        report.notes.append(f"--fix {own} {_THERE_AND_BACK}")
    if fix is not None and (tried := steps_of(report.fixable)):
        context, report = _fixed(context, report, fix, rules, samples, seed=seed, progress=progress)
        report.findings = [f.beyond_mending() if steps_of([f]) <= tried else f for f in report.findings]
    elif fix is not None:
        why = "no transform mends anything of this" if context.can_mend else _FOREIGN
        report.notes.append(f"{why}: {os.fspath(fix)} was not written")
    if profile is not None:
        _time(context, report, profile)
    return report


def _time(context: Context, report: LintReport, engine: str) -> None:
    """Give findings what their nodes take; a note why not, where no engine runs the model."""
    from thinflow.errors import ThinflowError
    from thinflow.lint.times import measured, timed

    try:
        report.times = measured(context, engine)
    except ThinflowError as error:
        report.notes.append(f"nothing was timed: {error.message}")
    else:
        report.findings = [*timed(report.findings, report.times)]


def _fixed(
    opened: Context,
    before: LintReport,
    target: FilePath,
    rules: Sequence[Rule],
    samples: dict[str, Any],
    *,
    seed: int,
    progress: Progress | None,
) -> tuple[Context, LintReport]:
    """The file that is written with what can be mended, and the report on it; the one before, if none is."""
    from thinflow.api.converting import convert_verified
    from thinflow.formats import format_for
    from thinflow.lint.context import Context
    from thinflow.lint.fix import fixed_graph, mended_codes
    from thinflow.lint.look import look
    from thinflow.lower.targets import target_for

    path = os.fspath(target)
    result = fixed_graph(opened.graph, before, seed=seed, progress=progress)
    before.notes += result.notes
    smaller = result.smaller
    if not result.kept:
        before.notes.append(f"nothing was mended: {path} was not written")
        return opened, before
    if opened.file.vocabulary and format_for(path).name == opened.file.vocabulary:
        smaller, why = _written_anew(opened.file, result.graph, path)
        if why:
            before.notes.append(f"{why}: {path} was not written")
            return opened, before
    else:
        convert_verified(result.graph, path, strict=True)
    # A GraphDef does not say what its inputs and outputs are.
    ends: dict[str, Any] = (
        {role: [v.name for v in getattr(result.graph, role)] for role in ("inputs", "outputs")}
        if target_for(path) is None
        else {}
    )
    context = Context(path, **samples, **ends)
    after = look(context, rules, model=path)
    after.fixed, after.partly = mended_codes(before, after, result.undone)
    after.written, after.settings = path, before.settings
    after.proof = f"{smaller}; {result.proven}"
    after.notes = [*before.notes, *after.notes]
    return context, after


def _written_anew(file: Graph, mended: Graph, path: str) -> tuple[str, str]:
    """What became smaller in a file that is written again in its own format, in words.

    A file is put into TensorFlow's ops and back for it, which takes more operators than it saves where an op
    has to be spelled out. Then nothing is written, and the second text says so.
    """
    import tempfile

    from thinflow.api.converting import convert_verified
    from thinflow.formats import load as read_file
    from thinflow.lint.fix import operators, sizes_text

    folder, name = os.path.split(path)
    with tempfile.TemporaryDirectory(prefix=".thinflow-", dir=folder or ".") as aside:
        made = os.path.join(aside, name)
        convert_verified(mended, made, strict=True)
        numbers = [operators(file), operators(read_file(made))]
        if numbers[1] > numbers[0]:
            told = f"put into TensorFlow's ops and back, its {numbers[0]:,} operators become {numbers[1]:,}"
            return "", f"{told}, which is no mend; export the model without what was found"
        sizes = [os.path.getsize(file.path), os.path.getsize(made)] if os.path.isfile(file.path) else []
        # Weights may stand in a file beside it.
        for part in sorted(os.listdir(aside)):
            os.replace(os.path.join(aside, part), os.path.join(folder, part))
    told = f"{numbers[0]:,} operators became {numbers[1]:,}"
    return ", ".join([told, *([sizes_text(*sizes)] if sizes else [])]), ""


def _settings(given: FilePath | bool, model: str) -> Settings:
    from thinflow.lint.settings import Settings, read_settings, settings_for

    if isinstance(given, bool):
        return settings_for(model) if given else Settings()
    return read_settings(given)


def lint_settings(given: FilePath | None, model: str) -> Settings:
    """The settings that count for a model: those of a file, or the nearest ones."""
    return _settings(given if given is not None else True, model)


def lint_severity(name: str) -> Severity:
    """A severity by its name.

    Raises:
        ParameterError: there is none of that name.
    """
    from thinflow.lint.finding import severity

    return severity(name)


def check_lint_rules(select: Sequence[str] | None, ignore: Sequence[str] | None) -> None:
    """Check that codes mean rules.

    Raises:
        ParameterError: one does not; the hint has the closest.
    """
    from thinflow.lint.selection import selected

    selected(select, ignore or ())


def check_lint_target(model: str, fix: FilePath) -> None:
    """Check that the mended model can be written there.

    Raises:
        ParameterError: no such files are written, its folder is not there, or it is the model itself.
    """
    from thinflow.api.files import require_writable

    require_writable(fix)
    # What was mended is proven against the model as it was, which has to be there for it.
    if model and os.path.exists(fix) and os.path.exists(model) and os.path.samefile(model, fix):
        raise ParameterError(
            f"{os.fspath(fix)} is the model itself", hint="name another file for what is mended"
        )


def check_lint_engine(engine: str) -> None:
    """Check that a model can be timed in an engine of that name.

    Raises:
        ParameterError: there is none; the hint has the closest.
    """
    from thinflow.lint.times import require_engine

    require_engine(engine)


def lint_rules() -> list[Rule]:
    """Every rule of the linter, by code."""
    from thinflow.lint.rules import rules

    return rules()


def lint_rule(code: str) -> Rule:
    """A rule by its code or name.

    Raises:
        ParameterError: there is none; the hint has the closest.
    """
    from thinflow.lint.rules import find

    return find(code)


def lint_rule_lines(rules: Sequence[Rule], *, explained: bool = False) -> list[str]:
    """Rules as a list, or each with what it looks for, why, and what to do."""
    from thinflow.lint.text import list_lines, rule_lines

    return [line for one in rules for line in rule_lines(one)] if explained else [*list_lines(rules)]


def lint_rule_data(one: Rule) -> dict[str, object]:
    """A rule for machines."""
    return one.data()


def lint_report_lines(report: LintReport, *, everything: bool = False, github: bool = False) -> list[str]:
    """A report as lines of text, or as annotations of a workflow on GitHub."""
    from thinflow.lint.text import github_lines

    return [*github_lines(report)] if github else report.lines(everything=everything)
