"""What the paper compares with.

:class:`PoincareMaps` and :class:`HyperbolicVAE` are implementations of the published methods, as
scikit-learn estimators; :data:`PEERS` holds thin adapters for methods that other packages bring
(PCA, t-SNE, UMAP, PaCMAP, PHATE, TriMap, GPy's GP-LVMs; extra ``peers``).

Examples
--------
>>> from hgplvm.baselines import PEERS
>>> from hgplvm.datasets import make_spirals
>>> PEERS["PCA"].embed(make_spirals(random_state=0).data).shape
(800, 2)
"""

from hgplvm.baselines.hyperbolic_vae import HyperbolicVAE
from hgplvm.baselines.peers import PEERS, Peer
from hgplvm.baselines.poincare_maps import PoincareMaps

__all__ = ["PEERS", "HyperbolicVAE", "Peer", "PoincareMaps"]


def __dir__() -> list[str]:
    return sorted(__all__)
