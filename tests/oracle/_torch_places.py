"""Functions of PyTorch that choose by places or masks, or put something there; steps of cells; control flow.

Each is fed [2, 3, 4] random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

I = torch.tensor  # noqa: E741


def put(x: torch.Tensor, places: Any, value: Any) -> torch.Tensor:
    y = x.clone()
    y[places] = value
    return y


def _cell(kind: type[Any]) -> Callable[[torch.Tensor], Any]:
    cell = kind(4, 5)
    return lambda x: cell(x[0], (x[1, :, :1].expand(-1, 5),) * 2 if kind is torch.nn.LSTMCell else None)


def _without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x * 2
    return y + x


def _looped(x: torch.Tensor) -> Any:
    start = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda n, y: n < 3 + (y.sum() * 0), lambda n, y: (n + 1, y.cos() * 2), (start, x))


CONTROL: list[Callable[[torch.Tensor], Any]] = [
    lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.sin(), (x,)),
    lambda x: torch.cond(x.sum() > 1e9, lambda x: (x + 1, x.exp()), lambda x: (x.sin(), x * 2), (x,)),
    _looped,
    lambda x: torch_map(lambda row, y: (row @ y).relu(), x, torch.ones(4, 2)),
    lambda x: scan(lambda total, row: (total + row, total * row), torch.zeros(3, 4), x, dim=0),
    lambda x: scan(lambda total, row: (total + row, row.exp()), torch.zeros(2, 4), x, dim=1, reverse=True),
    _without_gradients,
]

PLACES: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x[x > 0],
    lambda x: x[:, torch.tensor([True, False, True])],
    lambda x: x[x[..., 0] > 0] * 2,
    lambda x: torch.masked_select(x, x[:1] > 0),
    lambda x: torch.nonzero(x > 0),
    lambda x: torch.nonzero(x.clamp(min=0), as_tuple=True),
    lambda x: x[I([1, 0]), :, I([2, 3])],
    lambda x: x[:, I([[1, 0]]), I([[2], [-1]])],
    lambda x: put(x, I([1]), 0.5),
    lambda x: put(x, (slice(None), I([2, 0])), x[:, :2] * 3),
    lambda x: put(x, (I([1, 0]), slice(None), I([2, 3])), I([1.0, 2.0, 3.0])),
    lambda x: put(x, (I([0, 1]), I([2, -1])), -1.0),
    lambda x: put(x, x > 0.3, 7.0),
    lambda x: put(x, x[..., 0] > 0, x[0, 0] * 2),
    lambda x: put(x, x > 0, x[x > 0] * 2),
    lambda x: torch.index_put(x, (I([1, 1, 0]),), torch.ones(3, 4), accumulate=True),
    lambda x: torch.index_put(x, (x > 0,), I(2.0), accumulate=True),
    lambda x: x.masked_scatter(x > 0, torch.arange(24.0)),
    lambda x: x.scatter(1, torch.full((2, 1, 4), 2), 3.5),
    lambda x: x.scatter_reduce(1, torch.tensor([[[0, 1, 1, 2]], [[2, 2, 0, 0]]]), x[:, :1], "amax"),
    lambda x: x.scatter_reduce(2, torch.zeros(2, 3, 1, dtype=torch.int64), x[..., 1:2], "prod"),
    lambda x: torch.select_scatter(x, x[:, 0] * 5, 1, -1),
    lambda x: torch.slice_scatter(x, x[..., :2] * 5, 2, 0, 4, 2),
    lambda x: torch.slice_scatter(x, x[:, :1] * 5, 1, 1, 2),
    lambda x: x.index_add(1, I([0, 2, 0]), x),
    lambda x: x.index_copy(2, I([3, 1]), x[..., :2] * 2),
    lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="xy"),
    lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], x[:, 0, 0], indexing="ij"),
    lambda x: torch.einsum("abc,acd,ade->be", x, x.mT, x),
    lambda x: F.conv1d(x, torch._weight_norm(torch.ones(2, 3, 2), torch.full((2, 1, 1), 0.5), 0)),
    *(_cell(kind) for kind in (torch.nn.LSTMCell, torch.nn.GRUCell, torch.nn.RNNCell)),
]
