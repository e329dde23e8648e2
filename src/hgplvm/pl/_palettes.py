"""Colours of categories: the palettes that scanpy takes for 20, 28 and 102 of them, and others.

The same column has the same colours in a picture of ours and in one of scanpy's, whichever was
drawn first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps

__all__ = ["OKABE_ITO", "categorical"]

# Okabe and Ito's palette: distinguishable with any colour vision
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")


def _colours(text: str) -> list[str]:
    return text.split()


# strong colours of the Vega palette, then their light companions
UP_TO_20 = _colours(
    """
    #1f77b4 #ff7f0e #279e68 #d62728 #aa40fc #8c564b #e377c2 #b5bd61 #17becf #aec7e8 #ffbb78
    #98df8a #ff9896 #c5b0d5 #c49c94 #f7b6d2 #dbdb8d #9edae5 #ad494a #8c6d31
    """
)

# Zeileis, Hornik and Murrell (2009), Escaping RGBland
UP_TO_28 = _colours(
    """
    #023fa5 #7d87b9 #bec1d4 #d6bcc0 #bb7784 #8e063b #4a6fe3 #8595e1 #b5bbe3 #e6afb9 #e07b91
    #d33f6a #11c638 #8dd593 #c6dec7 #ead3c6 #f0b98d #ef9708 #0fcfc0 #9cded6 #d5eae7 #f3e1eb
    #f6c4e1 #f79cd4 #7f7f7f #c7c7c7 #1ce6ff #336600
    """
)

# each as far as possible from those before it
UP_TO_102 = _colours(
    """
    #ffff00 #1ce6ff #ff34ff #ff4a46 #008941 #006fa6 #a30059 #ffdbe5 #7a4900 #0000a6 #63ffac
    #b79762 #004d43 #8fb0ff #997d87 #5a0007 #809693 #6a3a4c #1b4400 #4fc601 #3b5dff #4a3b53
    #ff2f80 #61615a #ba0900 #6b7900 #00c2a0 #ffaa92 #ff90c9 #b903aa #d16100 #ddefff #000035
    #7b4f4b #a1c299 #300018 #0aa6d8 #013349 #00846f #372101 #ffb500 #c2ffed #a079bf #cc0744
    #c0b9b2 #c2ff99 #001e09 #00489c #6f0062 #0cbd66 #eec3ff #456d75 #b77b68 #7a87a1 #788d66
    #885578 #fad09f #ff8a9a #d157a0 #bec459 #456648 #0086ed #886f4c #34362d #b4a8bd #00a6aa
    #452c2c #636375 #a3c8c9 #ff913f #938a81 #575329 #00fecf #b05b6f #8cd0ff #3b9700 #04f757
    #c8a1a1 #1e6e00 #7900d7 #a77500 #6367a9 #a05837 #6b002c #772600 #d790ff #9b9700 #549e79
    #fff69f #201625 #72418f #bc23ff #99adc0 #3a2465 #922329 #5b4534 #fde8dc #404e55 #0089a3
    #cb7e98 #a4e804 #324e72
    """
)


def categorical(n: int) -> list[Any]:
    """Return colours for n categories."""
    for palette in (UP_TO_20, UP_TO_28, UP_TO_102):
        if n <= len(palette):
            return list(palette[:n])
    return list(colormaps["turbo"](np.linspace(0.05, 0.95, n)))
