"""Pieces of C that put a network's answer into words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from thinflow.deploy.c_literals import Ports, c_string
from thinflow.deploy.contract import (
    ANY,
    BOX_CLASSES,
    BOX_COUNT,
    BOX_SCORES,
    BOXES,
    CLASSIFICATION,
    DETECTION,
    SCORES,
    AppOutput,
    Contract,
)
from thinflow.lower.c.names import comment
from thinflow.lower.c.write import float_text, type_of

_PUT_LABEL = "static void put_label(text_end *end, int32_t number)\n{\n"
_TEXT_OF_NUMBER = 24
_SHOWN_NUMBERS = 4
"""Of each output whose meaning is not known: a line on a serial port is short."""


def answer_values(contract: Contract, ports: Ports) -> dict[str, str]:
    """What the templates ask for of outputs."""
    task = {CLASSIFICATION: _classification_values, DETECTION: _detection_values, ANY: _any_values}
    found = {"labels": label_lines(contract.labels), "text_bytes": str(_text_bytes(contract))}
    return found | task[contract.task](contract, ports)


def _text_bytes(contract: Contract) -> int:
    """Room for the longest answer."""
    longest = max((len(label.encode()) for label in contract.labels), default=10)
    if contract.task == CLASSIFICATION:
        return contract.top * (longest + _TEXT_OF_NUMBER) + 1
    if contract.task == DETECTION:
        boxes = next(one for one in contract.outputs if one.kind == BOX_SCORES)
        return math.prod(boxes.shape) * (longest + 6 * _TEXT_OF_NUMBER) + 8
    return sum(len(comment(one.name)) + 6 * _TEXT_OF_NUMBER for one in contract.outputs) + 1


def label_lines(labels: Sequence[str]) -> str:
    """`put_label`, and the names that it knows."""
    if not labels:
        return f"{_PUT_LABEL}    put_whole(end, (uint64_t)number);\n}}\n"
    rows = "".join(f"    {c_string(label)},\n" for label in labels)
    return (
        f"#define LABELS {len(labels)}\n\nstatic const char *const labels[LABELS] = {{\n{rows}}};\n\n"
        f"{_PUT_LABEL}"
        "    if (number >= 0 && number < LABELS) {\n        put(end, labels[number]);\n    } else {\n"
        '        put(end, number < 0 ? "-" : "");\n'
        "        put_whole(end, (uint64_t)(number < 0 ? -(int64_t)number : number));\n    }\n}\n"
    )


def real_of(one: AppOutput, code: str) -> str:
    """An expression: the real number that a code of an output stands for."""
    if not one.scale:
        return code if one.dtype == "float32" else f"(float){code}"
    return f"{float_text(one.scale)} * (float)((int32_t){code} - {_integer(one.zero_point)})"


def _real_function(name: str, one: AppOutput) -> str:
    return f"static float {name}({type_of(one.dtype)} code)\n{{\n    return {real_of(one, 'code')};\n}}\n"


def _unused(used: Iterable[str], ports: Ports) -> str:
    return "".join(f"    (void){name};\n" for name in ports.outputs if name not in set(used))


def _classification_values(contract: Contract, ports: Ports) -> dict[str, str]:
    place = next(n for n, one in enumerate(contract.outputs) if one.kind == SCORES)
    one, name = contract.outputs[place], ports.outputs[place]
    # Less the largest score, so that no exponential overflows.
    softmax = (
        "    float largest = real_of(" + name + "[0]), sum = 0.0f;\n"
        "    for (int32_t i = 1; i < CLASSES; i++) {\n"
        f"        largest = fmaxf(largest, real_of({name}[i]));\n    }}\n"
        "    for (int32_t i = 0; i < CLASSES; i++) {\n"
        f"        sum += expf(real_of({name}[i]) - largest);\n    }}\n"
    )
    of_best = f"real_of({name}[best])"
    return {
        "classes": str(math.prod(one.shape)),
        "top": str(contract.top),
        "scores": name,
        "scores_type": type_of(one.dtype),
        "scores_real": _real_function("real_of", one),
        "math_include": "#include <math.h>\n\n" if one.softmax else "",
        "softmax_sum": softmax if one.softmax else "",
        "score_of_best": f"expf({of_best} - largest) / sum" if one.softmax else of_best,
        "unused_outputs": _unused([name], ports),
    }


def _detection_values(contract: Contract, ports: Ports) -> dict[str, str]:
    places = {one.kind: n for n, one in enumerate(contract.outputs)}
    outputs = {kind: contract.outputs[n] for kind, n in places.items()}
    names = {kind: ports.outputs[n] for kind, n in places.items()}
    boxes = math.prod(outputs[BOX_SCORES].shape)
    reals = [
        _real_function("score_of", outputs[BOX_SCORES]),
        _real_function("box_of", outputs[BOXES]),
    ]
    put_kind = 'put(&end, "box");'
    if BOX_CLASSES in outputs:
        kind = real_of(outputs[BOX_CLASSES], f"{names[BOX_CLASSES]}[best]")
        put_kind = f"put_label(&end, (int32_t)({kind}));"
    limit = "BOXES"
    if BOX_COUNT in outputs:
        count = f"(int32_t)({real_of(outputs[BOX_COUNT], f'{names[BOX_COUNT]}[0]')})"
        limit = f"{count} < BOXES ? {count} : BOXES"
    return {
        "boxes_count": str(boxes),
        "threshold": float_text(contract.threshold),
        "box_reals": "\n".join(reals),
        "box_limit": limit,
        "box_scores": names[BOX_SCORES],
        "boxes": names[BOXES],
        "put_kind": put_kind,
        # Without classes nobody asks for labels.
        **({} if BOX_CLASSES in outputs else {"labels": ""}),
        "unused_outputs": _unused(
            [names[k] for k in (BOXES, BOX_SCORES, BOX_CLASSES, BOX_COUNT) if k in names], ports
        ),
    }


def _any_values(contract: Contract, ports: Ports) -> dict[str, str]:
    lines = []
    for number, (one, name) in enumerate(zip(contract.outputs, ports.outputs, strict=True)):
        size = math.prod(one.shape)
        title = c_string(f"{', ' if number else ''}{comment(one.name)}:")
        lines += [
            f"    put(&end, {title});",
            f"    for (int32_t i = 0; i < {size} && i < SHOWN; i++) {{",
            '        put(&end, " ");',
            f"        put_real(&end, {real_of(one, f'{name}[i]')});",
            "    }",
            *(['    put(&end, " ...");'] if size > _SHOWN_NUMBERS else []),
        ]
    return {"any_lines": "\n".join(lines), "shown": str(_SHOWN_NUMBERS), "labels": ""}


def _integer(number: int) -> str:
    return f"({number})" if number < 0 else str(number)
