"""What every kernel must satisfy. A new kernel joins the lists in `spaces.py`."""

from __future__ import annotations

import mpmath
import pytest
import torch

from hgplvm.covariance import CovarianceFunction, CovarianceGradient
from hgplvm.kernels import KERNELS, Exponential, Heat, Matern32, RationalQuadratic
from hgplvm.manifolds import Flat, Hyperbolic, Sphere
from tests.gp import gram

from .spaces import PAIRS, SMOOTH, Bare, Rational

LENGTH_SCALES = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0]


def theta(kernel, length_scale=0.8):
    return {"length_scale": length_scale, **{k: 1.3 * v for k, v in kernel.shape.items()}}


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_the_correlation_starts_at_one_and_falls(kernel, manifold):
    d = torch.linspace(0, 3, 50, dtype=torch.float64)
    rho = kernel.correlation(d, theta(kernel), manifold)
    assert rho[0] == 1
    assert (rho.diff() < 0).all()
    assert torch.equal(d, torch.linspace(0, 3, 50, dtype=torch.float64))  # its input is intact


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_derivatives_agree_with_autograd_and_differences(kernel, manifold):
    d = torch.tensor([1e-9, 1e-4, 5e-3, 9.9e-3, 1.1e-2, 0.3, 1.0, 3.0], dtype=torch.float64)
    if manifold == Hyperbolic():
        d = torch.cat([d, torch.tensor([12.0, 24.0], dtype=torch.float64)])
    values = theta(kernel)
    leaf = d.clone().requires_grad_()
    rho = kernel.correlation(leaf, values, manifold)
    (by_autograd,) = torch.autograd.grad(rho.sum(), leaf)
    names = ("length_scale", *kernel.shape)
    by_d, by_log = kernel.derivatives(d, rho.detach(), values, manifold, names)
    assert torch.allclose(by_d, by_autograd, rtol=1e-7, atol=1e-11)
    assert set(by_log) == set(names)
    for name in names:
        ahead, behind = (
            kernel.correlation(d, {**values, name: values[name] * (1.0 + s)}, manifold)
            for s in (1e-6, -1e-6)
        )
        assert torch.allclose(by_log[name], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-8)
    assert kernel.derivatives(d, rho.detach(), values, manifold)[1] == {}


