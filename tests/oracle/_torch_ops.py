"""Ops of PyTorch in random configurations: functions, and what they are fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.oracle._torch_places import CONTROL, PLACES


@dataclass(frozen=True)
class Case:
    function: Any
    operands: tuple[torch.Tensor, ...]


class Of(nn.Module):
    """A function as a module, which is what PyTorch exports."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: torch.Tensor) -> Any:
        return self.function(*x)


def _convolution(r: Random) -> Case:
    n, g = r.choice([1, 2, 3]), r.choice([1, 1, 2, 4])
    k, s, p, d = ([r.choice(c) for _ in range(n)] for c in ([1, 2, 3], [1, 2, 3], [0, 1, 2], [1, 1, 2]))
    w, b = torch.randn(8, 4 // g, *k), torch.randn(8) if r.random() < 0.5 else None
    f = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return Case(
        lambda x: f(x, w, b, s, p, d, g), (torch.randn(2, 4, *(r.choice([7, 8, 9]) for _ in range(n))),)
    )


def _padded_convolution(r: Random) -> Case:
    n, d, mode = r.choice([1, 2, 3]), r.choice([1, 2]), r.choice(["same", "valid"])
    w = torch.randn(3, 4, *(r.choice([1, 2, 3, 4]) for _ in range(n)))
    f = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return Case(lambda x: f(x, w, None, 1, mode, d), (torch.randn(2, 4, *[9] * n),))


def _transposed(r: Random) -> Case:
    n, g, d = r.choice([1, 2, 3]), r.choice([1, 1, 2, 4]), r.choice([1, 2])
    k, s = ([r.choice(c) for _ in range(n)] for c in ([1, 2, 3, 4], [1, 2, 3]))
    p = [r.choice([0, 1]) * (each > 2) for each in k]
    more = [r.choice([0, 1]) * (max(each, d) > 1) for each in s]
    w = torch.randn(4, r.choice([1, 2]), *k)
    f = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    return Case(
        lambda x: f(x, w, None, s, p, more, g, d),
        (torch.randn(2, 4, *(r.choice([4, 5, 6]) for _ in range(n))),),
    )


def _max_pool(r: Random) -> Case:
    n = r.choice([1, 2, 3])
    f = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    k, s, p, d = r.choice([2, 3]), r.choice([None, 1, 2, 3]), r.choice([0, 1]), r.choice([1, 1, 2])
    up, places = r.random() < 0.5, r.random() < 0.3
    x = torch.randn(2, 3, *(r.choice([8, 9, 10]) for _ in range(n)))
    return Case(lambda x: f(x, k, s, p, d, up, return_indices=places), (x,))


def _average_pool(r: Random) -> Case:
    n = r.choice([1, 2, 3])
    f = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    k, s, p = r.choice([2, 3]), r.choice([1, 2, 3]), r.choice([0, 1])
    up, counts = r.random() < 0.5, r.random() < 0.5
    x = torch.randn(*([2] if r.random() < 0.5 else []), 3, *(r.choice([8, 9, 10]) for _ in range(n)))
    return Case(lambda x: f(x, k, s, p, up, counts), (x,))


def _adaptive_pool(r: Random) -> Case:
    n = r.choice([1, 2, 3])
    means = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
    f = r.choice([means, (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)])[n - 1]
    sizes = [r.choice([1, 2, 3, 5]) for _ in range(n)]
    return Case(lambda x: f(x, sizes), (torch.randn(2, 3, *(r.choice([6, 7, 10]) for _ in range(n))),))


def _resized(r: Random) -> Case:
    n = r.choice([1, 2, 3])
    mixed = ["linear", "bilinear", "trilinear"][n - 1]
    mode = r.choice(["nearest", mixed, "nearest-exact", *(["bicubic"] if n == 2 else [])])
    options: dict[str, Any] = {} if "nearest" in mode else {"align_corners": r.random() < 0.5}
    if r.random() < 0.5:
        options["scale_factor"] = [r.choice([2.0, 1.5, 0.5, 2.7, 3.0]) for _ in range(n)]
    else:
        options["size"] = [r.choice([3, 5, 8, 13]) for _ in range(n)]
    x = torch.randn(2, 3, *(r.choice([4, 5, 6]) for _ in range(n)))
    return Case(lambda x: F.interpolate(x, mode=mode, **options), (x,))


def _padded(r: Random) -> Case:
    mode, n = r.choice(["constant", "reflect", "replicate"]), r.choice([1, 2])
    pads = [r.choice([-1, 0, 1, 2] if mode == "constant" else [0, 1, 2]) for _ in range(2 * n)]
    x = torch.randn(2, 3, *(r.choice([5, 6]) for _ in range(n)))
    return Case(lambda x: F.pad(x, pads, mode, 1.5 if mode == "constant" else None), (x,))


_BENDS: list[Callable[[Any], Any]] = [
    *(F.relu, F.relu6, F.elu, F.selu, F.celu, F.gelu, F.silu, F.mish, F.hardtanh, F.hardswish, F.hardsigmoid),
    *(
        F.softplus,
        F.softsign,
        F.logsigmoid,
        F.tanhshrink,
        F.hardshrink,
        F.softshrink,
        torch.sigmoid,
        torch.tanh,
    ),
    *(
        torch.exp,
        torch.sin,
        torch.cos,
        torch.erf,
        torch.floor,
        torch.ceil,
        torch.round,
        torch.trunc,
        torch.sign,
    ),
    *(lambda x: F.leaky_relu(x, 0.3), lambda x: F.elu(x, 0.7), lambda x: F.celu(x, 1.7)),
    *(
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: F.hardtanh(x, -0.5, 0.7),
        lambda x: torch.clamp(x, -0.3),
    ),
    *(lambda x: torch.clamp(x, max=0.3), lambda x: torch.clamp(x, 0, 6), lambda x: F.softplus(x, 2.0, 3.0)),
    *(lambda x: F.threshold(x, 0.1, -3.0), lambda x: F.glu(x, 1), lambda x: F.softmax(x, 1)),
    *(lambda x: F.log_softmax(x, 0), lambda x: torch.log2(x.abs() + 1), lambda x: torch.rsqrt(x.abs() + 1)),
]


def _activation(r: Random) -> Case:
    return Case(r.choice(_BENDS), (torch.randn(2, 4, 3) * 3,))


_PAIRS: list[Callable[[Any, Any], Any]] = [
    *(torch.add, torch.sub, torch.mul, torch.div, torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge),
    *(torch.remainder, torch.fmod, torch.floor_divide, torch.rsub),
    lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    lambda x, y: torch.add(x, y, alpha=2),
    lambda x, y: torch.sub(x, y, alpha=3),
]


def _positive(size: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(1, 9, size)


def _pair(r: Random) -> Case:
    f = r.choice(_PAIRS)
    first, second = r.choice([((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), ())])
    x, y = (
        torch.randn(size) + 0.01 if r.random() < 0.5 else torch.randint(1, 9, size)
        for size in (first, second)
    )
    if r.random() < 0.3:
        number = r.choice([2, 3, -2, *([1.5, -2.5] if x.dtype.is_floating_point else [])])
        return Case(lambda x: f(x, number), (x,))
    return Case(f, (x, y))


def _reduction(r: Random) -> Case:
    many = [torch.sum, torch.mean, torch.amax, torch.amin, torch.std, torch.var, torch.logsumexp]
    single = [torch.max, torch.min, torch.argmax, torch.prod, torch.linalg.vector_norm]
    keep = r.random() < 0.5
    f: Any = r.choice([*many, *single])
    axes = r.choice([0, 1, -1, *([(0, 1), (-1, 0)] if f in many else [])])
    if f is torch.linalg.vector_norm:
        order = r.choice([1, 2, 3, float("inf")])
        return Case(lambda x: f(x, order, axes, keepdim=keep), (torch.randn(3, 4, 5),))
    if f in (torch.max, torch.min):
        return Case(lambda x: tuple(f(x, axes, keepdim=keep)), (torch.randn(3, 4, 5),))
    return Case(lambda x: f(x, axes, keepdim=keep), (torch.randn(3, 4, 5),))


def _attention(r: Random) -> Case:
    way = r.choice(["", "causal", "truths", "numbers"])
    mask = {"truths": torch.randint(0, 2, (2, 1, 5, 5)).bool(), "numbers": torch.randn(5, 5)}.get(way)
    scale = r.choice([None, 0.3])
    return Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask, is_causal=way == "causal", scale=scale),
        tuple(torch.randn(2, 3, 5, 4) for _ in range(3)),
    )


