"""``hgplvm fit``, ``transform`` and ``decode``: what they read, write, say and refuse."""

import csv
import errno
import signal
import time

import anndata
import numpy as np
import pandas
import pytest

import hgplvm
from hgplvm import _storage as storage
from hgplvm._tables import read_table, write_table
from hgplvm.cli import _embed, _outputs, _placing, _rows
from tests.cli.command import (
    check,
    check_refused,
    content,
    finish,
    inside,
    refuse,
    refuse_together,
    run,
    run_together,
    start,
    succeed,
)

SHORT = ("--max-iter", "5")
# no search for it, where the embedding itself is not looked at
QUICK = (*SHORT, "--length-scale", "1")
COUNTS = np.random.default_rng(0).poisson(3, size=(60, 6)).astype(np.float32)


def points_of(path):
    table = read_table(path)
    return table.data[:, [table.columns.index("x"), table.columns.index("y")]]


def annotated(columns, data):
    """The cells as an AnnData object."""
    obs = pandas.DataFrame({"cell_type": columns["cell_type"]}, index=columns["cell"])
    var = pandas.DataFrame(index=[f"g{j}" for j in range(data.shape[1])])
    return anndata.AnnData(data, obs=obs, var=var)


# --- fit ------------------------------------------------------------------------------------


def test_fit_writes_embedding_model_and_picture_under_their_usual_names(fitted):
    assert sorted(path.name for path in fitted.folder.iterdir()) == [
        "cells-hgplvm.csv",
        "cells-hgplvm.hgplvm",
        "cells-hgplvm.png",
        "cells.csv",
        "state",
    ]
    assert fitted.picture.read_bytes().startswith(b"\x89PNG")
    read, stopped, flat, wrote = fitted.stdout.splitlines()
    assert read == "Read cells.csv: 60 rows, 6 columns, labels cell_type"
    assert stopped.startswith("HGPLVM: reached max_iter=5")
    assert flat.startswith("Flat or curved? A plane holds these data")  # of three groups
    assert wrote == "Wrote cells-hgplvm.csv, cells-hgplvm.hgplvm, cells-hgplvm.png."


def test_the_embedding_stands_beside_names_and_labels(fitted, columns, data):
    with fitted.embedding.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["row", "x", "y", "std", "pseudotime", "cell_type"]
    assert [row["row"] for row in rows] == columns["cell"].tolist()
    assert [row["cell_type"] for row in rows] == columns["cell_type"].tolist()
    assert all(0 < float(row["std"]) < np.inf for row in rows)
    model = hgplvm.load(fitted.model)
    np.testing.assert_allclose(points_of(fitted.embedding), model.embedding_, rtol=1e-8)
    assert model.feature_names_in_.tolist() == [f"g{j}" for j in range(6)]


def test_the_root_is_at_the_origin_where_time_begins(fitted, columns):
    table = read_table(fitted.embedding)
    model = hgplvm.load(fitted.model)
    stem = columns["cell_type"] == "stem"
    before = model.lorentz_.copy()
    model.recenter(stem)
    np.testing.assert_allclose(model.lorentz_, before, atol=1e-6)
    radius = np.linalg.norm(points_of(fitted.embedding), axis=1)
    pseudotime = table.data[:, table.columns.index("pseudotime")]
    np.testing.assert_allclose(pseudotime, 2 * np.arctanh(radius), rtol=1e-6, atol=1e-8)
    assert radius[stem].mean() < radius[~stem].mean()


def test_a_fit_goes_on_from_its_file(fitted):
    state = fitted.folder / "state"
    before = fitted.embedding.read_bytes()
    assert storage.read(state, "checkpoint")["state"]["stop"] == "MAX_ITER"
    again, other = run_together(
        [
            fitted.words,
            [*fitted.words, "--out", "other.csv", "--seed", "1", "--quiet"],
        ],
        fitted.folder,
    )
    check(again)  # without --force
    assert fitted.embedding.read_bytes() == before
    assert other.returncode == 2
    assert other.stdout == ""
    assert other.stderr.startswith("hgplvm: The checkpoint 'state' belongs to another fit: ")
    assert not list(fitted.folder.glob("other.*"))


