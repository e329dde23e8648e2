"""The Lorentz model of hyperbolic space, curvature -1: one formula a function.

A point is ``x = (x₀, x̃)`` with ``⟨x, x⟩ = -x₀² + ‖x̃‖² = -1`` and ``x₀ > 0``, the last axis of a
tensor of shape ``[..., Q + 1]``; the origin is ``o = (1, 0, …, 0)``. The space part ``x̃`` is what
counts: ``x₀ = √(1 + ‖x̃‖²)`` is recomputed wherever digits depend on it.

All functions broadcast over leading axes, keep dtype and device, and never return NaN for points
on the sheet: not at the origin, not at coincident points, not far out (radii are capped at
:func:`max_radius`). What float64 coordinates can resolve ends much earlier: positions are uncertain
by ε e^r, so digits go from a radius of about 12 on, and all are gone at 36 (float32: 5 and 16).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "ambient_dim",
    "boost_to_origin",
    "canonical_rotation",
    "chart_ball",
    "direction_sums",
    "displaced",
    "displaced_gradient",
    "distance",
    "distance_from_chord",
    "exp_map",
    "frechet_mean",
    "from_chart",
    "from_frame",
    "from_tangent",
    "geodesic",
    "inner",
    "log_map",
    "log_stretch",
    "log_stretch_slope",
    "max_radius",
    "origin",
    "pair_features",
    "pair_squared_chord",
    "pairwise_distance",
    "parallel_transport",
    "project",
    "project_tangent",
    "recenter",
    "rotate",
    "sinh_from_chord",
    "squared_chord",
    "squared_radius",
    "to_chart",
    "to_frame",
    "to_tangent",
    "uncenter",
    "weighted_mean",
]


# --- points ---------------------------------------------------------------------------------


def ambient_dim(n_components: int) -> int:
    """Coordinates a point has: Q + 1."""
    return n_components + 1


def max_radius(dtype: torch.dtype) -> float:
    """Radius at which the squares of coordinates come close to overflow (340 in float64)."""
    return 340.0 if dtype == torch.float64 else 42.0


def origin(
    n_components: int, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the origin o = (1, 0, …, 0)."""
    o = torch.zeros(n_components + 1, dtype=dtype, device=device)
    o[0] = 1.0
    return o


