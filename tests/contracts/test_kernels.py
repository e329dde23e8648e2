"""What every kernel must satisfy. A new kernel joins the list below; nothing else is needed."""

import pytest
import torch

from hgplvm.geometry import euclidean, lorentz
from hgplvm.kernels import Exponential, gram, gram_gradient


class Matern32:
    """A kernel in the length that the documentation promises; positive definite in flat space."""

    def profile(self, r):
        return (1 + 3**0.5 * r) * torch.exp(-(3**0.5) * r)

    def slope(self, r, g):
        return -3 * r * torch.exp(-(3**0.5) * r)


KERNELS = [
    pytest.param(Exponential(), lorentz, id="exponential-lorentz"),
    pytest.param(Exponential(), euclidean, id="exponential-euclidean"),
    pytest.param(Matern32(), euclidean, id="matern32-euclidean"),
]
HYPER = {"variance": 1.7, "length_scale": 0.8}


@pytest.mark.parametrize(("kernel", "manifold"), KERNELS)
def test_profile_starts_at_one_and_falls(kernel, manifold):
    r = torch.linspace(0, 5, 50, dtype=torch.float64)
    g = kernel.profile(r)
    assert g[0] == 1
    assert (g.diff() < 0).all()


@pytest.mark.parametrize(("kernel", "manifold"), KERNELS)
def test_slope_is_the_derivative_of_the_profile(kernel, manifold):
    r = torch.linspace(0.01, 5, 50, dtype=torch.float64, requires_grad=True)
    g = kernel.profile(r)
    (derivative,) = torch.autograd.grad(g.sum(), r)
    assert torch.allclose(kernel.slope(r, g), derivative, rtol=1e-12)


@pytest.mark.parametrize(("kernel", "manifold"), KERNELS)
def test_gram_matrix_is_positive_definite_on_2000_points(kernel, manifold, normal):
    x = manifold.from_tangent(2.0 * normal(2000, 2))
    matrix = gram(kernel, manifold, x, x, **HYPER)
    assert torch.equal(matrix, matrix.mT)
    assert torch.linalg.eigvalsh(matrix)[0] > 0


@pytest.mark.parametrize(("kernel", "manifold"), KERNELS)
def test_gradients_agree_with_autograd(kernel, manifold, normal):
    x, z, weights = (
        manifold.from_tangent(normal(6, 2)),
        manifold.from_tangent(normal(4, 2)),
        normal(6, 4),
    )
    frames = [torch.zeros(n, 2, dtype=torch.float64, requires_grad=True) for n in (6, 4)]
    logs = [torch.tensor(HYPER[k], dtype=torch.float64).log().requires_grad_() for k in HYPER]
    moved = [
        manifold.exp_map(p, manifold.from_frame(p, f)) for p, f in zip((x, z), frames, strict=True)
    ]
    ratio = manifold.pairwise_distance(*moved) / logs[1].exp()
    (weights * logs[0].exp() * kernel.profile(ratio)).sum().backward()
    ours = gram_gradient(kernel, manifold, x, z, weights, **HYPER)
    for value, leaf in zip(ours, [*frames, *logs], strict=True):
        assert torch.allclose(value, leaf.grad, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("kernel", "manifold"), KERNELS)
def test_coincident_points_have_no_direction(kernel, manifold, normal):
    x = manifold.from_tangent(normal(3, 2))[[0, 0, 1, 2]]
    gradients = gram_gradient(kernel, manifold, x, x, torch.ones(4, 4).double(), **HYPER)
    for gradient in gradients:
        assert torch.isfinite(gradient).all()
    assert torch.equal(gradients[0][0], gradients[0][1])
