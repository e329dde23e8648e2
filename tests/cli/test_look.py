"""``hgplvm plot`` and ``hgplvm metrics``: pictures and numbers of an embedding."""

import json

import anndata
import matplotlib.image
import numpy as np
import pytest

import hgplvm
from hgplvm import tl
from hgplvm._tables import read_table, write_table
from hgplvm.cli import _rows
from hgplvm.metrics import evaluate
from tests.cli.command import check, check_refused, inside, refuse, run_together, succeed

PNG = b"\x89PNG"


# --- plot -----------------------------------------------------------------------------------


def test_every_kind_of_picture_is_drawn(fitted, tmp_path):
    adata = hgplvm_object(fitted)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    write_npz(fitted, tmp_path / "cells.npz")
    commands = {
        "disk.png": [fitted.embedding, "--color", "cell_type", "--root", "cell_type=red"],
        "npz.png": ["cells.npz", "--color", "pseudotime", "--root", "0.1,0.2", "--zoom", "2"],
        "h5ad.pdf": ["cells.h5ad", "--color", "g1", "--root", "cell_type=red"],
        "uncertainty.svg": ["cells.h5ad", "--kind", "uncertainty"],
        "decoder.png": [fitted.model, "--kind", "decoder", "--feature", "g2", "--root", "3"],
        "scales.png": [fitted.model, "--kind", "length-scales"],
        "history.png": [fitted.model, "--kind", "history"],
    }
    words = [["plot", *options, "--out", out] for out, options in commands.items()]
    for out, done in zip(commands, run_together(words, tmp_path), strict=True):
        assert check(done).stdout == f"Wrote {out}.\n"
    starts = {".png": PNG, ".pdf": b"%PDF", ".svg": b"<?xml"}
    for out in commands:
        path = tmp_path / out
        assert path.read_bytes().startswith(starts[path.suffix])


def hgplvm_object(fitted):
    """The shared fit as an AnnData object that the tools wrote."""
    import anndata

    table = read_table(fitted.data)
    adata = anndata.AnnData(table.data)
    adata.obs_names, adata.var_names = table.rows, table.columns
    adata.obs["cell_type"] = table.labels["cell_type"]
    model = hgplvm.load(fitted.model)
    model.__dict__.pop("feature_names_in_")  # as those of arrays
    _, covariance = model.transform(table.data, return_cov=True)
    hgplvm.tl.write_positions(adata, model.embedding_, covariance)
    return adata


def write_npz(fitted, path):
    table = read_table(fitted.embedding)
    pseudotime = table.data[:, table.columns.index("pseudotime")]
    np.savez(path, embedding=table.data[:, :2], pseudotime=pseudotime, rows=table.rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gone.csv"], ["there is no file gone.csv"]),
        (["points.xlsx"], ["points.xlsx is not of a kind"]),
        (["points.csv", "--color", "batch"], ["--color batch", "no such label", "kind"]),
        (["points.csv", "--kind", "decoder"], ["--kind decoder needs --feature NAME"]),
        (["points.csv", "--kind", "history"], ["--kind history needs a model"]),
        (["points.csv", "--out", "a.bmp"], ["--out a.bmp must end in one of .png"]),
        (["points.csv", "--out", "gone/a.png"], ["no folder gone"]),
        (["points.csv", "--out", "/dev/null/a.png"], ["no folder /dev/null"]),
        (["points.csv", "--out", "taken.png"], ["taken.png is there already", "--force"]),
        (["taken.csv"], ["taken-disk.png is there already", "--force"]),
        (["broken.npz", "--out", "a.png"], ["broken.npz is not a complete .npz file"]),
    ],
)
def test_plot_says_in_a_line_what_is_wrong(tmp_path, arguments, says):
    (tmp_path / "points.csv").write_text("x,y,kind\n0.1,0.2,a\n0.3,0.1,b\n-0.1,0,a\n")
    (tmp_path / "points.xlsx").write_text("PK")
    (tmp_path / "taken.csv").write_text("x,y\n0.1,0.2\n")
    (tmp_path / "taken.png").write_text("mine")
    (tmp_path / "taken-disk.png").write_text("mine")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04")
    refuse("plot", *arguments, cwd=tmp_path, says=says)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("x,y\n0.1,0.2\n0.9,0.9\n", [], ["row 1 of points.csv", "inside the unit disk"]),
        ("x1,x2,x3\n0.1,0.2,0\n", [], ["points.csv has 3 columns of coordinates, and 2 are"]),
        ("x,y\n0.1,0.2\n0.2,0.3\n", ["--root", "7"], ["--root 7", "rows 0 to 1"]),
    ],
)
def test_points_that_cannot_be_drawn_are_refused(tmp_path, text, options, says):
    (tmp_path / "points.csv").write_text(text)
    refuse("plot", "points.csv", *options, cwd=tmp_path, says=says)


