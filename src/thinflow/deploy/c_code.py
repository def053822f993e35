"""Pieces of C around a network, for the templates of targets that have no runtime."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable

import numpy as np

from thinflow.deploy.c_answers import answer_values
from thinflow.deploy.c_literals import Ports, c_string
from thinflow.deploy.contract import (
    ANY,
    DETECTION,
    PICTURE,
    REAL,
    SOUND,
    WHOLE,
    AppInput,
    Contract,
    PictureSteps,
)
from thinflow.errors import ParameterError
from thinflow.lower.c.names import comment, identifier
from thinflow.lower.c.write import array_text, float_text, type_of

_LONGEST_SIDE = 320
"""Pixels of a picture, unless a macro says more: that of small cameras, whose tables take 4 kB."""
_CLOSE = 0.002
"""So near to its threshold, a box that one processor's kernels show may be left out by another's."""
_ROUNDED = """/* Half goes to the even side. */
static int32_t rounded(double number)
{
    return (int32_t)nearbyint(number);
}

"""


def require_c_steps(contract: Contract) -> None:
    """Refuse pictures that are resized twice, for which there would have to be a picture in between.

    Raises:
        ParameterError: they are.
    """
    steps = contract.main_input.picture
    if steps is None or steps.resize is None or steps.crop:
        return
    if steps.resize != (steps.height, steps.width):
        raise ParameterError(
            f"the picture would be resized to {steps.resize} and then to the model's size, which takes a"
            " second picture in memory",
            hint="cut the model's size out of it (--crop center), or leave --resize away",
        )


def c_values(contract: Contract) -> dict[str, str]:
    """What the templates of C ask for."""
    symbol = identifier(contract.name)
    ports = Ports(contract)
    main = contract.main_input
    what, size = _sample(contract)
    found = {
        "symbol": symbol,
        "upper": symbol.upper(),
        "sample_what": what,
        "sample_bytes": str(size),
        "main_type": type_of(main.dtype),
        "output_parameters": ", ".join(
            f"const {type_of(one.dtype)} *{name}"
            for one, name in zip(contract.outputs, ports.outputs, strict=True)
        ),
        "output_arguments": ", ".join(ports.outputs),
        "prepare_declaration": _prepare_declaration(contract, symbol),
        "buffers": _buffers(contract, ports, symbol),
        "run_lines": _run_lines(contract, ports, symbol),
        "ask_lines": _ask_lines(contract, ports, symbol),
        "sample_arrays": _sample_arrays(contract),
        "selftest_lines": _selftest_lines(contract, ports, symbol),
        "answer_check": _answer_check(contract),
    }
    if main.picture is not None:
        found |= _picture_values(main, main.picture)
    if main.sound is not None:
        is_code = main.dtype == "int16"
        found |= {
            "samples": str(main.sound.samples),
            "sample_stored": "sample" if is_code else "(float)sample / 32768.0f",
        }
    return found | answer_values(contract, ports)


def _sample(contract: Contract) -> tuple[str, int]:
    """What is asked about, in words, and its bytes."""
    main = contract.main_input
    if main.picture is not None:
        p = main.picture
        pixels = {1: "grey pixels", 3: "pixels of R, G and B", 4: "pixels of R, G, B and A"}[p.channels]
        return f"a picture, {p.height} rows of {p.width} {pixels}", p.height * p.width * p.channels
    if main.sound is not None:
        s = main.sound
        return f"{s.samples} samples of sound of 16 bits, {s.sample_rate} a second", 2 * s.samples
    sizes = [math.prod(one.shape) * np.dtype(one.dtype).itemsize for one in contract.inputs]
    kinds = ", ".join(dict.fromkeys(type_of(one.dtype) for one in contract.inputs))
    return f"the numbers of {'all inputs' if len(sizes) > 1 else 'the input'}, {kinds}", sum(sizes)


# ------------------------------------------------------------------------------------------ what goes in


def _prepare_declaration(contract: Contract, symbol: str) -> str:
    main = contract.main_input
    kind = type_of(main.dtype)
    if main.sound is not None:
        return (
            "/* From samples to what the network takes: cut, or followed by silence. */\n"
            f"void {symbol}_prepare(const int16_t *samples, int32_t count, {kind} *input);\n\n"
        )
    if main.picture is None:
        return ""
    raw = contract.test.raw
    sides = (main.picture.height, main.picture.width, *(() if raw is None else raw.shape[:2]))
    upper = symbol.upper()
    return (
        f"#ifndef {upper}_LONGEST_SIDE\n"
        f"#define {upper}_LONGEST_SIDE {max(_LONGEST_SIDE, *sides)} /* of a picture; tables grow with it */\n"
        "#endif\n\n"
        "/* From a picture of any size, rows of pixels, to what the network takes. False: it is too large,\n"
        "   or too small to be cut. */\n"
        f"bool {symbol}_prepare(const uint8_t *pixels, int32_t height, int32_t width, {kind} *input);\n\n"
    )


def _picture_values(main: AppInput, p: PictureSteps) -> dict[str, str]:
    is_bgr = p.order == "bgr"
    return {
        "height": str(p.height),
        "width": str(p.width),
        "channels": str(p.channels),
        "store_function": _store_function(main, p),
        "sizing": _sizing(p),
        "rounded_function": _ROUNDED if p.crop else "",
        "channel_source": "2 - c" if is_bgr else "c",
        "place": "(y * WIDTH + x) * CHANNELS + c",
    }


def _store_function(main: AppInput, p: PictureSteps) -> str:
    """`stored`: from a pixel to a number or a code."""
    kind = type_of(main.dtype)
    head = f"static {kind} stored(int32_t channel, uint8_t pixel)\n{{\n"
    is_whole = p.store == WHOLE and all(x == round(x) for x in p.mean) and all(x == 1 for x in p.std)
    if is_whole and not any(p.mean):
        return f"{head}    (void)channel;\n    return {'' if kind == 'uint8_t' else f'({kind})'}pixel;\n}}\n"
    if is_whole:
        means = ", ".join(str(round(x)) for x in p.mean)
        return (
            f"static const int32_t mean[CHANNELS] = {{{means}}};\n\n"
            f"{head}    return ({kind})((int32_t)pixel - mean[channel]);\n}}\n"
        )
    arrays = (
        "/* (pixel - mean) / std_dev, in the order in which channels are fed. */\n"
        f"static const float mean[CHANNELS] = {{{_floats(p.mean)}}};\n"
        f"static const float std_dev[CHANNELS] = {{{_floats(p.std)}}};\n\n"
    )
    real = "((float)pixel - mean[channel]) / std_dev[channel]"
    if p.store == REAL:
        return f"{arrays}{head}    return {real};\n}}\n"
    limits = np.iinfo(main.dtype)
    code = f"rintf({real})" if p.store == WHOLE else f"rintf(({real}) / {float_text(main.scale)})"
    zero = 0 if p.store == WHOLE else main.zero_point
    low, high = f"{limits.min}.0f", f"{limits.max}.0f"
    return (
        f"{arrays}{head}    const float code = {code} + {float_text(zero)};\n"
        f"    return ({kind})(code < {low} ? {low} : code > {high} ? {high} : code);\n}}\n"
    )


def _sizing(p: PictureSteps) -> str:
    """What is cut before or after it is resized."""
    cut = (
        "    if (new_height < HEIGHT || new_width < WIDTH) {\n        return false;\n    }\n"
        "    top = rounded((double)(new_height - HEIGHT) / 2.0);\n"
        "    left = rounded((double)(new_width - WIDTH) / 2.0);"
    )
    if isinstance(p.resize, int):
        return (
            f"    /* The shorter side becomes {p.resize}, and the middle is cut out. */\n"
            f"    const double factor = {p.resize}.0 / (double)least(height, width);\n"
            "    new_height = most(1, rounded((double)height * factor));\n"
            "    new_width = most(1, rounded((double)width * factor));\n" + cut
        )
    if p.resize is not None and p.crop:
        return f"    new_height = {p.resize[0]};\n    new_width = {p.resize[1]};\n{cut}"
    if not p.crop:
        return ""
    return (
        "    /* The largest part of the input's shape, out of the middle. */\n"
        "    const double factor = fmin((double)width / (double)WIDTH, (double)height / (double)HEIGHT);\n"
        "    old.height = most(1, (int32_t)((double)HEIGHT * factor));\n"
        "    old.width_used = most(1, (int32_t)((double)WIDTH * factor));\n"
        "    old.top = rounded((double)(height - old.height) / 2.0);\n"
        "    old.left = rounded((double)(width - old.width_used) / 2.0);"
    )


def _buffers(contract: Contract, ports: Ports, symbol: str) -> str:
    """Memory of inputs and outputs; what no picture or sound gives is as in the sample."""
    lines = []
    is_numbers = contract.main_input.kind not in (PICTURE, SOUND)
    for one, name, array in zip(contract.inputs, ports.inputs, contract.test.inputs, strict=True):
        size = math.prod(one.shape)
        if is_numbers or one is contract.main_input:
            lines.append(f"static {type_of(one.dtype)} {name}[{size}];")
        else:
            lines.append(f"static {type_of(one.dtype)} {name}[{size}] = {{ /* {comment(one.name)} */")
            lines.append(f"{array_text(array.reshape(-1))}}};")
    for given, name in zip(contract.outputs, ports.outputs, strict=True):
        lines.append(f"static {type_of(given.dtype)} {name}[{math.prod(given.shape)}];")
    if contract.c is not None and contract.c.has_state:
        lines.append(f"static {symbol}_state state;")
    return "\n".join([*lines, ""])


def _run_lines(contract: Contract, ports: Ports, symbol: str) -> str:
    given = [*ports.inputs, *ports.outputs]
    if contract.c is None or not contract.c.has_state:
        return f"    {symbol}_run({', '.join(given)});"
    return "\n".join(
        [
            "    static bool has_begun;",
            "    if (!has_begun) {",
            f"        {symbol}_reset(&state);",
            "        has_begun = true;",
            "    }",
            f"    {symbol}_run({', '.join(['&state', *given])});",
        ]
    )


def _ask_lines(contract: Contract, ports: Ports, symbol: str) -> str:
    main = contract.main_input
    if main.picture is not None:
        sizes = f"{main.picture.height}, {main.picture.width}"
        return f"    (void){symbol}_prepare(sample, {sizes}, {ports.main});"
    if main.sound is not None:
        return f"    {symbol}_prepare(sample, {main.sound.samples}, {ports.main});"
    lines, place = [], 0
    for one, name in zip(contract.inputs, ports.inputs, strict=True):
        lines.append(f"    memcpy({name}, (const uint8_t *)sample + {place}, sizeof {name});")
        place += math.prod(one.shape) * np.dtype(one.dtype).itemsize
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------ the self-test


def _sample_arrays(contract: Contract) -> str:
    raw = contract.test.raw
    named = zip(Ports(contract).inputs, contract.test.inputs, strict=True)
    return "".join(
        f"static const {type_of(array.dtype.name)} sample_{name}[{array.size}] = {{\n"
        f"{array_text(array.reshape(-1))}}};\n"
        for name, array in ([("raw", raw)] if raw is not None else named)
    )


def _selftest_lines(contract: Contract, ports: Ports, symbol: str) -> str:
    lines = []
    if contract.c is None or contract.c.has_test:
        lines += _failing(
            f"{symbol}_selftest() != 0", "numbers of the network's answer are not what LiteRT answers"
        )
    raw, main = contract.test.raw, contract.main_input
    if raw is None:
        return "\n".join([*lines, *(f"    memcpy({n}, sample_{n}, sizeof {n});" for n in ports.inputs)])
    sizes = f"{raw.shape[0]}, {raw.shape[1]}" if main.picture is not None else str(raw.size)
    call = f"{symbol}_prepare(sample_raw, {sizes}, {ports.main})"
    lines.append(f"    {'(void)' if main.picture is not None else ''}{call};")
    fed = contract.test.inputs[contract.inputs.index(main)]
    # By a checksum: the bytes are in the network's own test already.
    sum_of_bytes = zlib.adler32(fed.astype(fed.dtype.newbyteorder("<")).tobytes())
    lines += [
        "    uint32_t low = 1, high = 0; /* Adler-32 */",
        f"    for (size_t i = 0; i < sizeof {ports.main}; i++) {{",
        f"        low = (low + ((const uint8_t *){ports.main})[i]) % 65521;",
        "        high = (high + low) % 65521;",
        "    }",
        *_failing(f"(high << 16 | low) != {sum_of_bytes:#x}u", "the sample is not prepared as it should be"),
    ]
    return "\n".join(lines)


def _failing(condition: str, problem: str) -> list[str]:
    return [
        f"    if ({condition}) {{",
        f'        tell("self-test failed: {problem}");',
        "        return 1;",
        "    }",
    ]


def _answer_check(contract: Contract) -> str:
    """The test of the words: what they begin with."""
    begin = _first_words(contract)
    if not begin:
        return ""
    label = c_string(begin)
    check = _failing(f"strncmp(text, {label}, sizeof {label} - 1) != 0", "the answer is another")
    return "\n".join([*check, ""])


def _first_words(contract: Contract) -> str:
    """What the app's answer to the sample begins with; "" where that is not known for sure."""
    answer = contract.test.answer
    if contract.task == ANY or not answer or answer == "no box":
        return answer
    words = answer.rpartition(" at ")[0] if contract.task == DETECTION else answer
    name, _, number = words.rpartition(" ")
    if contract.task != DETECTION:
        # The number behind it may differ in its last digit.
        return f"{name} "
    # The best of all boxes is told here, and the app shows none below its threshold.
    distance = float(number) - contract.threshold
    if abs(distance) < _CLOSE:
        return ""
    return f"{name} " if distance > 0 else "no box"


def _floats(numbers: Iterable[float]) -> str:
    return ", ".join(map(float_text, numbers))
