"""Trees of branches, by name or as a list of edges."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from hgplvm import _validation as check
from hgplvm._typing import Array

__all__ = ["TOPOLOGIES", "Edge", "Topology", "read_topology"]

Edge: TypeAlias = tuple[Hashable, Hashable, float]

TOPOLOGIES = {
    "linear": [(0, 1)],
    "bifurcation": [(0, 1), (1, 2), (1, 3)],
    "multifurcation": [(0, 1), (1, 2), (1, 3), (1, 4), (1, 5)],
    "binary": [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (3, 7)],
}


@dataclass(frozen=True)
class Topology:
    """A rooted tree whose edges are branches that have a length."""

    edges: list[Edge]
    parent: Array  # [b] the branch before, -1 at the root
    order: list[int]  # branches, parents first

    @property
    def length(self) -> Array:
        """Length of each branch [b]."""
        return np.array([length for _, _, length in self.edges])

    @property
    def start(self) -> Array:
        """Distance from the root at which each branch starts [b]."""
        length, start = self.length, np.zeros(len(self.edges))
        for b in self.order:
            if self.parent[b] >= 0:
                start[b] = start[self.parent[b]] + length[self.parent[b]]
        return start

    @property
    def parting(self) -> Array:
        """End of the last branch that the paths to two branches share, from the root [b, b]."""
        end = self.start + self.length
        parting = np.zeros((len(end), len(end)))
        for b in self.order:
            if self.parent[b] >= 0:
                parting[b] = parting[self.parent[b]]
            parting[:, b] = parting[b]
            parting[b, b] = end[b]
        return parting


def read_topology(owner: str, value: Any) -> Topology:
    """Tree that a name or a list of edges stands for."""
    if isinstance(value, str):
        value = TOPOLOGIES[check.check_option(owner, "topology", value, tuple(TOPOLOGIES))]
    try:
        edges = [_read_edge(owner, edge) for edge in value]
    except TypeError:
        raise _reject_edges(owner, value) from None
    if not edges:
        raise _reject_edges(owner, value)
    parent = _parents(owner, edges)
    return Topology(edges, parent, _order(owner, parent))


def _reject_edges(owner: str, value: object) -> ValueError:
    return ValueError(
        f"The 'topology' parameter of {owner} must be one of {', '.join(map(repr, TOPOLOGIES))} or "
        f"a list of edges (parent, child) or (parent, child, length). Got {value!r:.60} instead."
    )


def _read_edge(owner: str, edge: Any) -> Edge:
    """Parent, child and length, 1 where none is given."""
    try:
        parent, child, length = edge if len(edge) == 3 else (*edge, 1.0)
        hash((parent, child))
    except (TypeError, ValueError):
        raise _reject_edges(owner, edge) from None
    number = isinstance(length, Real) and not isinstance(length, bool)
    if not number or not 0.0 < length < np.inf:
        raise ValueError(
            f"The lengths in the 'topology' of {owner} must be positive finite numbers. "
            f"Got {length!r} instead."
        )
    return parent, child, float(length)


def _parents(owner: str, edges: list[Edge]) -> Array:
    """Branch that ends where each branch starts, -1 at the root [b]."""
    into: dict[Hashable, int] = {}
    for b, (_, child, _) in enumerate(edges):
        if child in into:
            raise ValueError(
                f"The node {child!r} in the 'topology' of {owner} must have one parent: keep one "
                "of the edges that lead to it."
            )
        into[child] = b
    roots = {parent for parent, _, _ in edges} - into.keys()
    if len(roots) != 1:
        raise ValueError(
            f"The 'topology' of {owner} must have one root, a node that no edge leads to. "
            f"Got {len(roots)} of them instead."
        )
    return np.array([into.get(parent, -1) for parent, _, _ in edges])


def _order(owner: str, parent: Array) -> list[int]:
    """Branches in breadth-first order from the root."""
    children: dict[int, list[int]] = {}
    for b, up in enumerate(parent.tolist()):
        children.setdefault(up, []).append(b)
    order = list(children[-1])
    for b in order:  # it grows as it is walked along
        order += children.get(b, [])
    if len(order) < len(parent):
        raise ValueError(
            f"The 'topology' of {owner} must be a tree without cycles: {len(parent) - len(order)} "
            "of its edges cannot be reached from the root."
        )
    return order
