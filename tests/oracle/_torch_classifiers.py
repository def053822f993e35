"""Convolutional classifiers of torchvision and timm, with few channels."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.oracle._torch_zoo import Head, cbr, network

S = nn.Sequential


@network(2, 3, 64, 64, opset=11)
class AlexNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = S(
            *(nn.Conv2d(3, 16, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(True), nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(32, 24, 3, padding=1), nn.ReLU(True)),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = S(nn.Dropout(), nn.Linear(24, 32), nn.ReLU(True), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> Any:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


@network(1, 3, 32, 32, opset=13)
class VggBn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        c = 3
        for o in (8, "M", 16, 16, "M", 24, "M"):
            layers += [nn.MaxPool2d(2, 2)] if o == "M" else [cbr(c, int(o))]
            c = c if o == "M" else int(o)
        self.features, self.classifier = S(*layers), S(nn.Linear(24 * 16, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> Any:
        return self.classifier(self.features(x).view(x.size(0), -1))


class Squeezing(nn.Module):
    def __init__(self, c: int, gate: type[nn.Module] = nn.Sigmoid, act: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.f = S(nn.Conv2d(c, c // 4, 1), act(), nn.Conv2d(c // 4, c, 1), gate())

    def forward(self, x: torch.Tensor) -> Any:
        return x * self.f(self.pool(x))


class Residual(nn.Module):
    """Two or three convolutions beside a shortcut."""

    def __init__(self, i: int, o: int, s: int = 1, mid: int = 0, g: int = 1, se: bool = False) -> None:
        super().__init__()
        self.f = (
            S(cbr(i, mid, 1), cbr(mid, mid, 3, s, g), cbr(mid, o, 1, act=None))
            if mid
            else S(cbr(i, o, 3, s), cbr(o, o, act=None))
        )
        self.se = Squeezing(o) if se else nn.Identity()
        self.down = cbr(i, o, 1, s, act=None) if s > 1 or i != o else None

    def forward(self, x: torch.Tensor) -> Any:
        y = self.se(self.f(x))
        y += x if self.down is None else self.down(x)
        return F.relu(y, inplace=True)


def stem(c: int) -> nn.Sequential:
    return S(cbr(3, c, 7, 2), nn.MaxPool2d(3, 2, 1))


@network(2, 3, 64, 64, opset=11, is_open=True, quick=True)
def ResNet18() -> nn.Module:
    return S(stem(8), Residual(8, 8), Residual(8, 16, 2), Residual(16, 16), Residual(16, 32, 2), Head(32))


@network(1, 3, 64, 64, opset=13)
def ResNet50() -> nn.Module:
    return S(stem(8), Residual(8, 32, 1, 8), Residual(32, 32, 1, 8), Residual(32, 64, 2, 16), Head(64))


@network(2, 3, 64, 64, opset=17)
def ResNeXt() -> nn.Module:
    return S(stem(8), Residual(8, 32, 1, 16, 4), Residual(32, 64, 2, 32, 8), Head(64))


@network(1, 3, 64, 64, opset=11)
def SEResNet() -> nn.Module:
    return S(stem(8), Residual(8, 16, 1, 8, se=True), Residual(16, 32, 2, 16, se=True), Head(32))


@network(2, 3, 32, 32, opset=13)
def WideResNetPre() -> nn.Module:
    class Pre(nn.Module):
        """Norm and activation in front of the convolutions; a shortcut that pads channels."""

        def __init__(self, i: int, o: int, s: int) -> None:
            super().__init__()
            self.n1, self.c1 = nn.BatchNorm2d(i), nn.Conv2d(i, o, 3, s, 1, bias=False)
            self.n2, self.c2, self.more, self.s = nn.BatchNorm2d(o), nn.Conv2d(o, o, 3, 1, 1), o - i, s

        def forward(self, x: torch.Tensor) -> Any:
            y = self.c2(F.relu(self.n2(self.c1(F.relu(self.n1(x))))))
            short = F.avg_pool2d(x, self.s) if self.s > 1 else x
            return y + F.pad(short, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))

    return S(
        nn.Conv2d(3, 8, 3, padding=1),
        Pre(8, 8, 1),
        Pre(8, 16, 2),
        Pre(16, 32, 2),
        nn.BatchNorm2d(32),
        Head(32),
    )


@network(1, 3, 64, 64, opset=11)
def DenseNet() -> nn.Module:
    class Layer(nn.Module):
        def __init__(self, c: int, more: int) -> None:
            super().__init__()
            self.n1, self.c1 = nn.BatchNorm2d(c), nn.Conv2d(c, 2 * more, 1, bias=False)
            self.n2, self.c2 = nn.BatchNorm2d(2 * more), nn.Conv2d(2 * more, more, 3, padding=1, bias=False)

        def forward(self, x: torch.Tensor) -> Any:
            return torch.cat([x, self.c2(F.relu(self.n2(self.c1(F.relu(self.n1(x))))))], 1)

    between = S(nn.BatchNorm2d(32), nn.ReLU(True), nn.Conv2d(32, 16, 1, bias=False), nn.AvgPool2d(2, 2))
    dense = [Layer(8 + 8 * n, 8) for n in range(3)]
    return S(stem(8), *dense, between, Layer(16, 8), nn.BatchNorm2d(24), nn.ReLU(True), Head(24))


@network(1, 3, 64, 64, opset=11)
def SqueezeNet() -> nn.Module:
    class Fire(nn.Module):
        def __init__(self, i: int, s: int, e: int) -> None:
            super().__init__()
            self.s, self.a, self.b = nn.Conv2d(i, s, 1), nn.Conv2d(s, e, 1), nn.Conv2d(s, e, 3, padding=1)

        def forward(self, x: torch.Tensor) -> Any:
            y = F.relu(self.s(x))
            return torch.cat([F.relu(self.a(y)), F.relu(self.b(y))], 1)

    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    body = (
        nn.Conv2d(3, 16, 7, 2),
        nn.ReLU(True),
        pool,
        Fire(16, 4, 16),
        Fire(32, 4, 16),
        pool,
        Fire(32, 8, 24),
    )
    return S(
        *body, nn.Dropout(), nn.Conv2d(48, 10, 1), nn.ReLU(True), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten()
    )


class Inverted(nn.Module):
    """Wider, by channel, narrower again."""

    def __init__(
        self, i: int, o: int, s: int = 1, e: int = 4, k: int = 3, act: Any = nn.ReLU6, gate: Any = None
    ) -> None:
        super().__init__()
        h = i * e
        se = [] if gate is None else [Squeezing(h, gate, nn.SiLU if act is nn.SiLU else nn.ReLU)]
        self.f = S(cbr(i, h, 1, act=act), cbr(h, h, k, s, h, act), *se, cbr(h, o, 1, act=None))
        self.adds = s == 1 and i == o

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.f(x) if self.adds else self.f(x)


@network(1, 3, 64, 64, opset=11)
def MobileNetV1() -> nn.Module:
    pairs = [S(cbr(i, i, 3, s, i), cbr(i, o, 1)) for i, o, s in ((8, 16, 1), (16, 32, 2), (32, 32, 1))]
    return S(cbr(3, 8, 3, 2), *pairs, Head(32))


@network(2, 3, 64, 64, opset=13, is_open=True)
def MobileNetV2() -> nn.Module:
    body = (Inverted(8, 8, 1, 1), Inverted(8, 16, 2, 6), Inverted(16, 16, 1, 6))
    return S(cbr(3, 8, 3, 2, act=nn.ReLU6), *body, cbr(16, 64, 1, act=nn.ReLU6), Head(64))


@network(2, 3, 64, 64, opset=17, quick=True)
def MobileNetV3() -> nn.Module:
    h = nn.Hardswish
    body = (
        Inverted(8, 8, 2, 1, gate=nn.Hardsigmoid, act=nn.ReLU),
        Inverted(8, 16, 2, 4, 5, h, nn.Hardsigmoid),
    )
    return S(
        cbr(3, 8, 3, 2, act=h),
        *body,
        Inverted(16, 16, 1, 4, 5, h),
        cbr(16, 64, 1, act=h),
        Head(64, 32),
        h(),
        nn.Linear(32, 10),
    )


@network(1, 3, 64, 64, opset=13)
def EfficientNet() -> nn.Module:
    body = [Inverted(8, 8, 1, 1, 3, nn.SiLU, nn.Sigmoid), Inverted(8, 16, 2, 4, 5, nn.SiLU, nn.Sigmoid)]
    return S(cbr(3, 8, 3, 2, act=nn.SiLU), *body, cbr(16, 32, 1, act=nn.SiLU), Head(32))


@network(1, 3, 64, 64, opset=11)
def MnasNet() -> nn.Module:
    body = (
        cbr(8, 8, 3, 1, 8),
        cbr(8, 8, 1, act=None),
        Inverted(8, 16, 2, 3, 3, nn.ReLU),
        Inverted(16, 16, 1, 3, 5, nn.ReLU),
    )
    return S(cbr(3, 8, 3, 2), *body, cbr(16, 32, 1), Head(32))


def shuffled(x: torch.Tensor, g: int) -> torch.Tensor:
    b, c, h, w = x.shape
    return x.view(b, g, c // g, h, w).transpose(1, 2).contiguous().view(b, c, h, w)


@network(1, 3, 64, 64, opset=11)
def ShuffleNetV1() -> nn.Module:
    class Unit(nn.Module):
        def __init__(self, i: int, o: int, s: int) -> None:
            super().__init__()
            m = o // 4
            self.s, self.a, self.b = s, cbr(i, m, 1, g=3), cbr(m, m, 3, s, m, None)
            self.c = cbr(m, o - i if s == 2 else o, 1, g=3, act=None)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.c(self.b(shuffled(self.a(x), 3)))
            return F.relu(torch.cat((F.avg_pool2d(x, 3, 2, 1), y), 1) if self.s == 2 else x + y)

    return S(cbr(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1), Unit(24, 72, 2), Unit(72, 72, 1), Head(72))


@network(2, 3, 64, 64, opset=17, quick=True)
def ShuffleNetV2() -> nn.Module:
    class Unit(nn.Module):
        def __init__(self, c: int, s: int) -> None:
            super().__init__()
            h = c if s == 2 else c // 2
            self.s, self.right = s, S(cbr(h, h, 1), cbr(h, h, 3, s, h, None), cbr(h, h, 1))
            self.left = S(cbr(h, h, 3, 2, h, None), cbr(h, h, 1)) if s == 2 else nn.Identity()

        def forward(self, x: torch.Tensor) -> Any:
            a, b = (x, x) if self.s == 2 else x.chunk(2, dim=1)
            return shuffled(torch.cat((self.left(a), self.right(b)), 1), 2)

    return S(
        cbr(3, 8, 3, 2), nn.MaxPool2d(3, 2, 1), Unit(8, 2), Unit(16, 1), Unit(16, 2), cbr(32, 32, 1), Head(32)
    )


class Branches(nn.Module):
    """Several ways from one picture, joined by channel."""

    def __init__(self, *ways: nn.Module) -> None:
        super().__init__()
        self.ways = nn.ModuleList(ways)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cat([way(x) for way in self.ways], 1)


@network(1, 3, 64, 64, opset=13)
def GoogLeNet() -> nn.Module:
    def inception(i: int) -> nn.Module:
        pooled = S(nn.MaxPool2d(3, 1, 1, ceil_mode=True), cbr(i, 8, 1))
        return Branches(cbr(i, 8, 1), S(cbr(i, 8, 1), cbr(8, 16)), S(cbr(i, 4, 1), cbr(4, 8, 5)), pooled)

    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    norm = nn.LocalResponseNorm(5)
    return S(cbr(3, 8, 7, 2), pool, norm, inception(8), inception(40), pool, nn.Dropout(0.2), Head(40))


@network(1, 3, 75, 75, opset=11)
class InceptionV3(nn.Module):
    """Its input is scaled anew, and its kernels are not square."""

    def __init__(self) -> None:
        super().__init__()
        wide = [nn.Conv2d(16, 8, (1, 7), padding=(0, 3)), nn.Conv2d(8, 8, (7, 1), padding=(3, 0)), nn.ReLU()]
        pooled = S(nn.AvgPool2d(3, 1, 1), cbr(16, 8, 1))
        grid = Branches(nn.Conv2d(24, 16, 3, 2), S(cbr(24, 8, 1), nn.Conv2d(8, 8, 3, 2)), nn.MaxPool2d(3, 2))
        first = S(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8, 0.001), nn.ReLU(), cbr(8, 16), nn.MaxPool2d(3, 2))
        self.f = S(first, Branches(cbr(16, 8, 1), S(*wide), pooled), grid, Head(48))

    def forward(self, x: torch.Tensor) -> Any:
        r = x[:, 0:1] * (0.229 / 0.5) + (0.485 - 0.5) / 0.5
        g = torch.unsqueeze(x[:, 1], 1) * (0.224 / 0.5) + (0.456 - 0.5) / 0.5
        return self.f(torch.cat((r, g, x[:, 2:] * 0.45 - 0.188), 1))


@network(1, 3, 64, 64, opset=13)
def RegNet() -> nn.Module:
    return S(cbr(3, 8, 3, 2), Residual(8, 16, 2, 16, 2, True), Residual(16, 32, 2, 32, 4, True), Head(32))


@network(1, 3, 32, 32, opset=11)
def GhostNet() -> nn.Module:
    class Ghost(nn.Module):
        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.o, h = o, (o + 1) // 2
            self.a, self.b = cbr(i, h, 1), cbr(h, h, 3, 1, h)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.a(x)
            return torch.cat([y, self.b(y)], 1)[:, : self.o, :, :]

    return S(
        cbr(3, 8, 3, 2),
        Ghost(8, 15),
        cbr(15, 15, 5, 2, 15, None),
        Squeezing(15, nn.Hardsigmoid),
        Ghost(15, 20),
        Head(20),
    )


@network(2, 3, 32, 32, opset=13)
def RepVgg() -> nn.Module:
    class Three(nn.Module):
        def __init__(self, i: int, o: int, s: int = 1) -> None:
            super().__init__()
            self.a, self.b = cbr(i, o, 3, s, act=None), cbr(i, o, 1, s, act=None)
            self.c = nn.BatchNorm2d(i) if i == o and s == 1 else None

        def forward(self, x: torch.Tensor) -> Any:
            return F.relu(self.a(x) + self.b(x) + (0 if self.c is None else self.c(x)))

    return S(Three(3, 8, 2), Three(8, 8), Three(8, 16, 2), Head(16))


@network(1, 3, 32, 32, opset=17)
class Res2Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.c = cbr(3, 32), nn.ModuleList([cbr(8, 8) for _ in range(3)])
        self.o, self.h = cbr(32, 16, 1), Head(16)

    def forward(self, x: torch.Tensor) -> Any:
        first, *rest = torch.split(self.f(x), 8, 1)
        out, y = [first], None
        for part, layer in zip(rest, self.c, strict=True):
            y = layer(part if y is None else part + y)
            out.append(y)
        return self.h(self.o(torch.cat(out, 1)))


@network(1, 3, 32, 32, opset=13)
class ResNeSt(nn.Module):
    """Splits that are weighed against one another."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.c = cbr(3, 16), cbr(16, 32, g=2)
        self.a, self.b, self.o = cbr(16, 8, 1), nn.Conv2d(8, 32, 1), Head(16)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.c(self.f(x))
        b, c = y.shape[:2]
        parts = torch.split(y, c // 2, 1)
        w = self.b(self.a(F.adaptive_avg_pool2d(parts[0] + parts[1], 1)))
        w = F.softmax(w.view(b, 1, 2, -1).transpose(1, 2), 1).reshape(b, -1).view(b, -1, 1, 1)
        weighed = [p * q for p, q in zip(parts, torch.split(w, c // 2, 1), strict=True)]
        return self.o(weighed[0] + weighed[1])
