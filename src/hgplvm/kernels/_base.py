"""What a kernel is: a correlation as a function of geodesic distance, with its derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from hgplvm.manifolds import Manifold

if TYPE_CHECKING:
    from hgplvm.kernels._algebra import Product, Sum

__all__ = ["Derivatives", "Kernel", "Theta"]

#: values of a kernel's parameters by name: ``length_scale`` (κ), and those in `Kernel.shape`
Theta = Mapping[str, float]
#: ``∂ρ/∂d``, and ``∂ρ/∂log θ`` by name
Derivatives = tuple[Tensor, dict[str, Tensor]]

# the test of kernels that do not know where they are positive definite: points, their largest
# radius, length scales, and the least eigenvalue as a share of the number of points
PROBE_POINTS = 200
PROBE_RADIUS = 6.0
PROBE_LENGTH_SCALES = (0.3, 3.0, 30.0)
PROBE_TOLERANCE = -1e-8


class Kernel(ABC):
    """A correlation ``ρ(d)`` with ``ρ(0) = 1``; the covariance is ``k(x, z) = σ ρ(d(x, z))``.

    It is a function of the distance d *and* of the length scale κ, not of d/κ alone: curvature has
    a unit of length. It may have further positive parameters, which a fit learns with the others.
    Kernels can be added and multiplied, compared, and kept in files; for these last two, a kernel
    with settings of its own is a frozen dataclass.

    Most new kernels are functions of d/κ or mixtures of Gaussians: for these there are
    :class:`RatioKernel` and :class:`GaussianMixture`, with two methods to write.
    """

    #: further positive parameters, and where a fit starts with them
    shape: Mapping[str, float] = {}
    #: name of a kernel that comes with the package; others are known by their class
    name: ClassVar[str] = ""

    @abstractmethod
    def correlation(self, d: Tensor, theta: Theta, manifold: Manifold, /) -> Tensor:
        """``ρ(d)``: a new tensor of the shape of d."""

    @abstractmethod
    def derivatives(
        self,
        d: Tensor,
        rho: Tensor,
        theta: Theta,
        manifold: Manifold,
        wanted: Collection[str] = (),
        /,
    ) -> Derivatives:
        """``∂ρ/∂d``, and ``∂ρ/∂log θ`` for the wanted parameters; rho is the correlation at d."""

    def check(self, manifold: Manifold, n_components: int) -> None:
        """Refuse a space on which the kernel is not positive definite.

        By default its Gram matrices on 200 random points of the space are tried.

        Raises
        ------
        ValueError
            If the smallest eigenvalue of one of them is negative, and not by rounding.
        """
        generator = torch.Generator().manual_seed(0)
        tangents = torch.randn(PROBE_POINTS, n_components, generator=generator).double()
        radii = torch.linspace(0.0, 1.0, PROBE_POINTS, dtype=torch.float64)[:, None]
        tangents = PROBE_RADIUS * radii * torch.nn.functional.normalize(tangents, dim=1)
        d = manifold.pairwise_distance(manifold.from_tangent(tangents))
        for length_scale in PROBE_LENGTH_SCALES:
            rho = self.correlation(d, {"length_scale": length_scale, **self.shape}, manifold)
            least = torch.linalg.eigvalsh(0.5 * (rho + rho.mT))[0].item()
            if not least > PROBE_TOLERANCE * PROBE_POINTS:
                raise ValueError(
                    f"The kernel {self!r} is not positive definite on {manifold.name} space in "
                    f"{n_components} dimensions: with length scale {length_scale:g}, the "
                    f"correlations of {PROBE_POINTS} points have the eigenvalue {least:.3g}. Use "
                    "another kernel, such as 'exponential'."
                )

    def __add__(self, other: Kernel) -> Sum:
        from hgplvm.kernels._algebra import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Product:
        from hgplvm.kernels._algebra import Product

        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *map(str, vars(self).items())))

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.settings().items())
        return f"{type(self).__name__}({settings})"

    def settings(self) -> dict[str, Any]:
        """Arguments with which the kernel can be made again: the fields of a dataclass."""
        return {f.name: getattr(self, f.name) for f in fields(self)} if is_dataclass(self) else {}
