"""Networks of PyTorch that give pictures, boxes or maps."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.oracle._torch_zoo import cbr, network

S = nn.Sequential


@network(1, 3, 64, 64, opset=11)
class UNet(nn.Module):
    """One step up by a transposed convolution, one by nearest neighbours, one of an odd picture."""

    def __init__(self) -> None:
        super().__init__()
        self.d1, self.d2, self.b = cbr(3, 8), cbr(8, 16), cbr(16, 32)
        self.u2, self.c2 = nn.ConvTranspose2d(32, 16, 2, 2), cbr(32, 16)
        self.u1, self.c1, self.o = (
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            cbr(24, 8),
            nn.Conv2d(8, 2, 1),
        )

    def forward(self, x: torch.Tensor) -> Any:
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.b(F.max_pool2d(b, 2))
        y = self.u2(c)
        more = [b.size(2) - y.size(2), b.size(3) - y.size(3)]
        y = F.pad(y, [more[1] // 2, more[1] - more[1] // 2, more[0] // 2, more[0] - more[0] // 2])
        y = self.u1(self.c2(torch.cat([y, b], 1)))
        return torch.softmax(self.o(self.c1(torch.cat([y, a], 1))), 1)


@network(1, 3, 65, 65, opset=11)
class DeepLabV3(nn.Module):
    """Dilated convolutions at several rates, and the mean of the picture spread over it."""

    def __init__(self) -> None:
        super().__init__()
        self.f = S(cbr(3, 16, 3, 2), cbr(16, 16, d=2))
        self.ways = nn.ModuleList([cbr(16, 8, 1), cbr(16, 8, d=3), cbr(16, 8, d=6), cbr(16, 8, d=9)])
        self.pooled, self.o = (
            S(nn.AdaptiveAvgPool2d(1), cbr(16, 8, 1)),
            S(cbr(40, 16, 1), nn.Conv2d(16, 5, 1)),
        )

    def forward(self, x: torch.Tensor) -> Any:
        y = self.f(x)
        p = F.interpolate(self.pooled(y), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.o(torch.cat([*(way(y) for way in self.ways), p], 1))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


@network(1, 3, 64, 64, opset=13)
class FcnResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = cbr(3, 8, 3, 2), cbr(8, 16, 3, 2), cbr(16, 16, 3, 2)
        self.h1, self.h2 = nn.Conv2d(16, 5, 1), nn.Conv2d(16, 5, 1)
        self.up = nn.ConvTranspose2d(5, 5, 16, 8, 4, groups=5, bias=False)
        self.up2 = nn.ConvTranspose2d(5, 5, 4, 2, 1, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        b = self.b(self.a(x))
        y = self.up2(self.h1(self.c(b))) + self.h2(b)
        full = self.up(y)[:, :, 2:66, 2:66]
        return full, full.argmax(1)


@network(1, 3, 64, 64, opset=11)
class RetinaNet(nn.Module):
    """A pyramid of features, heads that share weights, boxes decoded from anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleList([cbr(3, 8, 3, 2), cbr(8, 16, 3, 2), cbr(16, 32, 3, 2)])
        self.side = nn.ModuleList([nn.Conv2d(i, 8, 1) for i in (8, 16, 32)])
        self.smooth = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])
        self.cls, self.box = (
            S(cbr(8, 8), nn.Conv2d(8, 3 * 4, 3, padding=1)),
            nn.Conv2d(8, 3 * 4, 3, padding=1),
        )
        anchors = [self.anchors(64 // s, s) for s in (2, 4, 8)]
        self.register_buffer("anchor", torch.cat(anchors), persistent=False)

    @staticmethod
    def anchors(count: int, step: int) -> torch.Tensor:
        y, x = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij")
        centre = (torch.stack([x, y, x, y], -1).float() + 0.5) * step
        sizes = torch.tensor([[-1.0, -1, 1, 1], [-2, -1, 2, 1], [-1, -2, 1, 2]]) * step
        return (centre[:, :, None] + sizes).reshape(-1, 4)

    def forward(self, x: torch.Tensor) -> Any:
        levels = []
        for layer in self.body:
            x = layer(x)
            levels.append(x)
        top = self.side[2](levels[2])
        maps = [top]
        for n in (1, 0):
            side = self.side[n](levels[n])
            top = side + F.interpolate(top, size=side.shape[-2:], mode="nearest")
            maps.insert(0, top)
        maps = [s(m) for s, m in zip(self.smooth, maps, strict=True)]
        rows = [self.rows(self.cls(m)) for m in maps], [self.rows(self.box(m)) for m in maps]
        scores, move = (torch.cat(r, 1) for r in rows)
        size = self.anchor[:, 2:] - self.anchor[:, :2]
        centre = self.anchor[:, :2] + 0.5 * size + move[..., :2] * size
        half = 0.5 * torch.exp(torch.clamp(move[..., 2:], max=4.135)) * size
        return scores.sigmoid(), torch.stack((centre - half, centre + half), 2).flatten(2).clamp(0, 64)

    @staticmethod
    def rows(y: torch.Tensor) -> torch.Tensor:
        n, _, h, w = y.shape
        return y.view(n, -1, 4, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, 4)


@network(1, 3, 64, 64, opset=11, quick=True)
class Yolo(nn.Module):
    """Focus, SiLU, two heads, boxes decoded by sigmoids and a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = cbr(12, 16, act=nn.SiLU), cbr(16, 32, 3, 2, act=nn.SiLU)
        self.pool, self.spp = nn.MaxPool2d(5, 1, 2), cbr(128, 32, 1, act=nn.SiLU)
        self.up, self.m = nn.Upsample(scale_factor=2), cbr(48, 16, act=nn.SiLU)
        self.heads = nn.ModuleList([nn.Conv2d(16, 21, 1), nn.Conv2d(32, 21, 1)])
        self.register_buffer("anchors", torch.rand(2, 1, 3, 1, 1, 2) * 16 + 4)

    def head(self, n: int, y: torch.Tensor, step: int) -> Any:
        y = self.heads[n](y)
        b, _, h, w = y.shape
        y = y.view(b, 3, 7, h, w).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
        gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((gx, gy), 2).view(1, 1, h, w, 2).float()
        xy, wh, rest = y.split((2, 2, 3), 4)
        return torch.cat(((xy * 2 - 0.5 + grid) * step, (wh * 2) ** 2 * self.anchors[n], rest), -1).view(
            b, -1, 7
        )

    def forward(self, x: torch.Tensor) -> Any:
        parts = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        a = self.f(torch.cat(parts, 1))
        b = self.g(a)
        p = self.pool(b)
        q = self.pool(p)
        b = self.spp(torch.cat([b, p, q, self.pool(q)], 1))
        a = self.m(torch.cat([self.up(b), a], 1))
        return torch.cat([self.head(0, a, 2), self.head(1, b, 4)], 1)


@network(1, 3, 64, 64, opset=17)
class YoloV8(nn.Module):
    """Boxes as expected distances, a softmax over bins."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.a = cbr(3, 16, 3, 4, act=nn.SiLU), cbr(16, 16, 1, act=nn.SiLU)
        self.b, self.o = cbr(8, 8, act=nn.SiLU), cbr(24, 16, 1, act=nn.SiLU)
        self.h1, self.h2 = nn.Conv2d(16, 64, 1), nn.Conv2d(16, 4, 1)
        self.dfl = nn.Conv2d(16, 1, 1, bias=False).requires_grad_(False)
        self.dfl.weight.data[:] = torch.arange(16.0).view(1, 16, 1, 1)

    def forward(self, x: torch.Tensor) -> Any:
        parts = list(self.a(self.f(x)).chunk(2, 1))
        parts.append(parts[-1] + self.b(parts[-1]))
        y = self.o(torch.cat(parts, 1))
        b, _, h, w = y.shape
        box, cls = torch.cat((self.h1(y), self.h2(y)), 1).view(b, 68, -1).split((64, 4), 1)
        d = self.dfl(box.view(b, 4, 16, h * w).transpose(2, 1).softmax(1)).view(b, 4, h * w)
        near, far = d.chunk(2, 1)
        sy, sx = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        at = torch.stack((sx, sy), -1).view(-1, 2).transpose(0, 1).unsqueeze(0)
        low, high = at - near, at + far
        return torch.cat([torch.cat(((low + high) / 2, high - low), 1) * 4, cls.sigmoid()], 1)


@network(1, 3, 64, 64, opset=11)
class CenterNet(nn.Module):
    """Peaks of a heat map, the best of them, and what another map says there."""

    def __init__(self) -> None:
        super().__init__()
        self.f = S(cbr(3, 16, 3, 2), cbr(16, 16, 3, 2))
        self.h, self.w = nn.Conv2d(16, 3, 1), nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.f(x)
        heat = self.h(y).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).float()
        scores, places = torch.topk(heat.view(1, -1), 8)
        places = places % (16 * 16)
        wh = self.w(y).permute(0, 2, 3, 1).contiguous().view(1, -1, 2)
        sizes = wh.gather(1, places.unsqueeze(2).expand(1, 8, 2))
        rows = torch.div(places, 16, rounding_mode="floor")
        return scores, rows, places % 16, sizes


@network(2, 1, 24, 24, opset=11)
def SuperResolution() -> nn.Module:
    return S(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3))


