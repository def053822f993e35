"""Ops of PyTorch by their names in exported programs: special functions, windows, diagonals, distances, bags.

Drawn are shapes, axes, element types and flags; among the numbers are NaN, infinities and both zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

from tests.oracle._torch_ops import Case

Draw: TypeAlias = Callable[[Random], Case]
S, L = torch.special, torch.linalg
REALS = (torch.float32, torch.float32, torch.float64)
WHOLE = (torch.int32, torch.int64, torch.int8, torch.uint8)
EVERY = (*REALS, *WHOLE, torch.bool)
ODD = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5)


# --- numbers ------------------------------------------------------------------------------------------------


def _size(r: Random, rank: int | None = None, low: int = 1) -> list[int]:
    return [r.randint(low, 4) for _ in range(r.randint(0, 3) if rank is None else rank)]


def _numbers(r: Random, size: Sequence[int], kind: torch.dtype, odd: bool = True) -> torch.Tensor:
    """Numbers about 0, whole ones to 5; some of them odd."""
    if kind is torch.bool:
        return torch.randint(0, 2, tuple(size)).bool()
    if not kind.is_floating_point:
        return torch.randint(0 if kind is torch.uint8 else -5, 6, tuple(size)).to(kind)
    x = torch.randn(tuple(size), dtype=kind) * r.choice([0.5, 2, 5])
    return _with(r, x, ODD) if odd else x


def _with(r: Random, x: torch.Tensor, odd: Sequence[float]) -> torch.Tensor:
    y = x.reshape(-1)
    for n in range(y.numel()):
        if r.random() < 0.3:
            y[n] = r.choice(odd)
    return y.reshape(x.shape)


def _two_sizes(r: Random) -> tuple[list[int], list[int]]:
    """Sizes of two operands that fit."""
    size = _size(r)
    other = [r.choice([n, n, 1]) for n in size][r.randint(0, len(size)) if r.random() < 0.4 else 0 :]
    return (size, other) if r.random() < 0.5 else (other, size)


# --- special functions --------------------------------------------------------------------------------------


def _one(f: Callable[[Any], Any], kinds: Sequence[torch.dtype] = EVERY) -> Draw:
    return lambda r: Case(f, (_numbers(r, _size(r), r.choice(kinds)),))


def _unit(f: Callable[[Any], Any]) -> Draw:
    """Of numbers about 0 to 1."""

    def draw(r: Random) -> Case:
        x = torch.rand(tuple(_size(r)), dtype=r.choice(REALS)) * r.choice([1, 1.2])
        return Case(f, (_with(r, x, (0.0, 1.0, -1.0, math.nan)),))

    return draw


def _two(
    f: Callable[[Any, Any], Any], first: Sequence[torch.dtype], second: Any = None, odd: bool = True
) -> Draw:
    """Of two operands that are broadcast, of one type or, if a second choice is given, of two."""

    def draw(r: Random) -> Case:
        one, two = _two_sizes(r)
        kind = r.choice(first)
        other = kind if second is None else r.choice(second)
        return Case(f, (_numbers(r, one, kind, odd), _numbers(r, two, other, odd)))

    return draw


def _number(
    f: Callable[[Any, Any], Any], numbers: Sequence[Any], kinds: Sequence[torch.dtype] = EVERY
) -> Draw:
    """Of an operand and a number that is written in the program."""

    def draw(r: Random) -> Case:
        number = r.choice(numbers)
        return Case(lambda x: f(x, number), (_numbers(r, _size(r), r.choice(kinds)),))

    return draw


def _gamma(f: Callable[[Any, Any], Any]) -> Draw:
    def draw(r: Random) -> Case:
        kind = r.choice(REALS)
        one, two = (torch.rand(tuple(n), dtype=kind) * r.choice([1, 6]) for n in _two_sizes(r))
        return Case(f, (_with(r, one, (0.0, 1.0)), _with(r, two, (0.0, 1.0, math.inf))))

    return draw


def _shift(f: Callable[[Any, Any], Any], second: bool) -> Draw:
    def draw(r: Random) -> Case:
        kind = r.choice(WHOLE)
        one, two = _two_sizes(r)
        x = torch.randint(-(1 << 31), 1 << 31, tuple(one)).to(kind)
        least, most = r.choice([(0, 4), (0, 4), (0 if kind is torch.uint8 else -2, 70)])
        if second:
            return Case(f, (x, torch.randint(least, most + 1, tuple(two)).to(kind)))
        count = r.randint(least, most)
        return Case(lambda x: f(x, count), (x,))

    return draw


def _bits(f: Callable[[Any, Any], Any], number: bool = False) -> Draw:
    def draw(r: Random) -> Case:
        kinds = (*WHOLE, torch.bool)
        if number:
            return _number(f, [1, 6, -2, 300], kinds[:-1])(r)
        return _two(f, kinds, kinds)(r)

    return draw


def _rounded(r: Random) -> Case:
    digits = r.choice([-2, -1, 0, 1, 2, 3])
    return Case(lambda x: torch.round(x, decimals=digits), (_numbers(r, _size(r), r.choice(REALS)) * 10,))


def _logit(f: Callable[..., Any]) -> Draw:
    return lambda r: _unit(r.choice([f, lambda x: f(x, eps=1e-3), lambda x: f(x, 0.2)]))(r)


def _nan_to_num(r: Random) -> Case:
    said = {n: v for n, v in (("nan", 7.0), ("posinf", 3.5), ("neginf", -2.0)) if r.random() < 0.5}
    return _one(lambda x: torch.nan_to_num(x, **said))(r)


def _close(r: Random) -> Case:
    kind, same = r.choice(EVERY), r.random() < 0.5
    options = {"rtol": r.choice([1e-5, 0.1, 0.0]), "atol": r.choice([1e-8, 0.5, 1.0, 0.0])}
    one, two = _two_sizes(r)
    x = _numbers(r, one, kind)
    y = x.clone() if r.random() < 0.5 else _numbers(r, two, kind)
    return Case(lambda x, y: torch.isclose(x, y, equal_nan=same, **options), (x, y))


def _isin(r: Random) -> Case:
    kind, invert = r.choice([*REALS, *WHOLE]), r.random() < 0.5
    x, y = _numbers(r, _size(r), kind), _numbers(r, _size(r, None, 0), kind)
    return Case(lambda x, y: torch.isin(x, y, invert=invert), (x, y))


FUNCTIONS: Mapping[str, Draw] = {
    "digamma": _one(torch.digamma),
    "special_digamma": _one(S.digamma),
    "special_psi": _one(S.psi),
    "lgamma": _one(torch.lgamma),
    "special_gammaln": _one(S.gammaln),
    "erfinv": _unit(torch.erfinv),
    "special_erfinv": _unit(S.erfinv),
    "i0": _one(torch.i0),
    "special_i0": _one(S.i0),
    "special_i0e": _one(S.i0e),
    "special_i1": _one(S.i1),
    "special_i1e": _one(S.i1e),
    "special_ndtri": _unit(S.ndtri),
    "special_expm1": _one(S.expm1),
    "special_log1p": _one(S.log1p),
    "xlogy.Tensor": _two(torch.xlogy, EVERY, EVERY),
    "xlogy.Scalar_Other": _number(torch.xlogy, [2, 0, 0.5, 3.5]),
    "xlogy.Scalar_Self": _number(lambda x, n: torch.xlogy(n, x), [2, 0, -0.5, 3.5]),
    "special_xlogy": _two(S.xlogy, EVERY, EVERY),
    "igamma": _gamma(torch.igamma),
    "special_gammainc": _gamma(S.gammainc),
    "igammac": _gamma(torch.igammac),
    "special_gammaincc": _gamma(S.gammaincc),
    "nextafter": _two(torch.nextafter, REALS),
    "bitwise_left_shift.Tensor": _shift(torch.bitwise_left_shift, True),
    "bitwise_left_shift.Tensor_Scalar": _shift(torch.bitwise_left_shift, False),
    "bitwise_right_shift.Tensor": _shift(torch.bitwise_right_shift, True),
    "bitwise_right_shift.Tensor_Scalar": _shift(torch.bitwise_right_shift, False),
    "__lshift__.Scalar": _shift(lambda x, n: x << n, False),
    "__rshift__.Scalar": _shift(lambda x, n: x >> n, False),
    "__lshift__.Tensor": _shift(lambda x, n: x << n, True),
    "__rshift__.Tensor": _shift(lambda x, n: x >> n, True),
    "bitwise_and.Tensor": _bits(torch.bitwise_and),
    "bitwise_or.Scalar": _bits(torch.bitwise_or, True),
    "bitwise_xor.Scalar_Tensor": _bits(lambda x, n: torch.bitwise_xor(n, x), True),
    "__and__.Scalar": _bits(lambda x, n: x & n, True),
    "__or__.Tensor": _bits(lambda x, y: x | y),
    "bitwise_not": _one(torch.bitwise_not, (*WHOLE, torch.bool)),
    "remainder.Scalar_Tensor": lambda r: _number(
        lambda x, n: torch.remainder(n, x + (x == 0).to(x.dtype)),
        [7, -7, *([2.5, -2.5] if r.random() < 0.5 else [])],
        r.choice([REALS, REALS, WHOLE]),
    )(r),
    "exp2": _one(torch.exp2),
    "special_exp2": _one(S.exp2),
    "deg2rad": _one(torch.deg2rad),
    "rad2deg": _one(torch.rad2deg),
    "frac": _one(torch.frac, REALS),
    "round.decimals": _rounded,
    "sinc": _one(torch.sinc),
    "special_sinc": _one(S.sinc),
    "logit": _logit(torch.logit),
    "special_logit": _logit(S.logit),
    "special_entr": _one(S.entr),
    "nan_to_num": _nan_to_num,
    "isfinite": _one(torch.isfinite),
    "isposinf": _one(torch.isposinf),
    "isneginf": _one(torch.isneginf),
    "signbit": _one(torch.signbit, [*REALS, *WHOLE]),
    "copysign.Tensor": _two(torch.copysign, EVERY, EVERY),
    "copysign.Scalar": _number(torch.copysign, [2, -3, -0.0, 0.5]),
    "hypot": _two(torch.hypot, REALS),
    "logaddexp": _two(torch.logaddexp, REALS),
    "logaddexp2": _two(torch.logaddexp2, REALS),
    "heaviside": _two(torch.heaviside, EVERY),
    "ldexp.Tensor": _two(torch.ldexp, EVERY, WHOLE),
    "float_power.Tensor_Scalar": _number(torch.float_power, [2, -1, 0, 0.5, 3]),
    "float_power.Tensor_Tensor": _two(torch.float_power, EVERY, EVERY),
    "float_power.Scalar": _number(lambda x, n: torch.float_power(n, x), [2, -2, 0, 0.5]),
    "isclose": _close,
    "isin.Tensor_Tensor": _isin,
    "log2": _one(torch.log2),
    "log10": _one(torch.log10),
}


# --- parts --------------------------------------------------------------------------------------------------


def _any(
    r: Random, rank: int | None = None, low: int = 1, kinds: Sequence[torch.dtype] = EVERY
) -> torch.Tensor:
    return _numbers(r, _size(r, rank, low), r.choice(kinds))


def _strided(f: Callable[..., Any]) -> Draw:
    def draw(r: Random) -> Case:
        rank = r.randint(0, 3)
        size, step = _size(r, rank, 0), [r.randint(0, 3) for _ in range(rank)]
        start, order = r.choice([0, 0, 2]), r.sample(range(3), 3)
        x = _numbers(r, [5, 7, 1], r.choice(EVERY))
        # Of a view, too: it goes by places in memory, whatever axis stands in front.
        return Case(lambda x: f(x.permute(order), size, step, start), (x,))

    return draw


def _axes(r: Random, rank: int) -> tuple[int, int]:
    one, two = r.sample(range(rank), 2)
    return one - rank * r.randint(0, 1), two - rank * r.randint(0, 1)


def _diagonal(f: Callable[..., Any]) -> Draw:
    def draw(r: Random) -> Case:
        x, offset = _any(r, r.choice([2, 3, 4])), r.randint(-3, 3)
        one, two = _axes(r, x.dim())
        if r.random() < 0.2:
            return Case(f, (x,))
        # PyTorch refuses a diagonal that begins behind both sides only of less than nothing.
        return Case(lambda x: f(x, offset=offset, dim1=one, dim2=two), (x,))

    return draw


def _last_diagonal(r: Random) -> Case:
    offset = r.randint(-2, 2)
    one, two = r.choice([(-2, -1), (-1, -2), (0, -1), (0, 1)])
    return Case(lambda x: L.diagonal(x, offset=offset, dim1=one, dim2=two), (_any(r, r.choice([2, 3])),))


def _diag_embed(r: Random) -> Case:
    x, offset = _any(r, r.choice([1, 2, 3]), 0), r.randint(-3, 3)
    one, two = _axes(r, x.dim() + 1)
    return Case(lambda x: torch.diag_embed(x, offset, one, two), (x,))


def _eye(square: bool) -> Draw:
    def draw(r: Random) -> Case:
        n, m, kind = r.randint(0, 4), r.randint(0, 4), r.choice(EVERY)
        sizes = (n,) if square else (n, m)
        return Case(lambda x: (torch.eye(*sizes, dtype=kind), x + 1), (torch.ones(1),))

    return draw


def _triangle(f: Callable[..., Any]) -> Draw:
    def draw(r: Random) -> Case:
        n, m, offset, kind = (
            r.randint(0, 4),
            r.randint(0, 4),
            r.randint(-5, 5),
            r.choice([torch.int32, torch.int64]),
        )
        return Case(lambda x: (f(n, m, offset, dtype=kind), x + 1), (torch.ones(1),))

    return draw


def _unfold(f: Callable[..., Any]) -> Draw:
    def draw(r: Random) -> Case:
        x = _numbers(r, [r.randint(4, 6) for _ in range(r.randint(1, 3))], r.choice(EVERY))
        axis, size, step = r.randrange(-x.dim(), x.dim()), r.randint(0, 4), r.randint(1, 3)
        return Case(lambda x: f(x, axis, size, step), (x,))

    return draw


def _windows(r: Random) -> tuple[list[int], dict[str, list[int]]]:
    """Sides of a picture, and windows that fit it."""
    k, d, p, s = ([r.randint(low, high) for _ in range(2)] for low, high in ((1, 3), (1, 2), (0, 2), (1, 3)))
    sides = [(each - 1) * rate + 1 + r.randint(0, 3) for each, rate in zip(k, d, strict=True)]
    return sides, {"kernel_size": k, "dilation": d, "padding": p, "stride": s}


def _im2col(r: Random) -> Case:
    sides, said = _windows(r)
    lead = [r.randint(1, 2), r.randint(1, 3)][r.choice([0, 0, 1]) :]
    return Case(lambda x: F.unfold(x, **said), (_numbers(r, [*lead, *sides], r.choice(REALS)),))


def _col2im(r: Random) -> Case:
    sides, said = _windows(r)
    lead = [r.randint(1, 2), r.randint(1, 3)][r.choice([0, 0, 1]) :]
    columns = F.unfold(torch.zeros(*lead, *sides), **said)
    x = _numbers(r, columns.shape, r.choice(REALS), odd=False)
    return Case(lambda x: F.fold(x, sides, **said), (x,))


def _rot90(r: Random) -> Case:
    x, turns = _any(r, r.choice([2, 3]), 0), r.randint(-5, 5)
    axes = _axes(r, x.dim())
    return Case(lambda x: torch.rot90(x, turns, axes), (x,))


def _stacked(f: Callable[..., Any], free: int) -> Draw:
    """Some tensors that are alike but for one axis, and mayhap of different types."""

    def draw(r: Random) -> Case:
        size = _size(r)
        sizes = [list(size) for _ in range(r.randint(1, 3))]
        axis = min(free, len(size) - 1) if f is torch.hstack else free
        # A vector is a row to vstack and dstack, and none can be longer than another.
        if 0 <= axis < len(size) and not (
            len(size) == 1 and f in (torch.vstack, torch.dstack, torch.column_stack)
        ):
            for each in sizes:
                each[axis] = r.randint(0, 4)
        x = [_numbers(r, each, r.choice(EVERY)) for each in sizes]
        return Case(lambda *x: f(x), tuple(x))

    return draw


def _sections(r: Random) -> Case:
    x, count = _any(r, r.choice([1, 2, 3]), 0), r.randint(1, 5)
    axis = r.randrange(-x.dim(), x.dim())
    return Case(lambda x: torch.tensor_split(x, count, axis), (x,))


def _indices(r: Random) -> Case:
    x, places = _any(r, r.choice([1, 2, 3]), 0), [r.randint(-5, 6) for _ in range(r.randint(0, 3))]
    axis = r.randrange(-x.dim(), x.dim())
    return Case(lambda x: torch.tensor_split(x, places, axis), (x,))


def _evenly(f: Callable[..., Any], least: int) -> Draw:
    def draw(r: Random) -> Case:
        rank, count = r.randint(least, 3), r.randint(1, 3)
        size = [r.randint(1, 2) * count for _ in range(rank)]
        return Case(lambda x: f(x, count), (_numbers(r, size, r.choice(EVERY)),))

    return draw


def _take(r: Random) -> Case:
    x, size = _any(r), _size(r, None, 0)
    return Case(torch.take, (x, torch.randint(-x.numel(), x.numel(), tuple(size))))


def _along(r: Random) -> Case:
    x = _any(r, r.choice([1, 2, 3]))
    if r.random() < 0.3:
        return Case(torch.take_along_dim, (x, torch.randint(0, x.numel(), tuple(_size(r, 1)))))
    axis = r.randrange(-x.dim(), x.dim())
    size = [r.choice([n, n, 1]) if n > 1 else r.choice([1, 3]) for n in x.shape]
    size[axis] = r.randint(1, 5)
    places = torch.randint(0, x.shape[axis], tuple(size))
    return Case(lambda x, p: torch.take_along_dim(x, p, axis), (x, places))


_ORDERS = (0.0, 1.0, 2.0, 3.0, 0.5, math.inf)


def _cdist(r: Random) -> Case:
    order, kind = r.choice(_ORDERS), r.choice(REALS)
    mode = r.choice(["use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"])
    lead, width = _size(r, r.choice([0, 1, 2])), r.randint(0, 4)
    other = [r.choice([n, 1]) for n in lead]
    x, y = (_numbers(r, [*n, r.randint(0, 5), width], kind, odd=False) for n in (lead, other))
    return Case(lambda x, y: torch.cdist(x, y, order, mode), (x, y))


def _forward_cdist(r: Random) -> Case:
    order, mode = r.choice(_ORDERS), r.choice([None, 0, 1, 2])
    x, y = (_numbers(r, [r.randint(1, 5), 3], torch.float32, odd=False) for _ in range(2))
    return Case(lambda x, y: torch.ops.aten._cdist_forward(x, y, order, mode), (x, y))


def _pdist(f: Callable[..., Any]) -> Draw:
    def draw(r: Random) -> Case:
        order = r.choice(_ORDERS)
        size = [r.randint(0, 5), r.randint(0, 3)]
        return Case(lambda x: f(x, order), (_numbers(r, size, r.choice(REALS), odd=False),))

    return draw


def _pairwise(r: Random) -> Case:
    order, eps, keep = r.choice(_ORDERS), r.choice([1e-6, 0.0, 0.5]), r.random() < 0.5
    one, two = _two_sizes(r)
    one, two = [*one, 3], [*two, 3]
    x, y = (_numbers(r, n, r.choice(REALS), odd=r.random() < 0.3) for n in (one, two))
    return Case(lambda x, y: F.pairwise_distance(x, y, order, eps, keep), (x, y))


def _bag(r: Random) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    table = _numbers(r, [r.randint(1, 6), r.randint(1, 4)], r.choice(REALS))
    kind = r.choice([torch.int32, torch.int64])
    count = r.randint(0, 6)
    places = torch.randint(0, table.shape[0], (count,)).to(kind)
    starts = torch.tensor([0, *sorted(r.randint(0, count) for _ in range(r.randint(0, 3)))], dtype=kind)
    return table, places, starts


def _embedding_bag(way: str) -> Draw:
    def draw(r: Random) -> Case:
        table, places, starts = _bag(r)
        mode, last = r.choice([0, 1, 2]), r.random() < 0.3
        skipped = r.choice([None, 0, 1, -1]) if table.shape[0] > 1 else None
        weights = torch.randn(places.shape, dtype=table.dtype) if mode == 0 and r.random() < 0.4 else None
        if last:
            starts = torch.cat([starts, torch.tensor([len(places)], dtype=starts.dtype)])

        def f(table: Any, places: Any, starts: Any) -> Any:
            if way == "padding_idx":
                return torch.ops.aten.embedding_bag.padding_idx(
                    table, places, starts, False, mode, False, weights, last, skipped
                )[0]
            inner = getattr(torch.ops.aten, way)
            core = () if way == "embedding_bag" else (-1 if skipped is None else abs(skipped),)
            return inner(table, places, starts, False, mode, False, weights, last, *core)[0]

        return Case(f, (table, places, starts))

    return draw


def _square(r: Random, rank: int = 2) -> torch.Tensor:
    """Matrices that are far from singular."""
    side = r.randint(1, 4)
    x = torch.randn(*_size(r, rank - 2), side, side, dtype=r.choice(REALS))
    return x + torch.eye(side, dtype=x.dtype) * 5


def _matrix(f: Callable[[Any], Any], ranks: Sequence[int] = (2, 3, 4)) -> Draw:
    return lambda r: Case(f, (_square(r, r.choice(ranks)),))


def _cholesky(f: Callable[..., Any], ranks: Sequence[int] = (2, 3, 4)) -> Draw:
    def draw(r: Random) -> Case:
        x, upper = _square(r, r.choice(ranks)), r.random() < 0.5
        return Case(lambda x: f(x, upper=upper), (x @ x.mT,))

    return draw


def _solve(r: Random) -> Case:
    x = _square(r, r.choice([2, 3]))
    return Case(L.solve, (x, torch.randn(*x.shape[:-1], r.randint(1, 3), dtype=x.dtype)))


def _solve_triangular(r: Random) -> Case:
    x, upper = _square(r, r.choice([2, 3])), r.random() < 0.5
    # Solved is by the half alone: the other half may be whatever it is.
    x = x if r.random() < 0.5 else x.triu() if upper else x.tril()
    y = torch.randn(*x.shape[:-1], r.randint(1, 3), dtype=x.dtype)
    return Case(lambda x, y: L.solve_triangular(x, y, upper=upper), (x, y))


def _kron(r: Random) -> Case:
    kinds = [torch.float32, torch.float64, torch.int32, torch.int64]
    return Case(torch.kron, (_any(r, kinds=kinds), _any(r, kinds=kinds)))


def _blocks(r: Random) -> Case:
    # Of one type where a number without axes may be: eager and exported PyTorch disagree whether it counts.
    kinds, least = ([r.choice(EVERY)], 0) if r.random() < 0.5 else (EVERY, 1)
    x = [_numbers(r, _size(r, r.randint(least, 2), 0), r.choice(kinds)) for _ in range(r.randint(1, 3))]
    return Case(torch.block_diag, tuple(x))


def _combinations(r: Random) -> Case:
    kind = r.choice(EVERY)
    x = [_numbers(r, [r.randint(0, 3)], kind) for _ in range(r.randint(1, 3))]
    return Case(torch.cartesian_prod, tuple(x))


# --- more of the same ---------------------------------------------------------------------------------------


def _one_axis(f: Callable[..., Any], kinds: Sequence[torch.dtype] = EVERY, odd: bool = False) -> Draw:
    """Of an axis that is kept or not."""

    def draw(r: Random) -> Case:
        x = _numbers(r, _size(r, r.randint(1, 3)), r.choice(kinds), odd)
        options = {"dim": r.randrange(-x.dim(), x.dim()), "keepdim": r.random() < 0.5}
        return Case(lambda x: f(x, **options), (x,))

    return draw


def _mode(r: Random) -> Case:
    # PyTorch sorts, and numbers that are none stand anywhere then.
    return _one_axis(lambda x, **options: torch.mode(x, **options)[0])(r)


def _nanmedian(r: Random) -> Case:
    values = lambda x, **options: torch.nanmedian(x, **options)[0]  # noqa: E731
    return _one_axis(values, (*REALS, torch.int32), odd=True)(r)


def _spaced(f: Callable[..., Any]) -> Draw:
    def draw(r: Random) -> Case:
        ends, kind = (r.uniform(-2, 2), r.uniform(-2, 2)), r.choice([*REALS, torch.int64])
        count = r.randint(0, 6)
        return Case(lambda x: (f(*ends, count, dtype=kind), x + 1), (torch.ones(1),))

    return draw


def _renorm(r: Random) -> Case:
    x, p = _numbers(r, _size(r, r.randint(2, 3)), r.choice(REALS), False), r.choice([1, 2, 3, math.inf])
    axis = r.randrange(x.dim())
    return Case(lambda x: torch.renorm(x, p, axis, 1.5), (x,))


def _added(f: Callable[..., Any], sizes: Sequence[Sequence[int]]) -> Draw:
    """A product of tensors of these sizes, added to a first."""

    def draw(r: Random) -> Case:
        said, kind = {"beta": r.choice([0, 1, 0.5]), "alpha": r.choice([1, 2.0])}, r.choice(REALS)
        return Case(lambda *x: f(*x, **said), tuple(torch.randn(*s, dtype=kind) for s in sizes))

    return draw


def _cross(f: Callable[..., Any]) -> Draw:
    def draw(r: Random) -> Case:
        size, kind = _size(r, r.randint(1, 3)), r.choice([*REALS, torch.int32])
        axis = r.randrange(len(size))
        size[axis] = 3
        x, y = (_numbers(r, size, kind, False) for _ in range(2))
        return Case(lambda x, y: f(x, y, dim=axis), (x, y))

    return draw


def _diagonal_scatter(r: Random) -> Case:
    x, (one, two), offset = _any(r, 3), r.sample(range(3), 2), r.randint(-1, 1)
    part = _numbers(r, x.diagonal(offset, one, two).shape, x.dtype)
    return Case(lambda x, y: torch.diagonal_scatter(x, y, offset, one, two), (x, part))


def _tensordot(r: Random) -> Case:
    kind, (n, m) = r.choice(REALS), _size(r, 2)
    x, y = torch.randn(m, 2, n, dtype=kind), torch.randn(n, 3, m, dtype=kind)
    return Case(lambda x, y: torch.tensordot(x, y, ([2, 0], [0, 2])), (x, y))


def _unpool(r: Random) -> Case:
    size, step = [r.randint(4, 7), r.randint(4, 7)], r.choice([1, 2, 3])

    def f(x: Any) -> Any:
        y, places = F.max_pool2d(x, 2, step, return_indices=True)
        return F.max_unpool2d(y, places, 2, step, output_size=size)

    return Case(f, (torch.randn(*_size(r, 2), *size),))


def _corners(r: Random) -> Case:
    """Sizes from a factor that aligned corners do not go by."""
    factor = r.choice([1.7, 0.6, 2.0, 1.3])
    return Case(
        lambda x: F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=True),
        (torch.randn(1, 2, r.randint(4, 7), r.randint(4, 7)),),
    )


def _fourier(r: Random) -> Case:
    """Of whole numbers, which are scaled."""
    x = _any(r, 1, kinds=[torch.bool, torch.int64])
    return Case(lambda x: torch.view_as_real(torch.fft.fft(x, norm="ortho")), (x,))


def _rounded_to_codes(by_channel: bool) -> Draw:
    def draw(r: Random) -> Case:
        low, high = r.choice([(0, 255), (-128, 127), (-127, 127), (0, 15)])
        if not by_channel:
            return Case(
                lambda x: torch.fake_quantize_per_tensor_affine(x, 0.11, 3, low, high),
                (torch.randn(3, 4) * 9,),
            )
        scale, zero = torch.tensor([0.1, 0.3]), torch.tensor([0, 5], dtype=torch.int32)
        return Case(
            lambda x: torch.fake_quantize_per_channel_affine(x, scale, zero, 1, low, high),
            (torch.randn(3, 2, 4) * 9,),
        )

    return draw


def _real_axis(f: Callable[..., Any]) -> Draw:
    return _one_axis(f, (*REALS, torch.int64))


AXES: Mapping[str, Draw] = {
    "mode": _mode,
    "nanmedian.dim": _nanmedian,
    "nanmedian": lambda r: Case(torch.nanmedian, (_any(r, kinds=REALS),)),
    "median": lambda r: Case(torch.median, (_any(r, kinds=REALS),)),
    "nansum": _one_axis(torch.nansum, REALS, odd=True),
    "amax": _one_axis(torch.amax),
    "amin": _one_axis(torch.amin),
    "logsumexp": _real_axis(torch.logsumexp),
    "argsort.stable": _one_axis(lambda x, dim, keepdim: torch.argsort(x, dim=dim, stable=True), WHOLE),
    "linspace": _spaced(torch.linspace),
    "logspace": _spaced(torch.logspace),
    "renorm": _renorm,
    "addbmm": _added(torch.addbmm, [[3, 4], [2, 3, 5], [2, 5, 4]]),
    "addmv": _added(torch.addmv, [[3], [3, 4], [4]]),
    "addr": _added(torch.addr, [[3, 4], [3], [4]]),
    "cross": _cross(torch.cross),
    "linalg_cross": _cross(L.cross),
    "diag": lambda r: Case(lambda x: torch.diag(x, 1), (_any(r, r.randint(1, 2)),)),
    "diagonal_scatter": _diagonal_scatter,
    "tensordot": _tensordot,
    "inner": lambda r: Case(torch.inner, (torch.randn(2, 3), torch.randn(4, 3))),
    "max_unpool2d": _unpool,
    "upsample_bilinear2d.vec": _corners,
    "fmax": _two(torch.fmax, EVERY),
    "fmin": _two(torch.fmin, EVERY),
    "clamp_min.Tensor": _two(torch.clamp_min, REALS),
    "trapz.dx": lambda r: Case(torch.trapz, (_any(r, 2, kinds=[torch.int32, torch.int64]),)),
    "fft_fft": _fourier,
    "fake_quantize_per_tensor_affine": _rounded_to_codes(False),
    "fake_quantize_per_channel_affine": _rounded_to_codes(True),
    "sum_to_size": lambda r: Case(lambda x: x.sum_to_size(1, 3), (_any(r, 1)[:1].expand(2, 4, 3),)),
    "broadcast_tensors": _two(torch.broadcast_tensors, EVERY),
    "special_ndtr": _one(S.ndtr),
}  # fmt: skip


PARTS: Mapping[str, Draw] = {
    "as_strided": _strided(torch.as_strided),
    "as_strided_copy": _strided(torch.as_strided_copy),
    "diagonal": _diagonal(torch.diagonal),
    "diagonal_copy": _diagonal(torch.diagonal_copy),
    "linalg_diagonal": _last_diagonal,
    "diag_embed": _diag_embed,
    "trace": lambda r: Case(torch.trace, (_any(r, 2, 0, EVERY[:-1]),)),
    "eye": _eye(True),
    "eye.m": _eye(False),
    "tril_indices": _triangle(torch.tril_indices),
    "triu_indices": _triangle(torch.triu_indices),
    "unfold": _unfold(torch.Tensor.unfold),
    "unfold_copy": _unfold(torch.unfold_copy),
    "im2col": _im2col,
    "col2im": _col2im,
    "fliplr": lambda r: Case(torch.fliplr, (_any(r, r.choice([2, 3]), 0),)),
    "flipud": lambda r: Case(torch.flipud, (_any(r, r.choice([1, 2, 3]), 0),)),
    "rot90": _rot90,
    "hstack": _stacked(torch.hstack, 1),
    "vstack": _stacked(torch.vstack, 0),
    "dstack": _stacked(torch.dstack, 2),
    "column_stack": _stacked(torch.column_stack, 1),
    "tensor_split.sections": _sections,
    "tensor_split.indices": _indices,
    "hsplit.int": _evenly(torch.hsplit, 1),
    "vsplit.int": _evenly(torch.vsplit, 2),
    "take": _take,
    "take_along_dim": _along,
    "_cdist_forward": _forward_cdist,
    "cdist": _cdist,
    "_pdist_forward": _pdist(torch.ops.aten._pdist_forward),
    "pdist": _pdist(F.pdist),
    "pairwise_distance": _pairwise,
    "_embedding_bag": _embedding_bag("_embedding_bag"),
    "_embedding_bag_forward_only": _embedding_bag("_embedding_bag_forward_only"),
    "embedding_bag": _embedding_bag("embedding_bag"),
    "embedding_bag.padding_idx": _embedding_bag("padding_idx"),
    "linalg_inv": _matrix(L.inv),
    "inverse": _matrix(torch.inverse),
    "linalg_inv_ex": _matrix(lambda x: tuple(L.inv_ex(x)), [2]),
    "linalg_cholesky": _cholesky(L.cholesky),
    "cholesky": _cholesky(torch.cholesky),
    "linalg_cholesky_ex": _cholesky(lambda x, upper: tuple(L.cholesky_ex(x, upper=upper)), [2]),
    "linalg_det": _matrix(L.det),
    "det": _matrix(torch.det),
    "linalg_solve": _solve,
    "linalg_solve_triangular": _solve_triangular,
    "kron": _kron,
    "block_diag": _blocks,
    "cartesian_prod": _combinations,
}

MORE: Mapping[str, Draw] = {**FUNCTIONS, **AXES, **PARTS}
"""By the name of the op that the exported program has to hold."""
