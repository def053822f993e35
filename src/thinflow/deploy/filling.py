"""Templates: small texts with `%{key}` in them, in folders by target and by what a model takes and gives.

    templates/linux/all/CMakeLists.txt.in      always
    templates/linux/picture/picture.cpp.in     for a model that takes a picture; sound, numbers
    templates/linux/detection/boxes.cpp.in     for a detector; classification, any

Each ends in `.in`, which is left out: no tool shall take it for what it will be. A path may have `%{key}` as
well. `%{key:json}` is the value as a string of JSON, quotes included, which is one of C, Python, JavaScript
and Swift as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from thinflow.deploy.contract import (
    BOX_CLASSES,
    BOX_COUNT,
    BOX_SCORES,
    BOXES,
    SCORES,
    VALUES,
    AppInput,
    Contract,
)
from thinflow.errors.plain_text import markdown, markdown_code
from thinflow.ir.usage import scaling_text as usage_text

ALWAYS, SUFFIX = "all", ".in"
_KEY = re.compile(r"%\{([a-z_0-9]+)(:json)?\}")


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with each `%{key}` replaced by its value; values are not looked at again."""
    return _KEY.sub(lambda m: json.dumps(values[m[1]]) if m[2] else values[m[1]], text)


def filled_templates(folders: Sequence[str], contract: Contract, values: Mapping[str, str]) -> dict[str, str]:
    """Path below the folder -> text, of what a target has templates for.

    Args:
        folders: of templates; a file in a later one takes the place of one in an earlier one.
    """
    found: dict[str, str] = {}
    for folder in folders:
        for feature in (ALWAYS, *contract.features):
            root = Path(__file__).parent / "templates" / folder / feature
            for file in _files(root):
                path = file.relative_to(root).as_posix().removesuffix(SUFFIX)
                found[filled(path, values)] = filled(file.read_text(encoding="utf-8"), values)
    return found


def common_values(contract: Contract) -> dict[str, str]:
    """What every template may ask for; a target adds its own. A model's names are escaped for Markdown."""
    return {
        "name": contract.name,
        "name_upper": contract.name.upper(),
        "title": markdown(contract.title),
        "source": markdown_code(contract.source),
        "file": contract.file,
        "made_by": contract.made_by,
        "answer": markdown(contract.test.answer),
        "raw_file": contract.raw_file,
        "input_lines": "\n".join(f"- {line}" for line in input_lines(contract)),
        "output_lines": "\n".join(f"- {line}" for line in output_lines(contract)),
        "doubt_lines": "".join(f"\n**Not known**: {line}.\n" for line in contract.doubts),
    }


def input_lines(contract: Contract) -> list[str]:
    """What goes in, a sentence of Markdown each."""
    found = []
    for one in contract.inputs:
        shape = ", ".join(map(str, one.shape))
        line = f"{markdown_code(one.name)}, {one.dtype} [{shape}]"
        if one.picture is not None:
            p = one.picture
            cut = " cut out of the middle," if p.crop else ""
            line += f": a picture of {p.width}x{p.height},{cut} {p.order.upper()}, {scaling_text(one)}"
        elif one.sound is not None:
            s = one.sound
            inside = f"; the model makes {' and '.join(s.inside)} of them" if s.inside else ""
            line += f": {s.samples} samples of sound, {s.sample_rate} a second{inside}"
        elif one.value:
            line += f": {one.value}, the samples a second"
        found.append(line)
    return found


def scaling_text(one: AppInput) -> str:
    """How the pixels of a picture are fed: `(pixel - 127.5) / 127.5`."""
    assert one.picture is not None
    text = usage_text(one.picture.mean, one.picture.std).replace("x", "pixel")
    return "pixels 0..255 as they are" if text == "pixel" else text


def output_lines(contract: Contract) -> list[str]:
    """What comes out, a sentence of Markdown each."""
    told = {
        SCORES: "a score for each class",
        BOXES: "boxes, rows of y1, x1, y2, x2",
        BOX_SCORES: "a score for each box",
        BOX_CLASSES: "the class of each box",
        BOX_COUNT: "how many boxes count",
        VALUES: "numbers",
    }
    found = []
    for one in contract.outputs:
        shape = ", ".join(map(str, one.shape))
        more = ", of which the app makes probabilities by softmax" if one.softmax else ""
        found.append(f"{markdown_code(one.name)}, {one.dtype} [{shape}]: {told[one.kind]}{more}")
    return found


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder of the package, none if it is not there."""
    yield from sorted(file for file in folder.rglob(f"*{SUFFIX}") if file.is_file())