@network(1, 3, 32, 32, opset=13)
class StyleTransfer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        down = (nn.ReflectionPad2d(4), nn.Conv2d(3, 8, 9), nn.InstanceNorm2d(8, affine=True), nn.ReLU())
        more = (nn.ReflectionPad2d(1), nn.Conv2d(8, 16, 3, 2), nn.InstanceNorm2d(16, affine=True), nn.ReLU())
        up = (
            nn.Upsample(scale_factor=2),
            nn.ReflectionPad2d(1),
            nn.Conv2d(16, 8, 3),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
        )
        self.f = S(*down, *more, *up, nn.ReplicationPad2d(1), nn.Conv2d(8, 3, 3))

    def forward(self, x: torch.Tensor) -> Any:
        return (self.f(x).tanh() + 1) * 127.5


@network(2, 1, 16, 16, opset=17)
class Vae(nn.Module):
    """Encoded to a mean, decoded from it."""

    def __init__(self) -> None:
        super().__init__()
        self.e = S(
            nn.Conv2d(1, 8, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(8, 16, 4, 2, 1),
            nn.BatchNorm2d(16),
            nn.ELU(),
        )
        self.m, self.v, self.l = nn.Linear(256, 6), nn.Linear(256, 6), nn.Linear(6, 256)
        self.d = S(
            nn.ConvTranspose2d(16, 8, 4, 2, 1),
            nn.BatchNorm2d(8),
            nn.PReLU(),
            nn.ConvTranspose2d(8, 1, 3, 2, 1, 1),
        )

    def forward(self, x: torch.Tensor) -> Any:
        y = self.e(x).flatten(1)
        mean = self.m(y)
        return torch.sigmoid(self.d(self.l(mean).view(-1, 16, 4, 4))), mean, self.v(y)