@pytest.fixture(scope="module")
def formats(tmp_path_factory, columns, data):
    """Fits of the same cells from all kinds of files into all kinds of files."""
    place = tmp_path_factory.mktemp("formats")
    write_table(place / "tabs.tsv", columns)
    write_table(place / "arrow.parquet", columns)
    np.save(place / "array.npy", data)
    np.savez(place / "arrays.npz", data=data, rows=columns["cell"], city=columns["cell_type"])
    annotated(columns, COUNTS).write_h5ad(place / "object.h5ad")
    commands = [
        ["fit", "tabs.tsv", *QUICK, "--out", "tabs.parquet", "--root", "7", "--plot", "tabs.svg"],
        ["fit", "arrow.parquet", *QUICK, "--out", "arrow.h5ad", "--root", "c9", "--color", "g1"],
        ["fit", "array.npy", *QUICK, "--out", "array.npz", "--n-components", "3"],
        ["fit", "arrays.npz", *QUICK, "--out", "arrays.csv.gz", "--quiet", "--model", "sparse"],
        ["fit", "object.h5ad", *QUICK, "--normalize", "--root", "cell_type=red", "--color", "g1"],
    ]
    return place, [check(done) for done in run_together(commands, place)]


def test_all_kinds_of_files_are_read_and_written(formats, columns):
    place, done = formats
    assert "Read array.npy: 60 rows, 6 columns\n" in done[2].stdout
    assert "Read object.h5ad: 60 rows, labels cell_type\n" in done[4].stdout
    source = hgplvm.load(place / "object-hgplvm.hgplvm").source_
    depth = np.median(COUNTS.sum(axis=1))
    assert source == {"normalize": True, "target_sum": depth, "rooted": True}
    assert hgplvm.load(place / "tabs.hgplvm").length_scale_ == pytest.approx(1)
    assert done[3].stdout == ""  # --quiet
    table = read_table(place / "tabs.parquet")
    assert table.columns == ["x", "y", "std", "pseudotime"]
    assert table.data[7, 3] == pytest.approx(0, abs=1e-6)
    assert table.rows.tolist() == columns["cell"].tolist()
    assert (place / "tabs.svg").read_text().startswith("<?xml")
    with np.load(place / "array.npz") as arrays:
        assert arrays["embedding"].shape == (60, 3)
        assert arrays["lorentz"].shape == (60, 4)
        assert arrays["std"].shape == (60,)
    assert not (place / "array.png").exists()  # of three dimensions there is none
    table = read_table(place / "arrays.csv.gz")
    assert table.rows.tolist() == columns["cell"].tolist()
    assert table.labels["city"].tolist() == columns["cell_type"].tolist()
    assert (place / "arrays.hgplvm").exists()


@pytest.mark.parametrize(
    ("name", "root"), [("arrow.h5ad", "c9"), ("object-hgplvm.h5ad", None)], ids=["table", "object"]
)
def test_objects_hold_what_the_tools_write(formats, columns, name, root):
    place, _ = formats
    found = anndata.read_h5ad(place / name)
    assert found.obs_names.tolist() == columns["cell"].tolist()
    assert found.obs["cell_type"].tolist() == columns["cell_type"].tolist()
    assert found.var_names.tolist() == [f"g{j}" for j in range(6)]
    points = found.obsm["X_hgplvm"]
    pseudotime = found.obs["hgplvm_pseudotime"].to_numpy()
    radius = np.linalg.norm(points, axis=1)
    np.testing.assert_allclose(pseudotime, 2 * np.arctanh(radius), atol=1e-6)
    if root is not None:
        assert pseudotime[found.obs_names.get_loc(root)] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(hgplvm.tl.model(found).embedding_, points)


def test_raw_counts_are_recognised(formats, tmp_path, columns):
    """The command line and the tools fit the same model to them."""
    adata = annotated(columns, COUNTS)
    adata.write_h5ad(tmp_path / "counts.h5ad")
    done = succeed("fit", "counts.h5ad", "--max-iter", "2", cwd=tmp_path)
    assert "counts.h5ad holds raw counts: the fit saw them as negative-binomial" in done.stdout
    found = hgplvm.load(tmp_path / "counts-hgplvm.hgplvm")
    hgplvm.tl.hgplvm(adata, max_iter=2)
    np.testing.assert_allclose(found.embedding_, adata.obsm["X_hgplvm"], atol=1e-12)
    place, _ = formats
    model = hgplvm.load(place / "object-hgplvm.hgplvm")
    total = COUNTS.sum(axis=1, keepdims=True)
    logs = np.log1p(COUNTS / total * np.median(total))
    decoded = model.inverse_transform(model.embedding_)
    assert (anndata.read_h5ad(place / "object-hgplvm.h5ad").X == COUNTS).all()
    np.testing.assert_allclose(decoded.mean(axis=0), logs.mean(axis=0), atol=0.3)


def test_rows_that_are_all_equal_get_a_finite_answer(tmp_path):
    (tmp_path / "equal.csv").write_text("a,b,c\n" + "1,2,3\n" * 40)
    done = run("fit", "equal.csv", *SHORT, cwd=tmp_path)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("hgplvm: warning: HGPLVM was given rows that are all the same")
    assert (np.linalg.norm(points_of(tmp_path / "equal-hgplvm.csv"), axis=1) < 1).all()


