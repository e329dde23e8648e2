"""What is said of cells after a fit, through the tools: on cells whose tree and rates are known."""

import inspect

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import false_discovery_control

from hgplvm import tl
from hgplvm._embedding import write_positions
from hgplvm._statements import false_discovery_rates, read_skeleton
from hgplvm.datasets import make_cells
from hgplvm.errors import FlatDataWarning
from tests.pl.helpers import hyperbolic, moved_to_origin

anndata = pytest.importorskip("anndata")
pytest.importorskip("scanpy")

N, G = 200, 60
NAMES = np.array(["stem", "left", "right"])
TREE = [("stem", "left"), ("stem", "right")]
OPTIONS = {"model": "vecchia", "max_iter": 20}
OF_LINEAGES = ("branch", "position", "position_std")


def annotated(cells):
    """The cells as an AnnData object."""
    found = anndata.AnnData(sp.csr_matrix(cells.counts, dtype=np.float32))
    found.obs_names = [f"cell{i}" for i in range(found.n_obs)]
    found.var_names = [f"gene{i}" for i in range(found.n_vars)]
    found.obs["type"] = pd.Categorical(NAMES[cells.branch])
    found.obs["time"] = cells.pseudotime
    found.obs["donor"] = pd.Categorical(np.array(["p", "q"])[cells.batch])
    return found


def make(random_state=5, **options):
    """Cells of which no gene makes up more than 13% of the counts."""
    return make_cells(
        N,
        G,
        topology="bifurcation",
        informative=0.6,
        depth=2000,
        signal=1.2,
        random_state=random_state,
        **options,
    )


@pytest.fixture(scope="module")
def cells():
    return make()


@pytest.fixture(scope="module")
def root(cells):
    return int(cells.pseudotime.argmin())


@pytest.fixture(scope="module")
def fitted(cells):
    """After a fit; tests work on copies."""
    found = annotated(cells)
    tl.hgplvm(found, **OPTIONS)
    return found


@pytest.fixture(scope="module")
def walked(fitted, root):
    """After the lineages were found and named."""
    return tl.lineages(fitted, root, groupby="type", copy=True)


@pytest.fixture(scope="module")
def given(fitted):
    """After lineages of an edge list, whose branches are those of the simulation."""
    return tl.lineages(fitted, edges=TREE, groupby="type", copy=True)


def log_rates(cells, rows):
    """Mean rates of some cells, of a cell of median size."""
    size = np.median(np.asarray(cells.counts.sum(1)))
    return np.log(np.asarray(cells.rates)[rows].mean(0) * size)


# --- lineages -------------------------------------------------------------------------------


def test_lineages_write_what_they_say(fitted, walked):
    assert {f"hgplvm_{name}" for name in OF_LINEAGES} == set(walked.obs) - set(fitted.obs)
    assert {"hgplvm_branches", "hgplvm_fates"} == set(walked.obsm) - set(fitted.obsm)
    tree = walked.uns["hgplvm"]["lineages"]
    assert set(tree) == {"nodes", "parent", "time", "branch", "above", "names"}
    assert set(walked.uns["hgplvm"]) - set(fitted.uns["hgplvm"]) == {"lineages"}
    n_nodes, n_branches = len(tree["nodes"]), len(tree["names"])
    assert tree["nodes"].shape == (n_nodes, 2)
    assert (np.linalg.norm(tree["nodes"], axis=1) < 1).all()
    assert len(tree["parent"]) == len(tree["time"]) == len(tree["branch"]) == n_nodes
    assert len(tree["above"]) == n_branches
    assert walked.obsm["hgplvm_branches"].shape == (N, n_branches)
    for name in ("hgplvm_branches", "hgplvm_fates"):
        table = walked.obsm[name]
        assert list(table.index) == list(walked.obs_names)
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert list(walked.obsm["hgplvm_branches"].columns) == list(tree["names"])
    assert walked.obs["hgplvm_branch"].dtype == "category"
    assert set(walked.obs["hgplvm_branch"].cat.categories) == set(tree["names"])
    for name in ("hgplvm_position", "hgplvm_position_std"):
        assert np.isfinite(walked.obs[name]).all()
        assert (walked.obs[name] >= 0).all()


