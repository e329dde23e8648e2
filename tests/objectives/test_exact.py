"""The exact objective against definitions, finite differences, autograd and other libraries."""

import math
import warnings

import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from hgplvm.kernels import Exponential
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.noise import UniformNoise
from hgplvm.objectives import ExactObjective, Parameters
from tests.gp import NOISE, gram, on
from tests.memory import peak_bytes

HYPERBOLIC = Hyperbolic()
FLAT = Flat()

FREE = ("variance", "noise", "length_scale")


def parameters(latents, variance=1.3, noise=0.4, length_scale=1.7, free=FREE):
    values = {"variance": variance, "noise": noise, "length_scale": length_scale}
    logs = {name: latents.new_tensor(math.log(value)) for name, value in values.items()}
    return Parameters(latents, logs, free)


def covariance(manifold, p, noise_floor=0.0):
    """K + β⁻¹I by definition, differentiable."""
    distance = manifold.pairwise_distance(p.latents)
    gram = p.logs["variance"].exp() * torch.exp(-distance / p.logs["length_scale"].exp())
    return gram + (noise_floor + p.logs["noise"].exp()) * torch.eye(
        len(distance), dtype=distance.dtype
    )


def likelihood(manifold, data, p, noise_floor=0.0):
    normal = torch.distributions.MultivariateNormal(
        torch.zeros(len(data), dtype=data.dtype), covariance(manifold, p, noise_floor)
    )
    return normal.log_prob(data.mT).sum()


@pytest.fixture(params=[1, 2, 3, 5], ids="Q={}".format)
def q(request):
    return request.param


@pytest.mark.parametrize("n_columns", [4, 40], ids="D={}".format)
def test_value_is_the_log_density(manifold, q, n_columns, normal):
    data, p = normal(20, n_columns), parameters(manifold.from_tangent(normal(20, q)))
    objective = ExactObjective(data, on(manifold), UniformNoise(0.1))
    expected = likelihood(manifold, data, p, 0.1).item()
    assert objective.value(p) == pytest.approx(expected, rel=1e-10)
    assert objective.evaluate(p).value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n_columns", [4, 40], ids="D={}".format)
def test_gradient_agrees_with_autograd(manifold, q, n_columns, normal):
    data, x = normal(20, n_columns), manifold.from_tangent(normal(20, q))
    objective = ExactObjective(data, on(manifold), UniformNoise(0.1))
    objective.tile = (6, 9)  # several tiles, on and off the diagonal
    ours = objective.evaluate(parameters(x)).gradient

    frame = torch.zeros(20, q, dtype=torch.float64, requires_grad=True)
    p = parameters(manifold.exp_map(x, manifold.from_frame(x, frame)))
    logs = {name: value.detach().requires_grad_() for name, value in p.logs.items()}
    likelihood(manifold, data, Parameters(p.latents, logs, FREE), 0.1).backward()
    expected = torch.cat([frame.grad.reshape(-1), *(logs[name].grad.reshape(1) for name in FREE)])
    assert (ours - expected).abs().max() <= 1e-8 * expected.abs().max()


def test_gradient_agrees_with_finite_differences(manifold, q, normal):
    data, p = normal(15, 3), parameters(manifold.from_tangent(normal(15, q)))
    objective = ExactObjective(data, on(manifold), NOISE)
    gradient = objective.evaluate(p).gradient
    numeric = torch.zeros_like(gradient)
    for i in range(len(gradient)):
        step = torch.zeros_like(gradient)
        step[i] = 1e-5
        up, down = (objective.value(p.moved(manifold, s)) for s in (step, -step))
        numeric[i] = (up - down) / 2e-5
    assert (gradient - numeric).abs().max() <= 1e-6 * gradient.abs().max()


def test_fixed_parameters_have_no_entry_in_the_gradient(manifold, normal):
    p = parameters(manifold.from_tangent(normal(10, 2)), free=("noise",))
    gradient = ExactObjective(normal(10, 3), on(manifold), NOISE).evaluate(p).gradient
    assert gradient.shape == (10 * 2 + 1,)


