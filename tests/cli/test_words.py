"""Errors of the library, as the command line says them."""

import pytest

from hgplvm.cli._words import in_options, nearest_option


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "The 'device' parameter of HGPLVM must be 'auto' or 'cpu'. Got 'foo' instead.",
            "--device must be 'auto' or 'cpu'. Got 'foo' instead.",
        ),
        ("The 'batch_key' of tl.hgplvm must be a column", "--batch must be a column"),
        ("The 'root' of poincare, as a dict, must name", "--root, as a dict, must name"),
        ("Take likelihood='gaussian', or leave it.", "Take --likelihood gaussian, or leave it."),
        ("fit with n_components=2.", "fit with --n-components 2."),
        ("say so with new_batches=True.", "say so with --new-batch."),
        ("run hgplvm.tl.hgplvm(adata, root=...) first.", "run hgplvm fit first."),
        ("There is no such column in adata.obs.", "There is no such column in obs."),
        ("tl.hgplvm found raw counts in adata.X", "hgplvm fit found raw counts in X"),
        ("noise_floor=0 is no option here", "noise_floor=0 is no option here"),
        ("row 3 of a.csv has 2 fields", "row 3 of a.csv has 2 fields"),
        # a user's own words, names of files and objects stay as they are
        ("adata.h5ad has no embedding.", "adata.h5ad has no embedding."),
        ("--root layer=9: no row has it.", "--root layer=9: no row has it."),
        ("layer=3.csv is there already.", "layer=3.csv is there already."),
        (
            "Got HGPLVM(max_iter=5, random_state=0) instead.",
            "Got HGPLVM(max_iter=5, random_state=0) instead.",
        ),
    ],
)
def test_parameters_are_options(text, wanted):
    assert in_options(text) == wanted


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        ("--bogus", None),
        ("--moddel", "--model"),
        ("--output", "--out"),
        ("--lable", "--label"),
        ("--n-component", "--n-components"),
        ("--x", None),
    ],
)
def test_options_that_may_have_been_meant(wrong, wanted):
    known = ["--out", "-o", "--model", "--save-model", "--label", "--n-components", "--plot"]
    assert nearest_option(wrong, known) == wanted
