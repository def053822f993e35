"""Linux: a C++ program with CMake, on LiteRT's C API."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from thinflow.deploy.contract import (
    BOX_CLASSES,
    BOX_COUNT,
    BOX_SCORES,
    BOXES,
    CLASSIFICATION,
    DETECTION,
    PICTURE,
    SCORES,
    SOUND,
    AppInput,
    AppOutput,
    Contract,
)
from thinflow.deploy.sample import ppm_bytes
from thinflow.deploy.targets import Target, target
from thinflow.deploy.tools import called, python, require_tool
from thinflow.errors import UnsupportedOp

_TYPES = {"float32": "float32", "bool": "boolean"} | {
    name: name for name in ("int8", "uint8", "int16", "int32", "int64")
}
_MOST_AXES = 8


@target
class Linux(Target):
    """A C++ program with CMake, on LiteRT's C API."""

    name = "linux"
    templates: ClassVar[tuple[str, ...]] = ("linux",)
    assets = "assets"
    built: ClassVar[tuple[str, ...]] = ("build",)

    def check(self, contract: Contract) -> None:
        ends: list[AppInput | AppOutput] = [*contract.inputs, *contract.outputs]
        for one in ends:
            if one.dtype not in _TYPES or len(one.shape) > _MOST_AXES:
                raise UnsupportedOp(
                    f"the C++ program takes no {one.dtype} of {len(one.shape)} dimensions",
                    f"'{one.name}'",
                    "make a Python package of it: --target python",
                )

    def values(self, contract: Contract) -> Mapping[str, str]:
        is_picture = contract.main_input.kind == PICTURE
        takes = {PICTURE: "a picture", SOUND: "a WAV file of 16 bits"}
        examples = {PICTURE: "picture.jpg", SOUND: "sound.wav"}
        packages = "cmake g++" + (" libjpeg-dev libpng-dev" if is_picture else "")
        return {
            "takes": takes.get(contract.main_input.kind, "a file with the numbers of all inputs"),
            "example": examples.get(contract.main_input.kind, "assets/selftest/input_0.bin"),
            "more_sources": " src/picture.cpp" if is_picture else "",
            "cmake_more": _PICTURE_LIBRARIES.replace("NAME", contract.name) if is_picture else "",
            "linux_libraries": ", libjpeg and libpng for such pictures" if is_picture else "",
            "linux_install": f"sudo apt-get install {packages}",
        }

    def files(self, contract: Contract) -> Mapping[str, str | bytes]:
        found: dict[str, str | bytes] = {"src/contract.h": header(contract)}
        if contract.test.raw is not None and contract.main_input.kind == PICTURE:
            found["assets/selftest/sample.ppm"] = ppm_bytes(contract.test.raw)
        return found

    def test(self, folder: Path) -> str:
        cmake = require_tool("cmake", "apt-get install cmake g++")
        name = json.loads((folder / "assets" / "model.json").read_text(encoding="utf-8"))["name"]
        library = f"-DPython3_EXECUTABLE={python()}"
        called([cmake, "-S", ".", "-B", "build", library], folder, "cmake -S . -B build")
        called([cmake, "--build", "build", "--parallel"], folder, "cmake --build build")
        return called([folder / "build" / name, "--test"], folder, f"./build/{name} --test")


_PICTURE_LIBRARIES = """
# Without these the program reads PPM and PGM only.
find_package(PNG)
if(PNG_FOUND)
  target_compile_definitions(NAME PRIVATE WITH_PNG)
  target_link_libraries(NAME PRIVATE PNG::PNG)
endif()
find_package(JPEG)
if(JPEG_FOUND)
  target_compile_definitions(NAME PRIVATE WITH_JPEG)
  target_link_libraries(NAME PRIVATE JPEG::JPEG)
endif()
"""


