"""Hyperbolic autoencoders against the wrapped normal, SciPy and integrals over a grid."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from hgplvm.baselines import HyperbolicVAE, hyperbolic_vae
from hgplvm.baselines.hyperbolic_vae import (
    LARGEST_RADIUS,
    Network,
    _within,
    drawn,
    turned_outward,
)
from hgplvm.datasets import make_binary_tree
from hgplvm.geometry import lorentz
from hgplvm.manifolds import wrapped_normal

Y = np.random.default_rng(0).standard_normal((30, 4))


def small(**others):
    return HyperbolicVAE(**{"hidden_units": 6, "max_iter": 4, "random_state": 0, **others})


# --- the rotation ---------------------------------------------------------------------------


def rotation(direction):
    """Matrix whose columns are the images of the axes."""
    q = len(direction)
    repeated = torch.as_tensor(direction, dtype=torch.float64).expand(q, q)
    return turned_outward(torch.eye(q, dtype=torch.float64), repeated).numpy().T


@pytest.mark.parametrize(
    "direction",
    [
        [0.3, -2.0],
        [-5.0, 0.1],
        [1.0, 0.0],
        [-1.0, 0.0],
        [-1.0, 1e-5],
        [-1.0, -1e-8],
        [1e-7, 1e-7],
        [0.5, 0.0, -3.0],
        [0.1, 2.0, 0.4],
        [-2.0, 0.0, 0.0],
        [-2.0, 1e-4, 0.0],
        [-1.0, 0.2, 0.3, -0.4],
    ],
)
def test_the_first_axis_is_rotated_outward(direction):
    matrix = rotation(direction)
    assert np.allclose(matrix @ matrix.T, np.eye(len(direction)), atol=1e-10)
    assert np.linalg.det(matrix) == pytest.approx(1, abs=1e-10)
    assert np.allclose(matrix[:, 0], direction / np.linalg.norm(direction), atol=2e-8)


def test_only_the_plane_of_axis_and_direction_is_rotated():
    matrix = rotation([0.3, 0.4, 0.0])
    expected = [[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]
    assert np.allclose(matrix, expected, atol=1e-14)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_nothing_is_rotated_at_the_origin(q):
    assert np.array_equal(rotation([0.0] * q), np.eye(q))


# --- the densities --------------------------------------------------------------------------


def log_ratio(mean, std, zeta, v):
    """Return log p(x) - log q(x) of a draw as the bound has it."""
    x, stretch = drawn(mean, v)
    prior = -0.5 * x.square().sum(-1)
    posterior = -0.5 * zeta.square().sum(-1) - std.log().sum(-1)
    return prior - posterior - (mean.shape[-1] - 1) * stretch


@pytest.mark.parametrize("q", [1, 2, 3])
def test_draws_lie_where_the_geometry_places_them(normal, q):
    mean, v = 3 * normal(20, q), normal(20, q)
    mean[0], v[1] = 0.0, 0.0
    expected = lorentz.to_tangent(lorentz.displaced(lorentz.from_tangent(mean), v))
    assert torch.allclose(drawn(mean, v)[0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_densities_are_those_of_wrapped_normals(normal, q):
    mean, std, zeta = normal(20, q), normal(20, q).exp(), normal(20, q)
    at = lorentz.from_tangent(mean)
    x = lorentz.displaced(at, std * zeta)
    unit = torch.ones(q, dtype=torch.float64)
    expected = wrapped_normal.log_prob(lorentz, x, lorentz.origin(q), unit)
    expected = expected - wrapped_normal.log_prob(lorentz, x, at, std)
    assert torch.allclose(log_ratio(mean, std, zeta, std * zeta), expected, rtol=1e-7)


def covariance(mean, std, rotated):
    if not rotated:
        return np.diag(std**2)
    angle = np.arctan2(mean[1], mean[0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return turn @ np.diag(std**2) @ turn.T


def log_q(x, mean, std, rotated):
    """Density in the plane of a point, by hand: a normal one over the volume of the map."""
    at = lorentz.from_tangent(torch.from_numpy(mean))
    v = lorentz.to_frame(at, lorentz.log_map(at, x)).numpy()
    r = np.linalg.norm(v, axis=-1)
    flat = multivariate_normal(cov=covariance(mean, std, rotated)).logpdf(v)
    return flat - np.log(np.sinh(r) / r)


def test_rotated_draws_have_the_density_of_a_rotated_normal(normal):
    zeta, std, mean = normal(20, 2), normal(20, 2).exp(), normal(20, 2)
    v = turned_outward(std * zeta, mean)
    x = lorentz.displaced(lorentz.from_tangent(mean), v)
    unit = torch.ones(2, dtype=torch.float64)
    prior = wrapped_normal.log_prob(lorentz, x, lorentz.origin(2), unit)
    expected = [
        prior[i].item() - log_q(x[i], mean[i].numpy(), std[i].numpy(), rotated=True).item()
        for i in range(20)
    ]
    assert np.allclose(log_ratio(mean, std, zeta, v), expected, rtol=1e-6)


def test_a_diverged_network_is_an_error():
    model = small(max_iter=50, batch_size=10, learning_rate=1e30)
    with pytest.raises(ArithmeticError, match="Lower the 'learning_rate', which is 1e"):
        model.fit(Y)


def test_data_that_are_constant_but_for_rounding_have_a_finite_bound():
    assert abs(small().fit(np.full((20, 3), 0.1)).bound_) < 10


# --- the bound ------------------------------------------------------------------------------


def polar_grid():
    """Coordinates in the tangent plane at the origin, and the hyperbolic area of their cells."""
    step = 0.01
    radius = np.arange(0.5 * step, 9.0, step)
    angle = np.linspace(0, 2 * np.pi, 360, endpoint=False)
    r, t = (grid.ravel() for grid in np.meshgrid(radius, angle, indexing="ij"))
    plane = np.stack([r * np.cos(t), r * np.sin(t)], axis=-1)
    return plane, np.sinh(r) * step * 2 * np.pi / 360


def tiny_network(rotated):
    """Network with means off the origin, unequal deviations and a decoder that bends."""
    network = Network(2, 3, 2, rotated, torch.Generator().manual_seed(1))
    bias = [0.9, -0.7, -0.6, -2.0] if rotated else [0.9, -0.7, -0.6]
    with torch.no_grad():
        for layer in network.decoder:
            if isinstance(layer, torch.nn.Linear):
                layer.weight *= 2.0
        network.encoder[-1].bias.copy_(torch.tensor(bias))
        network.log_noise.fill_(-0.8)
    return network


def bound_by_integral(network, row):
    """∫ q(x) [log p(y|x) + log p(x) - log q(x)] dx, and ∫ q(x) dx."""
    with torch.no_grad():
        mean, std = (part[0].double().numpy() for part in network.encoded(row[None]))
    plane, area = polar_grid()
    r = np.linalg.norm(plane, axis=-1)
    log_posterior = log_q(lorentz.from_tangent(torch.from_numpy(plane)), mean, std, network.rotated)
    prior = norm.logpdf(plane).sum(-1) - np.log(np.sinh(r) / r)
    with torch.no_grad():
        decoded = network.decoder(torch.from_numpy(plane).double()).double().numpy()
    fit = norm.logpdf(row.numpy(), decoded, np.exp(-0.4)).sum(-1)
    mass = np.exp(log_posterior) * area
    return mass @ (fit + prior - log_posterior), mass.sum()


@pytest.mark.parametrize("rotated", [False, True])
def test_draws_of_the_bound_average_to_its_integral(rotated):
    network = tiny_network(rotated)
    generator = torch.Generator().manual_seed(0)
    for row in torch.tensor([[0.5, -1.0], [-1.5, 0.2]], dtype=torch.float64):
        expected, total = bound_by_integral(network, row)
        assert total == pytest.approx(1, abs=1e-3)
        with torch.no_grad():
            draws = network.bound(row.expand(60_000, -1), generator).double()
        error = draws.std().item() / np.sqrt(len(draws))
        assert error < 0.02
        assert abs(draws.mean().item() - expected) < 4 * error + 1e-3


@pytest.mark.parametrize("rotated", [False, True])
def test_the_encoder_of_the_tiny_network_is_put_to_the_test(rotated):
    mean, std = tiny_network(rotated).encoded(torch.tensor([[0.5, -1.0]], dtype=torch.float64))
    assert mean.norm() > 0.5
    assert (std[0, 0] > 2 * std[0, 1]) == rotated
    assert std.shape == (1, 2)


@pytest.mark.parametrize("rotated", [False, True])
def test_gradients_at_the_origin_are_finite(rotated):
    network = Network(2, 3, 2, rotated, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in network.encoder.parameters():
            parameter.zero_()
    mean, _ = network.encoded(torch.ones(5, 2, dtype=torch.float64))
    assert torch.equal(mean, torch.zeros(5, 2, dtype=torch.float64))
    network.bound(
        torch.ones(5, 2, dtype=torch.float64), torch.Generator().manual_seed(0)
    ).mean().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())
    assert network.encoder[-1].bias.grad.abs().min() > 0


@pytest.mark.parametrize("length", [1e-12, 1e-3, 1.0, 11.0, 40.0, 1e6])
def test_vectors_stay_within_the_largest_radius(length):
    vector = torch.tensor([[0.6, -0.8]], dtype=torch.float64)
    found = _within(length * vector)
    assert torch.allclose(found / found.norm(), vector, rtol=1e-12)
    assert found.norm() <= LARGEST_RADIUS * (1 + 1e-12)
    assert found.norm().item() <= length * (1 + 1e-12)
    if length < 0.01:
        assert found.norm().item() == pytest.approx(length, rel=1e-6)
    if length > 30:
        assert found.norm().item() > 0.99 * LARGEST_RADIUS


def test_means_far_out_leave_the_bound_finite():
    network = Network(2, 3, 2, True, torch.Generator().manual_seed(0))
    with torch.no_grad():
        network.encoder[-1].bias[:2] = 1e4
    bound = network.bound(torch.ones(50, 2, dtype=torch.float64), torch.Generator().manual_seed(0))
    bound.mean().backward()
    assert torch.isfinite(bound).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())


# --- the fit --------------------------------------------------------------------------------


@parametrize_with_checks([HyperbolicVAE(hidden_units=5, max_iter=5)])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_encoding_the_data_gives_the_embedding(rotated, q):
    model = small(n_components=q, rotated=rotated)
    points = model.fit_transform(Y)
    assert points.shape == (30, q)
    assert points is model.embedding_
    assert np.array_equal(model.transform(Y), points)
    assert np.allclose(model.transform(Y[3:4]), points[3:4], atol=1e-6)


def test_the_embedding_is_the_mean_on_the_ball():
    model = small().fit(Y)
    unit = np.sqrt(np.mean((Y - Y.mean(0)) ** 2))
    with torch.no_grad():
        mean, _ = model._network.encoded(torch.from_numpy((Y - Y.mean(0)) / unit).double())
    radius = np.linalg.norm(mean.numpy(), axis=1, keepdims=True)
    expected = np.tanh(radius / 2) * mean.numpy() / radius
    assert np.allclose(model.embedding_, expected, rtol=1e-5)
    noise = model._network.log_noise.exp().item()
    assert model.noise_variance_ == pytest.approx(unit**2 * noise)


def test_the_bound_rises():
    data = make_binary_tree(depth=3, n_per_node=10, random_state=0).data
    bounds = [small(max_iter=m, learning_rate=1e-2).fit(data).bound_ for m in (1, 20, 200)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > bounds[0] + 1.2  # 1.72


@pytest.mark.parametrize("batch_size", [7, 100])
def test_the_bound_that_is_kept_is_an_average_over_rows_and_passes(batch_size):
    still = small(batch_size=batch_size, learning_rate=1e-12, max_iter=60).fit(5 * Y)
    scaled = still._scaled(5 * Y)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        draws = torch.stack([still._network.bound(scaled, generator) for _ in range(500)])
    error = draws.std(0).norm().item() / 30 / np.sqrt(20)
    expected = draws.mean().item() - 4 * np.log(still._unit)
    assert error < 0.1
    assert abs(still.bound_ - expected) < 4 * error


def test_the_last_passes_are_averaged(monkeypatch):
    def kept(max_iter, averaged):
        monkeypatch.setattr(hyperbolic_vae, "AVERAGED_PASSES", averaged)
        return small(max_iter=max_iter).fit(Y).bound_

    singles = [kept(m, 1) for m in (2, 3, 4)]
    assert kept(4, 3) == pytest.approx(np.mean(singles))


@pytest.mark.parametrize("rotated", [False, True])
def test_auto_keeps_the_highest_bound(monkeypatch, rotated):
    widths = (2, 12, 5)
    monkeypatch.setattr(hyperbolic_vae, "HIDDEN_UNITS", widths)
    options = {"rotated": rotated, "max_iter": 40, "learning_rate": 1e-2}
    single = {width: small(hidden_units=width, **options).fit(Y) for width in widths}
    best = max(widths, key=lambda width: single[width].bound_)
    auto = small(hidden_units="auto", **options).fit(Y)
    assert auto.hidden_units_ == best == 12
    assert auto.bound_ == single[best].bound_
    assert np.array_equal(auto.embedding_, single[best].embedding_)
    assert np.array_equal(auto.transform(Y), auto.embedding_)


def test_the_seed_decides_and_not_the_one_of_torch():
    torch.manual_seed(1)
    one = small().fit(Y)
    torch.manual_seed(2)
    two = small().fit(Y)
    assert np.array_equal(one.embedding_, two.embedding_)
    assert one.bound_ == two.bound_
    given = small(random_state=np.random.RandomState(0)).fit_transform(Y)
    assert np.array_equal(one.embedding_, given)
    assert not np.allclose(one.embedding_, small(random_state=1).fit_transform(Y))


def test_global_generators_are_left_alone():
    of_torch, of_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    small().fit(Y)
    assert np.array_equal(of_numpy, np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(of_torch, torch.get_rng_state())


@pytest.mark.parametrize("unit", [2.0**10, 2.0**-300])
def test_the_unit_of_the_data_goes_into_the_bound_alone(unit):
    plain, scaled = small().fit(Y), small().fit(unit * Y)
    assert np.array_equal(plain.embedding_, scaled.embedding_)
    assert scaled.bound_ == pytest.approx(plain.bound_ - 4 * np.log(unit))
    assert scaled.noise_variance_ == pytest.approx(plain.noise_variance_ * unit**2)


def test_the_place_of_the_data_does_not_matter():
    moved = small().fit(Y + np.array([1e3, -5.0, 0.0, 70.0]))
    assert np.allclose(moved.embedding_, small().fit(Y).embedding_, atol=1e-5)


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        np.repeat(Y[:6], 5, axis=0),
        np.ones((8, 3)),
        np.full((8, 3), 0.1),
        np.hstack([Y, np.full((30, 2), 7.0)]),
        Y[:2],
        Y[:, :1],
        Y * 1e100,
        Y * 1e-100,
    ],
)
def test_awkward_data_have_finite_embeddings(data, rotated):
    model = small(rotated=rotated).fit(data)
    assert model.embedding_.shape == (len(data), 2)
    assert np.linalg.norm(model.embedding_, axis=1).max() < 1
    assert np.isfinite([model.bound_, model.noise_variance_]).all()


# --- scikit-learn ---------------------------------------------------------------------------


def test_clones_and_pipelines():
    model = small(rotated=True)
    assert clone(model).get_params() == model.get_params()
    pipe = make_pipeline(StandardScaler(), clone(model)).fit(Y)
    expected = model.fit_transform(StandardScaler().fit_transform(Y))
    assert np.array_equal(pipe.transform(Y), expected)


def test_names_of_columns_are_kept():
    frame = pd.DataFrame(Y, columns=list("abcd"))
    model = small().fit(frame)
    assert list(model.feature_names_in_) == list("abcd")
    assert np.array_equal(model.transform(frame), model.embedding_)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("dcba")])


def test_rows_to_encode_are_checked():
    with pytest.raises(NotFittedError):
        small().transform(Y)
    model = small().fit(Y)
    with pytest.raises(ValueError, match="3 features"):
        model.transform(Y[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        model.transform(Y * np.nan)


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_progress_bar(capsys, monkeypatch, verbose):
    monkeypatch.setattr("hgplvm._progress._is_terminal", lambda _: True)
    small(rotated=True, verbose=verbose).fit(Y)
    assert ("RotHVAE, 6 units" in capsys.readouterr().err) == bool(verbose)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("n_components", 0, r"an int in the range \[1, inf\)"),
        ("n_components", 1.5, "an int"),
        ("rotated", "yes", "True or False"),
        ("rotated", 1, "True or False"),
        ("hidden_units", 0, r"an int in the range \[1, inf\) or one of 'auto'"),
        ("hidden_units", "many", r"an int in the range \[1, inf\) or one of 'auto'"),
        ("max_iter", 0, r"an int in the range \[1, inf\)"),
        ("batch_size", 0, r"an int in the range \[1, inf\)"),
        ("learning_rate", 0.0, r"a finite float in the range \(0, inf\)"),
        ("learning_rate", np.inf, "a finite float"),
    ],
)
def test_bad_parameters(name, value, allowed):
    with pytest.raises(
        ValueError, match=rf"^The '{name}' parameter of HyperbolicVAE must be {allowed}.*instead\.$"
    ):
        HyperbolicVAE(**{name: value}).fit(Y)