@pytest.mark.parametrize("running", [False, True], ids=["before", "during"])
def test_an_interrupted_fit_leaves_whole_files_or_none(tmp_path, running):
    data = np.random.default_rng(0).normal(size=(200, 10))
    np.save(tmp_path / "data.npy", data)
    words = ["fit", "data.npy", "--out", "out.csv", "--max-iter", "1000000", "--resume", "state"]
    process = start(*words, cwd=tmp_path)
    assert process.stdout.readline() == "Read data.npy: 200 rows, 10 columns\n"
    while running and not (tmp_path / "state").exists():  # written when the steps begin
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.2 if running else 1.0)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.returncode == 130
    lines = [line for line in done.stderr.splitlines() if " will take about " not in line]
    assert len(lines) == 1
    assert lines[0].startswith("hgplvm: ")
    assert "interrupted" in lines[0]
    left = {path.name for path in tmp_path.iterdir()}
    if running:  # what was reached
        assert left == {"data.npy", "out.csv", "out.hgplvm", "out.png", "state"}
        assert hgplvm.load(tmp_path / "out.hgplvm").stop_reason_.startswith("interrupted")
        assert points_of(tmp_path / "out.csv").shape == (200, 2)
        assert storage.read(tmp_path / "state", "checkpoint")["state"]["stop"] is None
    else:
        assert left <= {"data.npy", "state"}


# --- fit: what is refused before anything is computed ---------------------------------------

PROSE = "a,city,b\n1,Rome,2\n2,Oslo,3\n3,Rome,4\n"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("gone.csv", None, ["there is no file gone.csv"]),
        ("cells.xlsx", "PK", ["cells.xlsx is not of a kind", ".csv", ".h5ad"]),
        ("cells", "1,2\n", ["cells is not of a kind"]),
        ("a.csv", PROSE, ["column 'city'", "'Rome' in line 2", "--label city", "--drop city"]),
        ("a.csv", "a,b\n1,2\n3,x\n5,6\n", ["column 'b'", "'x' in line 3", "--drop b"]),
        ("a.csv", "a,b\n1,2\n3,4,5\n6,7\n", ["line 3 of a.csv has 3 fields"]),
        ("a.csv", "", ["a.csv is empty"]),
        ("a.csv", "a,b\n", ["a.csv has no rows"]),
        ("a.csv", "a,b,c\n1,NaN,2\n3,,4\n", ["column 'b'", "no value at all", "--drop b"]),
        ("a.csv", "a,b\n1,2\n3,inf\n", ["column 'b'", "infinite in line 3"]),
        ("a.npz", "PK\x03\x04 and nothing more", ["a.npz is not a complete .npz file"]),
        ("a.npy", "1,2\n3,4\n", ["a.npy is not a complete .npy file"]),
        ("a.parquet", "PAR1", ["a.parquet is not a complete .parquet file"]),
        ("a.h5ad", "\x89HDF and nothing more", ["a.h5ad is no AnnData file"]),
        ("gone.h5ad", None, ["there is no file gone.h5ad"]),
    ],
)
def test_data_that_cannot_be_read_are_refused(tmp_path, name, text, says):
    if text is not None:
        (tmp_path / name).write_text(text)
    refuse("fit", name, *SHORT, cwd=tmp_path, says=says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--label", "cel_type"], ["no column 'cel_type'", "did you mean 'cell_type'?"]),
        (["--drop", "g9"], ["no column 'g9'"]),
        (["--color", "batch"], ["--color batch", "no such label", "cell_type"]),
        (["--root", "batch=1"], ["--root batch=1", "no label 'batch'", "cell_type"]),
        (["--root", "cell_type=blue"], ["no row has it", "red, stem, white"]),
        (["--root", "c99"], ["--root c99", "row number or name"]),
        (["--root", "60"], ["--root 60", "rows 0 to 59"]),
        (["--root", "0.9,0.9"], ["--root 0.9,0.9", "inside the unit ball"]),
        (["--layer", "spliced"], ["--layer goes with an .h5ad file"]),
        (["--use-rep", "X_pca"], ["--use-rep goes with an .h5ad file"]),
        (["--normalize"], ["--normalize goes with an .h5ad file"]),
        (["--key", "data"], ["--key"]),
        (["--out", "cells.csv"], ["cells.csv would be read and written"]),
        (["--out", "cells.csv", "--force"], ["cells.csv would be read and written"]),
        (["--out", "b.csv", "--plot", "b.csv"], ["b.csv would be", "written twice"]),
        (["--plot", "b.png", "--n-components", "3"], ["--plot draws a disk"]),
        (["--out", "b.xlsx"], ["--out b.xlsx must end in one of .csv"]),
        (["--plot", "b.bmp"], ["--plot b.bmp must end in one of .png"]),
        (["--out", "gone/b.csv"], ["--out gone/b.csv", "no folder gone"]),
        (["--save-model", "gone/b"], ["--save-model gone/b", "no folder gone"]),
        (["--resume", "gone/b"], ["--resume gone/b", "no folder gone"]),
        (["--out", "cells.csv/b.csv"], ["--out cells.csv/b.csv", "no folder cells.csv"]),
        (["--out", "."], ["--out . is a folder"]),
    ],
)
def test_options_that_do_not_fit_the_data_are_refused(folder, options, says):
    done = refuse("fit", "cells.csv", *SHORT, *options, cwd=folder, says=says)
    assert done.stdout == ""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="uses a folder of Linux")