@pytest.fixture
def drawn(monkeypatch):
    """What arrives where pictures are drawn; none is."""
    from hgplvm import pl

    seen = []
    for name in ("poincare", "uncertainty", "decoder", "length_scales", "history"):

        def note(source, value=None, *, save, name=name, **options):
            save.write_text("picture")
            seen.append((name, value, options))

        monkeypatch.setattr(pl, name, note)
    return seen


OPTIONS = ("--grid", "geodesic", "--legend", "on data", "--root", "3", "--zoom")


@pytest.mark.parametrize(
    ("kind", "name"), [("disk", "poincare"), ("uncertainty", "uncertainty"), ("decoder", "decoder")]
)
@pytest.mark.parametrize("zoom", ["2.5", "auto"])
def test_options_arrive_in_the_picture(fitted, here, drawn, kind, name, zoom):
    hgplvm_object(fitted).write_h5ad("cells.h5ad")
    decoder = ["--feature", "g1", "--grid", "geodesic", "--root", "3", "--zoom"]
    others = ["--color", "cell_type", "--group", "red", "--vmax", "p99", "--size", "7", *OPTIONS]
    words = ["--kind", kind, *(decoder if kind == "decoder" else others), zoom]
    check(inside("plot", "cells.h5ad", *words))
    ((found, value, options),) = drawn
    assert found == name
    assert value == ("g1" if kind == "decoder" else "cell_type")
    assert options["grid"] == "geodesic"
    assert options["root"] == 3
    assert options["zoom"] == ("auto" if zoom == "auto" else 2.5)
    assert options.get("legend") == (None if kind == "decoder" else "on data")
    assert options["title"] == (None if kind == "decoder" else "cell_type")
    if kind != "decoder":
        assert (options["groups"], options["vmax"], options["size"]) == (["red"], "p99", 7.0)


def test_pictures_have_names_of_their_own(fitted, here, drawn):
    (here / "cells.a.hgplvm").write_bytes(fitted.model.read_bytes())
    for words in (["decoder", "--feature", "HLA/B 1"], ["length-scales"], ["history"], ["disk"]):
        check(inside("plot", "cells.a.hgplvm", "--kind", *words))
    names = ["decoder-HLA_B_1", "disk", "history", "length-scales"]
    assert sorted(path.name for path in here.glob("*.png")) == [f"cells.a-{n}.png" for n in names]


def test_genes_of_raw_can_be_drawn(fitted, here, drawn):
    adata = hgplvm_object(fitted)
    adata.raw = adata.copy()
    adata[:, :2].copy().write_h5ad("few.h5ad")
    check(inside("plot", "few.h5ad", "--color", "g5"))
    assert drawn[0][1] == "g5"
    says = ["--color g9: there is no such label"]
    check_refused(inside("plot", "few.h5ad", "--color", "g9", "--force"), says)
    # the same check before a fit
    assert "g5" in _rows.read_rows(here / "few.h5ad", load=False).drawable


@pytest.mark.parametrize("zoom", ["0", "-1", "nan", "inf", "big"])
def test_a_zoom_is_auto_or_a_number(here, zoom):
    (here / "p.csv").write_text("x,y\n0.1,0.2\n")
    says = [f"--zoom {zoom} must be auto or a number above 0"]
    check_refused(inside("plot", "p.csv", f"--zoom={zoom}"), says)


