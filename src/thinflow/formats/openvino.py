"""OpenVINO's models (.xml with a .bin beside it), told apart from other files. OpenVINO alone opens them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from thinflow.errors import FormatError
from thinflow.formats.foreign import Names, interface_attrs
from thinflow.formats.format import HEAD_BYTES, Format, Sample
from thinflow.ir.graph import Graph
from thinflow.ir.types import TensorSpec, dtype
from thinflow.ir.vocabulary import OPENVINO

_HEAD = re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*\?>\s*)?(<!--[^>]*-->\s*)?<net[\s>]")


def begins_ir(head: bytes) -> bool:
    """Whether an OpenVINO model can begin so: XML with the root `net`."""
    return _HEAD.match(head) is not None


WEIGHTS_SUFFIX = ".bin"
"""Of the file of weights, which stands beside an .xml and has its stem."""


def weights_beside(path: str | os.PathLike[str]) -> list[Path]:
    """The file of weights of an OpenVINO model, if it is there; none for any other file."""
    target = Path(path)
    with open(target, "rb") as file:
        is_ir = begins_ir(file.read(HEAD_BYTES))
    weights = target.with_suffix(WEIGHTS_SUFFIX)
    return [weights] if is_ir and weights.is_file() else []


MOST_BYTES = 64 << 20
"""Of an .xml: the structure of very large models takes some megabytes."""
_ELEMENTS = {
    "f32": "float",
    "f16": "half",
    "f64": "double",
    "bf16": "bfloat16",
    "boolean": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
"""OpenVINO's element types -> ours."""


def inputs_of(path: str | os.PathLike[str]) -> Graph:
    """The inputs of a model as a graph of placeholders, in the order of the file; nothing else of it is read.

    Raises:
        FormatError: it is no XML, or too large.
    """
    from xml.etree import ElementTree

    where = os.fspath(path)
    if Path(path).stat().st_size > MOST_BYTES:
        raise FormatError(
            "an OpenVINO model that is too large to be looked at",
            where,
            hint="give the model that it was made from, or run it in OpenVINO itself",
        )
    graph = Graph()
    names, inputs = Names(graph), []
    try:
        root = ElementTree.parse(path).getroot()
        for layer in root.iterfind("./layers/layer[@type='Parameter']"):
            data, port = layer.find("data"), layer.find("./output/port")
            stated = {} if data is None else data.attrib
            given = "" if port is None else port.get("names", "").split(",")[0]
            name = names.node_name(given or layer.get("name", ""), "input", is_interface=True)
            element = _ELEMENTS.get(stated.get("element_type", ""))
            spec = TensorSpec(None if element is None else dtype(element), _sizes(stated.get("shape")))
            inputs.append(graph.add("Placeholder", [], name, attrs=interface_attrs(spec)).output())
    except (ElementTree.ParseError, ValueError, OSError) as error:
        raise FormatError(
            f"an OpenVINO model that cannot be read: {error}",
            where,
            hint="make it again: thinflow convert MODEL NAME.xml",
        ) from error
    graph.inputs = inputs
    return graph


def _sizes(text: str | None) -> tuple[int | None, ...] | None:
    """The sizes that a Parameter states: "?,8,8,1", "1..64,3", or "..." for any number of them."""
    if text is None or "..." in text:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(int(part) if part.isdigit() else None for part in parts)


def _recognise(sample: Sample) -> bool:
    return begins_ir(sample.head)


FORMAT = Format(
    name=OPENVINO.name,
    title=OPENVINO.title,
    recognise=_recognise,
    hint="OpenVINO alone opens it: `thinflow run`, `benchmark` and `verify` take it; else give the model that"
    " it was made from",
    vocabulary=OPENVINO,
    rank=14,
)