def test_a_folder_that_takes_no_files_is_refused(folder):
    says = ["--out /proc/b.csv", "cannot be written", "choose another folder"]
    refuse("fit", "cells.csv", *SHORT, "--out", "/proc/b.csv", cwd=folder, says=says)


@pytest.mark.parametrize("name", ["cells-hgplvm.csv", "cells-hgplvm.hgplvm", "cells-hgplvm.png"])
def test_files_that_are_there_stay(folder, name):
    (folder / name).write_text("mine")
    says = [f"{name} is there already", "--force"]
    refuse("fit", "cells.csv", *SHORT, cwd=folder, says=says)


def test_one_row_and_a_device_that_is_not_there_are_refused(folder):
    (folder / "one.csv").write_text("a,b,c\n1,2,3\n")
    commands = [
        (["fit", "one.csv", *SHORT], ["one.csv has 1 row, and a fit needs 2 or more."]),
        (["fit", "cells.csv", *SHORT, "--device", "abacus"], ["device", "abacus"]),
    ]
    refuse_together(commands, folder)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["."], [". is a folder; give a file in it"]),
        (["gone.csv", "--out", "gone/b.csv"], ["there is no file gone.csv"]),
        (["cells.csv", "--out", "a.parquet.gz"], ["--out a.parquet.gz must end in"]),
        (["cells.csv", "--out", "a.npz.gz"], ["--out a.npz.gz must end in"]),
        (["cells.csv", "--out", "a.h5ad.gz"], ["--out a.h5ad.gz must end in"]),
        (["cells.csv", "--plot", "b.png.gz"], ["--plot b.png.gz must end in"]),
        (["cells.csv", "--length-scale", "0"], ["--length-scale 0 must be a number above 0"]),
        (["cells.csv", "--length-scale", "-1.5"], ["--length-scale -1.5 must be"]),
        (["a.h5ad", "--use-rep", "X", "--normalize"], ["--normalize goes with X", "--use-rep"]),
        (["a.h5ad", "--use-rep", "X", "--layer", "l"], ["--layer goes with X", "--use-rep"]),
    ],
)
def test_what_cannot_be_fitted_is_refused_at_once(folder, monkeypatch, words, says):
    monkeypatch.chdir(folder)
    (folder / "a.h5ad").write_text("not read")
    before = content(folder)
    check_refused(inside("fit", *words), says)
    assert content(folder) == before


@pytest.fixture
def instant(fitted, monkeypatch, columns, data):
    """Fits of tables within no time: all give the shared one."""

    def fit_table(rows, *_, **__):
        labels = {**rows.labels, _embed.pseudotime_name(rows): np.arange(60.0)}
        model = hgplvm.load(fitted.model)
        return model, _rows.Embedded(model.embedding_, None, labels, rows.names)

    monkeypatch.setattr(_embed, "fit_table", fit_table)


@pytest.mark.usefixtures("instant")
@pytest.mark.parametrize("end", [".csv", ".csv.gz"])
def test_names_of_outputs_lose_the_known_end_alone(here, columns, end):
    write_table(here / f"GSM1.a{end}", columns)
    check(inside("fit", f"GSM1.a{end}"))
    names = {"GSM1.a-hgplvm.csv", "GSM1.a-hgplvm.hgplvm", "GSM1.a-hgplvm.png"}
    assert {path.name for path in here.iterdir()} == {f"GSM1.a{end}", *names}


@pytest.mark.usefixtures("instant")
@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_leaves_all_as_it_was(folder, monkeypatch, there):
    monkeypatch.chdir(folder)
    if there:
        for end in (".csv", ".hgplvm", ".png"):
            (folder / f"a{end}").write_text("mine")
    before = content(folder)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_embed, "_draw", full)
    done = inside("fit", "cells.csv", "--out", "a.csv", "--quiet", "--force")
    assert done.stderr == "hgplvm: cannot write a.png: No space left on device.\n"
    assert done.returncode == 2
    assert content(folder) == before
    assert not [path for path in folder.iterdir() if path.is_dir()]