def inner(x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
    """Lorentz inner product ``⟨x, y⟩ = -x₀y₀ + x̃·ỹ``."""
    product = x * y
    return product[..., 1:].sum(-1, keepdim=keepdim) - (
        product[..., :1] if keepdim else product[..., 0]
    )


def project(x: Tensor, radius: float | None = None) -> Tensor:
    """Put x back on the sheet: keep x̃, set ``x₀ = √(1 + ‖x̃‖²)``.

    Points beyond `radius` (default: :func:`max_radius`) are pulled back to it along their ray.
    """
    space = x[..., 1:]
    cap = math.sinh(max_radius(x.dtype) if radius is None else radius)
    return _lift(space * (cap / _norm(space).clamp_min(cap)))


def _lift(space: Tensor) -> Tensor:
    """``(√(1 + ‖x̃‖²), x̃)``."""
    time = torch.sqrt(1.0 + _dot(space, space))
    return torch.cat([time, space], dim=-1)


# --- distance -------------------------------------------------------------------------------


def squared_chord(x: Tensor, y: Tensor) -> Tensor:
    """Squared chord ``s² = ⟨x-y, x-y⟩ = 4 sinh²(d/2)``, without cancellation.

    In polar form, with ``a = ‖x̃‖ = sinh r`` and ``b = ‖ỹ‖ = sinh r'``::

        s² = 4 sinh²((r - r')/2) + 4ab sin²(θ/2)

    and both terms from the exact differences ``x̃ - ỹ``, so that neither near pairs nor far-out
    points cancel::

        sinh(r - r')   = (a² - b²)/(a b₀ + a₀ b)
        4ab sin²(θ/2)  = ‖b x̃ - a ỹ‖²/(ab),   b x̃ - a ỹ = ½[(a+b)(x̃-ỹ) - (a-b)(x̃+ỹ)]

    Where one radius is much the larger, the differences say little about the angle; there the
    second term is ``ab ‖x̃/a - ỹ/b‖²``.
    """
    tiny = 1e-280 if x.dtype == torch.float64 else 1e-30
    a = torch.linalg.vector_norm(x[..., 1:], dim=-1)
    b = torch.linalg.vector_norm(y[..., 1:], dim=-1)
    a0, b0 = torch.sqrt(1.0 + a * a), torch.sqrt(1.0 + b * b)
    components = range(1, x.shape[-1])

    differences = [x[..., q] - y[..., q] for q in components]
    sums = [x[..., q] + y[..., q] for q in components]
    square_difference = differences[0] * sums[0]  # a² - b²
    for delta, sigma in zip(differences[1:], sums[1:], strict=True):
        square_difference = torch.addcmul(square_difference, delta, sigma)

    sinh_radial = square_difference / (a * b0 + a0 * b).clamp_min(tiny)
    root = torch.sqrt(torch.addcmul(torch.ones_like(sinh_radial), sinh_radial, sinh_radial))
    radial = 2.0 * sinh_radial * (sinh_radial / (1.0 + root))

    total = (a + b).clamp_min(tiny)
    gap = square_difference / total  # a - b
    tilt = gap / total
    near = torch.zeros_like(gap)
    far = torch.zeros_like(gap)
    unit_x, unit_y = x / a.clamp_min(tiny).unsqueeze(-1), y / b.clamp_min(tiny).unsqueeze(-1)
    for q, delta, sigma in zip(components, differences, sums, strict=True):
        moment = delta - tilt * sigma  # 2 (b x̃ - a ỹ)/(a + b)
        near = torch.addcmul(near, moment, moment)
        turn = unit_x[..., q] - unit_y[..., q]
        far = torch.addcmul(far, turn, turn)
    ab = a * b
    stretch = total.square() / (4.0 * ab).clamp_min(tiny)
    return radial + torch.where(tilt.abs() <= 0.5, near * stretch, ab * far)


def pair_features(x: Tensor) -> Tensor:
    """Per-row numbers from which :func:`pair_squared_chord` works: [..., n, Q + 3].

    The columns are ``e^{r/2}``, ``e^{-r/2}``, ``sinh r`` and the unit direction.
    """
    radius_sinh = torch.linalg.vector_norm(x[..., 1:], dim=-1, keepdim=True)
    half_exp = torch.sqrt(radius_sinh + torch.sqrt(1.0 + radius_sinh.square()))
    tiny = torch.finfo(x.dtype).tiny
    return torch.cat(
        [half_exp, 1.0 / half_exp, radius_sinh, x[..., 1:] / radius_sinh.clamp_min(tiny)], dim=-1
    )


def pair_squared_chord(f: Tensor, g: Tensor) -> Tensor:
    """Squared chords between two sets of :func:`pair_features`: [..., n, m].

    ``s² = (e^{(r-r')/2} - e^{(r'-r)/2})² + sinh r sinh r' ‖u - u'‖²``, a quarter of the work of
    :func:`squared_chord`. It is as exact as the points themselves (an absolute error of about
    ε e^r in d) and exactly 0 for equal rows, but holds no more digits than that for near pairs.
    """
    f, g = f.unsqueeze(-2), g.unsqueeze(-3)  # [..., n, 1, Q + 3], [..., 1, m, Q + 3]
    squared = f[..., 0] * g[..., 1]
    work = f[..., 1] * g[..., 0]
    squared.sub_(work).square_()  # not fused: equal rows must cancel exactly
    turn = torch.sub(f[..., 3], g[..., 3], out=work).square()
    for q in range(4, f.shape[-1]):
        torch.sub(f[..., q], g[..., q], out=work)
        turn.addcmul_(work, work)
    torch.mul(f[..., 2], g[..., 2], out=work)
    return squared.addcmul_(work, turn)


def distance_from_chord(squared: Tensor) -> Tensor:
    """Distance ``d = 2 asinh(s/2)``, as a log1p: torch's asinh is ten times slower."""
    half = 0.5 * torch.sqrt(squared)
    # log1p(h + (√(1+h²) - 1)), the bracket without cancellation
    square = half * half
    return 2.0 * torch.log1p(half + square / (1.0 + torch.sqrt(1.0 + square)))


def sinh_from_chord(squared: Tensor) -> Tensor:
    """``sinh d = √(c² - 1) = s √(1 + s²/4)``."""
    return torch.sqrt(squared * (1.0 + 0.25 * squared))


def distance(x: Tensor, y: Tensor) -> Tensor:
    """Geodesic distance between points, [...].

    Differentiable; the gradient at coincident points, where the distance has a cusp, is 0. With
    respect to a point it is the covector of the Riemannian gradient (no component along x), which
    stays bounded where the derivative of arccosh does not.
    """
    return _Distance.apply(x, y)  # type: ignore[no-untyped-call]


def pairwise_distance(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Distances between all rows of x [n, Q+1] and of y [m, Q+1] (default: x): [n, m].

    Differentiable in O(nm) memory. The diagonal of ``pairwise_distance(x)`` is exactly 0.
    """
    return _PairwiseDistance.apply(x, x if y is None else y)  # type: ignore[no-untyped-call]


def direction_sums(x: Tensor, y: Tensor, weights: Tensor, squared: Tensor) -> Tensor:
    """``Σ_j w_ij (y_j - c_ij x_i)`` in the frame at x_i: [..., n, Q].

    ``y - c x`` is the direction from x to y with length sinh d, so ``grad_x d = -(y - c x)/sinh d``
    and any gradient through distances is such a sum: one elementwise pass, one thin product.
    `squared` is the pairwise squared chord, ``c = 1 + s²/2``.
    """
    products = weights @ y  # [..., n, Q+1]
    cosh_sums = weights.sum(-1, keepdim=True) + 0.5 * (weights * squared).sum(-1, keepdim=True)
    # a vector t has coordinates t̃ - t₀ p in the frame, and x itself the coordinates p
    ball = x[..., 1:] / (1.0 + x[..., :1])
    return products[..., 1:] - (products[..., :1] + cosh_sums) * ball


def _covector(v: Tensor) -> Tensor:
    """Lower the index: J v."""
    return torch.cat([-v[..., :1], v[..., 1:]], dim=-1)


def _inverse_sinh(d: Tensor) -> Tensor:
    """``1/sinh d``, and 0 at the cusp d = 0."""
    apart = d > 0
    return torch.where(apart, 1.0 / torch.sinh(torch.where(apart, d, 1.0)), 0.0)


def _inverse_tanh(d: Tensor) -> Tensor:
    """``coth d``, and 0 at the cusp d = 0."""
    apart = d > 0
    return torch.where(apart, 1.0 / torch.tanh(torch.where(apart, d, 1.0)), 0.0)


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return distance_from_chord(squared_chord(x, y))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        d = distance(x, y)  # through this function again, so that second derivatives exist
        grad = grads[0].unsqueeze(-1)
        toward = (y - x) * _inverse_sinh(d).unsqueeze(-1)
        lean = torch.tanh(0.5 * d).unsqueeze(-1)  # (c - 1)/sinh d
        grad_x = -_covector(grad * (toward - lean * x))
        grad_y = -_covector(grad * (-toward - lean * y))
        return grad_x.sum_to_size(x.shape), grad_y.sum_to_size(y.shape)


class _PairwiseDistance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return distance_from_chord(squared_chord(x.unsqueeze(-2), y.unsqueeze(-3)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        d = pairwise_distance(x, y)
        weight = grads[0] * _inverse_sinh(d)  # [n, m]
        weight_c = grads[0] * _inverse_tanh(d)
        grad_x = weight @ y - weight_c.sum(-1).unsqueeze(-1) * x
        grad_y = weight.mT @ x - weight_c.sum(-2).unsqueeze(-1) * y
        return -_covector(grad_x), -_covector(grad_y)


def squared_radius(x: Tensor) -> Tensor:
    """``d(o, x)²``, smooth at the origin."""
    square = _dot(x[..., 1:], x[..., 1:]).squeeze(-1)  # sinh² r
    small = square < 1e-4
    safe = torch.where(small, 1.0, square)
    root = torch.sqrt(safe)
    radius = torch.log(root + torch.sqrt(1.0 + safe))
    # asinh(√y)² = y - y²/3 + 8y³/45 - 4y⁴/35 + …
    series = square * (1.0 - square * (1.0 / 3.0 - square * (8.0 / 45.0 - square * (4.0 / 35.0))))
    return torch.where(small, series, radius.square())


def log_stretch(square: Tensor) -> Tensor:
    """``log(sinh r/r)`` from r²: how much the exponential map stretches across the ray.

    ``r + log1p(-e^{-2r}) - log 2r``, and ``r²/6 - r⁴/180 + r⁶/2835`` near 0.
    """
    small = square < 1e-2
    radius = torch.sqrt(torch.where(small, 1.0, square))
    large = radius + torch.log1p(-torch.exp(-2.0 * radius)) - torch.log(2.0 * radius)
    series = square * (
        1.0 / 6.0 - square * (1.0 / 180.0 - square * (1.0 / 2835.0 - square / 37800.0))
    )
    return torch.where(small, series, large)


def log_stretch_slope(square: Tensor) -> Tensor:
    """``(r coth r - 1)/r²``: times a vector of length r, the gradient of :func:`log_stretch`."""
    small = square < 1e-3
    safe = torch.where(small, 1.0, square)
    radius = torch.sqrt(safe)
    series = 1.0 / 3.0 - square * (1.0 / 45.0 - square * (2.0 / 945.0 - square / 4725.0))
    return torch.where(small, series, (radius / torch.tanh(radius) - 1.0) / safe)


# --- tangent vectors ------------------------------------------------------------------------


def project_tangent(x: Tensor, v: Tensor) -> Tensor:
    """Project v to the tangent space at x: ``v + ⟨x, v⟩ x`` (paper, Eq. for proj)."""
    return v + inner(x, v, keepdim=True) * x


def _sinhc(r: Tensor) -> Tensor:
    """``sinh(r)/r``, 1 at 0."""
    small = r < 1e-2
    safe = torch.where(small, 1.0, r)
    square = r * r
    series = 1.0 + square / 6.0 * (1.0 + square / 20.0 * (1.0 + square / 42.0))
    return torch.where(small, series, torch.sinh(safe) / safe)


def _norm(v: Tensor) -> Tensor:
    """Euclidean norm with derivative 0 at 0, safe from overflow, [..., 1]."""
    unit = v.detach().abs().amax(-1, keepdim=True).clamp_min(1.0)
    square = _dot(v / unit, v / unit)
    positive = square > 0
    return unit * torch.where(positive, torch.sqrt(torch.where(positive, square, 1.0)), 0.0)


def to_frame(x: Tensor, v: Tensor) -> Tensor:
    """Coordinates of the tangent vector v in the transported frame at x: ``ṽ - v₀ x̃/(1+x₀)``.

    The frame is the origin's basis, parallel transported to x; it is orthonormal, so optimisers
    can work on plain [n, Q] arrays.
    """
    return v[..., 1:] - v[..., :1] * (x[..., 1:] / (1.0 + x[..., :1]))


def from_frame(x: Tensor, coordinates: Tensor) -> Tensor:
    """Tangent vector at x with these frame coordinates: ``PT_{o→x}(0, a)``.

    ``PT_{o→x}(0, a) = (x̃·a, a + x̃ (x̃·a)/(1+x₀))``.
    """
    space = x[..., 1:]
    dot = (space * coordinates).sum(-1, keepdim=True)
    return torch.cat([dot, coordinates + space * (dot / (1.0 + x[..., :1]))], dim=-1)


def from_tangent(coordinates: Tensor) -> Tensor:
    """``Exp_o(0, a)``: plain [..., Q] arrays as points, radius = Euclidean norm."""
    norm = _norm(coordinates)
    cap = max_radius(coordinates.dtype)
    safe = coordinates * (cap / norm.clamp_min(cap))
    return _lift(_sinhc(norm.clamp_max(cap)) * safe)


def to_tangent(x: Tensor) -> Tensor:
    """Inverse of :func:`from_tangent`: the coordinates of ``Log_o(x)``."""
    return x[..., 1:] * torch.rsqrt(_sinhc_squared(squared_radius(x))).unsqueeze(-1)


def _sinhc_squared(square: Tensor) -> Tensor:
    """``(sinh(r)/r)²`` from r²."""
    return _sinhc(torch.sqrt(square)).square()


def displaced_gradient(mean: Tensor, v: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
    """Pull gradients at ``x = Exp_μ(PT(v))`` back to μ (in its frame) and to v.

    x is the boost of ``w = Exp_o(v) = (cosh r, v sinh r/r)`` that takes o to μ. With t the gradient
    at x as a tangent vector and ``b = (b₀, b̃)`` its image under the boost back::

        ∂/∂v = b̃ sinh r/r + v [-b₀ sinh r/r + (b̃·v)(r cosh r - sinh r)/r³]
        ∂/∂μ = w₀ b̃ - b₀ w̃ + (p·w̃) b̃ - (p·b̃) w̃,   p = μ̃/(1 + μ₀)

    the last two terms because boosts to neighbouring points differ by a rotation as well.
    `frame` holds the gradients in the frames at x; everything broadcasts against mean [..., Q+1].
    """
    square = _dot(v, v)
    radius = torch.sqrt(square)
    sinhc = _sinhc(radius)
    space, time = sinhc * v, torch.cosh(radius)  # w̃, w₀
    mean_time, mean_space = mean[..., :1], mean[..., 1:]
    ball = mean_space / (1.0 + mean_time)  # p

    # t in ambient coordinates, then boosted back
    x = _boosted(mean, time, space)
    t_time = _dot(x[1], frame)
    t_space = frame + x[1] * (t_time / (1.0 + x[0]))
    through = _dot(mean_space, t_space)
    b_time = mean_time * t_time - through
    b_space = t_space - mean_space * (t_time - through / (1.0 + mean_time))

    small = square < 1e-4
    safe = torch.where(small, 1.0, square)
    bend = torch.where(small, 1.0 / 3.0 + square / 30.0, (time - sinhc) / safe)  # (c - s/r)/r²
    by_v = sinhc * b_space + (_dot(b_space, v) * bend - b_time * sinhc) * v
    by_mean = (time + _dot(ball, space)) * b_space - (_dot(ball, b_space) + b_time) * space
    return by_mean, by_v


def displaced(mean: Tensor, v: Tensor) -> Tensor:
    """``Exp_μ(PT_{o→μ}(0, v))``, as the boost of ``Exp_o(0, v)`` that takes o to μ."""
    cap = max_radius(v.dtype)
    radius = _norm(v)
    v = v * (cap / radius.clamp_min(cap))
    radius = radius.clamp_max(cap)
    return project(torch.cat(_boosted(mean, torch.cosh(radius), _sinhc(radius) * v), dim=-1))


def _boosted(mean: Tensor, time: Tensor, space: Tensor) -> tuple[Tensor, Tensor]:
    """Apply the boost that takes o to mean to the point (time, space)."""
    along = _dot(mean[..., 1:], space)
    return (
        mean[..., :1] * time + along,
        space + mean[..., 1:] * (time + along / (1.0 + mean[..., :1])),
    )


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Dot product over the last axis, [..., 1]: torch's reductions are slow over a few entries."""
    total = a[..., 0] * b[..., 0]
    for q in range(1, b.shape[-1]):
        total = torch.addcmul(total, a[..., q], b[..., q])
    return total.unsqueeze(-1)


def exp_map(x: Tensor, v: Tensor) -> Tensor:
    """``Exp_x(v) = cosh‖v‖ x + sinh‖v‖ v/‖v‖`` (paper, Eq. for Exp)."""
    norm = _norm(to_frame(x, v))  # ‖v‖ without the cancellation of ⟨v, v⟩
    cap = max_radius(x.dtype)
    v = v * (cap / norm.clamp_min(cap))
    norm = norm.clamp_max(cap)
    return project(torch.cosh(norm) * x + _sinhc(norm) * v)


def log_map(x: Tensor, y: Tensor) -> Tensor:
    """Inverse of the exponential map: ``Log_x(y) = d/sinh d · (y - c x)``.

    Written as ``(y - x) d/sinh d - d tanh(d/2) x``, in which nothing overflows.
    """
    d = distance(x, y).unsqueeze(-1)
    vector = (y - x) / _sinhc(d) - (d * torch.tanh(0.5 * d)) * x
    return from_frame(x, to_frame(x, vector))  # exactly tangent


def geodesic(x: Tensor, y: Tensor, share: Tensor) -> Tensor:
    """Point at a share t of the way from x to y: ``(sinh((1-t)d) x + sinh(td) y)/sinh d``.

    A sum of two points with positive weights, which keeps its digits far from the origin, where
    ``Exp_x(t Log_x(y))`` does not.
    """
    d = distance(x, y).unsqueeze(-1)
    left = (1.0 - share) * _sinhc((1.0 - share) * d)
    return project((left * x + share * _sinhc(share * d) * y) / _sinhc(d))


def parallel_transport(x: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """Transport the tangent vector v from x to y along the geodesic.

    ``PT(v) = v + ⟨y - γx, v⟩/(γ+1) · (x + y)`` with ``γ = -⟨x, y⟩ = cosh d``; since v is tangent
    at x, ``⟨y - γx, v⟩ = ⟨y - x, v⟩``. (The paper prints γ without the minus sign.)
    """
    gamma = 1.0 + 0.5 * squared_chord(x, y).unsqueeze(-1)
    return v + inner(y - x, v, keepdim=True) / (gamma + 1.0) * (x + y)


# --- isometries -----------------------------------------------------------------------------


def boost_to_origin(x: Tensor) -> Tensor:
    """Matrix B [..., Q+1, Q+1] of the boost with ``B x = o``; it is symmetric.

    Apply it to rows with ``points @ B``; :func:`recenter` does so with fewer rounding errors.
    """
    time, space = x[..., 0, None, None], x[..., 1:]
    outer = space.unsqueeze(-1) * space.unsqueeze(-2) / (1.0 + time)
    eye = torch.eye(space.shape[-1], dtype=x.dtype, device=x.device)
    top = torch.cat([time, -space.unsqueeze(-2)], dim=-1)
    bottom = torch.cat([-space.unsqueeze(-1), eye + outer], dim=-1)
    return torch.cat([top, bottom], dim=-2)


def recenter(x: Tensor, root: Tensor) -> Tensor:
    """Apply the boost that moves root to the origin to the points x.

    ``x̃' = δ - r̃ [δ·(x̃+r̃)/(x₀+r₀) - δ·r̃/(1+r₀)]`` with ``δ = x̃ - r̃``: exact at x = root.
    """
    space, root_space = x[..., 1:], root[..., 1:]
    delta = space - root_space
    along = (delta * (space + root_space)).sum(-1, keepdim=True) / (x[..., :1] + root[..., :1])
    along = along - (delta * root_space).sum(-1, keepdim=True) / (1.0 + root[..., :1])
    return project(torch.cat([along, delta - root_space * along], dim=-1))


def uncenter(x: Tensor, root: Tensor) -> Tensor:
    """Apply the boost that moves the origin to root: the inverse of :func:`recenter`."""
    return recenter(x, torch.cat([root[..., :1], -root[..., 1:]], dim=-1))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate (or reflect) about the origin by an orthogonal matrix [Q, Q]: ``x̃ → R x̃``."""
    return _lift(x[..., 1:] @ rotation.mT)


def canonical_rotation(x: Tensor) -> Tensor:
    """Orthogonal matrix [Q, Q] that brings the points x [n, Q+1] into the canonical pose.

    Axes by decreasing spread of the tangent vectors ``Log_o(x)``, each reflected so that its
    third moment is positive. Two fits that differ by an isometry compare after it.
    """
    return canonical_axes(to_frame(o := _origin_like(x), log_map(o, x)))


def canonical_axes(tangents: Tensor) -> Tensor:
    """Principal axes of the rows of tangents [n, Q], signed by their third moment: [Q, Q]."""
    scale = tangents.abs().amax().clamp_min(torch.finfo(tangents.dtype).tiny)
    tangents = tangents / scale  # third moments of tiny numbers would underflow
    _, axes = torch.linalg.eigh(tangents.mT @ tangents)  # ascending
    axes = axes.flip(-1).mT  # [Q, Q], rows are axes
    skew = (tangents @ axes.mT).pow(3).sum(0)
    return torch.where(skew < 0, -1.0, 1.0).unsqueeze(-1) * axes


def _origin_like(x: Tensor) -> Tensor:
    return origin(x.shape[-1] - 1, dtype=x.dtype, device=x.device)


def frechet_mean(x: Tensor, weights: Tensor | None = None, *, max_iter: int = 100) -> Tensor:
    """Point μ that minimises ``½ Σ_i w_i d(μ, x_i)²`` over x [n, Q+1]: [Q+1].

    The function is geodesically convex. Newton's method in the frame at μ, with the closed-form
    Hessian ``Σ w [ûûᵀ + d coth d (I - ûûᵀ)]`` and step halving, ends within a few steps.
    """
    n = x.shape[-2]
    w = torch.full((n,), 1.0 / n, dtype=x.dtype, device=x.device) if weights is None else weights
    if not (w >= 0).all() or not w.sum() > 0:
        raise ValueError("The 'weights' of frechet_mean must not be negative, nor all zero.")
    w = w / w.sum()
    mean = weighted_mean(x, w)
    eye = torch.eye(x.shape[-1] - 1, dtype=x.dtype, device=x.device)
    eps = torch.finfo(x.dtype).eps
    value = (w * distance(mean, x).square()).sum()
    for _ in range(max_iter):
        tangents = to_frame(mean, log_map(mean, x))  # [n, Q]
        d = torch.linalg.vector_norm(tangents, dim=-1)
        unit = tangents / d.clamp_min(torch.finfo(x.dtype).tiny).unsqueeze(-1)
        across = torch.where(d > 1e-6, d / torch.tanh(d.clamp_min(1e-6)), 1.0)  # d coth d
        along = (w * (1.0 - across)).unsqueeze(-1) * unit
        hessian = (w * across).sum() * eye + unit.mT @ along
        step = torch.linalg.solve(hessian, w @ tangents)
        for _ in range(30):
            candidate = exp_map(mean, from_frame(mean, step))
            candidate_value = (w * distance(candidate, x).square()).sum()
            if candidate_value <= value:
                break
            step = 0.5 * step
        else:
            return mean
        mean, value = candidate, candidate_value
        if torch.linalg.vector_norm(step) <= 4.0 * eps * (1.0 + d.amax()):
            break
    return mean


def weighted_mean(x: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of points [..., n, Q+1], scaled back to the sheet: [..., Q+1].

    For weights that are not negative it lies between the points, like the Fréchet mean, but is not
    that: it is cheap. It is taken as seen from the first point, since far-out coordinates cancel.
    """
    anchor = x[..., :1, :]
    total = (weights.unsqueeze(-2) @ recenter(x, anchor)).squeeze(-2)
    length = torch.sqrt((-inner(total, total, keepdim=True)).clamp_min(1e-30))
    return uncenter(project(total / length), anchor.squeeze(-2))


# --- the chart that users see ---------------------------------------------------------------


def to_chart(x: Tensor) -> Tensor:
    """Poincaré ball coordinates ``p = x̃/(1+x₀)``."""
    return x[..., 1:] / (1.0 + x[..., :1])


def from_chart(p: Tensor) -> Tensor:
    """Point of the Lorentz model with ball coordinates p: ``(1+‖p‖², 2p)/(1-‖p‖²)``.

    Coordinates on or beyond the boundary are pulled just inside it.
    """
    norm = _norm(p)
    inside = 1.0 - torch.finfo(p.dtype).eps
    p = p * (inside / norm.clamp_min(inside))
    norm = norm.clamp_max(inside)
    return _lift(2.0 * p / ((1.0 - norm) * (1.0 + norm)))


def chart_ball(x: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """Centre [..., Q] and Euclidean radius [...], in the chart, of the geodesic balls around x.

    With ``t = tanh(ρ/2)`` and p the chart's point: centre ``p (1-t²)/(1-t²‖p‖²)``, radius
    ``t (1-‖p‖²)/(1-t²‖p‖²)``, where ``1-‖p‖² = 2/(1+x₀)``.
    """
    t = torch.tanh(0.5 * radius)
    gap = 2.0 / (1.0 + x[..., 0])  # 1 - ‖p‖²
    rest = torch.cosh(0.5 * radius).pow(-2.0)  # 1 - t²
    share = 1.0 / (rest + t.square() * gap)  # 1/(1 - t²‖p‖²)
    return (rest * share).unsqueeze(-1) * to_chart(x), t * gap * share