def test_what_a_picture_needs_is_said_in_words_of_the_command(fitted, here):
    adata = hgplvm_object(fitted)
    adata.obsm["X_hgplvm"] = np.zeros((60, 3))
    adata.write_h5ad("three.h5ad")
    del adata.obsm["X_hgplvm"]
    adata.write_h5ad("none.h5ad")
    del adata.obsm["hgplvm_covariance"]
    adata.obsm["X_hgplvm"] = np.zeros((60, 2))
    adata.write_h5ad("unsure.h5ad")
    says = ["does not keep how sure", "hgplvm fit"]
    done = inside("plot", "unsure.h5ad", "--kind", "uncertainty", "--out", "a.png")
    check_refused(done, says)
    assert inside("plot", fitted.model, "--kind", "uncertainty", "--out", "a.png").returncode == 0
    check_refused(inside("plot", "three.h5ad"), ["three.h5ad has 3 dimensions", "--n-components 2"])
    check_refused(inside("plot", "none.h5ad"), ["none.h5ad has no embedding; run hgplvm fit"])


# --- metrics --------------------------------------------------------------------------------


def test_rows_are_matched_by_name(fitted, here, data, columns):
    with fitted.embedding.open() as file:
        header, *lines = file
    (here / "mixed.csv").write_text("".join([header, *reversed(lines)]))
    (here / "other.csv").write_text("".join([header, *lines]).replace("c7,", "k7,"))
    scores = [
        json.loads(check(inside("metrics", fitted.data, place, "--json")).stdout)
        for place in (fitted.embedding, "mixed.csv")
    ]
    assert scores[0] == pytest.approx(scores[1])
    done = inside("metrics", fitted.data, "other.csv")
    check_refused(done, ["other.csv must be of the same rows, and 'c7' is in one of them alone."])


def rows_named(names):
    names = None if names is None else np.array(names)
    return _rows.Rows(np.zeros((3, 2)), ["a", "b"], names=names)


def points_named(names):
    points, labels = np.arange(6.0).reshape(3, 2), {"kind": np.array(["p", "q", "r"])}
    return _rows.Embedded(points, None, labels, None if names is None else np.array(names))


@pytest.mark.parametrize(
    ("ours", "theirs", "order"),
    [
        (None, ["a", "b", "c"], [0, 1, 2]),
        (["a", "b", "c"], None, [0, 1, 2]),
        (["a", "b", "c"], ["c", "a", "b"], [1, 2, 0]),
        (["0", "1", "2"], ["a", "b", "c"], [0, 1, 2]),  # an object has always names
        (["0", "1", "2"], ["2", "1", "0"], [2, 1, 0]),
        (["a", "a", "b"], ["a", "a", "b"], [0, 1, 2]),
    ],
)
def test_names_say_which_rows_belong_together(ours, theirs, order):
    found = _rows.same_rows(rows_named(ours), points_named(theirs), "d", "e")
    assert found.points[:, 0].tolist() == [2.0 * i for i in order]
    assert found.labels["kind"].tolist() == ["pqr"[i] for i in order]


def test_names_that_stand_twice_say_nothing():
    with pytest.raises(ValueError, match="some names stand twice"):
        _rows.same_rows(rows_named(["a", "a", "b"]), points_named(["b", "a", "a"]), "d", "e")


@pytest.mark.parametrize("lost", ["params", "features"])
def test_objects_of_other_versions_are_refused(fitted, here, lost):
    adata = hgplvm_object(fitted)
    adata.uns["hgplvm"] = {"params": {"model": "HGPLVM"}, "features": np.array(["g1"], object)}
    del adata.uns["hgplvm"][lost]
    adata.write_h5ad("old.h5ad")
    says = ["old.h5ad does not say what was fitted", "--use-rep", "hgplvm fit"]
    check_refused(inside("metrics", "old.h5ad"), says)
    check(inside("metrics", "old.h5ad", "--use-rep", "X"))