def test_files_that_are_replaced_keep_links_and_permissions(here):
    (here / "target").write_text("old")
    (here / "target").chmod(0o640)
    (here / "a.csv").symlink_to("target")
    _outputs.write_together({here / "a.csv": lambda path: path.write_text("new")})
    assert (here / "a.csv").is_symlink()
    assert (here / "target").read_text() == "new"
    assert (here / "target").stat().st_mode & 0o777 == 0o640
    assert len(list(here.iterdir())) == 2


@pytest.mark.usefixtures("instant")
def test_a_pseudotime_of_the_user_stays(here, columns):
    write_table(here / "a.csv", {**columns, "pseudotime": columns["cell_type"]})
    words = ["--label", "pseudotime", "--label", "cell_type", "--color", "hgplvm_pseudotime"]
    check(inside("fit", "a.csv", *words, "--root", "0"))
    table = read_table(here / "a-hgplvm.csv")
    assert table.labels["pseudotime"].tolist() == columns["cell_type"].tolist()
    assert table.columns == ["x", "y", "hgplvm_pseudotime"]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # as guarded() does
def test_both_kinds_of_fit_spare_the_pseudotime_of_the_user(columns, data):
    labels = {"pseudotime": columns["cell_type"]}
    table = _rows.Rows(data, [f"g{j}" for j in range(6)], labels, columns["cell"])
    parameters = {"max_iter": 1, "length_scale": 1.0, "n_components": 2}
    for fit in (_embed.fit_table, _embed.fit_anndata):
        more = {"normalize": False} if fit is _embed.fit_anndata else {}
        _, found = fit(table, "sparse", {**parameters, **more}, 0)
        assert found.labels["pseudotime"].tolist() == columns["cell_type"].tolist()
        assert found.labels["hgplvm_pseudotime"][0] == pytest.approx(0, abs=1e-6)


def test_options_of_tables_do_not_go_with_objects(tmp_path, columns, data):
    annotated(columns, data).write_h5ad(tmp_path / "a.h5ad")
    for option in ("--drop", "--key"):
        refuse("fit", "a.h5ad", option, "g1", cwd=tmp_path, says=[f"{option} goes with tables"])
    refuse("fit", "a.h5ad", "--label", "kind", cwd=tmp_path, says=["no column 'kind'", "cell_type"])
    refuse("fit", "a.h5ad", "--color", "g9", cwd=tmp_path, says=["--color g9", "cell_type"])


# --- transform ------------------------------------------------------------------------------


def test_rows_of_the_fit_get_their_places_back(fitted, tmp_path, columns):
    write_table(tmp_path / "shuffled.csv", dict(sorted(columns.items(), reverse=True)))
    (tmp_path / "shuffled-placed.csv").write_text("mine")  # --force replaces it
    some = {name: column for name, column in columns.items() if name not in ("g0", "g3")}
    write_table(tmp_path / "some.parquet", some)
    same, shuffled_run, fewer = run_together(
        [
            ["transform", fitted.model, fitted.data],
            ["transform", fitted.model, "shuffled.csv", "--quiet", "--force"],
            ["transform", fitted.model, "some.parquet", "--out", "some.npz"],
        ],
        tmp_path,
    )
    assert check(same).stdout == "Placed 60 rows.\nWrote cells-placed.csv, cells-placed.png.\n"
    assert check(shuffled_run).stdout == ""
    expected = points_of(fitted.embedding)
    table = read_table(tmp_path / "cells-placed.csv")
    assert table.columns == ["x", "y", "std", "off_map", "pseudotime"]
    assert table.rows.tolist() == columns["cell"].tolist()
    assert table.labels["cell_type"].tolist() == columns["cell_type"].tolist()
    for name in ("cells-placed.csv", "shuffled-placed.csv"):
        np.testing.assert_allclose(points_of(tmp_path / name), expected, atol=1e-6)
    assert fewer.returncode == 0
    assert fewer.stderr.startswith(
        "hgplvm: warning: some.parquet lacks 2 columns of the model, such as 'g0'"
    )
    with np.load(tmp_path / "some.npz") as arrays:
        assert (np.linalg.norm(arrays["embedding"], axis=1) < 1).all()
        assert (arrays["std"] > read_table(fitted.embedding).data[:, 2].min()).all()


