"""``hgplvm curvature``: what it reads, says, draws and refuses; and the line that a fit says."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

import hgplvm
from hgplvm._curvature import Curvature
from hgplvm._tables import write_table
from hgplvm.datasets import make_binary_tree
from tests.cli.command import check, check_refused, content, inside, refuse_together, run, succeed

PNG = b"\x89PNG"
N = 45


def plane():
    """Rows in a plane, with a little noise."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((N, 2)) @ rng.standard_normal((2, 4))
    return rows + 0.05 * rng.standard_normal((N, 4))


def write_rows(path, rows, **labels):
    columns = {f"g{j}": rows[:, j] for j in range(rows.shape[1])}
    write_table(path, {"cell": np.array([f"c{i}" for i in range(len(rows))]), **columns, **labels})


def strict(text):
    """JSON, which knows no NaN."""

    def refuse(word):
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A folder in which a fit to a plane was made, and its model asked."""
    place = tmp_path_factory.mktemp("asked")
    write_rows(place / "plane.csv", plane(), kind=np.array(["a", "b", "c"])[np.arange(N) % 3])
    words = ["plane.csv", "--label", "kind", "--max-iter", "3", "--model", "vecchia"]
    fit = check(run("fit", *words, cwd=place))
    said = check(run("curvature", "plane-hgplvm.hgplvm", cwd=place))
    return SimpleNamespace(
        folder=place, fit=fit.stdout, said=said.stdout, model=place / "plane-hgplvm.hgplvm"
    )


@pytest.fixture
def quick(monkeypatch):
    """Verdicts at once, and what was asked for."""
    seen = []
    verdict = Curvature(
        True,
        "curved by 2.0 standard errors",
        2.0,
        gain=math.nan,
        gain_error=math.nan,
        gains=np.array([0.1, 0.2]),
        defect=0.1,
        defect_error=0.05,
        path_defect=0.0,
        hierarchy=0.5,
        beyond_plane=0.3,
        n_groups=9,
    )

    def stand_in(self, **options):
        seen.append(self)
        return verdict

    monkeypatch.setattr("hgplvm.estimators.base.BaseGPLVM.curvature", stand_in)
    return SimpleNamespace(seen=seen, verdict=verdict)


# --- verdicts -------------------------------------------------------------------------------


def test_a_model_is_asked_as_it_is(asked):
    found = hgplvm.load(asked.model).curvature()
    assert asked.said == f"{found}\nWrote plane-hgplvm-curvature.png.\n"
    assert "a plane" in asked.said.splitlines()[0]
    picture = asked.folder / "plane-hgplvm-curvature.png"
    assert picture.read_bytes().startswith(PNG)


def test_a_fit_to_a_plane_says_so(asked):
    lines = [line for line in asked.fit.splitlines() if line.startswith("Flat or curved?")]
    assert len(lines) == 1
    assert lines[0].startswith("Flat or curved? A plane ")
    assert lines[0].endswith("; see hgplvm curvature.")
    reason = hgplvm.load(asked.model).curvature(quick=True).reason
    assert reason[1:] in lines[0]


def test_a_fit_to_a_tree_does_not(tmp_path):
    write_rows(tmp_path / "tree.csv", make_binary_tree(4, n_per_node=6, random_state=0).data)
    words = ["tree.csv", "--max-iter", "2", "--length-scale", "1", "--model", "vecchia"]
    done = check(run("fit", *words, cwd=tmp_path))
    assert "a flat model" not in done.stdout
    quiet = check(run("fit", *words, "--quiet", "--force", cwd=tmp_path))
    assert quiet.stdout == ""


def test_a_table_is_fitted_and_judged(asked, tmp_path):
    (tmp_path / "plane.csv").write_bytes((asked.folder / "plane.csv").read_bytes())
    done = succeed("curvature", "plane.csv", "--label", "kind", cwd=tmp_path)
    lines = done.stdout.splitlines()
    # the same rows are judged, whatever the fit
    assert lines[:-2] == asked.said.splitlines()[:-2]
    assert lines[-1] == "Wrote plane-curvature.png."
    assert sorted(content(tmp_path)) == [tmp_path / "plane-curvature.png", tmp_path / "plane.csv"]


def test_json_is_json(asked):
    done = check(
        run("curvature", asked.model, "--json", "--out", "json.png", "--force", cwd=asked.folder)
    )
    found = strict(done.stdout)
    expected = vars(hgplvm.load(asked.model).curvature())
    assert set(found) == set(expected)
    for name, value in expected.items():
        if name in ("curved", "reason", "n_groups"):
            assert found[name] == value
        elif np.ndim(value) == 0 and math.isnan(value):
            assert found[name] is None
        else:
            np.testing.assert_allclose(found[name], value)
    assert (asked.folder / "json.png").read_bytes().startswith(PNG)


def test_json_knows_no_nan(tmp_path):
    """Of rows that are too few there is nothing to say."""
    write_rows(tmp_path / "few.csv", plane()[:30])
    done = succeed("curvature", "few.csv", "--json", cwd=tmp_path)
    found = strict(done.stdout)
    assert found["curved"] is False
    assert found["gain"] is found["defect"] is None
    assert found["gains"] == []
    assert found["reason"] == "too few rows to tell: a plane will do"
    assert (tmp_path / "few-curvature.png").read_bytes().startswith(PNG)


# --- what is read ---------------------------------------------------------------------------


def test_objects_are_read_as_a_fit_reads_them(here, quick):
    anndata = pytest.importorskip("anndata")
    rows = plane()
    adata = anndata.AnnData(np.zeros_like(rows), layers={"scaled": rows})
    adata.obsm["X_pca"] = rows[:, :3]
    adata.obs["donor"] = np.array(["a", "b"])[np.arange(N) % 2]
    adata.write_h5ad("cells.h5ad")
    words = ["--use-rep", "X_pca", "--out", "a.svg", "--seed", "3"]
    done = check(inside("curvature", "cells.h5ad", *words))
    assert done.stdout == f"{quick.verdict}\nWrote a.svg.\n"
    assert (here / "a.svg").read_bytes().startswith(b"<?xml")
    model = quick.seen[-1]
    assert type(model).__name__ == "VecchiaHGPLVM"
    assert model.n_features_in_ == 3
    assert model.random_state == 3
    done = check(inside("curvature", "cells.h5ad", "--layer", "scaled", "--batch", "donor"))
    assert quick.seen[-1].n_features_in_ == 4
    assert quick.seen[-1].covariate_variance_.keys() == {"donor"}
    assert done.stdout.endswith("Wrote cells-curvature.png.\n")


def test_labels_have_no_part(here, quick):
    write_rows(here / "p.csv", plane(), kind=np.arange(N) % 2, junk=1e3 * np.arange(N))
    check(inside("curvature", "p.csv", "--label", "kind", "--drop", "junk"))
    assert list(quick.seen[-1].feature_names_in_) == ["g0", "g1", "g2", "g3"]


def test_quiet_says_the_verdict_alone(asked, here, quick):
    done = check(inside("curvature", asked.model, "--quiet", "--out", "a.png"))
    assert done.stdout == f"{quick.verdict}\n"
    assert (here / "a.png").read_bytes().startswith(PNG)


def test_numbers_that_are_none_are_null(asked, here, quick):
    done = check(inside("curvature", asked.model, "--json", "--out", "a.png"))
    found = strict(done.stdout)
    assert found["gain"] is found["gain_error"] is found["scale"] is None
    assert found["gains"] == [0.1, 0.2]
    assert len(done.stdout.splitlines()) == 1


# --- what is refused ------------------------------------------------------------------------


def test_what_is_wrong_is_said_in_a_line(asked, tmp_path):
    write_rows(tmp_path / "plane.csv", plane())
    write_rows(tmp_path / "one.csv", plane()[:1])
    (tmp_path / "taken.csv").write_bytes((tmp_path / "plane.csv").read_bytes())
    (tmp_path / "taken-curvature.png").write_text("mine")
    (tmp_path / "cells.xlsx").write_text("PK")
    (tmp_path / "broken.hgplvm").write_bytes(b"no model")
    (tmp_path / "words.csv").write_text("cell,a\nc0,x\nc1,y\n")
    commands = [
        (["gone.csv"], ["there is no file gone.csv"]),
        (["gone.hgplvm"], ["there is no file gone.hgplvm"]),
        (["cells.xlsx"], ["cells.xlsx is not of a kind"]),
        (["broken.hgplvm"], ["broken.hgplvm"]),
        (["one.csv"], ["one.csv has 1 rows, and a verdict needs 2"]),
        (["taken.csv"], ["taken-curvature.png is there already", "--force"]),
        (["plane.csv", "--out", "a.bmp"], ["--out a.bmp must end in one of .png"]),
        (["plane.csv", "--out", "gone/a.png"], ["no folder gone"]),
        (["plane.csv", "--label", "kind"], ["no column 'kind'"]),
        (["plane.csv", "--layer", "raw"], ["--layer goes with an .h5ad file"]),
        (["plane.csv", "--batch", "donor"], ["donor"]),
        (["words.csv"], ["words.csv"]),
    ]
    refuse_together([(["curvature", *words], says) for words, says in commands], tmp_path)


def test_a_flat_model_is_refused(here):
    model = hgplvm.GPLVM(max_iter=2, random_state=0, length_scale=1.0).fit(plane())
    model.save("flat.hgplvm")
    done = inside("curvature", "flat.hgplvm")
    check_refused(done, ["GPLVM is not hyperbolic"])
    assert [path.name for path in here.iterdir()] == ["flat.hgplvm"]


def test_nothing_is_half_written(asked, here, quick, monkeypatch):
    """Where drawing fails in the middle, what was there stays."""
    from hgplvm import pl

    def half(found, *, save):
        save.write_bytes(b"half a picture")
        raise OSError("the disk is full")

    monkeypatch.setattr(pl, "curvature", half)
    (here / "a.png").write_text("mine")
    done = inside("curvature", asked.model, "--out", "a.png", "--force")
    assert done.returncode != 0
    assert "the disk is full" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (here / "a.png").read_text() == "mine"
    assert [path.name for path in here.iterdir()] == ["a.png"]


def test_a_picture_is_replaced_when_it_is_forced(asked, here, quick):
    (here / "a.png").write_text("mine")
    check(inside("curvature", asked.model, "--out", "a.png", "--force"))
    assert (here / "a.png").read_bytes().startswith(PNG)


def test_help_names_the_command():
    done = check(inside("--help"))
    assert "curvature" in done.stdout
    done = check(inside("curvature", "--help"))
    assert "--json" in done.stdout
