"""What an evaluation found: of one model, and of several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import table_html
from thinflow.optimize.evaluation.measured import Measured, SampleAnswer
from thinflow.optimize.evaluation.page import document_of
from thinflow.optimize.quality import finite_decibels
from thinflow.pages.report import ReportDocument, title_of
from thinflow.pages.shell import Paged, Tabular, save_document
from thinflow.typing import FilePath


@brief_repr
@dataclass
class Evaluation(Measured, Paged, Tabular):
    """The quality of one model: how often it is right, and beside the first of several models.

    A model that is evaluated alone is the first, and compared with itself. Its attributes are those of
    `Quality` and these: `source`, the path of the model; `engine`, that ran it; `figures`, what the metrics
    found; `confusion`, (label, answer) -> how many samples; `classes`, their names; `preprocessing` of
    pictures; `left_out`, what could not be read; `wrong()` walks over all samples that it got wrong.
    """

    def rows(self) -> list[dict[str, Any]]:
        """One flat row; see `Evaluations.rows`."""
        return Evaluations([self]).rows()

    def document(self, next_steps: Sequence[str] = ()) -> ReportDocument:
        """What the page shows, block by block; with commands to try."""
        return document_of(title_of(self.source, "the model"), self.verdict, [self], self.data(), next_steps)

    def save_html(self, path: FilePath, next_steps: Sequence[str] = ()) -> int:
        """Write the page, with commands to try; the bytes written.

        Raises:
            PagesUnavailable: the package was installed without the scripts of its pages.
            WriteError: it cannot be written.
        """
        return save_document(self.document(next_steps), path)


@brief_repr
@dataclass
class Evaluations(Sequence[Evaluation], Tabular):
    """Several models on the same samples, each beside the first; a sequence of `Evaluation`.

    Attributes:
        models: one for each, in their order.
        answers: walks over all samples with what every model answered; see `SampleAnswer`.
        unreached: of devices that could not be asked, which and why.
    """

    models: list[Evaluation]
    answers: Callable[[], Iterator[SampleAnswer]] = field(default=lambda: iter(()), repr=False, compare=False)
    unreached: list[str] = field(default_factory=list)

    @overload
    def __getitem__(self, index: int) -> Evaluation: ...
    @overload
    def __getitem__(self, index: slice) -> list[Evaluation]: ...
    def __getitem__(self, index: int | slice) -> Evaluation | list[Evaluation]:
        return self.models[index]

    def __len__(self) -> int:
        return len(self.models)

    @property
    def names(self) -> list[str]:
        """What the models are called: their files, with folders where files have the same name, and with the
        device where there are several.
        """
        # Two folders may each have a model.tflite; then only the paths tell them apart.
        sources = list(dict.fromkeys(one.source for one in self.models))
        files = [title_of(source, "") for source in sources]
        found = []
        for n, one in enumerate(self.models, 1):
            short = title_of(one.source, f"model {n}")
            name = short if files.count(short) < 2 else one.source
            found.append(f"{name} on {one.place}" if self.has_places else name)
        return found

    @property
    def has_places(self) -> bool:
        """Whether the models ran on several devices."""
        return len({one.place for one in self.models}) > 1

    @property
    def verdict(self) -> str:
        """One sentence: which is best, and whether more than chance says so."""
        names, first = self.names, self.models[0]
        if first.accuracy is None:
            told = [f"{name} {one.sentence()}" for name, one in zip(names[1:], self.models[1:], strict=True)]
            return f"beside {names[0]}: {'; '.join(told)}"
        # The first of equals: no model is called better for being named later.
        best = max(range(len(self)), key=lambda n: self.models[n].accuracy or 0.0)
        if best == 0:
            return (
                f"none is better than {names[0]}: accuracy {first.accuracy:.2f}% on {first.samples} samples"
            )
        gain = (self.models[best].accuracy or 0.0) - first.accuracy
        doubt = "which chance does as well" if self.models[best].may_be_chance else "more than chance does"
        return (
            f"{names[best]} is {gain:.2f} points better than {names[0]} on {first.samples} samples: {doubt}"
            f" (McNemar's exact test, p = {self.models[best].chance or 0.0:.2g})"
        )

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each model: name -> text or number, None where something is not known."""
        rows = [
            _row(name, one, n > 0) for n, (name, one) in enumerate(zip(self.names, self.models, strict=True))
        ]
        # A metric may find something of one model alone.
        columns = dict.fromkeys(name for row in rows for name in row)
        return [{name: row.get(name) for name in columns} for row in rows]

    def data(self) -> dict[str, Any]:
        """For machines: `models` with what each has alone, and `beside_first` of those behind the first."""
        beside = [{"model": row["model"], **{name: row[name] for name in _BESIDE}} for row in self.rows()[1:]]
        return {
            "verdict": self.verdict,
            "models": [{"name": n, **one.data()} for n, one in zip(self.names, self.models, strict=True)],
            "beside_first": beside,
        } | ({"unreached": self.unreached} if self.unreached else {})

    def csv(self) -> str:
        """See `to_csv`."""
        return self.to_csv()

    def document(self, next_steps: Sequence[str] = ()) -> ReportDocument:
        """What the page shows, block by block; with commands to try."""
        title = " and ".join(self.names) if len(self) < 3 else f"{len(self)} models"
        return document_of(title, self.verdict, self.models, self.data(), next_steps, self.names)

    def save_html(self, path: FilePath, next_steps: Sequence[str] = ()) -> int:
        """Write the page, with commands to try; the bytes written.

        Raises:
            PagesUnavailable: the package was installed without the scripts of its pages.
            WriteError: it cannot be written.
        """
        return save_document(self.document(next_steps), path)

    def _repr_html_(self) -> str:
        rows = self.rows()
        shown = [name for name in rows[0] if any(row[name] is not None for row in rows)]
        cells = [[_short(row[name]) for name in shown] for row in rows]
        return table_html(self.verdict, cells, shown)


_BESIDE = (
    *("same_answer", "lost", "gained", "points", "points_low", "points_high", "p", "may_be_chance"),
    *("sqnr_db", "largest"),
)


def _row(name: str, one: Evaluation, is_beside: bool) -> dict[str, Any]:
    ends = one.intervals
    drop = one.drop_interval if one.accuracy is not None else None
    row: dict[str, Any] = {
        "model": name,
        "engine": one.engine,
        "samples": one.samples,
        "correct": one.correct,
        "accuracy": one.accuracy,
        "accuracy_low": ends["accuracy"][0] if "accuracy" in ends else None,
        "accuracy_high": ends["accuracy"][1] if "accuracy" in ends else None,
    }
    beside: dict[str, Any] = {
        "same_answer": one.same_answer,
        "lost": one.lost,
        "gained": one.gained,
        "points": None if one.drop is None or one.accuracy is None else -one.drop + 0.0,
        "points_low": None if drop is None else -drop[1],
        "points_high": None if drop is None else -drop[0],
        "p": one.chance,
        "may_be_chance": None if one.chance is None else one.may_be_chance,
        "sqnr_db": finite_decibels(one.sqnr_db),
        "largest": one.largest,
    }
    # Metrics stand beside what is always counted, one column each: a table that people sort. One's own may be
    # called as a column is.
    taken = {*row, *beside}
    figures = {f"{f.name} (metric)" if f.name in taken else f.name: f.value for f in one.figures}
    return row | figures | (beside if is_beside else dict.fromkeys(beside))


def _short(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