def test_columns_of_other_data_are_refused(fitted, tmp_path):
    (tmp_path / "other.csv").write_text("h0,h1\n1,2\n3,4\n")
    (tmp_path / "three.csv").write_text("1,2,3\n4,5,7\n")
    commands = [
        (["transform", fitted.model, "other.csv"], ["other.csv has none of the columns", "'g0'"]),
        (["transform", fitted.model, "three.csv"], ["three.csv has 3 columns", "fitted to 6"]),
    ]
    refuse_together(commands, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gone.hgplvm", "cells.csv"], ["there is no file gone.hgplvm"]),
        (["broken.hgplvm", "gone.csv"], ["there is no file gone.csv"]),
        (["broken.hgplvm", "cells.csv"], ["'broken.hgplvm' is not a complete hgplvm model"]),
        (["broken.hgplvm", "cells.csv", "--out", "broken.hgplvm"], ["would be read and written"]),
        (["broken.hgplvm", "cells.csv", "--out", "cells.csv"], ["would be read and written"]),
        (["broken.hgplvm", "cells.csv", "--out", "b.xlsx"], ["--out b.xlsx must end in"]),
        (["broken.hgplvm", "cells.csv", "--out", "mine.csv"], ["is there already", "--force"]),
    ],
)
def test_transform_says_in_a_line_what_is_wrong(folder, fitted, arguments, says):
    (folder / "broken.hgplvm").write_bytes(fitted.model.read_bytes()[:-100])
    (folder / "mine.csv").write_text("mine")
    refuse("transform", *arguments, cwd=folder, says=says)


def test_objects_that_are_placed_hold_the_model_that_placed_them(fitted, here, columns, data):
    adata = annotated(columns, data)
    adata.uns["hgplvm"] = {"params": {"model": "another"}, "features": np.array(["h"], object)}
    adata.write_h5ad(here / "x.a.h5ad")
    check(inside("transform", fitted.model, "x.a.h5ad"))
    check(inside("transform", fitted.model, fitted.data, "--out", "table.h5ad"))
    model = hgplvm.load(fitted.model)
    for name in ("x.a-placed.h5ad", "table.h5ad"):
        found = anndata.read_h5ad(here / name)
        assert found.uns["hgplvm"]["params"]["model"] == "HGPLVM"
        assert list(found.uns["hgplvm"]["features"]) == [f"g{j}" for j in range(6)]
        np.testing.assert_array_equal(hgplvm.tl.model(found).embedding_, model.embedding_)
        check(inside("metrics", name))  # which needs what was fitted
        hgplvm.tl.transform(annotated(columns, data), found)


def test_rows_are_placed_from_where_those_of_the_fit_stood(fitted, here, columns, data):
    adata = annotated(columns, np.zeros_like(data))
    adata.layers["logs"] = data
    adata.write_h5ad(here / "x.h5ad")
    model = hgplvm.load(fitted.model)
    model.source_ = {"layer": "logs"}
    model.save(here / "m.hgplvm")
    check(inside("transform", "m.hgplvm", "x.h5ad", "--out", "a.csv"))
    np.testing.assert_allclose(points_of(here / "a.csv"), model.embedding_, atol=1e-6)
    check(inside("transform", "m.hgplvm", "x.h5ad", "--out", "b.csv", "--use-rep", "X"))
    assert not np.allclose(points_of(here / "b.csv"), model.embedding_, atol=1e-2)


@pytest.mark.parametrize(
    ("given", "fitted", "expected"),
    [
        ((None, None, None), {"layer": "a", "normalize": True}, ("a", None, True)),
        ((None, None, None), {"use_rep": "X_pca"}, (None, "X_pca", None)),
        ((None, None, None), {"normalize": False}, (None, None, False)),
        ((None, None, None), {}, (None, None, None)),
        (("b", None, None), {"use_rep": "X_pca"}, ("b", None, None)),
        (("b", None, None), {"layer": "a", "normalize": True}, ("b", None, True)),
        ((None, "X_pca", None), {"layer": "a", "normalize": True}, (None, "X_pca", None)),
        ((None, None, True), {"normalize": False}, (None, None, True)),
    ],
)
def test_options_that_are_not_given_are_those_of_the_fit(given, fitted, expected):
    names = ("layer", "use_rep", "normalize")
    found = _placing._as_fitted(dict(zip(names, given, strict=True)), fitted)
    assert found == dict(zip(names, expected, strict=True))


@pytest.mark.parametrize("command", ["transform", "decode"])
def test_a_device_that_is_not_there_is_refused(fitted, here, command):
    rows = fitted.data if command == "transform" else fitted.embedding
    says = ["device", "abacus"]
    check_refused(inside(command, fitted.model, rows, "--device", "abacus"), says)
    assert content(here) == {}


# --- decode ---------------------------------------------------------------------------------