def test_metrics_are_those_of_the_library(fitted, tmp_path, data, columns):
    hgplvm_object(fitted).write_h5ad(tmp_path / "cells.h5ad")
    as_json, lines = run_together(
        [
            ["metrics", fitted.data, fitted.embedding, "--json", "--neighbors", "7"],
            ["metrics", "cells.h5ad"],
        ],
        tmp_path,
    )
    points, labels = read_table(fitted.embedding).data[:, :2], columns["cell_type"]
    expected = evaluate(data, points, labels, metric="poincare", n_neighbors=7)
    assert json.loads(check(as_json).stdout) == pytest.approx(expected, rel=1e-6)
    expected = evaluate(data, points, labels, metric="poincare")
    shown = check(lines).stdout.splitlines()
    assert [line[:20].strip() for line in shown] == [name.replace("_", " ") for name in expected]
    assert [float(line[20:28]) for line in shown] == pytest.approx([*expected.values()], abs=1e-4)
    assert shown[-1].endswith("(label cell_type)")


def test_points_of_a_plane_are_measured_as_such(tmp_path):
    random = np.random.default_rng(0)
    points = 5 * random.normal(size=(40, 3))
    np.save(tmp_path / "data.npy", points @ random.normal(size=(3, 5)))
    np.savez(tmp_path / "points.npz", embedding=points)
    done = succeed("metrics", "data.npy", "points.npz", "--flat", "--json", cwd=tmp_path)
    expected = evaluate(np.load(tmp_path / "data.npy"), points, metric="euclidean")
    assert json.loads(done.stdout) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cells.csv"], ["name the embedding of cells.csv too"]),
        (["cells.csv", "gone.csv"], ["there is no file gone.csv"]),
        (["gone.csv", "points.csv"], ["there is no file gone.csv"]),
        (["cells.csv", "points.csv"], ["cells.csv has 60 rows", "points.csv has 2"]),
        (["cells.csv", "points.csv", "--label", "batch"], ["no column 'batch'"]),
        (["cells.csv", "points.csv", "--layer", "raw"], ["--layer goes with an .h5ad file"]),
        (["points.csv", "cells.xlsx"], ["cells.xlsx is not of a kind"]),
    ],
)
def test_metrics_say_in_a_line_what_is_wrong(folder, arguments, says):
    write_table(folder / "points.csv", {"x": np.array([0.1, 0.2]), "y": np.array([0.1, 0.3])})
    (folder / "cells.xlsx").write_text("PK")
    refuse("metrics", *arguments, cwd=folder, says=says)


def test_metrics_take_the_missing_entries_that_a_fit_takes(tmp_path):
    rng = np.random.default_rng(0)
    rows, points = rng.standard_normal((30, 6)), rng.uniform(-0.5, 0.5, (30, 2))
    rows[rng.uniform(size=rows.shape) < 0.1] = np.nan
    names = [f"g{i}" for i in range(6)]
    write_table(tmp_path / "holes.csv", dict(zip(names, rows.T, strict=True)))
    write_table(tmp_path / "points.csv", dict(zip("xy", points.T, strict=True)))
    done = succeed("metrics", "holes.csv", "points.csv", "--json", cwd=tmp_path)
    expected = hgplvm.metrics.evaluate(rows, points, metric="poincare")
    assert json.loads(done.stdout) == pytest.approx(expected, abs=1e-9)
    rows[0] = np.nan
    write_table(tmp_path / "holes.csv", dict(zip(names, rows.T, strict=True)))
    refuse("metrics", "holes.csv", "points.csv", cwd=tmp_path, says=["Row 0", "no entry"])


def test_metrics_see_the_rows_as_the_fit_saw_them(tmp_path):
    """Columns, layer and preparation are those of the fit, not all of X."""
    rng = np.random.default_rng(0)
    adata = anndata.AnnData(rng.poisson(3.0, size=(50, 12)).astype(float))
    adata.var["highly_variable"] = np.arange(12) < 6
    tl.hgplvm(adata, "sparse", normalize=True, max_iter=3)
    adata.write_h5ad(tmp_path / "counts.h5ad")
    done = succeed("metrics", "counts.h5ad", "--json", cwd=tmp_path)
    total = adata.X.sum(1, keepdims=True)
    logs = np.log1p(adata.X / total * np.median(total))[:, :6]
    expected = evaluate(logs, adata.obsm["X_hgplvm"], metric="poincare")
    assert json.loads(done.stdout) == pytest.approx(expected, rel=1e-4)


