"""Writes docs/transforms.md from the transforms themselves, and which of the old ones are missing.

    python docs/_make_transforms.py

What a transform is for is the first paragraph of its module, its parameters are its dataclass fields, and
what they mean stands under `Attributes:` in its class.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path

from thinflow.compare.differences import NO_CHANGE
from thinflow.rewrite.rule import Transform, options
from thinflow.transforms import ALIASES, find, names
from thinflow.transforms.describing import meanings, purpose
from thinflow.transforms.pipelines import PIPELINES

PAGE = Path(__file__).with_name("transforms.md")
OLD_TOOL = Path(__file__).with_name("coming-from-graph-transform-tool.md")
REGION = re.compile(r"(<!-- generated: (?P<what>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# What the Graph Transform Tool has and thinflow may not: name -> what to do instead.
NOT_YET = {
    "backport_concatv2": "",
    "backport_tensor_array_v3": "",
    "flatten_atrous_conv": "",
    "freeze_requantization_ranges": "ranges can come from samples: `--calibration`; or `thinflow quantize`",
    "fuse_pad_and_conv": "",
    "fuse_resize_and_conv": "",
    "fuse_resize_pad_and_conv": "",
    "inline_partitionedcall": "",
    "insert_logging": "",
    "sparsify_gather": "",
}


def reference() -> str:
    """Everything between the markers of the page."""
    transforms = [find(name) for name in names()]
    overview = ["| transform | what it does |", "|---|---|"]
    overview += [f"| [`{t.name}`](#{t.name}) | {_cell(purpose(t)[0])} |" for t in transforms]
    parts = ["\n".join(overview), *map(_section, transforms), _pipelines()]
    return "\n\n".join(parts) + "\n"


def missing() -> str:
    """Transforms of the old tool that are not there, as far as they still are not."""
    if set(NOT_YET) <= set(names()):
        return "None.\n"
    rows = [f"| `{name}` | {instead or '-'} |" for name, instead in NOT_YET.items() if name not in names()]
    return "\n".join(["| transform | instead |", "|---|---|", *rows]) + "\n"


def _section(kind: type[Transform]) -> str:
    title, details = purpose(kind)
    parts = [f"### {kind.name}", title]
    for paragraph in filter(None, details.split("\n\n")):
        is_code = paragraph.startswith(" ") or "->" in paragraph
        parts.append(f"```text\n{textwrap.dedent(paragraph)}\n```" if is_code else paragraph)
    known, meaning = options(kind), meanings(kind)
    if known:
        rows = ["| parameter | type | default | meaning |", "|---|---|---|---|"]
        for name, (hint, default) in known.items():
            rows.append(
                f"| `{name}` | {_type(hint)} | {_default(default)} | {_cell(meaning.get(name, ''))} |"
            )
        parts.append("\n".join(rows))
    else:
        parts.append("No parameters.")
    other = [f"`{old}`" for old, new in ALIASES.items() if new == (kind.name,)]
    if other:
        parts.append(f"Also understood: {', '.join(other)}.")
    parts.append(_checked(kind))
    return "\n\n".join(parts)


def _checked(kind: type[Transform]) -> str:
    if not kind.exact:
        return (
            "Verification: this transform may change numbers; the difference is reported and nothing undone."
        )
    limit = max(kind.tolerance, NO_CHANGE)
    return f"Verification: up to {limit:g} of the largest value is rounding; beyond that the step is undone."


def _pipelines() -> str:
    parts = ["## Names for several"]
    for alias, several in ALIASES.items():
        if len(several) > 1:
            parts.append(f"`{alias}` runs {', '.join(f'`{name}`' for name in several)}, in this order.")
    parts.append("## Named orders")
    for name, order in PIPELINES.items():
        parts.append(f"`{name}`: {order.purpose}.")
        text = textwrap.dedent(order.repeated).strip()
        text += f"\n# then, once\n{textwrap.dedent(order.last).strip()}" if order.last else ""
        parts.append(f"```text\n# until nothing changes\n{text}\n```")
    return "\n\n".join(parts)


def _type(hint: object) -> str:
    text = hint.__name__ if isinstance(hint, type) and not str(hint).startswith("tuple") else str(hint)
    repeated = re.fullmatch(r"tuple\[(\w+), \.\.\.\]", text)
    return f"{repeated[1]}, may be repeated" if repeated else text.replace(" | None", "")


def _default(value: object) -> str:
    if value is dataclasses.MISSING:
        return "required"
    if value in (None, "", ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value[0] if isinstance(value, tuple) else value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def renewed(text: str) -> str:
    """A page with its generated part made anew."""
    parts = {"reference": reference, "missing": missing}
    return REGION.sub(lambda m: f"{m[1]}\n{parts[m['what']]()}\n{m[3]}", text)


if __name__ == "__main__":
    for page in (PAGE, OLD_TOOL):
        page.write_text(renewed(page.read_text("utf-8")), "utf-8")