def test_columns_of_one_name_are_told_apart(fitted, here):
    model = hgplvm.load(fitted.model)
    names = ["row", "a", "a_std", "b", "c", "d"]
    model.feature_names_in_ = np.array(names, dtype=object)
    model.save(here / "m.hgplvm")
    done = inside("decode", "m.hgplvm", fitted.embedding, "--std", "--out", "d.csv")
    assert done.returncode == 0
    assert done.stderr == (
        "hgplvm: warning: two columns would be named 'a_std'; the second of them is named "
        "'a_std_2'.\n"
        "hgplvm: warning: two columns would be named 'row'; the second of them is named 'row_2'.\n"
    )
    with open("d.csv") as file:
        header = next(csv.reader(file))
    stds = ["row_std", "a_std_2", "a_std_std", "b_std", "c_std", "d_std"]
    assert header == ["row_2", *names, *stds]
    mean = model.inverse_transform(points_of(fitted.embedding))
    table = read_table("d.csv")
    assert table.rows[0] == "c0"
    np.testing.assert_allclose(table.data[:, :6], mean, rtol=1e-6, atol=1e-8)


def test_points_are_decoded(fitted, tmp_path):
    done = succeed("decode", fitted.model, fitted.embedding, "--std", cwd=tmp_path)
    name = "cells-hgplvm-decoded.csv"
    assert done.stdout == f"Decoded 60 points into 6 columns.\nWrote {name}.\n"
    table = read_table(tmp_path / name)
    genes = [f"g{j}" for j in range(6)]
    assert table.columns == [*genes, *(f"{gene}_std" for gene in genes)]
    assert table.rows.tolist() == [f"c{i}" for i in range(60)]
    model = hgplvm.load(fitted.model)
    mean, std = model.inverse_transform(points_of(fitted.embedding), return_std=True)
    np.testing.assert_allclose(table.data, np.hstack([mean, std]), rtol=1e-6, atol=1e-8)


def test_points_that_are_not_of_the_disk_are_refused(fitted, tmp_path):
    (tmp_path / "far.csv").write_text("x,y\n0.1,0.2\n0.8,0.8\n")
    (tmp_path / "three.csv").write_text("1,2,3\n4,5,6\n")
    commands = [
        (["decode", fitted.model, "far.csv"], ["row 1 of far.csv", "radius is 1.131"]),
        (["decode", fitted.model, "three.csv"], ["three.csv has 3 columns", "2 are needed"]),
    ]
    refuse_together(commands, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gone.hgplvm", "cells.csv"], ["there is no file gone.hgplvm"]),
        (["cells.csv", "gone.csv"], ["there is no file gone.csv"]),
        (["m.hgplvm", "cells.csv", "--out", "m.hgplvm"], ["would be read and written"]),
        (["m.hgplvm", "cells.csv", "--out", "b.h5ad"], ["--out b.h5ad must end in"]),
    ],
)
def test_decode_says_in_a_line_what_is_wrong(folder, arguments, says):
    (folder / "m.hgplvm").write_text("")
    refuse("decode", *arguments, cwd=folder, says=says)


def test_a_full_disk_is_told_plainly_by_whichever_library_meets_it(here):
    def full(_):
        raise OSError("The file could not be written: I/O error: whatever (os error 28).")

    with pytest.raises(OSError, match=r"^cannot write .*a\.hgplvm: No space left on device\.$"):
        _outputs.write_together({here / "a.hgplvm": full})
    assert not (here / "a.hgplvm").exists()


# --- short names, threads, flat models --------------------------------------------------------


def test_short_names_of_options(tmp_path, columns):
    write_table(tmp_path / "cells.csv", columns)
    done = succeed("fit", "cells.csv", *SHORT, "-o", "out.csv", "-q", cwd=tmp_path)
    assert done.stdout == ""
    assert (tmp_path / "out.csv").exists()


def test_threads_hold_within_the_command_alone(tmp_path, columns, monkeypatch):
    import torch

    write_table(tmp_path / "cells.csv", columns)
    seen, before = [], torch.get_num_threads()
    fit_table = _embed.fit_table

    def watched(*arguments, **options):
        seen.append(torch.get_num_threads())
        return fit_table(*arguments, **options)

    monkeypatch.setattr(_embed, "fit_table", watched)
    succeed("fit", "cells.csv", *SHORT, "--threads", "1", cwd=tmp_path)
    assert seen == [1]
    assert torch.get_num_threads() == before


