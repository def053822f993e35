"""Transformers of PyTorch that read and write, as their own sources write them: masks, caches, rotation."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.oracle._torch_zoo import network

S = nn.Sequential


def words(*sizes: int) -> torch.Tensor:
    return torch.randint(0, 20, sizes)


def _bert_feeds() -> tuple[torch.Tensor, ...]:
    return words(2, 7), torch.tensor([[1] * 7, [1] * 5 + [0] * 2]), torch.tensor([[0] * 4 + [1] * 3] * 2)


@network(opset=13, is_open=True, quick=True, feeds=_bert_feeds)
class Bert(nn.Module):
    """Words, places and kinds; a mask of numbers made from one of zeros and ones; a pooled first word."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.p, self.t = nn.Embedding(20, 16, 0), nn.Embedding(12, 16), nn.Embedding(2, 16)
        self.n0, self.n1, self.n2 = (nn.LayerNorm(16, 1e-12) for _ in range(3))
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
        self.i, self.j, self.pool, self.c = (
            nn.Linear(16, 32),
            nn.Linear(32, 16),
            nn.Linear(16, 16),
            nn.Linear(16, 3),
        )
        self.register_buffer("position_ids", torch.arange(12).expand((1, -1)), persistent=False)

    def heads(self, y: torch.Tensor) -> torch.Tensor:
        return y.view(*y.size()[:-1], 4, 4).permute(0, 2, 1, 3)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, kinds: torch.Tensor) -> Any:
        x = self.n0(self.w(ids) + self.t(kinds) + self.p(self.position_ids[:, : ids.size(1)]))
        seen = (1.0 - mask[:, None, None, :].to(dtype=x.dtype)) * torch.finfo(x.dtype).min
        a = torch.matmul(self.heads(self.q(x)), self.heads(self.k(x)).transpose(-1, -2)) / 2.0 + seen
        y = torch.matmul(F.softmax(a, -1), self.heads(self.v(x))).permute(0, 2, 1, 3).contiguous()
        x = self.n1(self.o(y.view(*y.size()[:-2], 16)) + x)
        x = self.n2(self.j(F.gelu(self.i(x))) + x)
        return x, self.c(torch.tanh(self.pool(x[:, 0])))


@network(opset=17, feeds=lambda: (words(2, 3), torch.randn(2, 2, 4, 8), torch.randn(2, 2, 4, 8)))
class Gpt(nn.Module):
    """A causal decoder that is given keys and values of what came before, and gives them longer."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.p, self.n1, self.n2, self.n3 = (
            nn.Embedding(20, 16),
            nn.Embedding(16, 16),
            *(nn.LayerNorm(16) for _ in "abc"),
        )
        self.qkv, self.o, self.m = (
            nn.Linear(16, 48),
            nn.Linear(16, 16),
            S(nn.Linear(16, 64), nn.GELU("tanh"), nn.Linear(64, 16)),
        )
        self.register_buffer(
            "seen", torch.tril(torch.ones(16, 16, dtype=torch.bool)).view(1, 1, 16, 16), persistent=False
        )

    def forward(self, ids: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
        past, count = key.size(-2), ids.size(-1)
        x = self.w(ids) + self.p(torch.arange(past, past + count, device=ids.device).unsqueeze(0))
        q, k, v = (t.view(*t.shape[:2], 2, 8).transpose(1, 2) for t in self.qkv(self.n1(x)).split(16, 2))
        key, value = torch.cat((key, k), -2), torch.cat((value, v), -2)
        a = q @ key.transpose(-1, -2) / 8**0.5
        a = torch.where(self.seen[:, :, past : past + count, : past + count], a, torch.finfo(a.dtype).min)
        y = (F.softmax(a, -1) @ value).transpose(1, 2).reshape(x.shape)
        x = x + self.o(y)
        x = self.n3(x + self.m(self.n2(x)))
        return x @ self.w.weight.t(), key, value


class RmsNorm(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(d) + 0.5)

    def forward(self, x: torch.Tensor) -> Any:
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


@network(
    opset=17,
    quick=True,
    feeds=lambda: (words(1, 3), torch.arange(4, 7)[None], torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8)),
)
class Llama(nn.Module):
    """Norms by root mean square, places turned into the vectors, keys that heads share, gated layers."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.n1, self.n2, self.n3 = nn.Embedding(20, 32), RmsNorm(32), RmsNorm(32), RmsNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, n, bias=False) for n in (32, 16, 16, 32))
        self.gate, self.up, self.down, self.head = (
            nn.Linear(i, o, bias=False) for i, o in ((32, 48), (32, 48), (48, 32), (32, 20))
        )
        self.register_buffer("inv_freq", 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8), persistent=False)

    def turned(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        half = torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)
        return x * cos + half * sin

    def forward(self, ids: Any, places: Any, key: Any, value: Any) -> Any:
        x = self.w(ids)
        b, n, _ = x.shape
        freqs = (
            self.inv_freq[None, :, None].float().expand(b, -1, 1) @ places[:, None, :].float()
        ).transpose(1, 2)
        angle = torch.cat((freqs, freqs), -1).unsqueeze(1)
        h = self.n1(x)
        q, k, v = (f(h).view(b, n, -1, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self.turned(q, angle.cos(), angle.sin()), self.turned(k, angle.cos(), angle.sin())
        key, value = torch.cat((key, k), 2), torch.cat((value, v), 2)
        keys, values = (
            t[:, :, None].expand(b, 2, 2, t.shape[2], 8).reshape(b, 4, -1, 8) for t in (key, value)
        )
        mask = torch.full((n, key.shape[2]), float("-inf")).triu(key.shape[2] - n + 1)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, -1))
        h = self.n2(x)
        return self.head(self.n3(x + self.down(F.silu(self.gate(h)) * self.up(h)))), key, value


@network(1, 16, 40, opset=17)
class Whisper(nn.Module):
    """Convolutions along time, fixed places, encoder layers that norm first."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(16, 16, 3, padding=1), nn.Conv1d(16, 16, 3, 2, 1)
        self.register_buffer("places", torch.randn(20, 16))
        self.layers = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)
                for _ in "ab"
            ]
        )
        self.n = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.gelu(self.c2(F.gelu(self.c1(x)))).permute(0, 2, 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.n(x)


@network(opset=17, feeds=lambda: (torch.randn(2, 3, 16, 16), words(2, 6)))
class Clip(nn.Module):
    """Two towers: a picture's and a text's vectors, compared by angle."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.a = (
            nn.Conv2d(3, 16, 4, 4, bias=False),
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu"),
        )
        self.w, self.p, self.b = (
            nn.Embedding(20, 16),
            nn.Parameter(torch.randn(6, 16)),
            nn.MultiheadAttention(16, 2, batch_first=True),
        )
        self.v, self.t, self.scale = (
            nn.Parameter(torch.randn(16, 8)),
            nn.Parameter(torch.randn(16, 8)),
            nn.Parameter(torch.tensor(2.6)),
        )

    def forward(self, picture: torch.Tensor, text: torch.Tensor) -> Any:
        seen = self.a(self.e(picture).flatten(2).transpose(1, 2)).mean(1) @ self.v
        y = self.w(text) + self.p
        mask = torch.full((6, 6), float("-inf")).triu_(1)
        y = y + self.b(y, y, y, attn_mask=mask, need_weights=False)[0]
        y = y[torch.arange(y.shape[0]), text.argmax(-1)] @ self.t
        seen, y = seen / seen.norm(dim=1, keepdim=True), F.normalize(y, dim=-1)
        return self.scale.exp() * seen @ y.t()
