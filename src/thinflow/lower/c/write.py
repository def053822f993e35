"""A network as C text: a header, the layers with their kernels, and the weights."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from thinflow._version import __version__
from thinflow.lower.c.convert import C_TYPES, Network
from thinflow.lower.c.kernel_text import kernels
from thinflow.lower.c.layer import Argument, Constant, Layer, Scratch, State, Struct, Verbatim
from thinflow.lower.c.names import comment, identifier, require_own_header, unique
from thinflow.lower.c.sample import FORMULA, MOST, Sample, generated, generated_text, is_large
from thinflow.tflite.model import Tensor
from thinflow.typing import Array, FilePath

_LINE = 112
_SHARED_BYTES = 32
_SAMPLE_TOLERANCE = 1e-4
"""Of the largest number of an output of floats."""


class Writer:
    """Writes one network.

    Args:
        network: what to write.
        name: the name of the files, without a suffix.
        sample: for a test on the device.
    """

    def __init__(self, network: Network, name: str, sample: Sample | None = None) -> None:
        self.network = network
        self.file = name
        self.sample = sample
        self.name = identifier(name)
        self.block, self.plan = network.block, network.plan
        self._symbols: dict[tuple[str, bytes], str] = {}
        self._arrays: dict[str, Array] = {}
        self._taken: set[str] = set()
        self._states: dict[State, str] = {}
        self._first: list[str] = []
        self._ports = {t: n for n, t in zip(self._port_names(), self._interface(), strict=True)}

    # --- files ------------------------------------------------------------------------------------------

    def files(self, *, values: bool = True) -> dict[str, str]:
        """Name of a file -> its text.

        Args:
            values: whether the weights have theirs. Arrays of the same sizes with others make the same code,
                as they stand in a file of their own; millions of numbers take a minute to write.
        """
        # First: naming what the layers ask for makes the list of arrays that the other files show.
        layers = list(self._layers())
        self._first = [self._first_values(state, name) for state, name in self._states.items()]
        return {
            f"{self.file}.c": self._source(layers),
            f"{self.file}.h": self._header(),
            f"{self.file}_weights.c": self._weights(values),
        }

    def _head(self, what: str) -> str:
        return f"/* {comment(self.file)}: {what}. Made by thinflow {__version__}. */\n"

    def _header(self) -> str:
        upper = self.name.upper()
        # Sizes are macros, which dimension arrays of the caller's in C99.
        lines = [
            self._head("a network in C"),
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            "",
            "#include <stdbool.h>",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            f"#define {upper}_ARENA_BYTES {self.plan.arena_bytes} /* of memory while it runs */",
            f"#define {upper}_WEIGHTS_BYTES {sum(a.nbytes for a in self._arrays.values())}",
            f"#define {upper}_MACS {self.network.macs} /* products that are summed */",
            "",
        ]
        for tensor, port in self._ports.items():
            lines += self._port_lines(tensor, port)
        if self._states:
            lines += ["/* What lasts from run to run. */", "typedef struct {"]
            lines += [f"    {s.type} {n}[{s.count}];" for s, n in self._states.items()]
            lines += [f"}} {self.name}_state;", "", "/* Before the first run, and to begin anew. */"]
            lines += [f"void {self.name}_reset({self.name}_state *state);", ""]
        lines += [
            "/* Inputs and outputs are row by row, and must not overlap. */",
            f"void {self.name}_run({self._parameters()});",
            "",
            f"/* The same in memory of the caller, {upper}_ARENA_BYTES aligned to 8: with some for each,"
            " several can run at once. */",
            f"void {self.name}_run_in(void *arena, {self._parameters()});",
            "",
            *self._test_lines(),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
        return "\n".join(lines)

    def _port_lines(self, tensor: Tensor, port: str) -> list[str]:
        prefix = f"{self.name}_{port}".upper()
        shape = _shape(tensor)
        q = tensor.quantization
        count = self.network.counts.get(tensor)
        told = f", of which so many rows are in use as {self._ports[count]} says" if count is not None else ""
        lines = [f"/* {comment(tensor.name)}: {C_TYPES[tensor.dtype.name]} {shape}{told} */"]
        lines.append(f"#define {prefix}_SIZE {math.prod(n or 0 for n in tensor.shape or ())}")
        if q is not None and len(q.scale) == 1:
            zero_point = int(q.zero_point[0]) if len(q.zero_point) else 0
            lines[0] = f"{lines[0][:-3]}, real = scale * (stored - zero point) */"
            lines.append(f"#define {prefix}_SCALE {float_text(q.scale[0])}")
            lines.append(f"#define {prefix}_ZERO_POINT {_integer(zero_point)}")
        return [*lines, ""]

    def _source(self, layers: list[str]) -> str:
        calls = [call for layer in self.network.layers for call in layer.calls]
        texts, headers = kernels(calls)
        if any("INFINITY" in text or "NAN" in text for text in layers):
            headers.append("<math.h>")
        # Here and not in the header: they are nobody else's affair.
        externs = [f"extern {self._declaration(name)};" for name in self._arrays]
        upper = self.name.upper()
        memory = max(self.plan.arena_bytes, 1)
        parts = [
            self._head("its layers and their kernels"),
            f'#include "{self.file}.h"\n\n'
            + "".join(f"#include {h}\n" for h in sorted({"<stddef.h>", "<string.h>", *headers})),
            "\n".join(externs) + "\n" if externs else "",
            *texts,
            "\n".join(
                [
                    f"void {self.name}_run_in(void *arena, {self._parameters()})",
                    "{",
                    "    uint8_t *const memory = arena;" if self.plan.arena_bytes else "    (void)arena;",
                    *self._unused(layers),
                    *layers,
                    "}\n",
                ]
            ),
            f"#ifndef {upper}_NO_ARENA\n"
            f"void {self.name}_run({self._parameters()})\n{{\n"
            # A union for the alignment: C99 has no alignas, and bytes may begin anywhere.
            "    static union {\n"
            f"        uint8_t bytes[{memory}];\n        int64_t aligned;\n    }} arena;\n"
            f"    {self.name}_run_in(arena.bytes, {', '.join(self._parameter_names())});\n}}\n#endif\n",
        ]
        if self._states:
            parts.append(f"void {self.name}_reset({self.name}_state *state)\n{{\n{''.join(self._first)}}}\n")
        if self.sample is not None:
            parts.append(self._test(self.sample))
        return "\n".join(p for p in parts if p)

    def _unused(self, layers: list[str]) -> list[str]:
        """Statements about parameters that no layer looks at, which compilers warn of."""
        words = set(re.findall(r"\w+", "\n".join(layers)))
        return [f"    (void){name};" for name in self._parameter_names() if name not in words]

    def _first_values(self, state: State, name: str) -> str:
        # By bytes: only those of one byte begin with another number than 0.
        if state.values is None:
            return f"    memset(state->{name}, {state.first}, sizeof state->{name});\n"
        values = self._symbol(state.values, f"{self.name}_{name}_first")
        return f"    memcpy(state->{name}, {values}, sizeof state->{name});\n"

    def _test_lines(self) -> list[str]:
        """The declaration of the test, which costs nothing unless a macro asks for it."""
        if self.sample is None:
            return []
        return [
            f"#ifdef {self.name.upper()}_SELFTEST",
            f"/* Runs a sample; how many numbers are not what {self.sample.by} answers to it. */",
            f"int32_t {self.name}_selftest(void);",
            "#endif",
            "",
        ]

    def _test(self, sample: Sample) -> str:
        """The test: the sample, the answer to it, and a loop for each output."""
        name, lines = self.name, [f"#ifdef {self.name.upper()}_SELFTEST"]
        fed = dict(zip(self.block.inputs, sample.inputs, strict=True))
        wanted = dict(self._wanted(sample))
        arguments, checks, runs, made = [], list[str](), 1, list[str]()
        for number, (tensor, port) in enumerate(self._ports.items()):
            data = fed.get(tensor, wanted.get(tensor))
            assert data is not None, "every port is an input or an output"
            if tensor in fed:
                # A stream hears as many rows as a window has, some in each run.
                size = math.prod(n or 0 for n in tensor.shape or ())
                runs = data.size // size if size else 1
                arguments.append(f"sample_{port}" + (f" + run * {size}" if runs > 1 else ""))
                if is_large(tensor) and np.array_equal(data, generated(tensor, number)):
                    lines.append(f"static {_c_type(data)} sample_{port}[{data.size}];")
                    is_code = tensor.quantization is not None
                    text = generated_text(data.dtype, _c_type(data), number, is_code)
                    made += _loop(data.size, f"sample_{port}[i] = {text};")
                else:
                    lines += _stored(f"sample_{port}", data.reshape(-1))
                continue
            # All of a small answer, and of a large one what is spread over it.
            step = -(-data.size // MOST) if data.size else 1
            if step > 1:
                lines.append(f"/* Every {step} of {data.size} numbers. */")
            lines += _stored(f"sample_{port}", data.reshape(-1)[::step])
            lines.append(f"static {_c_type(data)} found_{port}[{data.size}];")
            arguments.append(f"found_{port}")
            checks += _check(port, data, step)
        if made:
            lines.insert(1, FORMULA)
        lines += ["", f"int32_t {name}_selftest(void)", "{", "    int32_t wrong = 0;"]
        if self._states:
            lines += [f"    static {name}_state state;", f"    {name}_reset(&state);"]
            arguments.insert(0, "&state")
        lines += made
        call = f"{name}_run({', '.join(arguments)});"
        if runs > 1:
            lines += [f"    for (int32_t run = 0; run < {runs}; run++) {{", f"        {call}", "    }"]
        else:
            lines.append(f"    {call}")
        return "\n".join([*lines, *checks, "    return wrong;", "}", "#endif", ""])

    def _wanted(self, sample: Sample) -> Iterator[tuple[Tensor, Array]]:
        """Outputs and what they are to be; rows that are counted with zeros behind them, and their count."""
        for tensor, data in zip(self.network.outputs, sample.outputs, strict=True):
            count = self.network.counts.get(tensor)
            if count is not None:
                rows = (tensor.shape or (0,))[0] or 0
                yield count, np.array(len(data), np.int32)
                data = np.concatenate([data, np.zeros((rows - len(data), *data.shape[1:]), data.dtype)])
            yield tensor, data

    def _weights(self, values: bool) -> str:
        headers = ["<stdbool.h>", "<stdint.h>"]
        if any(a.dtype.kind == "f" and not np.isfinite(a).all() for a in self._arrays.values()):
            headers.append("<math.h>")
        lines = [self._head("its weights"), "".join(f"#include {h}\n" for h in sorted(headers))]
        for name, array in self._arrays.items():
            # Declared first: some compilers warn of what is defined for others without a declaration.
            lines.append(
                f"extern {self._declaration(name)};\n"
                # Not 0: that need not be stored.
                f"{self._declaration(name)} = {{\n{array_text(array if values else np.ones(1, np.int8))}}};\n"
            )
        if not self._arrays:
            # A file of nothing but includes is none in ISO C, which compilers warn of.
            lines.append(f"typedef int {self.name}_without_weights;\n")
        return "\n".join(lines)

    def _declaration(self, name: str) -> str:
        array = self._arrays[name]
        return f"const {_c_type(array)} {name}[{array.size}]"

    # --- the interface ----------------------------------------------------------------------------------

    def _interface(self) -> list[Tensor]:
        return list(dict.fromkeys([*self.block.inputs, *self.block.outputs]))

    def _port_names(self) -> list[str]:
        inputs, outputs = dict.fromkeys(self.block.inputs), dict.fromkeys(self.network.outputs)
        counts = len(self._interface()) - len(inputs | outputs)
        kinds = [("input", len(inputs)), ("output", len(outputs.keys() - inputs)), ("count", counts)]
        return [name for word, number in kinds for name in _numbered(word, number)]

    def _parameters(self) -> str:
        found = [f"{self.name}_state *state"] if self._states else []
        for tensor, port in self._ports.items():
            # A value that is both is only read.
            const = "const " if tensor in self.block.inputs else ""
            found.append(f"{const}{C_TYPES[tensor.dtype.name]} *{port}")
        return ", ".join(found)

    def _parameter_names(self) -> list[str]:
        return [*(["state"] if self._states else []), *self._ports.values()]

    # --- layers -----------------------------------------------------------------------------------------

    def _layers(self) -> Iterator[str]:
        depth = 0
        for number, layer in enumerate(self.network.layers):
            for text in self._layer(number, layer):
                # Inside of loops and branches everything stands further in.
                depth -= text.lstrip().startswith("}")
                yield "\n".join("    " * depth + line for line in text.split("\n"))
                depth += text.endswith("{")

    def _layer(self, number: int, layer: Layer) -> Iterator[str]:
        """The text of a layer, and what it opens or closes."""
        if layer.calls or not layer.brace:
            title = self._title(number, layer)
            if not layer.calls:
                yield f"    {title}"
                return
            lines: list[str] = []
            prefix = f"{self.name}_{_short(layer)}"
            for call in layer.calls:
                arguments = [self._argument(a, prefix, call.function, lines) for a in call.arguments]
                lines += _wrapped(f"{call.function}(", arguments, ");")
            body = "\n".join(f"        {line}" for line in lines)
            yield f"    {title}\n    {{\n{body}\n    }}"
        if layer.brace:
            place = "" if layer.verdict is None else self._place(layer.verdict)
            yield f"    {layer.brace.format(place)}"

    def _title(self, number: int, layer: Layer) -> str:
        operator = layer.operator
        y = next(iter((*operator.outputs, *operator.reads())))
        cost = [f"{layer.macs * layer.count:,} MACs"] if layer.macs else []
        if layer.source is not None:
            times = f", {layer.count} times" if layer.count > 1 else ""
            cost.insert(0, f"of {_shape(layer.source.outputs[0])}{times}")
        if size := sum(c.data.nbytes for c in layer.constants()):
            cost.append(f"{size:,} bytes of weights")
        told = f" ({', '.join(cost)})" if cost else ""
        code, name = comment(operator.custom_code or operator.code), comment(y.name)
        return f"/* {number + 1}: {code} {name[:80]} {_shape(y)}{told} */"

    def _argument(self, argument: Argument, prefix: str, function: str, lines: list[str]) -> str:
        """An argument in C; the declarations it needs are put in front."""
        if isinstance(argument, Struct):
            # Without memory of the arena in it, it needs no instructions at all.
            lasting = "static " if _is_static(argument) else ""
            name = f"settings{sum('settings' in line for line in lines) or ''}"
            type = argument.type or f"{function}_t"
            lines += _wrapped(f"{lasting}const {type} {name} = {{", self._members(argument, prefix), "};")
            return f"&{name}"
        return self._value(argument, prefix)

    def _members(self, struct: Struct, prefix: str) -> list[str]:
        """The members of an initializer; an inner struct's are between braces of their own."""
        found = []
        for name, value in struct.members.items():
            if isinstance(value, Struct):
                first, *others, last = self._members(value, prefix)
                found += [f".{name} = {{{first}", *others, f"{last}}}"]
            else:
                found.append(f".{name} = {self._value(value, prefix)}")
        return found

    def _value(self, argument: Argument, prefix: str) -> str:
        if isinstance(argument, Tensor):
            return self._place(argument)
        if isinstance(argument, Constant):
            return self._symbol(argument.data, f"{prefix}_{argument.name}")
        if isinstance(argument, Scratch):
            return f"(void *)(memory + {self.plan.scratches[argument]})"
        if isinstance(argument, State):
            if argument not in self._states:
                # Names of variables are the model's, in which a / is usual.
                name = identifier(f"{_tail(prefix, self.name)}_{argument.name}")
                self._states[argument] = unique(name, self._taken)
            return f"state->{self._states[argument]}"
        if isinstance(argument, tuple):
            return f"{{{', '.join(map(_integer, argument))}}}"
        if isinstance(argument, Verbatim):
            return argument.text
        if isinstance(argument, float | np.floating):
            return float_text(argument)
        assert not isinstance(argument, Struct)
        return _integer(int(argument))

    def _place(self, tensor: Tensor) -> str:
        """A pointer to a tensor's elements."""
        buffer = self.plan.buffers[tensor]
        view = self.plan.views.get(tensor)
        offset, step = (view.offset, view.step) if view is not None else (0, 0)
        # By way of void: the elements are of the kernel's type, and nowhere is that of the bytes assumed.
        if buffer.owner is None:
            return f"(void *)(memory + {buffer.offset + offset}{_moved(step)})"
        if buffer.owner in self._ports:
            port, size = self._ports[buffer.owner], tensor.dtype.itemsize
            return f"{port} + {offset // size}{_moved(step // size)}" if offset or step else port
        return self._symbol(
            buffer.owner.array().reshape(-1), f"{self.name}_{identifier(buffer.owner.name)[:40]}"
        )

    def _symbol(self, data: Array, name: str) -> str:
        # A few numbers are alike by chance: who reads the C expects them under the layer's own name.
        key = data.dtype.str, data.tobytes() + (b"" if data.nbytes >= _SHARED_BYTES else name.encode())
        if key not in self._symbols:
            symbol = unique(name, self._taken)
            self._symbols[key], self._arrays[symbol] = symbol, data
        return self._symbols[key]


