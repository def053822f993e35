"""Networks of PyTorch along time: convolutions, recurrent layers, scans."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.oracle._torch_zoo import cbr, network

S = nn.Sequential


@network(2, 1, 32, 64, opset=11)
class Crnn(nn.Module):
    """Text in a picture: convolutions, LSTMs both ways, a row of classes for each column."""

    def __init__(self) -> None:
        super().__init__()
        self.f = S(
            cbr(1, 8), nn.MaxPool2d(2), cbr(8, 16), nn.MaxPool2d((2, 2), (2, 1), (0, 1)), nn.MaxPool2d((8, 1))
        )
        self.r, self.l = nn.LSTM(16, 8, 2, bidirectional=True), nn.Linear(16, 11)

    def forward(self, x: torch.Tensor) -> Any:
        y, _ = self.r(self.f(x).squeeze(2).permute(2, 0, 1))
        return F.log_softmax(self.l(y), 2)


@network(2, 20, 16, opset=17)
class Conformer(nn.Module):
    """Half a feed-forward step, attention, a gated convolution along time, and half a step again."""

    def __init__(self) -> None:
        super().__init__()
        self.f1, self.f2 = (
            S(nn.LayerNorm(16), nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)) for _ in "ab"
        )
        self.n1, self.a, self.n2 = (
            nn.LayerNorm(16),
            nn.MultiheadAttention(16, 2, batch_first=True),
            nn.LayerNorm(16),
        )
        self.c1, self.c2, self.b = (
            nn.Conv1d(16, 32, 1),
            nn.Conv1d(16, 16, 7, padding=3, groups=16),
            nn.BatchNorm1d(16),
        )
        self.c3, self.n3 = nn.Conv1d(16, 16, 1), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> Any:
        x = x + 0.5 * self.f1(x)
        y = self.n1(x)
        x = x + self.a(y, y, y, need_weights=False)[0]
        y = F.glu(self.c1(self.n2(x).transpose(1, 2)), 1)
        x = x + self.c3(F.silu(self.b(self.c2(y)))).transpose(1, 2)
        return self.n3(x + 0.5 * self.f2(x))


@network(1, 1, 40, opset=11)
class WaveNet(nn.Module):
    """Causal, ever more dilated, gated; what each layer leaves is summed."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 8, 1)
        self.gates = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=2**n) for n in range(4)])
        self.outs = nn.ModuleList([nn.Conv1d(8, 8, 1) for _ in range(4)])
        self.last = S(nn.ReLU(), nn.Conv1d(8, 8, 1), nn.ReLU(), nn.Conv1d(8, 6, 1))

    def forward(self, x: torch.Tensor) -> Any:
        x = self.first(x)
        total: Any = 0
        for n, (gate, out) in enumerate(zip(self.gates, self.outs, strict=True)):
            a, b = gate(F.pad(x, (2**n, 0))).chunk(2, 1)
            y = out(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + y, total + y
        return self.last(total)


@network(2, 6, 30, opset=13)
class Tcn(nn.Module):
    """Pads at the end are cut away again."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 8, 3, padding=4, dilation=2))
        self.b, self.d, self.l = (
            nn.Conv1d(8, 8, 3, padding=8, dilation=4),
            nn.Conv1d(6, 8, 1),
            nn.Linear(8, 4),
        )

    def forward(self, x: torch.Tensor) -> Any:
        y = F.relu(self.a(x)[:, :, :-4].contiguous())
        y = F.relu(F.relu(self.b(y)[:, :, :-8]) + self.d(x))
        return self.l(y[:, :, -1])


def _step_feeds() -> tuple[torch.Tensor, ...]:
    sizes = ((2, 8), (2, 12), (2, 12), (2, 9, 10), (2, 9), (2, 9))
    return tuple(torch.rand(*s) for s in sizes)


@network(opset=13, feeds=_step_feeds)
class TacotronStep(nn.Module):
    """One step of a decoder: a cell, attention by content and place, weights that add up."""

    def __init__(self) -> None:
        super().__init__()
        self.pre, self.cell, self.q = (
            S(nn.Linear(8, 8), nn.ReLU()),
            nn.LSTMCell(18, 12),
            nn.Linear(12, 6, bias=False),
        )
        self.k, self.v = nn.Linear(10, 6, bias=False), nn.Linear(6, 1, bias=False)
        self.conv, self.loc = nn.Conv1d(2, 4, 5, padding=2, bias=False), nn.Linear(4, 6, bias=False)
        self.out, self.stop = nn.Linear(22, 8), nn.Linear(22, 1)

    def forward(self, x: Any, h: Any, c: Any, memory: Any, weights: Any, total: Any) -> Any:
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        h, c = self.cell(torch.cat((self.pre(x), context), -1), (h, c))
        placed = self.loc(self.conv(torch.stack((weights, total), 1)).transpose(1, 2))
        energy = self.v(torch.tanh(self.q(h).unsqueeze(1) + placed + self.k(memory))).squeeze(-1)
        weights = F.softmax(energy, 1)
        both = torch.cat((h, torch.bmm(weights.unsqueeze(1), memory).squeeze(1)), 1)
        return self.out(both), torch.sigmoid(self.stop(both)), h, c, weights, total + weights


@network(2, 30, 6, opset=13)
class Perceiver(nn.Module):
    """A few learned vectors that look at many."""

    def __init__(self) -> None:
        super().__init__()
        self.latents, self.k = nn.Parameter(torch.randn(4, 8)), nn.Linear(6, 16)
        self.q, self.n, self.o = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> Any:
        k, v = self.k(x).chunk(2, -1)
        q = self.q(self.latents).unsqueeze(0).repeat(x.shape[0], 1, 1)
        a = torch.einsum("bid,bjd->bij", q, k).softmax(-1)
        return self.o(self.n(q + torch.einsum("bij,bjd->bid", a, v)).mean(1))


@network(2, 12, 5, opset=11)
class Seq2Seq(nn.Module):
    """A GRU that reads, another that begins where it ended; one forecast a step."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.d, self.o = (
            nn.GRU(5, 8, 2, batch_first=True),
            nn.GRU(1, 8, 2, batch_first=True),
            nn.Linear(8, 1),
        )

    def forward(self, x: torch.Tensor) -> Any:
        _, h = self.e(x)
        y, found = x[:, -1:, :1], []
        for _ in range(3):
            z, h = self.d(y, h)
            y = self.o(z)
            found.append(y)
        return torch.cat(found, 1).squeeze(-1)


