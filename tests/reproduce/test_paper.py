"""The verdict on a measured figure."""

import pytest

from hgplvm._reproduce import paper


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (0.816, "within 2 sd"),
        (0.8399, "within 2 sd"),
        (0.7921, "within 2 sd"),
        (0.850, "above by 0.034"),
        (0.780, "below by 0.036"),
    ],
)
def test_two_standard_deviations_decide(measured, expected):
    assert paper.verdict(paper.Figure(0.816, 0.012), measured) == expected


def test_a_deviation_of_zero_is_what_three_digits_hide():
    figure = paper.Figure(0.782, 0.000)
    assert paper.verdict(figure, 0.7829) == "within 2 sd"
    assert paper.verdict(figure, 0.784) == "above by 0.002"


def test_table_2_is_the_papers():
    """The first and the last number, and who the paper says is best at each depth."""
    assert str(paper.TABLE_2["hGP-LVM"][4]) == "0.816 ± 0.012"
    assert str(paper.TABLE_2["RotHVAE"][6]) == "0.823 ± 0.024"
    best = {d: max(paper.TABLE_2, key=lambda row: paper.TABLE_2[row][d].mean) for d in (4, 5, 6)}
    assert best == {4: "RotHVAE", 5: "hGP-LVM", 6: "hGP-LVM"}
