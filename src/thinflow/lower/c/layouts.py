"""Files of a network as build systems want them: a layout arranges what the writer wrote.

    @layout("zephyr")
    def zephyr(s: Sources) -> dict[str, str]:
        return {"zephyr/module.yml": ..., f"src/{s.name}.c": s.source}

A layout of one or two files stands where the .c was to be; one that is a folder has its name without ".c".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from thinflow._version import __version__
from thinflow.lower.c.names import identifier

Arrange = Callable[["Sources"], dict[str, str]]

LAYOUTS: dict[str, Arrange] = {}
"""Name -> the function that arranges files; those of the default stay as they are."""
FOLDERS: set[str] = set()
"""Those that are folders."""


@dataclass(frozen=True)
class Sources:
    """What the writer wrote.

    Attributes:
        name: of the files, without a suffix.
        symbol: what the functions begin with.
        header, source, weights: texts.
    """

    name: str
    symbol: str
    header: str
    source: str
    weights: str

    @property
    def package(self) -> str:
        """A name that registries of packages take: letters, digits and _."""
        return identifier(self.name)

    def c_files(self, folder: str = "") -> dict[str, str]:
        return {f"{folder}{self.name}.c": self.source, f"{folder}{self.name}_weights.c": self.weights}


def arranged(files: Mapping[str, str], name: str, layout: str) -> dict[str, str]:
    """Path -> text of the files in a layout; paths begin where the .c was to be.

    Args:
        files: what the writer wrote.
        name: of the files, without a suffix.
        layout: a key of `LAYOUTS`.
    """
    sources = Sources(
        name, identifier(name), files[f"{name}.h"], files[f"{name}.c"], files[f"{name}_weights.c"]
    )
    found = LAYOUTS[layout](sources)
    # What builds itself is a folder; the others stand where they were asked for.
    if layout not in FOLDERS:
        return found
    return {f"{name}/{path}": text for path, text in found.items()}


def layout(name: str, *, is_folder: bool = True) -> Callable[[Arrange], Arrange]:
    """Function decorator: a layout of that name."""

    def register(arrange: Arrange) -> Arrange:
        LAYOUTS[name] = arrange
        if is_folder:
            FOLDERS.add(name)
        return arrange

    return register


@layout("files", is_folder=False)
def files(s: Sources) -> dict[str, str]:
    """The layers, a header, and the weights."""
    return {**s.c_files(), f"{s.name}.h": s.header}


@layout("one-file", is_folder=False)
def one_file(s: Sources) -> dict[str, str]:
    """Everything in one file; included with NAME_DECLARATIONS_ONLY defined it is the header."""
    own = f'#include "{s.name}.h"\n'
    # Weights first, and nobody else's: what only declares them is not needed.
    weights = re.sub(r"^extern const .*;\n", "", s.weights, flags=re.MULTILINE)
    weights = re.sub(r"^const ", "static const ", weights, flags=re.MULTILINE)
    source = re.sub(r"^extern const .*;\n", "", s.source.replace(own, ""), flags=re.MULTILINE)
    guard = f"{s.symbol.upper()}_DECLARATIONS_ONLY"
    text = f"{s.header}\n#ifndef {guard}\n\n{weights}\n{source}\n#endif /* {guard} */\n"
    return {f"{s.name}.c": text}


@layout("c++17", is_folder=False)
def cpp17(s: Sources) -> dict[str, str]:
    """The C and its header, and a class around it that owns the memory."""
    return {**s.c_files(), f"{s.name}.h": s.header, f"{s.name}.hpp": _class(s)}


def _class(s: Sources) -> str:
    """A class with `run`, as the header declares it: state, if there is one, is a member like the arena."""
    upper = s.symbol.upper()
    declared = re.search(rf"^void {s.symbol}_run\((?P<given>.*)\);$", s.header, re.MULTILINE)
    assert declared is not None, "every header has a run"
    parameters = declared["given"].split(", ")
    has_state = parameters[0].startswith(f"{s.symbol}_state")
    parameters = parameters[1:] if has_state else parameters
    names = [p.rpartition("*")[2] for p in parameters]
    given = ", ".join(["arena_", *(["&state_"] if has_state else []), *names])
    state = [f"    {s.symbol}_state state_{{}};"] if has_state else []
    reset = f" {s.symbol}_reset(&state_); " if has_state else ""
    lines = [
        f"// {s.name}: a network in C++17 around its C. Made by thinflow {__version__}.",
        "#pragma once",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        f'#include "{s.name}.h"',
        "",
        f"namespace {s.symbol}_network {{",
        "",
        "/// A network with its own memory: several run at once.",
        "class Network {",
        "public:",
        f"    static constexpr std::size_t arena_bytes = {upper}_ARENA_BYTES;",
        "",
        f"    Network() noexcept {{{reset}}}",
        *([f"    void reset() noexcept {{{reset}}}"] if has_state else []),
        f"    void run({', '.join(parameters)}) noexcept",
        "    {",
        f"        {s.symbol}_run_in({given});",
        "    }",
        "",
        "private:",
        "    alignas(8) std::uint8_t arena_[arena_bytes > 0 ? arena_bytes : 1]{};",
        *state,
        "};",
        "",
        f"}}  // namespace {s.symbol}_network",
        "",
    ]
    return "\n".join(lines)


@layout("arduino")
def arduino(s: Sources) -> dict[str, str]:
    """A library with an example that runs the self-test's functions."""
    properties = [
        f"name={s.package}",
        "version=1.0.0",
        "author=thinflow",
        "maintainer=thinflow",
        "sentence=A neural network in plain C.",
        f"paragraph=Made by thinflow {__version__}; it allocates nothing and needs no other library.",
        "category=Data Processing",
        "url=https://example.invalid/thinflow",
        "architectures=*",
        f"includes={s.name}.h",
    ]
    sketch = [
        f"#include <{s.name}.h>",
        "",
        "void setup() {",
        "  Serial.begin(115200);",
        f'  Serial.print("bytes of memory: ");\n  Serial.println({s.symbol.upper()}_ARENA_BYTES);',
        "}",
        "",
        "void loop() {",
        f"  // {s.symbol}_run(...) with arrays of the sizes that the header has.",
        "}",
    ]
    words = [f"{s.symbol}_run\tKEYWORD2", f"{s.symbol}_run_in\tKEYWORD2"]
    return {
        "library.properties": "\n".join(properties) + "\n",
        "keywords.txt": "\n".join(words) + "\n",
        f"examples/{s.package}/{s.package}.ino": "\n".join(sketch) + "\n",
        f"src/{s.name}.h": s.header,
        **s.c_files("src/"),
    }