def test_a_flat_model_of_a_table_and_of_an_object(tmp_path, columns):
    write_table(tmp_path / "cells.csv", columns)
    adata = anndata.AnnData(np.stack([columns[f"g{i}"] for i in range(6)], axis=1))
    adata.obs["cell_type"] = columns["cell_type"]
    adata.write_h5ad(tmp_path / "object.h5ad")
    for name in ("cells.csv", "object.h5ad"):
        succeed("fit", name, *SHORT, "--flat", "--root", "cell_type=red", cwd=tmp_path)
    for name in ("cells", "object"):
        model = hgplvm.load(tmp_path / f"{name}-gplvm.hgplvm")
        assert type(model) is hgplvm.GPLVM
        table = read_table(tmp_path / f"{name}-gplvm.csv")
        assert np.allclose(table.data[:, :2], model.embedding_, rtol=1e-6)
        assert "pseudotime" in table.columns
        assert (tmp_path / f"{name}-gplvm.png").exists()
    succeed("transform", "cells-gplvm.hgplvm", "cells.csv", cwd=tmp_path)
    table = read_table(tmp_path / "cells-placed.csv")
    distance = np.linalg.norm(table.data[:, :2], axis=1)
    assert np.allclose(table.data[:, table.columns.index("pseudotime")], distance)
    assert not (tmp_path / "cells-placed.png").exists()
    words = ["fit", "cells.csv", "--flat", "--out", "a.h5ad"]
    refuse(*words, cwd=tmp_path, says=["--out a.h5ad", "points of a plane go into a table"])


def test_names_of_outputs_tell_tables_of_one_name_apart(tmp_path, columns):
    for name in ("cells.csv", "cells.tsv.gz"):
        write_table(tmp_path / name, columns)
        succeed("fit", name, *SHORT, "-q", cwd=tmp_path)  # without --force
    names = {path.name for path in tmp_path.glob("*hgplvm.*")}
    ends = ("csv", "hgplvm", "png")
    assert names == {f"{stem}-hgplvm.{end}" for stem in ("cells", "cells-tsv") for end in ends}


def test_new_rows_have_the_pseudotime_of_the_root_and_a_picture(tmp_path, columns):
    write_table(tmp_path / "cells.csv", columns)
    write_table(tmp_path / "new.csv", {name: values[:9] for name, values in columns.items()})
    succeed("fit", "cells.csv", *SHORT, "--root", "cell_type=red", cwd=tmp_path)
    succeed("transform", "cells-hgplvm.hgplvm", "new.csv", cwd=tmp_path)
    old, new = (read_table(tmp_path / f"{n}.csv") for n in ("cells-hgplvm", "new-placed"))
    time = [t.data[:9, t.columns.index("pseudotime")] for t in (old, new)]
    assert np.allclose(*time, rtol=1e-5)
    assert (tmp_path / "new-placed.png").stat().st_size > 3000
    refuse(
        *["transform", "cells-hgplvm.hgplvm", "new.csv", "-o", "b.csv", "--color", "depth"],
        cwd=tmp_path,
        says=["--color depth", "there are cell_type"],
    )


def test_the_first_argument_of_transform_and_decode_is_a_model(tmp_path, columns):
    write_table(tmp_path / "cells.csv", columns)
    for command, second in (("transform", "DATA"), ("decode", "POINTS")):
        refuse(
            *[command, "cells.csv", "cells.csv"],
            cwd=tmp_path,
            says=["cells.csv is no model", f"hgplvm {command} MODEL {second}"],
        )


def test_both_doors_fit_the_same_model(tmp_path):
    rng = np.random.default_rng(0)
    adata = anndata.AnnData(rng.standard_normal((40, 5)))
    adata.write_h5ad(tmp_path / "cells.h5ad")
    succeed("fit", "cells.h5ad", "--max-iter", "3", cwd=tmp_path)
    hgplvm.tl.hgplvm(adata, max_iter=3)
    read = anndata.read_h5ad(tmp_path / "cells-hgplvm.h5ad")
    assert read.uns["hgplvm"]["params"]["model"] == adata.uns["hgplvm"]["params"]["model"]
    assert np.array_equal(read.obsm["X_hgplvm"], adata.obsm["X_hgplvm"])


def test_counts_of_an_object_are_fitted_as_counts_in_a_plane_too(tmp_path):
    adata = anndata.AnnData(np.random.default_rng(0).poisson(5.0, (50, 12)).astype(float))
    adata.write_h5ad(tmp_path / "counts.h5ad")
    succeed("fit", "counts.h5ad", *SHORT, "--flat", cwd=tmp_path)
    model = hgplvm.load(tmp_path / "counts-gplvm.hgplvm")
    assert model.likelihood == "negative-binomial"
    words = ["transform", "counts-gplvm.hgplvm", "counts.h5ad", "-o", "same.csv"]
    succeed(*words, cwd=tmp_path)
    assert np.allclose(points_of(tmp_path / "same.csv"), model.embedding_, rtol=1e-6)
    words = ["fit", "counts.h5ad", *SHORT, "--flat", "--likelihood", "gaussian", "-o", "logs.csv"]
    succeed(*words, cwd=tmp_path)
    assert hgplvm.load(tmp_path / "logs.hgplvm").source_["normalize"]
    succeed("transform", "logs.hgplvm", "counts.h5ad", "-o", "again.csv", cwd=tmp_path)