def test_lineages_leave_the_rest_alone(fitted, walked):
    assert np.array_equal(walked.obsm["X_hgplvm"], fitted.obsm["X_hgplvm"])
    assert "lineages" not in fitted.uns["hgplvm"]
    assert "hgplvm_branch" not in fitted.obs
    assert np.array_equal(walked.uns["hgplvm"]["fitted"], fitted.uns["hgplvm"]["fitted"])


def test_lineages_follow_the_tree_of_the_cells(walked, cells):
    assert set(walked.obsm["hgplvm_fates"].columns) == {"left", "right"}
    assert np.corrcoef(walked.obs["hgplvm_position"], cells.pseudotime)[0, 1] > 0.85
    late = cells.pseudotime > np.quantile(cells.pseudotime, 0.7)
    for name in ("left", "right"):
        own = late & (NAMES[cells.branch] == name)
        assert walked.obsm["hgplvm_fates"].loc[own, name].mean() > 0.8


def test_the_root_stands_at_the_start(walked, fitted, root, cells):
    position = walked.obs["hgplvm_position"].to_numpy()
    assert position[root] < 0.3 * position.max()
    nodes = walked.uns["hgplvm"]["lineages"]["nodes"]
    spread = np.median(hyperbolic(fitted.obsm["X_hgplvm"], fitted.obsm["X_hgplvm"][root]))
    assert hyperbolic(nodes[0], fitted.obsm["X_hgplvm"][root]) < spread


class FoundError(Exception):
    """Where a skeleton would begin."""


@pytest.mark.parametrize("kind", ["row", "name", "iroot", "group", "mask", "point"])
def test_roots_may_be_named_in_every_way(fitted, root, monkeypatch, kind):
    def stand_in(points, root, *rest, **options):
        raise FoundError(root)

    monkeypatch.setattr("hgplvm._statements.find_skeleton", stand_in)
    adata = fitted.copy()
    mask = (adata.obs["type"] == "stem").to_numpy()
    point = adata.obsm["X_hgplvm"][root]
    ways = {
        "row": root,
        "name": f"cell{root}",
        "iroot": None,
        "group": {"type": "stem"},
        "mask": mask,
        "point": point,
    }
    if kind == "iroot":
        adata.uns["iroot"] = np.array([root])
    with pytest.raises(FoundError) as info:
        tl.lineages(adata, ways[kind])
    (place,) = info.value.args
    place = place.numpy()[1:] / (1 + place.numpy()[0])
    if kind not in ("group", "mask"):
        np.testing.assert_allclose(place, point, atol=1e-7)
        return
    own = moved_to_origin(adata.obsm["X_hgplvm"][mask], place)  # at the Fréchet mean
    radius = np.linalg.norm(own, axis=1, keepdims=True)
    np.testing.assert_allclose((np.arctanh(radius) * own / radius).sum(0), 0, atol=1e-6)


def test_names_are_numbers_without_labels(fitted, walked, root):
    adata = fitted.copy()
    assert tl.lineages(adata, root) is None
    names = list(adata.uns["hgplvm"]["lineages"]["names"])
    assert names == [str(b + 1) for b in range(len(names))]
    # and nothing else depends on them: the same seed gives the same draws
    assert adata.obs["hgplvm_position_std"].equals(walked.obs["hgplvm_position_std"])
    for name in ("hgplvm_branches", "hgplvm_fates"):
        assert np.array_equal(adata.obsm[name], walked.obsm[name])


def test_a_skeleton_of_your_own(given, cells):
    assert list(given.obsm["hgplvm_branches"].columns) == ["stem → left", "stem → right"]
    assert list(given.obsm["hgplvm_fates"].columns) == ["stem → left", "stem → right"]
    truth = np.where(cells.branch == 1, "stem → left", "stem → right")
    ends = cells.branch > 0
    found = given.obs["hgplvm_branch"].to_numpy()
    assert (found == truth)[ends].mean() > 0.85


