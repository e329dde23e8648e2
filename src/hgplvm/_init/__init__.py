"""Where a fit starts: at random (the paper's start), from principal components, from distances."""

from hgplvm._init.candidates import KINDS, Candidate, Candidates, Comparison
from hgplvm._init.evidence import Profile, profile_evidence, variogram
from hgplvm._init.simple import median_distance, pca_start, random_start, scaled

__all__ = [
    "KINDS",
    "Candidate",
    "Candidates",
    "Comparison",
    "Profile",
    "median_distance",
    "pca_start",
    "profile_evidence",
    "random_start",
    "scaled",
    "variogram",
]