def header(contract: Contract) -> str:
    """contract.h: what the program has to know, as constants."""
    sample = contract.raw_file.replace(".png", ".ppm")
    lines = [
        f"// What the program has to know of the network {contract.name}; made by {contract.made_by}.",
        "#pragma once",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        "namespace contract {",
        "",
        "enum class Type { float32, int8, uint8, int16, int32, int64, boolean };",
        "",
        "struct Tensor {",
        "    const char* name;   // in the file",
        "    const char* alias;  // in its signature",
        "    Type type;",
        "    std::int32_t shape[8];",
        "    std::size_t bytes;",
        "    double scale;  // real = scale * (code - zero_point); 0: the numbers stand for themselves",
        "    std::int32_t zero_point;",
        "    double tolerance;  // of the self-test",
        "};",
        "",
        *_tensors("input", [(one, 0.0) for one in contract.inputs]),
        *_tensors("output", [(one, one.tolerance) for one in contract.outputs]),
        f"constexpr std::size_t main_input = {contract.inputs.index(contract.main_input)};",
        f"constexpr char sample[] = {json.dumps(sample)};",
        *_steps(contract.main_input),
        *_answers(contract),
        "",
        "}  // namespace contract",
        "",
    ]
    return "\n".join(lines)


def _tensors(side: str, tensors: list[tuple[AppInput | AppOutput, float]]) -> list[str]:
    rows = []
    for one, tolerance in tensors:
        size = math.prod(one.shape) * np.dtype(one.dtype).itemsize
        words = f"{json.dumps(one.name)}, {json.dumps(one.alias)}, Type::{_TYPES[one.dtype]}"
        grid = f"{one.scale!r}, {one.zero_point}, {tolerance!r}"
        rows.append(f"    {{{words}, {{{_listed(one.shape)}}}, {size}, {grid}}},")
    return [
        f"constexpr std::size_t {side}_count = {len(tensors)};",
        f"constexpr Tensor {side}s[{side}_count] = {{",
        *rows,
        "};",
        "",
    ]


def _listed(numbers: Iterable[float]) -> str:
    return ", ".join(map(str, numbers))


def _floats(numbers: Iterable[float]) -> str:
    """As C++ reads them back to the same float32."""
    return ", ".join(f"{float(x)!r}F" for x in numbers)


def _steps(one: AppInput) -> list[str]:
    if one.picture is not None:
        p = one.picture
        sides = p.data()["resize"]
        return [
            "",
            "// (pixel - mean) / std_dev, in the order in which channels are fed.",
            "enum class Store { real, whole, quantized };",
            f"constexpr int height = {p.height}, width = {p.width}, channels = {p.channels};",
            f"constexpr bool bgr = {str(p.order == 'bgr').lower()}, crop = {str(bool(p.crop)).lower()};",
            "// Height and width before it is cut; a shorter side and 0; 0 and 0 for none.",
            f"constexpr int resize[2] = {{{_listed([*sides, 0, 0][:2])}}};",
            f"constexpr float mean[] = {{{_floats(p.mean)}}};",
            f"constexpr float std_dev[] = {{{_floats(p.std)}}};",
            f"constexpr Store store = Store::{p.store};",
        ]
    if one.sound is not None:
        return [
            "",
            f"constexpr std::size_t samples = {one.sound.samples};",
            f"constexpr int sample_rate = {one.sound.sample_rate};  // a second",
        ]
    return []


def _answers(contract: Contract) -> list[str]:
    kinds = [one.kind for one in contract.outputs]
    if contract.task == CLASSIFICATION:
        place = kinds.index(SCORES)
        is_softmax = str(contract.outputs[place].softmax).lower()
        return [
            "",
            f"constexpr std::size_t scores = {place};",
            f"constexpr bool softmax = {is_softmax};  // of the scores, which the model has not",
            f"constexpr std::size_t top = {contract.top};",
        ]
    if contract.task == DETECTION:
        names = (BOXES, BOX_SCORES, BOX_CLASSES, BOX_COUNT)
        places = (f"{name} = {kinds.index(name) if name in kinds else -1}" for name in names)
        return [
            "",
            "// Which output they are; -1 for none.",
            f"constexpr int {', '.join(places)};",
            f"constexpr float threshold = {_floats([contract.threshold])};",
        ]
    return []