def test_lineages_without_a_model_use_what_is_there(fitted):
    adata = fitted.copy()
    del adata.uns["hgplvm"]
    tl.lineages(adata, edges=TREE, groupby="type")
    assert np.isfinite(adata.obs["hgplvm_position_std"]).all()
    assert set(adata.uns["hgplvm"]) == {"lineages"}


def test_results_under_a_key_of_their_own(cells, root):
    adata = annotated(cells)
    tl.hgplvm(adata, key_added="other", **{**OPTIONS, "max_iter": 2})
    tl.lineages(adata, edges=TREE, groupby="type", key="other")
    table = tl.trends(adata, "gene3", lineage="stem → left", key="other")
    assert "other_branch" in adata.obs
    assert "other_fates" in adata.obsm
    assert {"lineages", "trends"} < set(adata.uns["other"])
    assert len(table) == 50
    assert not [name for name in [*adata.obs, *adata.obsm, *adata.uns] if "hgplvm" in name]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, r"tl\.lineages needs a root: a row, a group .*adata\.uns\['iroot'\]"),
        ({"root": "nobody"}, r"'root' of tl\.lineages must be the name of one row, and 0 have"),
        (
            {"root": {"type": "no"}},
            r"'root' of tl\.lineages names 'no', which no row has in 'type'",
        ),
        ({"root": {"kind": "a"}}, r"'root' of tl\.lineages names 'kind', which is no column"),
        ({"root": N}, r"'root' of tl\.lineages must be a row index below 200"),
        ({"root": 0, "groupby": "kind"}, r"'groupby' of tl\.lineages must be a column .*'type'"),
        ({"root": 0, "groupby": 3}, r"'groupby' of tl\.lineages must be a column"),
        ({"edges": TREE}, r"needs the column of the labels in 'edges': pass groupby"),
        ({"edges": TREE, "groupby": "type", "root": 0}, r"takes the root of 'edges' as the root"),
        ({"edges": [("a", "b")], "groupby": "type"}, r"name 'a', which no row has; there are"),
        ({"edges": [("left", "left")], "groupby": "type"}, r"must make a tree: 'left' has several"),
        ({"root": 0, "key": "k"}, r"finds no embedding under the key 'k': run hgplvm\.tl\.hgplvm"),
        ({"root": 0, "key": ""}, r"'key' parameter of tl\.lineages must be a text"),
        ({"root": 0, "copy": 1}, r"'copy' parameter of tl\.lineages must be True or False"),
        ({"root": 0, "random_state": -1}, r"'random_state' parameter of tl\.lineages must be"),
    ],
)
def test_what_lineages_refuse(fitted, options, sentence):
    adata = fitted.copy()
    with pytest.raises(ValueError, match=sentence) as info:
        tl.lineages(adata, **options)
    assert "\n" not in str(info.value)
    assert "hgplvm_branch" not in adata.obs
    assert "lineages" not in adata.uns["hgplvm"]


def test_lineages_need_two_dimensions_and_uncertainty(fitted):
    adata = fitted.copy()
    del adata.obsm["hgplvm_covariance"]
    with pytest.raises(ValueError, match=r"finds no uncertainty of the positions in obsm"):
        tl.lineages(adata, 0)
    adata.obsm["X_hgplvm"] = np.zeros((N, 3))
    del adata.obsm["X_hgplvm_lorentz"]
    with pytest.raises(ValueError, match=r"in two dimensions, and this embedding has 3"):
        tl.lineages(adata, 0)


# --- trends ---------------------------------------------------------------------------------


