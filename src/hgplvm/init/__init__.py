"""Where a fit starts: at random (the paper's start), from principal components, from distances."""

from hgplvm.init.candidates import KINDS, SCALES, Candidates, Comparison, Start
from hgplvm.init.evidence import Profile, profile_evidence, variogram
from hgplvm.init.simple import median_distance, pca_start, random_start, scaled

__all__ = [
    "KINDS",
    "SCALES",
    "Candidates",
    "Comparison",
    "Profile",
    "Start",
    "median_distance",
    "pca_start",
    "profile_evidence",
    "random_start",
    "scaled",
    "variogram",
]