@network(2, 12, 5, opset=17, is_open=True)
class LstmForecast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.r, self.o = nn.LSTM(5, 8, 2, batch_first=True, dropout=0.1, proj_size=4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y, (h, _) = self.r(x)
        return self.o(y[:, -1]), h


@network(64, 3, opset=13)
class Nerf(nn.Module):
    """Places as waves, dense layers with one skip, colour and density."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (
            S(nn.Linear(27, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU()),
            S(nn.Linear(43, 16), nn.ReLU()),
        )
        self.d, self.c = nn.Linear(16, 1), nn.Linear(16, 3)
        self.register_buffer("bands", 2.0 ** torch.arange(4))

    def forward(self, x: torch.Tensor) -> Any:
        waves = (x[..., None, :] * self.bands[:, None]).flatten(-2)
        e = torch.cat([x, waves.sin(), torch.cos(waves)], -1)
        y = self.b(torch.cat([self.a(e), e], -1))
        return torch.cat([self.c(y).sigmoid(), F.softplus(self.d(y) - 1)], -1)


@network(1, 10, 8, opset=17)
class Mamba(nn.Module):
    """A state that each step keeps more or less of, as its input says; the scan is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.i, self.c, self.x = (
            nn.Linear(8, 32, bias=False),
            nn.Conv1d(16, 16, 4, padding=3, groups=16),
            nn.Linear(16, 10, bias=False),
        )
        self.dt, self.o = nn.Linear(2, 16), nn.Linear(16, 8, bias=False)
        self.a_log = nn.Parameter(torch.log(torch.arange(1.0, 5).repeat(16, 1)))
        self.d = nn.Parameter(torch.ones(16))

    def forward(self, u: torch.Tensor) -> Any:
        n = u.shape[1]
        x, z = self.i(u).chunk(2, -1)
        x = F.silu(self.c(x.transpose(1, 2))[..., :n].transpose(1, 2))
        dt, b, c = self.x(x).split([2, 4, 4], -1)
        dt = F.softplus(self.dt(dt))
        keep = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.a_log))
        add = torch.einsum("bld,bls,bld->blds", dt, b, x)
        state, found = torch.zeros(u.shape[0], 16, 4), []
        for t in range(n):
            state = keep[:, t] * state + add[:, t]
            found.append(torch.einsum("bds,bs->bd", state, c[:, t]))
        return self.o((torch.stack(found, 1) + x * self.d) * F.silu(z))