def test_trends_are_a_row_for_each_lineage_gene_and_position(walked):
    adata = walked.copy()
    table = tl.trends(adata, ["gene7", "gene2"], n_points=11)
    columns = ["lineage", "gene", "position", "mean", "low", "high", "slope", "slope_std"]
    assert list(table.columns) == columns
    assert len(table) == 2 * 2 * 11
    assert set(table["gene"]) == {"gene7", "gene2"}
    assert set(table["lineage"]) == {"left", "right"}
    for _, own in table.groupby(["lineage", "gene"]):
        assert own["position"].iloc[0] == 0
        np.testing.assert_allclose(np.diff(own["position"], 2), 0, atol=1e-9)
    assert (table["low"] < table["mean"]).all()
    assert (table["mean"] < table["high"]).all()
    assert (table["low"] > 0).all()  # of counts
    pd.testing.assert_frame_equal(adata.uns["hgplvm"]["trends"], table)


def test_trends_of_all_genes_are_not_kept(walked):
    adata = walked.copy()
    table = tl.trends(adata, n_points=5, lineage="left")
    assert len(table) == 5 * G
    assert "trends" not in adata.uns["hgplvm"]


def test_the_gene_that_is_named_is_the_gene_that_is_followed(walked):
    whole = tl.trends(walked, n_points=5, lineage="left")
    some = tl.trends(walked.copy(), ["gene41", "gene3"], n_points=5, lineage=["left"])
    assert list(some["gene"].unique()) == ["gene41", "gene3"]
    for gene, own in some.groupby("gene"):
        same = whole[whole["gene"] == gene]
        np.testing.assert_allclose(own["mean"], same["mean"], rtol=1e-9)


def test_trends_are_rates_of_a_cell_of_median_size(given, cells):
    table = tl.trends(given, n_points=20)
    for name, branch in (("stem → left", 1), ("stem → right", 2)):
        own = table[table["lineage"] == name].pivot(index="gene", columns="position", values="mean")
        own = own.loc[given.var_names]
        # the outer half of the way against the cells of the branch
        found = np.log(own.iloc[:, 10:].mean(axis=1).to_numpy())
        expected = log_rates(cells, cells.branch == branch)
        often = expected > np.log(5.0)
        assert abs((found - expected)[often].mean()) < 0.2
        assert np.corrcoef(found[often], expected[often])[0, 1] > 0.95


def test_wider_bands_hold_more(walked):
    adata = walked.copy()
    narrow, wide = (tl.trends(adata, "gene7", level=level) for level in (0.5, 0.99))
    assert (wide["low"] < narrow["low"]).all()
    assert (wide["high"] > narrow["high"]).all()
    np.testing.assert_allclose(wide["mean"], narrow["mean"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"genes": "gene99"}, r"'genes' of tl\.trends must be among the 60 columns .*'gene99' is"),
        ({"genes": ["gene1", "no"]}, r"'no' is not one of them"),
        ({"genes": []}, r"'genes' of tl\.trends must be among .*got none"),
        ({"lineage": "up"}, r"tl\.trends finds no lineage 'up'; there are '(left|right)', '"),
        ({"lineage": ["left", "up"]}, r"finds no lineage 'up'"),
        ({"n_points": 4}, r"'n_points' parameter of tl\.trends must be"),
        ({"level": 1.0}, r"'level' parameter of tl\.trends must be"),
        ({"key": "k"}, r"finds no embedding under the key 'k'"),
    ],
)
def test_what_trends_refuse(walked, options, sentence):
    adata = walked.copy()
    with pytest.raises(ValueError, match=sentence) as info:
        tl.trends(adata, **options)
    assert "\n" not in str(info.value)
    assert "np." not in str(info.value)
    assert "trends" not in adata.uns["hgplvm"]


@pytest.mark.parametrize("call", [tl.trends, lambda a: tl.branch_genes(a, "left", "right")])
def test_what_needs_lineages_says_so(fitted, call):
    with pytest.raises(ValueError, match=r"needs the lineages: run hgplvm\.tl\.lineages\(adata"):
        call(fitted)


