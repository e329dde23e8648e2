"""Batches that are brought together for a start."""

from __future__ import annotations

import torch

from hgplvm._init.alignment import aligned


def branches(normal, n=300):
    """Rows along three branches in the plane, in five noisy dimensions, and their places."""
    generator = torch.Generator().manual_seed(3)
    branch = torch.randint(3, (n,), generator=generator)
    place = 6.0 * torch.rand(n, generator=generator).double()
    angle = 2.0 * branch.double()
    rows = torch.stack([place * angle.cos(), place * angle.sin()], dim=1)
    return torch.cat([rows + 0.2 * normal(n, 2), 0.2 * normal(n, 3)], dim=1), branch, place


def test_a_shift_that_differs_along_the_branches_is_taken_off(normal):
    rows, branch, _ = branches(normal)
    batch = torch.arange(len(rows)) % 2
    way = torch.tensor([[1.0], [-1.0], [0.5]]).double()[branch]
    shift = way * torch.tensor([0.0, 0.0, 1.2, 0.0, 0.0]).double()
    moved = aligned(rows + batch[:, None] * shift, torch.ones(len(rows)).double(), batch[:, None])
    before = (rows + batch[:, None] * shift)[:, 2]
    for b in range(3):
        here = branch == b
        apart = [
            float(x[here & (batch == 1)].mean() - x[here & (batch == 0)].mean())
            for x in (before, moved[:, 2])
        ]
        assert abs(apart[1]) < 0.35 * abs(apart[0])
    assert (moved[:, :2] - rows[:, :2]).abs().mean() < 0.2


def test_rows_without_shifts_hardly_move(normal):
    rows, _, _ = branches(normal)
    batch = torch.arange(len(rows)) % 3
    moved = aligned(rows, torch.ones(len(rows)).double(), batch[:, None])
    assert (moved - rows).abs().mean() < 0.1


def test_a_branch_that_one_batch_holds_alone_stays(normal):
    rows, branch, _ = branches(normal)
    batch = (torch.arange(len(rows)) % 2) * (branch != 0)
    moved = aligned(rows, torch.ones(len(rows)).double(), batch[:, None])
    assert (moved - rows)[branch == 0].abs().mean() < 0.25


def test_one_batch_and_tiny_ones_stay_where_they_are(normal):
    rows = normal(40, 3)
    noise = torch.ones(40).double()
    assert torch.equal(aligned(rows, noise, torch.zeros(40, 1).long()), rows)
    few = (torch.arange(40) > 37).long()
    assert torch.equal(aligned(rows, noise, few[:, None]), rows)


def test_rows_beyond_the_sample_move_with_the_others(normal, monkeypatch):
    rows, _, _ = branches(normal, 600)
    batch = torch.arange(600) % 2
    shifted = rows + batch[:, None] * torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]).double()
    monkeypatch.setattr("hgplvm._init.alignment.SAMPLE_ROWS", 250)
    moved = aligned(shifted, torch.ones(600).double(), batch[:, None])[:, 2]
    assert abs(float(moved[batch == 1].mean() - moved[batch == 0].mean())) < 0.3


def test_two_covariates_are_taken_one_after_the_other(normal):
    rows, _, _ = branches(normal, 400)
    first, second = torch.arange(400) % 2, torch.arange(400) // 2 % 3
    apart = torch.zeros(400, 5).double()
    apart[:, 2], apart[:, 3] = 1.0 * first, 0.8 * second
    batches = torch.stack([first, second], dim=1)
    moved = aligned(rows + apart, torch.ones(400).double(), batches)
    assert abs(float(moved[first == 1, 2].mean() - moved[first == 0, 2].mean())) < 0.3
    assert abs(float(moved[second == 2, 3].mean() - moved[second == 0, 3].mean())) < 0.4
