"""Every table and figure, at toy size."""

import csv
import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from hgplvm._reproduce import FULL, PARTS, QUICK, drawing, figures, reproduce, runs, tables
from hgplvm._reproduce.parts import Context, cell
from hgplvm._reproduce.runs import Result, Results, Task
from hgplvm._reproduce.sources import Source, UnavailableError
from tests.reproduce.conftest import TOY

FIGURES = (
    *("prior", "trees", "length-scales", "paul-embeddings", "paul-scores"),
    *("spiral-scores", "spiral-embeddings", "spiral-sweeps"),
    *("myeloid-scores", "myeloid-embeddings", "myeloid-sweeps"),
)


def test_every_part_has_a_section_in_the_report(toy):
    out, sections = toy
    page = (out / "report.html").read_text()
    assert len(sections) == len(PARTS)
    for section in sections:
        assert f"<h2>{section.title}</h2>" in page
    assert page.count("<img") == len(FIGURES)


@pytest.mark.parametrize("stem", FIGURES)
def test_every_figure_is_written_twice_and_is_not_blank(toy, stem):
    out, _ = toy
    pixels = np.asarray(Image.open(out / f"{stem}.png").convert("RGB"))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50
    assert (out / f"{stem}.svg").read_text().rstrip().endswith("</svg>")