# --- genes that differ ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def differences(cells):
    """True differences of logarithms of rates between the branches [genes]."""
    found = log_rates(cells, cells.branch == 1) - log_rates(cells, cells.branch == 2)
    return found - np.median(found[~cells.informative])


@pytest.fixture(scope="module")
def ranked(walked):
    return tl.branch_genes(walked, "left", "right")


def test_genes_that_differ_are_found(ranked, differences, cells, fitted):
    table = ranked.set_index("gene").loc[fitted.var_names]
    found = (table["fdr"] < 0.05).to_numpy()
    seen = np.asarray(cells.counts.sum(0)).ravel() > 200
    assert found[seen & (np.abs(differences) > 0.8)].mean() > 0.8
    same = ~cells.informative
    assert found[same].sum() <= 2  # of 24, at a rate of 5%
    assert np.corrcoef(table["difference"][seen], differences[seen])[0, 1] > 0.85
    # false discoveries, at most one in twenty, may have either sign
    assert (np.sign(table["difference"]) == np.sign(differences))[found].mean() >= 0.95 - 1 / G


def test_the_surest_genes_come_first(ranked):
    assert len(ranked) == G
    assert list(ranked.columns) == [
        "gene",
        "difference",
        "std",
        "z",
        "pvalue",
        "fdr",
        "mean_first",
        "mean_second",
    ]
    assert (np.diff(np.abs(ranked["z"])) <= 1e-9).all()
    assert (np.diff(ranked["fdr"]) >= -1e-12).all()
    np.testing.assert_allclose(ranked["z"], ranked["difference"] / ranked["std"])
    np.testing.assert_allclose(ranked["fdr"], false_discovery_control(ranked["pvalue"]))
    assert ranked["pvalue"].between(0, 1).all()


def test_lineages_in_the_other_order_are_the_opposite(walked, ranked):
    other = tl.branch_genes(walked, "right", "left").set_index("gene").loc[ranked["gene"]]
    np.testing.assert_allclose(other["difference"], -ranked["difference"], atol=0.1)
    np.testing.assert_allclose(other["mean_first"], ranked["mean_second"])
    assert np.corrcoef(other["z"], ranked["z"])[0, 1] < -0.98


def test_some_genes_alone(walked, ranked):
    some = tl.branch_genes(walked, "left", "right", genes=["gene5", "gene9"])
    assert set(some["gene"]) == {"gene5", "gene9"}
    both = ranked.set_index("gene").loc[some["gene"]]
    np.testing.assert_allclose(some["mean_first"], both["mean_first"])
    np.testing.assert_allclose(some["std"], both["std"])


@pytest.mark.parametrize(
    ("lineages", "options", "sentence"),
    [
        (("left", "up"), {}, r"tl\.branch_genes finds no lineage 'up'; there are"),
        (("left", "left"), {}, r"tl\.branch_genes compares two lineages\. Got 'left' twice"),
        (("left", "stem 1"), {}, r"finds no lineage 'stem 1'"),
        (("left", "right"), {"genes": ["x"]}, r"'genes' of tl\.branch_genes must be among .*'x'"),
        (("left", "right"), {"n_points": 2}, r"'n_points' parameter of tl\.branch_genes must be"),
        (("left", "right"), {"key": "k"}, r"finds no embedding under the key 'k'"),
    ],
)
def test_what_comparisons_refuse(walked, lineages, options, sentence):
    with pytest.raises(ValueError, match=sentence) as info:
        tl.branch_genes(walked, *lineages, **options)
    assert "\n" not in str(info.value)


def test_lineages_with_few_rows_are_refused(given):
    adata = given.copy()
    fates = adata.obsm["hgplvm_fates"]
    fates.iloc[:, 0], fates.iloc[:, 1] = 0.0, 1.0
    with pytest.raises(ValueError, match=r"finds 0 rows on the lineage 'stem → left'.*too few"):
        tl.trends(adata, "gene1", lineage="stem → left")


