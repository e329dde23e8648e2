"""Latents of new rows, and their posterior standard deviations."""

import math

import pytest
import torch

from hgplvm import _inference as inference
from hgplvm._inference import Landmarks, RowInference
from hgplvm.kernels import Exponential
from hgplvm.manifolds import Flat, Hyperbolic
from hgplvm.objectives import Parameters, SparseObjective
from hgplvm.objectives.new_rows import NewRows, log_prior
from hgplvm.objectives.predictive import NeighborPosterior, collapsed_posterior
from tests.gp import NOISE, exact_posterior, gram, on
from tests.memory import peak_bytes

HYPERBOLIC = Hyperbolic()
FLAT = Flat()

N, NEW, D = 120, 12, 40


def drawn(manifold, normal, noise=1e-2, d=D):
    """Latents and data of training rows and of new ones, drawn together from the model."""
    x = manifold.from_tangent(1.2 * normal(N + NEW, 2))
    covariance = gram(Exponential(), manifold, x, x, variance=1.0, length_scale=5.0)
    data = torch.linalg.cholesky(covariance + noise * torch.eye(N + NEW)) @ normal(N + NEW, d)
    return x, data


def parameters(x):
    logs = {"variance": math.log(1.0), "length_scale": math.log(5.0)}
    return Parameters(x, {k: x.new_tensor(v) for k, v in logs.items()}, ())


def exact(manifold, x, data, noise=1e-2):
    return exact_posterior(data, parameters(x), on(manifold), noise=noise)


def local(manifold, x, data, noise=1e-2, k=20):
    none = x[:0]
    return NeighborPosterior(
        on(manifold).at({"variance": 1.0, "length_scale": 5.0}),
        noise,
        n_neighbors=k,
        data=data,
        latents=x,
        inducing=none,
        smooth_mean=data[:0],
        smooth_covariance=none.new_zeros(0, 0),
    )


def inferring(manifold, x, data, make=exact, prior_scale=2.0, **more):
    model = make(manifold, x, data, **more)
    return RowInference(model, Landmarks.of(model, x), prior_scale)


@pytest.mark.parametrize("make", [exact, local])
def test_new_rows_go_where_they_came_from(manifold, make, normal):
    x, data = drawn(manifold, normal)
    model = inferring(manifold, x[:N], data[:N], make)
    rows = data[N:]
    found = model.infer(rows, torch.ones_like(rows)).latents
    away = manifold.distance(found, x[N:])
    assert away.median() < 0.15 * manifold.pairwise_distance(x).median()
    assert (found == manifold.project(found)).all()


def test_latents_are_as_likely_as_the_best_of_a_grid(manifold, normal):
    x, data = drawn(manifold, normal)
    model = inferring(manifold, x[:N], data[:N])
    rows, ones = data[N:], torch.ones_like(data[N:])
    found = model.infer(rows, ones).latents
    line = torch.linspace(-3.5, 3.5, 141, dtype=torch.float64)
    grid = manifold.from_tangent(torch.cartesian_prod(line, line))
    for i in range(NEW):
        some = rows[i].expand(len(grid), -1)
        density = model.log_density(some, torch.ones_like(some), grid)
        density += log_prior(manifold, grid, 2.0)
        here = NewRows(
            model.predictor.near(found[i : i + 1]), rows[i : i + 1], ones[:1], prior_scale=2.0
        ).density(found[i : i + 1])
        assert here.item() > density.max().item() - 0.5


def test_what_is_not_observed_does_not_count(manifold, normal):
    x, data = drawn(manifold, normal)
    model = inferring(manifold, x[:N], data[:N])
    observed = (normal(NEW, D) > -0.5).double()
    wild = torch.where(observed > 0, data[N:], torch.tensor(1e3, dtype=torch.float64))
    a, b = (model.infer(rows * observed, observed).latents for rows in (data[N:], wild))
    assert torch.equal(a, b)
    away = manifold.distance(a, x[N:])
    assert away.median() < 0.2 * manifold.pairwise_distance(x).median()


def test_a_row_without_observations_is_the_prior(manifold, normal):
    x, data = drawn(manifold, normal)
    model = inferring(manifold, x[:N], data[:N])
    rows, observed = torch.zeros_like(data[N:]), torch.zeros_like(data[N:])
    found = model.infer(rows, observed).latents
    assert torch.equal(found, manifold.origin(2).expand_as(found))


