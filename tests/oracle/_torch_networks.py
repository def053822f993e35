"""Networks of common kinds in PyTorch, small, with random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    """Layers, and a function of them and of what is fed."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.function = function

    def forward(self, *x: torch.Tensor) -> Any:
        return self.function(self.layers, *x)


class Table(nn.Module):
    """A parameter alone."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(*sizes))


def block(i: int, o: int, k: int = 3, s: int = 1, g: int = 1, act: Callable[[], nn.Module] = nn.ReLU) -> Any:
    """Convolution, batch norm and activation."""
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), act())


def residual(m: Any, x: Any) -> Any:
    y = m[0](x)
    y += x
    return F.relu(y, inplace=True)


def shuffle(m: Any, x: Any) -> Any:
    a, b = x.chunk(2, 1)
    y = torch.cat([a, m[0](b)], 1)
    n, c, h, w = y.shape
    return y.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


def unet(m: Any, x: Any) -> Any:
    a = m[0](x)
    return m[3](torch.cat([a, m[2](m[1](F.max_pool2d(a, 2)))], 1))


def squeeze(m: Any, x: Any) -> Any:
    return x * torch.sigmoid(m[1](F.relu(m[0](F.adaptive_avg_pool2d(x, 1)))))


def vit(m: Any, x: Any) -> Any:
    p = m[0](x).flatten(2).transpose(1, 2)
    p = torch.cat([m[3].w.expand(p.shape[0], -1, -1), p], 1) + m[4].w
    return m[2](m[1](p)[:, 0])


def gpt(m: Any, x: Any) -> Any:
    h = m[0](x) + m[1](torch.arange(x.shape[1]))[None]
    parts = (t.view(t.shape[0], t.shape[1], 4, -1).transpose(1, 2) for t in m[2](h).chunk(3, -1))
    y = F.scaled_dot_product_attention(*parts, is_causal=True)
    return m[3](h + y.transpose(1, 2).reshape(h.shape))


def attention(m: Any, x: Any) -> Any:
    q, k, v = m[0](x).split(16, -1)
    a = torch.softmax(q @ k.transpose(-2, -1) / 4.0, -1)
    return a.masked_fill(a < 0.01, 0.0) @ v


def convnext(m: Any, x: Any) -> Any:
    return x + m[1](m[0](x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def mixer(m: Any, x: Any) -> Any:
    return m[1](x + m[0](x.transpose(1, 2)).transpose(1, 2))


def statistics(m: Any, x: Any) -> Any:
    del m
    rows = [x.mean(1), x.std(1), x.amax(1), x.var(1, unbiased=False)]
    return torch.stack(rows, 1) / (x.norm(dim=1, keepdim=True) + 1)


def picture(c: int = 3, s: int = 16) -> torch.Tensor:
    return torch.randn(2, c, s, s)


def words() -> torch.Tensor:
    return torch.randint(0, 20, (2, 7))


def sequence() -> torch.Tensor:
    return torch.randn(2, 7, 12)


S = nn.Sequential
NETWORKS: Mapping[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "resnet": (
        lambda: Net(residual, S(block(3, 8), nn.Conv2d(8, 3, 3, padding=1), nn.BatchNorm2d(3))),
        picture,
    ),
    "stem": (
        lambda: S(
            *(nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)),
        ),
        lambda: picture(3, 33),
    ),
    "mobilenet": (
        lambda: S(
            *(block(3, 16, 1, act=nn.ReLU6), block(16, 16, 3, 2, 16, nn.ReLU6)),
            *(nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8)),
        ),
        picture,
    ),
    "mobilenet3": (
        lambda: S(
            block(3, 16, 3, 2, act=nn.Hardswish), block(16, 16, 5, 1, 16, nn.Hardswish), nn.Hardsigmoid()
        ),
        picture,
    ),
    "shufflenet": (
        lambda: Net(shuffle, S(block(4, 4, 1), nn.Conv2d(4, 4, 3, 1, 1, groups=4), nn.BatchNorm2d(4))),
        lambda: picture(8),
    ),
    "unet": (
        lambda: Net(unet, block(3, 8), block(8, 16), nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 1, 1)),
        picture,
    ),
    "upsampled": (
        lambda: S(
            *(block(3, 8), nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear")),
            *(nn.Upsample(scale_factor=2), nn.Conv2d(8, 1, 1)),
        ),
        picture,
    ),
    "aligned": (
        lambda: S(nn.Conv2d(3, 4, 3), nn.Upsample(size=(20, 24), mode="bilinear", align_corners=True)),
        picture,
    ),
    "squeeze": (lambda: Net(squeeze, nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)), lambda: picture(8)),
    "super_resolution": (
        lambda: S(
            nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2)
        ),
        lambda: picture(1),
    ),
    "unshuffle": (lambda: S(nn.PixelUnshuffle(2), nn.Conv2d(12, 4, 1), nn.SiLU()), picture),
    "dcgan": (
        lambda: S(
            *(nn.ConvTranspose2d(10, 8, 4, 1, 0), nn.BatchNorm2d(8), nn.ReLU(True)),
            *(
                nn.ConvTranspose2d(8, 4, 4, 2, 1),
                nn.LeakyReLU(0.2, True),
                nn.ConvTranspose2d(4, 3, 3, 2, 1, 1),
            ),
            nn.Tanh(),
        ),
        lambda: torch.randn(2, 10, 1, 1),
    ),
    "vit": (
        lambda: Net(
            vit,
            nn.Conv2d(3, 16, 4, 4),
            nn.TransformerEncoder(
                nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu", norm_first=True),
                *(2, None, False),
            ),
            *(nn.Linear(16, 4), Table(1, 1, 16), Table(1, 17, 16)),
        ),
        picture,
    ),
    "encoder": (lambda: nn.TransformerEncoderLayer(12, 3, 24, batch_first=True), sequence),
    "heads": (
        lambda: Net(
            lambda m, x: m[0](x, x, x, need_weights=False)[0], nn.MultiheadAttention(12, 3, batch_first=True)
        ),
        sequence,
    ),
    "gpt": (
        lambda: Net(
            *(gpt, nn.Embedding(20, 16), nn.Embedding(7, 16), nn.Linear(16, 48)),
            S(nn.LayerNorm(16), nn.Linear(16, 20)),
        ),
        words,
    ),
    "attention": (lambda: Net(attention, nn.Linear(12, 48)), sequence),
    "lstm": (
        lambda: Net(
            lambda m, x: m[1](m[0](x)[0][:, -1]), nn.LSTM(12, 8, 2, batch_first=True), nn.Linear(8, 3)
        ),
        sequence,
    ),
    "both_ways": (
        lambda: Net(lambda m, x: m[0](x)[0], nn.LSTM(12, 8, batch_first=True, bidirectional=True)),
        sequence,
    ),
    "gru": (lambda: Net(lambda m, x: m[0](x)[1], nn.GRU(12, 8, 2, bidirectional=True)), sequence),
    "tagger": (
        lambda: Net(
            lambda m, x: F.log_softmax(m[2](m[1](m[0](x))[0]), -1),
            *(nn.Embedding(20, 12, padding_idx=0), nn.GRU(12, 8, batch_first=True), nn.Linear(8, 5)),
        ),
        words,
    ),
    "rnn": (lambda: Net(lambda m, x: m[0](x)[0], nn.RNN(12, 8, nonlinearity="relu", bias=False)), sequence),
    "text": (
        lambda: Net(
            lambda m, x: m[2](F.relu(m[1](m[0](x).transpose(1, 2))).amax(-1)),
            *(nn.Embedding(20, 12), nn.Conv1d(12, 8, 3), nn.Linear(8, 2)),
        ),
        words,
    ),
    "dilated": (
        lambda: S(
            *(nn.Conv1d(12, 8, 3, dilation=2, padding=2), nn.ReLU(), nn.AvgPool1d(2), nn.BatchNorm1d(8)),
            nn.Conv1d(8, 8, 3, groups=8),
        ),
        lambda: torch.randn(2, 12, 14),
    ),
    "volume": (
        lambda: S(
            *(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2)),
            *(nn.AdaptiveAvgPool3d(1), nn.Flatten(1)),
        ),
        lambda: torch.randn(2, 1, 4, 6, 6),
    ),
    "dense": (
        lambda: S(
            *(
                nn.Linear(12, 16),
                nn.GELU(),
                nn.Dropout(0.5),
                nn.LayerNorm(16),
                nn.Linear(16, 4),
                nn.Softmax(-1),
            )
        ),
        lambda: torch.randn(3, 12),
    ),
    "mixer": (
        lambda: Net(mixer, nn.Linear(7, 7), S(nn.LayerNorm(12), nn.Linear(12, 12), nn.GELU("tanh"))),
        sequence,
    ),
    "convnext": (
        lambda: Net(
            convnext,
            nn.Conv2d(8, 8, 7, padding=3, groups=8),
            S(nn.LayerNorm(8), nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)),
        ),
        lambda: picture(8),
    ),
    "norms": (
        lambda: S(
            *(
                nn.Conv2d(3, 8, 3),
                nn.GroupNorm(2, 8),
                nn.PReLU(8),
                nn.InstanceNorm2d(8, affine=True),
                nn.ELU(),
            ),
            *(nn.ReflectionPad2d(1), nn.Conv2d(8, 4, 3), nn.Softplus()),
        ),
        picture,
    ),
    "resnext": (
        lambda: Net(
            lambda m, x: F.relu(m[0](x) + m[1](x)),
            *(nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.Conv2d(8, 8, 1, bias=False)),
        ),
        lambda: picture(8),
    ),
    "autoencoder": (
        lambda: S(
            *(
                nn.Conv2d(1, 8, 3, 2, 1),
                nn.Mish(),
                nn.Conv2d(8, 4, 3, 2, 1),
                nn.ReLU(),
                nn.Upsample(scale_factor=2),
            ),
            *(
                nn.Conv2d(4, 8, 3, padding="same"),
                nn.Hardtanh(),
                nn.ConvTranspose2d(8, 1, 2, 2),
                nn.Sigmoid(),
            ),
        ),
        lambda: picture(1),
    ),
    "gated": (
        lambda: Net(
            lambda m, x: F.glu(m[0](x), -1) * torch.clamp(x, -1, 1).mean(-1, True), nn.Linear(12, 24)
        ),
        sequence,
    ),
    "statistics": (lambda: Net(statistics), sequence),
}
