"""The list of PyTorch's well-known networks, which modules beside this fill; small, with seeded weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Network:
    """A network that is built when asked for, and how it is exported.

    Attributes:
        make: builds it; its weights come from PyTorch's seed.
        feeds: makes what it is fed.
        opset: what the exporter by TorchScript writes.
        is_open: the first size of all inputs is left open.
        quick: it is tried every time.
    """

    make: Callable[[], nn.Module]
    feeds: Callable[[], Tensors]
    opset: int
    is_open: bool
    quick: bool

    def built(self) -> tuple[nn.Module, Tensors]:
        """The network with statistics that are not those of its first day, and something to feed."""
        torch.manual_seed(0)
        model = self.make().eval()
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                assert layer.running_mean is not None
                assert layer.running_var is not None
                layer.running_mean.normal_(0, 0.1)
                layer.running_var.uniform_(0.5, 1.5)
                layer.weight.data.uniform_(0.5, 1.5)
                layer.bias.data.normal_(0, 0.1)
        return model, self.feeds()


ZOO: dict[str, Network] = {}


def network(
    *sizes: int, opset: int = 17, is_open: bool = False, quick: bool = False, feeds: Any = None
) -> Any:
    """Put a class into the list; it is fed random numbers of those sizes unless `feeds` makes others."""

    def note(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        ZOO[make.__name__] = Network(make, feeds or (lambda: (torch.randn(*sizes),)), opset, is_open, quick)
        return make

    return note


def cbr(i: int, o: int, k: int = 3, s: int = 1, g: int = 1, act: Any = nn.ReLU, d: int = 1) -> nn.Sequential:
    """Convolution, batch norm and activation."""
    padding = (k - 1) // 2 * d
    layers = [nn.Conv2d(i, o, k, s, padding, d, g, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Head(nn.Module):
    """The mean over the picture, and a dense layer."""

    def __init__(self, c: int, n: int = 10) -> None:
        super().__init__()
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(c, n)

    def forward(self, x: torch.Tensor) -> Any:
        return self.fc(torch.flatten(self.pool(x), 1))