def test_tiles_do_not_change_the_result(manifold, normal):
    objective = ExactObjective(normal(50, 3), on(manifold), NOISE)
    p = parameters(manifold.from_tangent(normal(50, 2)))
    whole = objective.evaluate(p)
    for tile in ((1, 50), (50, 1), (7, 11), (16, 16)):
        objective.tile = tile
        part = objective.evaluate(p)
        assert part.value == pytest.approx(whole.value, rel=1e-12)
        assert torch.allclose(part.gradient, whole.gradient, rtol=1e-9, atol=1e-9)


def test_isometries_do_not_change_the_value(normal):
    x = HYPERBOLIC.from_tangent(2 * normal(30, 2))
    objective = ExactObjective(normal(30, 3), on(HYPERBOLIC), NOISE)
    moved = HYPERBOLIC.recenter(x, x[5])
    assert objective.value(parameters(moved)) == pytest.approx(
        objective.value(parameters(x)), rel=1e-9
    )


def test_flat_likelihood_agrees_with_scikit_learn(normal):
    data, x = normal(30, 1), normal(30, 2)
    kernel = ConstantKernel(1.3) * Matern(length_scale=1.7, nu=0.5) + WhiteKernel(0.4)
    regressor = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
    theirs = regressor.fit(x.numpy(), data.numpy()).log_marginal_likelihood()
    ours = ExactObjective(data, on(FLAT), NOISE).value(parameters(x))
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_flat_model_agrees_with_gpytorch(normal):
    data, x = normal(30, 4), normal(30, 2)
    ours = gram(Exponential(), FLAT, x, x, variance=1.3, length_scale=1.7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of its own, at import
        import gpytorch

        kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=0.5)).double()
        kernel.outputscale, kernel.base_kernel.lengthscale = 1.3, 1.7  # kept to single precision
        assert torch.allclose(ours, kernel(x).to_dense(), rtol=1e-6)
        law = gpytorch.distributions.MultivariateNormal(
            torch.zeros(30, dtype=torch.float64), ours + 0.4 * torch.eye(30).double()
        )
        theirs = law.log_prob(data.mT).sum().item()
    objective = ExactObjective(data, on(FLAT), NOISE)
    assert objective.value(parameters(x)) == pytest.approx(theirs, rel=1e-9)


def test_awkward_latents_give_finite_values_and_gradients(manifold, normal):
    a = normal(12, 2)
    a[3] = a[4]  # coincident
    a[5] = 0.0  # the origin
    a[6] *= 1e-12
    a[7] *= 15.0 / a[7].norm()  # far out
    a[8] = a[7] + 1e-13
    objective = ExactObjective(normal(12, 3), on(manifold), UniformNoise(1e-6))
    evaluation = objective.evaluate(parameters(manifold.from_tangent(a), noise=1e-10))
    assert evaluation.finite
    everything_at_one_point = manifold.from_tangent(a[:1].expand(12, -1))
    assert objective.evaluate(parameters(everything_at_one_point)).finite


def test_float32_follows_float64(manifold, normal):
    data, x = normal(40, 3), manifold.from_tangent(normal(40, 2))
    double = ExactObjective(data, on(manifold), NOISE).evaluate(parameters(x))
    single = ExactObjective(data.float(), on(manifold), NOISE).evaluate(parameters(x.float()))
    assert single.gradient.dtype == torch.float32
    assert single.value == pytest.approx(double.value, rel=1e-5)
    assert torch.allclose(single.gradient.double(), double.gradient, rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_the_gpu_agrees_with_the_cpu(manifold, normal):
    data, x = normal(300, 3), manifold.from_tangent(normal(300, 2))
    here = ExactObjective(data, on(manifold), NOISE).evaluate(parameters(x))
    there = ExactObjective(data.cuda(), on(manifold), NOISE).evaluate(parameters(x.cuda()))
    assert there.value == pytest.approx(here.value, rel=1e-9)
    assert torch.allclose(there.gradient.cpu(), here.gradient, rtol=1e-6, atol=1e-7)


def test_peak_memory_is_a_few_square_arrays(manifold, normal):
    """At most eight N×N arrays: counted from torch's own allocations."""
    n = 1500
    objective = ExactObjective(normal(n, 5), on(manifold), NOISE)
    p = parameters(manifold.from_tangent(normal(n, 2)))
    peak = peak_bytes(lambda: objective.evaluate(p))
    assert n * n * 8 < peak <= 8 * n * n * 8