def _product(r: Random) -> Case:
    pairs = [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2))]
    first, second = r.choice([*pairs, ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,))])
    return Case(torch.matmul, (torch.randn(first), torch.randn(second)))


def _recurrent(r: Random) -> Case:
    kind, layers = r.choice([nn.LSTM, nn.GRU, nn.RNN]), r.choice([1, 2])
    bias, both, first = (r.random() < 0.5 for _ in range(3))
    module = kind(3, 4, layers, bias=bias, bidirectional=both, batch_first=first).eval()
    x = torch.randn(2, 5, 3) if first else torch.randn(5, 2, 3)
    if r.random() < 0.5:
        return Case(module, (x,))

    class Stateful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: torch.Tensor, s: torch.Tensor) -> Any:
            return self.inner(x, (s, s * 2) if kind is nn.LSTM else s)

    return Case(Stateful(), (x, torch.randn(layers * (1 + both), 2, 4)))


_MOVES: list[Callable[[Any], Any]] = [
    *(lambda x: x.view(-1, 4), lambda x: x.reshape(3, -1), lambda x: x.flatten(1), lambda x: x.unsqueeze(-1)),
    *(lambda x: x.permute(2, 0, 1), lambda x: x.transpose(0, -1), lambda x: x.unflatten(2, (2, -1))),
    *(lambda x: x[:, 0], lambda x: x[:, -1], lambda x: x[..., 1:3], lambda x: x[:, ::2], lambda x: x[-2:]),
    *(lambda x: x.expand(5, 2, 3, 4), lambda x: x[:, :1].expand(-1, 6, -1), lambda x: x.repeat(2, 1, 1, 2)),
    *(
        lambda x: torch.cat([x, x * 2], -1),
        lambda x: torch.stack([x, x + 1], 1),
        lambda x: x.split([1, 2], 1),
    ),
    *(
        lambda x: x.chunk(3, -1),
        lambda x: x.unbind(1),
        lambda x: x.flip(0, 2),
        lambda x: x.roll((1, -2), (0, 2)),
    ),
    *(
        lambda x: x.tril(),
        lambda x: x.triu(1),
        lambda x: torch.arange(0, 8, 2) * x,
        lambda x: x.to(torch.int32),
    ),
    *(lambda x: torch.where(x > 0, x, 0.0), lambda x: x.masked_fill(x < 0, -1.0), lambda x: x.movedim(0, 2)),
    *(
        lambda x: torch.cumsum(x, 1),
        lambda x: x.repeat_interleave(2, 1),
        lambda x: torch.linspace(0, 1, 4) * x,
    ),
    *(
        lambda x: tuple(torch.topk(x, 2, 1, largest=False)),
        lambda x: tuple(torch.sort(x, -1, descending=True)),
    ),
    *(lambda x: x[:, [2, 0]], lambda x: x[:, torch.tensor([0, 2]), torch.tensor([1, -3])], lambda x: 2**x),
    *(lambda x: torch.gather(x, 2, torch.zeros(2, 3, 2, dtype=torch.int64)), lambda x: x**2, lambda x: 1 - x),
    *(lambda x: F.normalize(x, dim=1), lambda x: F.layer_norm(x, (3, 4)), lambda x: F.rms_norm(x, (4,))),
    *(lambda x: F.group_norm(x.reshape(2, 6, 2), 3), lambda x: F.instance_norm(x), lambda x: x.norm()),
    *(
        lambda x: x.clone().add_(1).mul_(2),
        lambda x: (x > 0) & ~(x > 1),
        lambda x: F.one_hot((x > 0).long(), 3),
    ),
    *(lambda x: torch.einsum("abc,abd->acd", x, x), lambda x: F.channel_shuffle(x.reshape(1, 6, 2, 2), 3)),
    *(lambda x: F.prelu(x, torch.tensor([0.1, 0.2, 0.3])), lambda x: torch.lerp(x, x * 2, 0.3)),
    lambda x: F.grid_sample(x[None], torch.zeros(1, 2, 2, 2) + 0.3, align_corners=False),
    lambda x: torch.scatter_add(x, 1, torch.zeros(2, 1, 4, dtype=torch.int64), x),
    lambda x: torch.baddbmm(torch.ones(2, 3, 3), x, x.mT, beta=0.5, alpha=2),
]

OPS: Mapping[str, Callable[[Random], Case]] = {
    "convolution": _convolution,
    "padded convolution": _padded_convolution,
    "transposed": _transposed,
    "max pool": _max_pool,
    "average pool": _average_pool,
    "adaptive pool": _adaptive_pool,
    "resized": _resized,
    "padded": _padded,
    "activation": _activation,
    "pair": _pair,
    "reduction": _reduction,
    "attention": _attention,
    "product": _product,
    "recurrent": _recurrent,
    **{f"move {n}": lambda r, f=f: Case(f, (torch.randn(2, 3, 4),)) for n, f in enumerate(_MOVES)},
    **{f"place {n}": lambda r, f=f: Case(f, (torch.randn(2, 3, 4),)) for n, f in enumerate(PLACES)},
    **{f"control {n}": lambda r, f=f: Case(f, (torch.randn(2, 3, 4),)) for n, f in enumerate(CONTROL)},
}
