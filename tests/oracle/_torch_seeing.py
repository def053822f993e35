"""Transformers of PyTorch that see pictures, and what else is built of patches."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.oracle._torch_zoo import Head, cbr, network

S = nn.Sequential


class Attention(nn.Module):
    """Several heads, one dense layer for the three, a bias where given."""

    def __init__(self, d: int, heads: int = 2) -> None:
        super().__init__()
        self.n, self.qkv, self.p = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.n, d // self.n).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * (d // self.n) ** -0.5) @ k.transpose(-2, -1)
        a = (a if bias is None else a + bias).softmax(-1)
        return self.p((a @ v).transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.n1, self.n2, self.a = nn.LayerNorm(d, 1e-6), nn.LayerNorm(d, 1e-6), Attention(d)
        self.m = S(nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * d, d))

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.a(self.n1(x))
        return x + self.m(self.n2(x))


@network(2, 3, 32, 32, opset=17, quick=True)
class DeiT(nn.Module):
    """A class token and one for distillation."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.b, self.n = nn.Conv2d(3, 16, 8, 8), S(Block(16), Block(16)), nn.LayerNorm(16)
        self.tokens, self.pos = nn.Parameter(torch.randn(1, 2, 16)), nn.Parameter(torch.randn(1, 18, 16))
        self.h1, self.h2 = nn.Linear(16, 5), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.e(x).flatten(2).transpose(1, 2)
        y = self.n(self.b(torch.cat([self.tokens.expand(y.shape[0], -1, -1), y], 1) + self.pos))
        return (self.h1(y[:, 0]) + self.h2(y[:, 1])) / 2


@network(2, 3, 32, 32, opset=13)
class Swin(nn.Module):
    """Windows, shifted by half and masked, with a bias of relative places; patches merged."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.n, self.a = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16), Attention(16)
        self.table = nn.Parameter(torch.randn(49, 2))
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("places", (apart[..., 0] * 7 + apart[..., 1]).view(-1))
        zones = torch.zeros(8, 8)
        for n, rows in enumerate((slice(0, 4), slice(4, 6), slice(6, 8))):
            for k, columns in enumerate((slice(0, 4), slice(4, 6), slice(6, 8))):
                zones[rows, columns] = 3 * n + k
        own = zones.view(2, 4, 2, 4).permute(0, 2, 1, 3).reshape(4, 16)
        apart = own[:, None] - own[:, :, None]
        self.register_buffer("mask", apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0))
        self.n2, self.r, self.h = nn.LayerNorm(64), nn.Linear(64, 32, bias=False), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.e(x).permute(0, 2, 3, 1)
        b, h, w, c = y.shape
        z = torch.roll(self.n(y), shifts=(-2, -2), dims=(1, 2))
        z = z.view(b, 2, 4, 2, 4, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 16, c)
        bias = self.table[self.places].view(16, 16, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        z = self.a(z, bias + self.mask.repeat(b, 1, 1).unsqueeze(1))
        z = z.view(b, 2, 2, 4, 4, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(b, h, w, c)
        y = y + torch.roll(z, (2, 2), (1, 2))
        y = torch.cat([y[:, 0::2, 0::2], y[:, 1::2, 0::2], y[:, 0::2, 1::2], y[:, 1::2, 1::2]], -1)
        return self.h(self.r(self.n2(y)).flatten(1, 2).mean(1))


@network(1, 3, 32, 32, opset=17)
class MaxVit(nn.Module):
    """Attention in blocks and across a grid, behind an inverted residual."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.block, self.grid, self.h = (
            S(cbr(3, 16, 3, 2, act=nn.GELU), cbr(16, 16, 3, 2, 16)),
            Block(16),
            Block(16),
            Head(16),
        )

    def forward(self, x: torch.Tensor) -> Any:
        y = self.f(x)
        b, c, h, w = y.shape
        z = y.reshape(b, c, 2, 4, 2, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c)
        y = self.block(z).reshape(b, 2, 2, 4, 4, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)
        z = y.reshape(b, c, 4, 2, 4, 2).permute(0, 3, 5, 2, 4, 1).reshape(-1, 16, c)
        y = self.grid(z).reshape(b, 2, 2, 4, 4, c).permute(0, 5, 3, 1, 4, 2).reshape(b, c, h, w)
        return self.h(y)


@network(2, 3, 32, 32, opset=13)
class MlpMixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.n1, self.n2, self.h = (
            nn.Conv2d(3, 12, 8, 8),
            nn.LayerNorm(12),
            nn.LayerNorm(12),
            nn.Linear(12, 5),
        )
        self.a, self.b = (S(nn.Linear(n, 20), nn.GELU(), nn.Linear(20, n)) for n in (16, 12))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.e(x).flatten(2).transpose(1, 2)
        y = y + self.a(self.n1(y).transpose(1, 2)).transpose(1, 2)
        return self.h((y + self.b(self.n2(y))).mean(1))


@network(1, 3, 32, 32, opset=11)
class PoolFormer(nn.Module):
    """A pool in place of attention, norms over all of a picture, scales by layer."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.n1, self.n2 = nn.Conv2d(3, 16, 7, 4, 2), nn.GroupNorm(1, 16), nn.GroupNorm(1, 16)
        self.p, self.m = (
            nn.AvgPool2d(3, 1, 1, count_include_pad=False),
            S(nn.Conv2d(16, 32, 1), nn.GELU(), nn.Conv2d(32, 16, 1)),
        )
        self.s1, self.s2, self.h = (
            nn.Parameter(torch.rand(16)),
            nn.Parameter(torch.rand(16)),
            nn.Linear(16, 5),
        )

    def forward(self, x: torch.Tensor) -> Any:
        y = self.e(x)
        z = self.n1(y)
        y = y + self.s1.unsqueeze(-1).unsqueeze(-1) * (self.p(z) - z)
        y = y + self.s2.unsqueeze(-1).unsqueeze(-1) * self.m(self.n2(y))
        return self.h(y.mean([-2, -1]))


@network(1, 3, 64, 64, opset=17)
class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.n0 = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16, 1e-6)
        self.dw, self.n1 = nn.Conv2d(16, 16, 7, padding=3, groups=16), nn.LayerNorm(16, 1e-6)
        self.a, self.b, self.g = nn.Linear(16, 64), nn.Linear(64, 16), nn.Parameter(torch.rand(16, 1, 1))
        self.n2, self.d, self.h = nn.LayerNorm(16), nn.Conv2d(16, 32, 2, 2), Head(32)

    @staticmethod
    def norm(n: nn.Module, x: torch.Tensor) -> Any:
        return n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.norm(self.n0, self.e(x))
        z = self.n1(self.dw(y).permute(0, 2, 3, 1))
        y = y + self.g * self.b(F.gelu(self.a(z))).permute(0, 3, 1, 2)
        return self.h(self.d(self.norm(self.n2, y)))