# --- trajectories ---------------------------------------------------------------------------


def test_trajectories_of_a_model_and_of_an_object(tmp_path):
    rng = np.random.default_rng(0)
    adata = anndata.AnnData(rng.standard_normal((40, 4)))
    adata.obs["type"] = np.array(["stem", "red"])[np.arange(40) % 2]
    tl.hgplvm(adata, "exact", max_iter=3)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    tl.model(adata).save(tmp_path / "cells.hgplvm")
    by_rows = ["cells.hgplvm", "--from", "0", "--to", "3", "--to", "0.1,0.2", "--feature", "1"]
    by_names = ["cells.h5ad", "--from", "type=stem", "--to", "type=red", "--feature", "1"]
    for words in (by_rows, [*by_names, "--feature", "2", "-o", "paths.png"]):
        succeed("plot", *words, "--kind", "trajectory", cwd=tmp_path)
    small, large = (
        matplotlib.image.imread(tmp_path / name).shape
        for name in ("cells-trajectory-1.png", "paths.png")
    )
    assert large[1] > small[1] + 300  # one more panel


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--feature", "1", "--to", "1"], ["--kind trajectory needs --from PLACE and --to PLACE"]),
        (["--feature", "1", "--from", "1"], ["--kind trajectory needs --from PLACE"]),
        (["--from", "1", "--to", "2"], ["--kind trajectory needs --feature NAME"]),
        (["--feature", "1", "--from", "a=b", "--to", "2"], ["--from a=b", "no label 'a'"]),
        (["--feature", "1", "--from", "0", "--to", "99"], ["--to 99", "rows 0 to 39"]),
        (["--feature", "g", "--from", "0", "--to", "1"], ["--feature", "Got 'g' instead"]),
    ],
)
def test_trajectories_that_are_none(tmp_path, words, says):
    model = hgplvm.HGPLVM(max_iter=2, init="pca", noise_floor=0.1, random_state=0)
    model.fit(np.random.default_rng(0).standard_normal((40, 3))).save(tmp_path / "m.hgplvm")
    refuse("plot", "m.hgplvm", "--kind", "trajectory", *words, cwd=tmp_path, says=says)


def test_flat_models_are_drawn_in_a_plane(tmp_path):
    model = hgplvm.GPLVM(max_iter=2, init="pca", noise_floor=0.1, random_state=0)
    model.fit(np.random.default_rng(0).standard_normal((40, 3))).save(tmp_path / "m.hgplvm")
    succeed("plot", "m.hgplvm", cwd=tmp_path)
    assert (tmp_path / "m-disk.png").exists()
    refuse(
        "plot",
        "m.hgplvm",
        "--kind",
        "uncertainty",
        cwd=tmp_path,
        says=["these are points of a plane"],
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--kind", "history", "--zoom", "4"], ["--zoom does nothing for --kind history"]),
        (["--kind", "decoder", "--feature", "1", "--color", "a"], ["--color does nothing for"]),
        (["--feature", "1"], ["--feature does nothing for --kind disk"]),
        (["--flat", "--root", "3"], ["--root does nothing for points of a plane"]),
    ],
)
def test_options_that_a_picture_cannot_use_are_refused(tmp_path, words, says):
    model = hgplvm.HGPLVM(max_iter=2, init="pca", noise_floor=0.1, random_state=0)
    model.fit(np.random.default_rng(0).standard_normal((40, 3))).save(tmp_path / "m.hgplvm")
    refuse("plot", "m.hgplvm", *words, cwd=tmp_path, says=says)


def test_a_table_of_a_flat_fit_is_drawn_in_a_plane(tmp_path, monkeypatch):
    (tmp_path / "points.csv").write_text("x,y\n3.0,0.2\n0.3,-4.0\n1.0,1.0\n")
    refuse("plot", "points.csv", cwd=tmp_path, says=["not inside the unit disk"])
    succeed("plot", "points.csv", "--flat", "-q", cwd=tmp_path)
    assert (tmp_path / "points-disk.png").exists()