def _moved(step: int) -> str:
    """What a pointer moves on by in a loop over bands."""
    return f" + band * {step}" if step else ""


def stem(path: FilePath) -> str:
    """The name that files beside each other begin with.

    Raises:
        ParameterError: the C library has a header of that name.
    """
    name = Path(os.fspath(path)).stem
    require_own_header(name)
    return name


def _stored(name: str, values: Array) -> list[str]:
    """A constant array of the test."""
    return [f"static const {_c_type(values)} {name}[{values.size}] = {{", f"{array_text(values)}}};"]


def _loop(count: int, body: str) -> list[str]:
    return [f"    for (int32_t i = 0; i < {count}; i++) {{", f"        {body}", "    }"]


def _check(port: str, data: Array, step: int) -> list[str]:
    """The loop that counts what is wrong with an answer, of which every so many numbers are known."""
    found = f"found_{port}[i]" if step == 1 else f"found_{port}[i * {step}]"
    differs = f"{found} != sample_{port}[i]"
    if data.dtype.kind == "f":
        # Other machines sum in another order and have another exp.
        most = float_text(max(float(np.abs(data).max(initial=0)), 1e-6) * _SAMPLE_TOLERANCE)
        off = f"{found} - sample_{port}[i]"
        # The other way round, so that what is no number counts as wrong.
        differs = f"!({off} <= {most} && {off} >= -{most})"
    return _loop(-(-data.size // step), f"wrong += {differs};")


def _tail(prefix: str, name: str) -> str:
    return prefix.removeprefix(f"{name}_")


def _is_static(struct: Struct) -> bool:
    """Whether all in it is known when it is compiled."""
    values = struct.members.values()
    return not any(
        not _is_static(v) if isinstance(v, Struct) else isinstance(v, Tensor | Scratch | State)
        for v in values
    )


def _short(layer: Layer) -> str:
    """The name of a layer: the last parts of what its source calls the output."""
    y = next(iter((*layer.operator.outputs, *layer.operator.reads())))
    name = y.name.split(";")[0].removesuffix(":0")
    return identifier("_".join(name.split("/")[-2:])[:48], "layer")


def _wrapped(opening: str, parts: list[str], closing: str) -> list[str]:
    """Parts with commas between, in lines that are not too long; broken between parts only."""
    # By hand: a `textwrap` would break between a member and its value.
    lines = [opening]
    for number, part in enumerate(parts):
        text = part + ("," if number + 1 < len(parts) else closing)
        if len(lines[-1]) + len(text) + 9 > _LINE:
            lines.append("   ")
        gap = "" if lines[-1] == opening and number == 0 else " "
        lines[-1] += gap + text
    return lines


def _numbered(word: str, count: int) -> list[str]:
    return [word] if count == 1 else [f"{word}_{n}" for n in range(count)]


def _shape(tensor: Tensor) -> str:
    return "[" + ", ".join(map(str, tensor.shape or ())) + "]"


def type_of(dtype: str) -> str:
    """A type of C by numpy's name."""
    return {"float32": "float", "bool": "bool"}.get(dtype, f"{dtype}_t")


def _c_type(array: Array) -> str:
    return type_of(array.dtype.name)


def array_text(array: Array) -> str:
    """The elements of an initializer, in lines."""
    joined = "".join(f"\n{text}," for text in _texts(array))
    # By hand and line by line: `wrap` takes seconds for a million numbers.
    lines, start, room = [], 0, _LINE - 3
    while len(joined) - start > room:
        end = joined.rfind("\n", start + 1, start + room + 1)
        lines.append(joined[start:end])
        start = end
    lines.append(joined[start:])
    return "".join("   " + line.replace("\n", " ") + "\n" for line in lines)


def _texts(array: Array) -> Iterable[str]:
    values = array.tolist()
    if array.dtype.kind in "iu" and array.min(initial=0) > np.iinfo(np.int32).min:
        # As `_integer` does, in one call.
        return str(values)[1:-1].split(", ") if values else []
    if array.dtype.kind != "f":
        return map(_integer, values)
    if not np.isfinite(array).all():
        return map(float_text, values)
    # As `float_text` does, in one call: networks have millions of them. Nine digits are enough for any float
    # to be read back as it was.
    texts = ("%.9g " * len(values) % tuple(values)).split()
    return [f"{text}f" if "." in text or "e" in text else f"{text}.0f" for text in texts]


def float_text(value: float | np.floating) -> str:
    """A float32 as C reads it back."""
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    text = f"{float(value):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _integer(value: int) -> str:
    # The least number has no literal: a minus in front of one that is too large.
    return f"({value + 1} - 1)" if value in (-(1 << 31), -(1 << 63)) else str(value).lower()