@pytest.mark.parametrize("make", [exact, local])
def test_chunks_change_nothing(manifold, make, normal, monkeypatch):
    x, data = drawn(manifold, normal)
    model = inferring(manifold, x[:N], data[:N], make)
    rows, ones = data[N:], torch.ones_like(data[N:])
    whole = model.infer(rows, ones).latents
    predicted = model.predict(whole)
    monkeypatch.setitem(inference.ENTRIES, "cpu", 20000)
    parts = model.infer(rows, ones).latents
    assert manifold.distance(parts, whole).max() < 1e-6
    assert all(torch.allclose(a, b) for a, b in zip(model.predict(whole), predicted, strict=True))


def test_training_rows_come_back(manifold, normal):
    x, data = drawn(manifold, normal)
    model = inferring(manifold, x[:N], data[:N])
    again = data[:N] + 1e-9
    found = model.infer(again, torch.ones_like(again)).latents
    away = manifold.distance(found, x[:N])
    assert away.median() < 0.02 * manifold.pairwise_distance(x).median()


def test_noisy_rows_stay_where_the_bound_counts(manifold, normal):
    """Far from the inducing points predictions are wide, and the density of noise is higher."""
    x, data = drawn(manifold, normal, noise=0.05)
    logs = {**parameters(x[:N]).logs, "noise": x.new_tensor(math.log(0.05))}
    here = Parameters(x[:N], logs, ())
    generator = torch.Generator().manual_seed(0)
    objective = SparseObjective(
        data[:N], on(manifold), NOISE, n_inducing=15, inducing_update=5, generator=generator
    )
    objective.draw(here)
    model = collapsed_posterior(
        objective.inducing,
        objective.statistics(here, data[:N]),
        on(manifold).at(here.values),
        noise=0.05,
    )
    rows = data[N:] + 1.5 * normal(NEW, D)
    ones = torch.ones_like(rows)
    away = {}
    for bound in (True, False):
        marks = Landmarks.of(model, x[:N], noise=0.05 if bound else None)
        found = RowInference(model, marks, 20.0, bound=bound).infer(rows, ones).latents
        away[bound] = manifold.distance(found, x[N:]).median()
    assert away[True] < 0.5 * away[False]


def test_the_best_state_of_each_row_is_kept(normal, monkeypatch):
    """Steps that are far too long lead away again: what was found on the way is not lost."""
    x, data = drawn(HYPERBOLIC, normal)
    monkeypatch.setattr(inference, "RATES", (30.0, 30.0, 30.0))
    model = inferring(HYPERBOLIC, x[:N], data[:N])
    rows, ones = data[N:], torch.ones_like(data[N:])
    starts = model.landmarks.starts(rows, ones)
    found = model.infer(rows, ones).latents
    objective = NewRows(model.predictor, rows, ones, prior_scale=2.0)
    first = torch.stack([objective.density(starts[:, i]) for i in range(starts.shape[1])])
    assert (objective.density(found) >= first.amax(0) - 1e-9).all()


def test_two_training_rows_suffice(manifold, normal):
    x, data = manifold.from_tangent(normal(2, 2)), normal(2, 3)
    for make in (exact, local):
        model = inferring(manifold, x, data, make, **({"k": 2} if make is local else {}))
        rows = normal(5, 3)
        found = model.infer(rows, torch.ones_like(rows)).latents
        assert torch.isfinite(found).all()


def test_a_cheaper_scout_leads_to_the_same_latents(normal):
    x, data = drawn(HYPERBOLIC, normal)
    rows, ones = data[N:], torch.ones_like(data[N:])
    model = exact(HYPERBOLIC, x[:N], data[:N])
    marks = Landmarks.of(model, x[:N])
    scout = local(HYPERBOLIC, x[:N], data[:N])
    plain = RowInference(model, marks, 2.0).infer(rows, ones).latents
    scouted = RowInference(model, marks, 2.0, scout=scout).infer(rows, ones).latents
    assert HYPERBOLIC.distance(plain, scouted).median() < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("make", [exact, local])
def test_memory_does_not_grow_with_the_number_of_rows(make, normal, monkeypatch):
    monkeypatch.setitem(inference.ENTRIES, "cpu", 2**17 if make is exact else 2**19)
    monkeypatch.setattr(inference, "STEPS", (2, 2, 2))
    x, data = drawn(HYPERBOLIC, normal)
    model = inferring(HYPERBOLIC, x[:N], data[:N], make)
    rows = data[N:].repeat(20, 1)
    few, many = (
        peak_bytes(lambda n=n: model.infer(rows[:n], torch.ones_like(rows[:n]))) for n in (60, 240)
    )
    returned = 8 * 240 * (D + 3)  # the mask, and the latents
    assert many - few < 2 * returned
