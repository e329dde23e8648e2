"""A start for rows of several batches: what shifts them locally is taken off, for the start alone.

Where batches are shifted differently along the latent space, rows of one place lie apart, and a
start would give every batch a branch of its own. So rows are first brought together by mutual
nearest neighbours: two rows of different batches that are among each other's nearest are taken for
the same place. Each row is moved to the middle of itself and its partners in the other batches, and
the move is averaged over the pairs near it; parts of the latent space that one batch holds alone
move with the nearest part that has pairs. Rows are averaged within their own batch before they are
compared.

A fit sees the rows as they are: that batches differ along the latent space is for its covariance to
say (:mod:`hgplvm._batches`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgplvm._init.paths import averaged, nearest

__all__ = ["aligned"]

# rows in which pairs are looked for, and rows that are moved at a time
SAMPLE_ROWS, CHUNK = 4000, 20_000
# mutual neighbours are among each other's so many nearest, at most this share of a batch
NEIGHBORS, MOST_SHARE = 10, 0.1
# rows with a pair over whose moves a row's own is averaged
SMOOTH = 20
# times that rows are moved
ROUNDS = 3
# a batch with fewer rows stays where it is
FEWEST = 15


def aligned(rows: Tensor, noise: Tensor, batches: Tensor) -> Tensor:
    """Move rows [n, r] of different batches onto each other, by one covariate after the other.

    Parameters
    ----------
    rows : Tensor [n, r]
        Rows, or their scores.
    noise : Tensor [n]
        Their noise variances, up to a factor.
    batches : Tensor [n, c]
        Number of the batch of each row, for each categorical covariate.
    """
    for batch in batches.unbind(1):
        rows = _aligned(rows, noise, batch)
    return rows


def _aligned(rows: Tensor, noise: Tensor, batch: Tensor) -> Tensor:
    """Move rows by one covariate [n]."""
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:SAMPLE_ROWS]
    chosen = chosen.sort().values.to(rows.device)
    own, means = batch[chosen], rows[chosen].clone()
    large = [b for b in torch.unique(own).tolist() if int((own == b).sum()) >= FEWEST]
    if len(large) < 2:
        return rows
    for b in large:
        mine = own == b
        means[mine] = averaged(means[mine], means[mine], noise[chosen][mine])[0]
    start = means.clone()
    for _ in range(ROUNDS):
        means = means + _moves(means, own, large)
    moved = rows.clone()
    for b in large:
        mine, members = own == b, torch.nonzero(batch == b).squeeze(1)
        moves = (means - start)[mine]
        for some in torch.split(members, CHUNK):
            near = nearest(rows[some], start[mine], min(SMOOTH, int(mine.sum())))
            moved[some] += moves[near].mean(1)
    return moved


def _moves(means: Tensor, batch: Tensor, large: list[int]) -> Tensor:
    """How each row moves to the middle of the batches around it."""
    moves, counts = torch.zeros_like(means), torch.zeros_like(means[:, 0])
    for i, b in enumerate(large):
        for c in large[i + 1 :]:
            first, second = (torch.nonzero(batch == k).squeeze(1) for k in (b, c))
            pairs = _mutual(means[first], means[second])
            at, there = first[pairs[0]], second[pairs[1]]
            apart = means[there] - means[at]
            for rows, way in ((at, apart), (there, -apart)):
                total = torch.zeros_like(means).index_add_(0, rows, way)
                seen = torch.zeros_like(counts).index_add_(0, rows, torch.ones_like(way[:, 0]))
                found = seen > 0
                moves[found] += total[found] / seen[found, None]
                counts += found
    # the middle of a row and its partners in the other batches
    moves = moves / (counts + 1.0)[:, None]
    smooth = torch.zeros_like(means)
    for b in large:
        mine = torch.nonzero(batch == b).squeeze(1)
        known = mine[counts[mine] > 0]
        if len(known):
            near = nearest(means[mine], means[known], min(SMOOTH, len(known)))
            smooth[mine] = moves[known][near].mean(1)
    return smooth


def _mutual(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of rows that are among each other's nearest."""
    k = [min(NEIGHBORS, max(1, round(MOST_SHARE * len(part)))) for part in (first, second)]
    forth = torch.zeros(len(first), len(second), dtype=torch.bool, device=first.device)
    forth.scatter_(1, nearest(first, second, k[1]), True)
    back = torch.zeros(len(second), len(first), dtype=torch.bool, device=first.device)
    back.scatter_(1, nearest(second, first, k[0]), True)
    found = torch.nonzero(forth & back.mT)
    return found[:, 0], found[:, 1]