@layout("zephyr")
def zephyr(s: Sources) -> dict[str, str]:
    """A module: `ZEPHYR_EXTRA_MODULES` names its folder, CONFIG_NAME turns it on."""
    symbol = s.package.upper()
    cmake = [
        f"if(CONFIG_{symbol})",
        "  zephyr_include_directories(include)",
        "  zephyr_library()",
        f'  zephyr_library_sources("src/{s.name}.c" "src/{s.name}_weights.c")',
        "endif()",
    ]
    kconfig = [f"config {symbol}", f'\tbool "The network {s.package}"']
    return {
        "zephyr/module.yml": f"name: {s.package}\nbuild:\n  cmake: .\n  kconfig: Kconfig\n",
        "CMakeLists.txt": "\n".join(cmake) + "\n",
        "Kconfig": "\n".join(kconfig) + "\n",
        f"include/{s.name}.h": s.header,
        **s.c_files("src/"),
    }


@layout("esp-idf")
def esp_idf(s: Sources) -> dict[str, str]:
    """A component, for the folder `components` of a project."""
    cmake = f'idf_component_register(SRCS "{s.name}.c" "{s.name}_weights.c" INCLUDE_DIRS "include")\n'
    return {
        "CMakeLists.txt": cmake,
        "idf_component.yml": 'version: "1.0.0"\ndescription: A neural network in plain C\n',
        f"include/{s.name}.h": s.header,
        **s.c_files(),
    }


@layout("cmsis-pack")
def cmsis_pack(s: Sources) -> dict[str, str]:
    """A software component of a CMSIS-Pack; zipped, its folder is the .pack."""
    from xml.sax.saxutils import escape  # takes urllib and http with it

    name = escape(s.package)
    entries = [
        f'        <file category="header" name="include/{escape(s.name)}.h"/>',
        f'        <file category="source" name="src/{escape(s.name)}.c"/>',
        f'        <file category="source" name="src/{escape(s.name)}_weights.c"/>',
    ]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<package schemaVersion="1.7.7" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance"'
        ' xs:noNamespaceSchemaLocation="PACK.xsd">',
        "  <vendor>thinflow</vendor>",
        f"  <name>{name}</name>",
        "  <description>A neural network in plain C</description>",
        "  <url></url>",
        "  <license>LICENSE</license>",
        "  <releases>",
        f'    <release version="1.0.0">Made by thinflow {__version__}</release>',
        "  </releases>",
        "  <components>",
        f'    <component Cclass="Machine Learning" Cgroup="Networks" Csub="{name}" Cversion="1.0.0">',
        f"      <description>The network {name}</description>",
        "      <files>",
        *entries,
        "      </files>",
        "    </component>",
        "  </components>",
        "</package>",
        "",
    ]
    return {
        f"thinflow.{s.package}.pdsc": "\n".join(lines),
        "LICENSE": "The network is its owner's; the C around it may be used freely.\n",
        f"include/{s.name}.h": s.header,
        **s.c_files("src/"),
    }