def test_every_run_is_a_line_and_succeeds_where_its_package_is_there(toy):
    out, _ = toy
    with (out / "runs.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    wanted = {task for part in PARTS.values() for task in part.tasks(TOY)}
    assert len(lines) == len(wanted)
    statuses = {line["status"] for line in lines}
    assert all(status == "done" or status.startswith("not installed") for status in statuses)
    assert {line["data"] for line in lines} == {"SBT-3", "Spiral", "Myeloid", "Paul"}


def test_numbers_are_those_of_the_runs(toy):
    out, _ = toy
    with (out / "runs.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["data"] == "SBT-3"]
    (table,) = (
        part
        for part in json.loads((out / "numbers.json").read_text())
        if "Table 2" in part["title"]
    )
    for entry in table["cells"]:
        own = [
            float(line["distance_correlation"])
            for line in lines
            if (line["system"], line["options"], line["status"]) == (entry["row"], "", "done")
        ]
        assert entry["runs"] == len(own)
        if own:
            assert entry["measured"] == pytest.approx(np.mean(own), abs=1e-6)
            assert entry["std"] == pytest.approx(np.std(own), abs=1e-6)


def test_a_second_run_draws_from_what_is_kept(toy, paul_folder, monkeypatch):
    out, sections = toy
    tried = []
    real = runs.compute

    def watched(task, *rest):
        tried.append(real(task, *rest))
        return tried[-1]

    monkeypatch.setattr(runs, "compute", watched)
    again = reproduce(out, ["table2"], scale=TOY, source=Source(paul_folder, most_rows=60))
    assert again[0] == sections[list(PARTS).index("table2")]
    assert all(result.status.startswith("not installed") for result in tried)


def measured(values):
    """Context with one correlation for each system and depth."""
    results = Results(
        Result(Task(system, f"SBT-{depth}"), scores={"distance_correlation": value})
        for (system, depth), value in values.items()
    )
    return Context(results, Source(), FULL, None)


def test_table_2_judges_each_cell():
    values = {("hGP-LVM", 4): 0.82, ("hGP-LVM", 5): 0.95, ("GP-LVM", 4): 0.70}
    section = tables.TABLE_2.section(measured(values))
    judged = {row[0]: row[1:] for row in section.tables[0].rows}
    assert judged["hGP-LVM"][:6] == (
        *("0.816 ± 0.012", "0.820", "within 2 sd"),
        *("0.909 ± 0.003", "0.950", "above by 0.041"),
    )
    assert judged["GP-LVM"][2] == "below by 0.082"
    assert judged["IsoHVAE"][1:3] == ("not run", "")


def test_table_2_compares_rows_only_where_all_are_known():
    rows = (*tables.OUR_ROWS, *tables.PAPER_ROWS, *tables.FURTHER_ROWS, *tables.PEER_ROWS)
    values = {(row, depth): 0.5 for row in rows for depth in (4, 5, 6)}
    values |= {(tables.DEFAULT, depth): 0.6 for depth in (4, 5, 6)}
    values[("GP-LVM", 4)] = 0.55
    claims = tables.TABLE_2.section(measured(values)).claims
    assert [claim.holds for claim in claims] == [False, False, True]
    assert "the 14 rows" in claims[2].text
    for missing in (("hGP-LVM", 6), ("RotHVAE", 5)):
        fewer = {key: value for key, value in values.items() if key != missing}
        holds = [claim.holds for claim in tables.TABLE_2.section(measured(fewer)).claims]
        assert holds[1] is None
        assert (holds[0] is None) == (missing[0] == "hGP-LVM")


def test_means_of_some_runs_say_of_how_many():
    done = Result(Task("PCA", "SBT-4"), scores={"distance_correlation": 0.5})
    failed = Result(Task("PCA", "SBT-4", 1), "failed: x")
    section = tables.TABLE_2.section(Context(Results([done, failed]), Source(), FULL, None))
    assert ("PCA", "0.500 (1 of 2)", "not run", "not run") in section.tables[1].rows


def test_data_that_are_not_there_are_a_sentence_in_the_report(tmp_path, monkeypatch):
    real = Source.load

    def load(self, name):
        if name in ("Paul", "Myeloid"):
            raise UnavailableError("ask the authors")
        return real(self, name)

    monkeypatch.setattr(Source, "load", load)
    sections = reproduce(
        tmp_path, ["paul", "length-scales"], scale=TOY, source=Source(most_rows=30)
    )
    assert sections[0].text == "Not run: no data: ask the authors"
    assert not sections[0].pictures
    assert [row[0] for row in sections[1].tables[0].rows] == ["Spiral", "SBT-3"]


def test_the_prior_varies_as_its_kernel_says():
    """Neighbours at distance h differ by 2(1 - exp(-h/κ)) in the mean square."""
    grid, samples = figures.prior_samples(n_samples=200, seed=1)
    step = 2.0 / (figures.PRIOR_GRID - 1)
    near = np.isclose(np.linalg.norm(np.diff(grid, axis=0), axis=1), step)
    squared = (np.diff(samples["Euclidean"], axis=1) ** 2).mean(0)[near]
    assert squared.mean() == pytest.approx(2 * (1 - np.exp(-step)), rel=0.05)
    # towards the rim the same step is longer by 2/(1 - r²)
    middle = np.linalg.norm((grid[1:] + grid[:-1]) / 2, axis=1)[near]
    squared = (np.diff(samples["hyperboloid"], axis=1) ** 2).mean(0)[near]
    for low, high in ((0.0, 0.2), (0.6, 0.65)):
        ring = (low <= middle) & (middle < high)
        length = step * 2 / (1 - middle[ring] ** 2)
        expected = 2 * (1 - np.exp(-length / 5))
        assert squared[ring].mean() == pytest.approx(expected.mean(), rel=0.07)


def test_repeats_are_the_papers_in_full_and_fewer_quickly():
    full = list(PARTS["paul"].tasks(FULL))
    quick = list(PARTS["paul"].tasks(QUICK))
    assert max(task.seed for task in full) == 29
    assert max(task.seed for task in PARTS["table2"].tasks(FULL)) == 9
    assert {(t.system, t.data) for t in quick} == {(t.system, t.data) for t in full}


def test_cells():
    assert cell(np.array([])) == "-"
    assert cell(np.array([0.5])) == "0.500"
    assert cell(np.array([0.4, 0.6])) == "0.500 ± 0.100"


def test_lineages_have_families_of_colours_whatever_the_order_of_rows():
    labels = np.array(["19Lymph", "7MEP", "1Ery", "6Ery"])
    colors = drawing.colors_of("Paul", labels)
    assert list(colors) == ["7MEP", "6Ery", "1Ery", "19Lymph"]
    assert colors == drawing.colors_of("Paul", labels[::-1])
    assert len({str(colour) for colour in drawing.PAUL_COLORS.values()}) == 19


def test_the_disk_is_drawn_with_its_boundary_and_equal_aspect():
    ax = Figure().subplots()
    result = Result(Task("a", "b"), metric="poincare", points=np.array([[0.1, 0.2], [0.3, 0.1]]))
    labels = np.array(["x", "y"])
    drawing.zoomed(ax, result, labels, {"x": "red", "y": "blue"}, "title")
    assert ax.get_aspect() == 1.0
    (inset,) = ax.child_axes
    assert any(patch.get_radius() == 1.0 for patch in inset.patches if hasattr(patch, "radius"))
    assert inset.get_xlim()[0] < -1 < 1 < inset.get_xlim()[1]
    low, high = ax.get_xlim()
    assert low < 0.1 < 0.3 < high
    assert high - low < 0.5