@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_false_discovery_rates_are_those_of_scipy(n):
    rng = np.random.default_rng(n)
    p = rng.uniform(size=n) ** 3
    p[: n // 3] = p[-1]  # ties
    np.testing.assert_allclose(false_discovery_rates(p), false_discovery_control(p))


# --- other data -----------------------------------------------------------------------------


def test_trends_of_other_data_are_in_their_units(cells, root):
    rng = np.random.default_rng(0)
    rates = np.asarray(cells.rates)[:, cells.informative][:, :20]
    rows = np.log(rates) + 0.15 * rng.standard_normal(rates.shape)
    adata = annotated(cells)[:, :20].copy()
    adata.X = rows
    tl.hgplvm(adata, **OPTIONS)
    tl.lineages(adata, root, groupby="type")
    table = tl.trends(adata, n_points=15)
    assert (table["mean"] < 0).any()
    assert (table["low"] <= table["mean"]).all()
    for name, branch in (("left", 1), ("right", 2)):
        own = table[table["lineage"] == name]
        means = own.pivot(index="gene", columns="position", values="mean").loc[adata.var_names]
        outer = means.iloc[:, 9:].mean(axis=1)
        expected = rows[cells.branch == branch].mean(0)
        assert np.corrcoef(outer, expected)[0, 1] > 0.95
        assert np.abs(outer - expected).mean() < 0.3
    ranked = tl.branch_genes(adata, "left", "right").set_index("gene")
    truth = np.log(rates[cells.branch == 1]).mean(0) - np.log(rates[cells.branch == 2]).mean(0)
    found = ranked.loc[adata.var_names, "difference"]
    assert np.corrcoef(found, truth)[0, 1] > 0.9


def test_batches_have_no_part_in_trends():
    cells = make(7, n_batches=2, batch_effect=0.5)
    adata = annotated(cells)
    tl.hgplvm(adata, batch_key="donor", **OPTIONS)
    tl.lineages(adata, int(cells.pseudotime.argmin()), groupby="type")
    ranked = tl.branch_genes(adata, "left", "right").set_index("gene")
    # within a batch, so that its shift cancels
    rates, ends = np.log(np.asarray(cells.rates)), []
    for batch in (0, 1):
        own = cells.batch == batch
        ends.append([rates[own & (cells.branch == b)].mean(0) for b in (1, 2)])
    truth = np.mean([left - right for left, right in ends], axis=0)
    truth = truth - np.median(truth[~cells.informative])
    found = ranked.loc[adata.var_names]
    often = np.asarray(cells.counts.sum(0)).ravel() > 200
    assert np.corrcoef(found["difference"][often], truth[often])[0, 1] > 0.8
    assert (found["fdr"] < 0.05)[~cells.informative].sum() <= 2
    tl.stability(adata, n_seeds=0, bootstrap=1)
    assert adata.uns["hgplvm"]["stability"]["bootstrap"][0] > 0.8
    del adata.obs["donor"]
    for call in (lambda: tl.trends(adata, "gene1"), lambda: tl.stability(adata, bootstrap=0)):
        with pytest.raises(ValueError, match="'donor'") as info:
            call()
        assert "\n" not in str(info.value)


# --- flat or curved -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(fitted):
    adata = fitted.copy()
    return adata, tl.curvature(adata)


def test_the_verdict_is_that_of_the_model_and_is_kept(judged, fitted):
    adata, verdict = judged
    kept = adata.uns["hgplvm"]["curvature"]
    assert set(kept) == set(vars(verdict))
    assert kept["reason"] == verdict.reason
    assert kept["curved"] == verdict.curved
    assert np.array_equal(kept["gains"], verdict.gains)
    assert 0 < verdict.scale_low < verdict.scale < verdict.scale_high
    assert "curvature" not in fitted.uns["hgplvm"]
    assert str(verdict).startswith(verdict.reason)


def test_flat_data_are_said_to_be_flat_when_they_are_fitted():
    rng = np.random.default_rng(0)
    plane = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5))
    adata = anndata.AnnData(plane + 0.05 * rng.standard_normal((60, 5)))
    with pytest.warns(FlatDataWarning) as caught:
        tl.hgplvm(adata, **{**OPTIONS, "max_iter": 3})
    (line,) = [str(w.message) for w in caught if w.category is FlatDataWarning]
    assert line.startswith("tl.hgplvm: a plane")
    assert tl.model(adata).curvature(quick=True).reason in line