@pytest.mark.parametrize("n", [400, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_gram_matrices_are_positive_definite(kernel, manifold, n, normal):
    """Radii up to 12; eigenvalues of smooth kernels fall below rounding, which is of ε·n."""
    direction = torch.nn.functional.normalize(normal(n, 2), dim=1)
    radius = torch.linspace(0.0, 12.0 if manifold != Sphere() else 3.1, n).double()
    x = manifold.from_tangent(radius[:, None] * direction)
    # points far out are known to ε e^r, so that distances are symmetric but not exact
    d = manifold.pairwise_distance(x)
    for length_scale in LENGTH_SCALES:
        matrix = kernel.correlation(d, theta(kernel, length_scale), manifold)
        assert torch.equal(matrix, matrix.mT)
        assert torch.linalg.eigvalsh(matrix)[0] > -2e-9


@pytest.mark.parametrize("kernel", SMOOTH, ids=lambda k: type(k).__name__)
def test_smooth_kernels_are_positive_definite_beyond_double_precision(kernel):
    """40 points of H³, radii to 12, with 60 digits: the smallest eigenvalue is positive."""
    mpmath.mp.dps = 60
    generator = torch.Generator().manual_seed(0)
    n = 40
    directions = torch.nn.functional.normalize(torch.randn(n, 3, generator=generator), dim=1)
    points = []
    for i in range(n):
        r = mpmath.mpf(12) * (i + 1) / n
        space = [mpmath.sinh(r) * mpmath.mpf(c) for c in directions[i].double().tolist()]
        points.append([mpmath.sqrt(1 + sum(s * s for s in space)), *space])
    for length_scale in (1.0, 30.0):
        matrix = mpmath.matrix(n)
        for i in range(n):
            for j in range(n):
                inner = points[i][0] * points[j][0] - sum(
                    a * b for a, b in zip(points[i][1:], points[j][1:], strict=True)
                )
                matrix[i, j] = reference(
                    kernel, mpmath.acosh(max(inner, mpmath.mpf(1))), length_scale
                )
        mpmath.cholesky(matrix)  # raises where it is not positive definite


def reference(kernel, d, length_scale):
    """``(d/sinh d) M(d/κ)`` in mpmath."""
    r = d / length_scale
    factor = d / mpmath.sinh(d) if d > 0 else mpmath.mpf(1)
    a = mpmath.mpf(kernel.shape["alpha"]) if kernel.shape else None
    mixtures = {
        "Matern32": lambda: (1 + mpmath.sqrt(3) * r) * mpmath.exp(-mpmath.sqrt(3) * r),
        "Matern52": lambda: (
            (1 + mpmath.sqrt(5) * r + 5 * r * r / 3) * mpmath.exp(-mpmath.sqrt(5) * r)
        ),
        "Heat": lambda: mpmath.exp(-r * r / 2),
        "RationalQuadratic": lambda: (1 + r * r / (2 * a)) ** (-a),
    }
    return factor * mixtures[type(kernel).__name__]()


@pytest.mark.parametrize("kernel", SMOOTH, ids=lambda k: type(k).__name__)
def test_smooth_kernels_against_mpmath(kernel):
    mpmath.mp.dps = 40
    for d in (1e-12, 1e-5, 9e-3, 1.1e-2, 0.5, 4.0, 20.0):
        value = kernel.correlation(
            torch.tensor([d], dtype=torch.float64),
            {"length_scale": 1.7, **kernel.shape},
            Hyperbolic(),
        ).item()
        assert value == pytest.approx(float(reference(kernel, mpmath.mpf(d), 1.7)), rel=1e-13)


def test_the_exponential_kernel_against_its_definition():
    d = torch.tensor([0.0, 1.0, 5.0], dtype=torch.float64)
    rho = Exponential().correlation(d, {"length_scale": 2.0}, Hyperbolic())
    assert torch.allclose(rho, torch.exp(-d / 2.0))


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_gradients_agree_with_autograd(kernel, manifold, normal):
    x, z = (manifold.from_tangent(0.8 * normal(n, 2)) for n in (6, 4))
    weights = normal(6, 4)
    frames = [torch.zeros(n, 2, dtype=torch.float64, requires_grad=True) for n in (6, 4)]
    moved = [
        manifold.exp_map(p, manifold.from_frame(p, f)) for p, f in zip((x, z), frames, strict=True)
    ]
    covariance = CovarianceFunction(manifold, kernel)
    values = {"variance": 1.7, "length_scale": 0.8, **covariance.shape}
    at = covariance.at(values)
    distance = manifold.pairwise_distance(*moved)
    (weights * 1.7 * at.correlation(distance)).sum().backward()
    total = CovarianceGradient(tuple(values), weights)
    both = at.pairs(x, z).back_both(weights.clone(), total)
    one = at.pairs(x, z).back(weights.clone())
    for ours, leaf in zip(both, frames, strict=True):
        assert torch.allclose(ours, leaf.grad, rtol=1e-8, atol=1e-9)
    assert torch.equal(one, both[0])
    for name, found in total.gradients().items():
        ahead, behind = (
            (weights * covariance.at({**values, name: values[name] * (1.0 + s)}).gram(x, z)).sum()
            for s in (1e-6, -1e-6)
        )
        assert found.item() == pytest.approx(((ahead - behind) / 2e-6).item(), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_coincident_points_have_no_direction(kernel, manifold, normal):
    x = manifold.from_tangent(normal(3, 2))[[0, 0, 1, 2]]
    values = {"variance": 1.7, "length_scale": 0.8}
    total = CovarianceGradient(("variance", "length_scale"), x)
    pairs = CovarianceFunction(manifold, kernel).at(values).pairs(x, x)
    frame = pairs.back(torch.ones(4, 4).double(), total)
    assert torch.isfinite(frame).all()
    assert torch.equal(frame[0], frame[1])
    assert all(torch.isfinite(g) for g in total.gradients().values())


# --- where a kernel may be used ---------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "manifold"), PAIRS)
def test_kernels_accept_the_spaces_on_which_they_are_positive_definite(kernel, manifold):
    for q in (1, 2, 3):
        kernel.check(manifold, q)


@pytest.mark.parametrize("kernel", SMOOTH, ids=lambda k: type(k).__name__)
def test_smooth_kernels_refuse_spaces_without_a_closed_form(kernel):
    with pytest.raises(ValueError, match=r"more than 3 dimensions of hyperbolic.*n_components=3"):
        kernel.check(Hyperbolic(), 4)
    with pytest.raises(ValueError, match=r"on sphere space.*'exponential'"):
        kernel.check(Sphere(), 2)
    kernel.check(Flat(), 9)
    with pytest.raises(ValueError, match="more than 3"):
        (Exponential() + kernel).check(Hyperbolic(), 5)


def test_a_profile_that_is_not_positive_definite_is_refused_with_its_eigenvalue():
    Bare().check(Flat(), 2)
    with pytest.raises(ValueError, match=r"not positive definite on hyperbolic.*eigenvalue -"):
        Bare().check(Hyperbolic(), 2)


def test_without_its_factor_a_smooth_kernel_has_negative_eigenvalues(normal):
    """What the factor is for: the plain Matérn profile fails on the same points."""
    x = Hyperbolic().from_tangent(3.0 * normal(300, 2))
    values = {"variance": 1.0, "length_scale": 10.0}
    assert torch.linalg.eigvalsh(gram(Bare(), Hyperbolic(), x, x, **values))[0] < -1.0
    assert torch.linalg.eigvalsh(gram(Matern32(), Hyperbolic(), x, x, **values))[0] > -1e-12


# --- algebra ----------------------------------------------------------------------------------


def test_sums_and_products_are_what_they_say():
    d = torch.linspace(0.0, 4.0, 9, dtype=torch.float64)
    a, b, space = Exponential(), RationalQuadratic(0.5), Hyperbolic()
    values = {"length_scale": 2.0, "ratio": 3.0, "right.alpha": 0.7}
    left = a.correlation(d, {"length_scale": 2.0}, space)
    right = b.correlation(d, {"length_scale": 6.0, "alpha": 0.7}, space)
    both = (a + b).correlation(d, {**values, "weight": 0.5}, space)
    assert torch.allclose(both, (left + 0.5 * right) / 1.5)
    assert torch.allclose((a * b).correlation(d, values, space), left * right)
    assert (a + b).shape == {"weight": 1.0, "ratio": 1.0, "right.alpha": 0.5}
    with pytest.raises(TypeError):
        a + 1.0  # type: ignore[operator]


def test_kernels_compare_by_class_and_settings():
    assert Exponential() == Exponential()
    assert RationalQuadratic(0.5) != RationalQuadratic(0.6)
    assert Exponential() + Heat() == Exponential() + Heat()
    assert hash(Heat() * Rational()) == hash(Heat() * Rational())
    assert repr(RationalQuadratic(0.5)) == "RationalQuadratic(alpha=0.5)"
    assert list(KERNELS) == ["exponential", "matern32", "matern52", "heat"]