def test_a_verdict_needs_a_fit(cells):
    with pytest.raises(ValueError, match=r"tl\.curvature finds no embedding under the key"):
        tl.curvature(annotated(cells))
    with pytest.raises(TypeError, match=r"'adata' of tl\.curvature must be an AnnData object"):
        tl.curvature(np.zeros((3, 3)))


# --- stability ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stable(fitted):
    return tl.stability(fitted, n_seeds=1, bootstrap=1, copy=True)


def test_clean_data_are_stable(stable, fitted):
    scores = stable.uns["hgplvm"]["stability"]
    assert set(scores) == {"seeds", "bootstrap"}
    assert scores["seeds"].shape == scores["bootstrap"].shape == (1,)
    assert scores["seeds"][0] > 0.97
    assert scores["bootstrap"][0] > 0.9
    rows = stable.obs["hgplvm_stability"]
    assert (rows <= 1 + 1e-12).all()
    assert rows.mean() > 0.95
    assert np.array_equal(stable.obsm["X_hgplvm"], fitted.obsm["X_hgplvm"])
    assert "hgplvm_stability" not in fitted.obs
    assert "stability" not in fitted.uns["hgplvm"]


def test_noise_is_not_stable(stable):
    adata = anndata.AnnData(np.random.default_rng(0).standard_normal((60, 20)))
    tl.hgplvm(adata, **OPTIONS)
    assert tl.stability(adata, n_seeds=0, bootstrap=2) is None
    scores = adata.uns["hgplvm"]["stability"]
    assert scores["seeds"].shape == (0,)
    assert scores["bootstrap"].mean() < 0.85 < stable.uns["hgplvm"]["stability"]["bootstrap"][0]
    rows = adata.obs["hgplvm_stability"]
    assert rows.mean() < stable.obs["hgplvm_stability"].mean() - 0.1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_seeds": 0, "bootstrap": 0}, r"needs other fits: set n_seeds or bootstrap above 0"),
        ({"n_seeds": -1}, r"'n_seeds' parameter of tl\.stability must be"),
        ({"bootstrap": 1.5}, r"'bootstrap' parameter of tl\.stability must be"),
        ({"random_state": None}, r"'random_state' parameter of tl\.stability must be"),
        ({"copy": "yes"}, r"'copy' parameter of tl\.stability must be True or False"),
        ({"key": "k"}, r"finds no embedding under the key 'k'"),
    ],
)
def test_what_stability_refuses(fitted, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        tl.stability(fitted, **options)


# --- objects --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything(walked, stable, judged):
    """An object with all that can be said of it."""
    adata = walked.copy()
    tl.trends(adata, ["gene7", "gene2"])
    uns = dict(adata.uns["hgplvm"])
    uns["curvature"] = judged[0].uns["hgplvm"]["curvature"]
    uns["stability"] = stable.uns["hgplvm"]["stability"]
    adata.uns["hgplvm"] = uns
    adata.obs["hgplvm_stability"] = stable.obs["hgplvm_stability"]
    return adata


def test_everything_is_written_and_read(everything, ranked, tmp_path):
    everything.write_h5ad(tmp_path / "a.h5ad")
    read = anndata.read_h5ad(tmp_path / "a.h5ad")
    for name in (*OF_LINEAGES, "stability"):
        assert list(read.obs[f"hgplvm_{name}"]) == list(everything.obs[f"hgplvm_{name}"])
    for name in ("hgplvm_branches", "hgplvm_fates"):
        pd.testing.assert_frame_equal(read.obsm[name], everything.obsm[name], check_names=False)
    kept = everything.uns["hgplvm"]
    assert read.uns["hgplvm"]["curvature"]["reason"] == kept["curvature"]["reason"]
    assert np.array_equal(read.uns["hgplvm"]["stability"]["seeds"], kept["stability"]["seeds"])
    table = read.uns["hgplvm"]["trends"]
    np.testing.assert_allclose(table["mean"], kept["trends"]["mean"])
    assert list(table["lineage"].astype(str)) == list(kept["trends"]["lineage"])
    # and it serves as before
    again = tl.branch_genes(read, "left", "right")
    assert list(again["gene"]) == list(ranked["gene"])
    np.testing.assert_allclose(again["z"], ranked["z"], atol=1e-6)
    first, second = (read_skeleton("test", a, tl.ad.Keys()) for a in (read, everything))
    np.testing.assert_allclose(first.nodes.numpy(), second.nodes.numpy())
    assert first.names == second.names


def test_labels_may_be_any_words(fitted, tmp_path):
    """Also such as hold what is a path in a file."""
    adata = fitted.copy()
    words = {"stem": "HSC / MPP", "left": "GMP/Mono (CD14+)", "right": "Ery.1"}
    adata.obs["type"] = adata.obs["type"].astype(str).map(words).astype("category")
    edges = [(words[parent], words[child]) for parent, child in TREE]
    tl.lineages(adata, edges=edges, groupby="type")
    names = list(adata.obsm["hgplvm_fates"].columns)
    adata.write_h5ad(tmp_path / "a.h5ad")
    read = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert list(read.obsm["hgplvm_fates"].columns) == names
    assert len(tl.trends(read, "gene1", lineage=names[0])) == 50


def test_a_backed_object_gives_a_copy(fitted, tmp_path):
    fitted.write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    try:
        found = tl.lineages(backed, edges=TREE, groupby="type", copy=True)
        assert "hgplvm_branch" not in backed.obs
    finally:
        backed.file.close()
    assert "hgplvm_branch" in found.obs
    assert not found.isbacked


def test_results_of_an_earlier_fit_are_dropped(everything):
    adata = everything.copy()
    tl.hgplvm(adata, **{**OPTIONS, "max_iter": 2})
    for name in (*OF_LINEAGES, "stability"):
        assert f"hgplvm_{name}" not in adata.obs
    for name in ("hgplvm_branches", "hgplvm_fates"):
        assert name not in adata.obsm
    for name in ("lineages", "trends", "curvature", "stability"):
        assert name not in adata.uns["hgplvm"]
    with pytest.raises(ValueError, match="needs the lineages"):
        tl.trends(adata)


def test_lineages_that_are_new_have_no_old_trends(everything):
    """Of lineages that may have other names, and other lengths."""
    adata = everything.copy()
    tl.lineages(adata, edges=TREE, groupby="type")
    assert "trends" not in adata.uns["hgplvm"]
    assert "stability" in adata.uns["hgplvm"]


def test_p_values_of_another_fit_are_dropped(fitted):
    adata = fitted.copy()
    tl.transform(adata, fitted)
    assert "hgplvm_off_map" in adata.obs
    covariance = adata.obsm["hgplvm_covariance"].reshape(N, 2, 2)
    write_positions(adata, adata.obsm["X_hgplvm"], covariance)  # as every fit does
    assert "hgplvm_off_map" not in adata.obs


def test_new_rows_have_p_values_and_no_lineages(everything):
    fresh = everything[:20].copy()
    tl.transform(fresh, everything)
    assert fresh.obs["hgplvm_off_map"].between(0, 1).all()
    assert "hgplvm_branch" not in fresh.obs
    assert "hgplvm_fates" not in fresh.obsm


def test_tools_name_their_options():
    for tool in (tl.lineages, tl.trends, tl.branch_genes, tl.stability, tl.curvature):
        for parameter in inspect.signature(tool).parameters:
            assert f"{parameter} :" in tool.__doc__
