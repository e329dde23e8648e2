"""Models in files: what was saved is what is loaded."""

import io
import json
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError

import hgplvm
from hgplvm import (
    GPLVM,
    HGPLVM,
    BayesianGPLVM,
    BayesianHGPLVM,
    SparseGPLVM,
    SparseHGPLVM,
    SphericalGPLVM,
    VecchiaGPLVM,
    VecchiaHGPLVM,
)
from hgplvm import _storage as storage
from hgplvm.datasets import make_binary_tree
from hgplvm.estimators.choice import MODELS

OPTIONS = {
    GPLVM: {},
    HGPLVM: {},
    SparseGPLVM: {"n_inducing": 8},
    SparseHGPLVM: {"n_inducing": 8},
    BayesianGPLVM: {"n_inducing": 8},
    BayesianHGPLVM: {"n_inducing": 8, "quadrature": "gauss-hermite", "prior_scale": 1.5},
    VecchiaGPLVM: {"n_neighbors": 8, "n_inducing": 0},
    VecchiaHGPLVM: {"n_neighbors": 8, "n_inducing": 0, "reshuffle": True},
    SphericalGPLVM: {},
}
SHOWN = ("embedding_", "lorentz_", "inducing_", "posterior_std_", "feature_names_in_")
TOLD = (
    "log_likelihood_",
    "variance_",
    "noise_variance_",
    "length_scale_",
    "n_iter_",
    "stop_reason_",
    "n_features_in_",
    "n_inducing_",
)


@pytest.fixture(scope="module")
def data():
    """Rows of a tree, no two of them the same."""
    rows = make_binary_tree(3, n_per_node=4, random_state=0).data
    return rows + 0.03 * np.random.default_rng(0).standard_normal(rows.shape)


@pytest.fixture(scope="module")
def gappy(data):
    gaps = np.random.default_rng(1).random(data.shape) < 0.1
    gaps[:3] = False
    return np.where(gaps, np.nan, data)


@pytest.fixture(scope="module", params=OPTIONS, ids=lambda model: model.__name__)
def model(request, data):
    return make(request.param).fit(data)


@pytest.fixture(scope="module")
def one(data):
    return make(HGPLVM).fit(data)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "model.hgplvm"


def make(model_class, **options):
    return model_class(**{"max_iter": 8, "random_state": 0, **OPTIONS[model_class], **options})


def kept(model, place):
    model.save(place)
    return hgplvm.load(place)


def pickled(model, place):
    return pickle.loads(pickle.dumps(model))


def joblibbed(model, place):
    joblib.dump(model, file := io.BytesIO())
    file.seek(0)
    return joblib.load(file)


def assert_same(ours, theirs, data):
    """Everything that a user can ask of two models."""
    assert type(ours) is type(theirs)
    for name in SHOWN:
        assert hasattr(ours, name) == hasattr(theirs, name)
        if hasattr(ours, name):
            a, b = getattr(ours, name), getattr(theirs, name)
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)
    for name in TOLD:
        assert getattr(ours, name, None) == getattr(theirs, name, None)
        assert type(getattr(ours, name, None)) is type(getattr(theirs, name, None))
    assert list(ours.history_) == list(theirs.history_)
    for name, column in ours.history_.items():
        assert column.dtype.kind == theirs.history_[name].dtype.kind
        nans = column.dtype.kind == "f"
        assert np.array_equal(column, theirs.history_[name], equal_nan=nans)
    rows = np.vstack([data[:2], data[5:9] + 0.05])  # some of the fit, some new
    rows[3, 0] = np.nan
    points = np.random.default_rng(2).uniform(-0.6, 0.6, (4, 2))
    for answer in (
        lambda m: np.stack(m.transform(rows, return_std=True)),
        lambda m: np.stack(m.inverse_transform(points, return_std=True)),
        lambda m: m.score(rows),
        lambda m: m.sample(3, random_state=0),
        lambda m: m.pseudotime(),
        lambda m: m.pseudotime(4),
        lambda m: m.geodesic(0, 5, n_points=4),
        lambda m: m.distances(),
    ):
        a, b = answer(ours), answer(theirs)
        assert np.isfinite(a).all()
        assert np.array_equal(a, b)


def crafted(place, change):
    """Rewrite a file with a header that was changed."""
    with safe_open(place, framework="np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()[storage.HEADER])
    change(header["tree"]["dict"])
    save_file(arrays, place, metadata={storage.HEADER: json.dumps(header)})


# --- what was saved is what is loaded ---------------------------------------------------------


def test_all_models_are_here():
    known = {model for pair in MODELS.values() for model in pair}
    assert set(OPTIONS) == known | {SphericalGPLVM}
    assert len(OPTIONS) == 9


@pytest.mark.parametrize("way", [kept, pickled, joblibbed])
def test_a_model_comes_back(model, way, place, data):
    again = way(model, place)
    assert_same(model, again, data)
    assert again.get_params() == model.get_params()


@pytest.mark.parametrize("way", [kept, pickled, joblibbed])
def test_what_was_made_on_a_device_stays_behind(one, way, place, data):
    one.transform(data[:3] + 0.1)
    assert len(one._model._engines) == 1
    assert way(one, place)._model._engines == {}
    assert len(one._model._engines) == 1


def test_a_loaded_model_is_saved_again_as_the_same_file(model, place, tmp_path):
    kept(model, place).save(tmp_path / "second.hgplvm")
    assert (tmp_path / "second.hgplvm").read_bytes() == place.read_bytes()


@pytest.mark.parametrize("model_class", [VecchiaGPLVM, VecchiaHGPLVM])
def test_a_neighbour_model_with_inducing_points_comes_back(model_class, place, data):
    model = make(model_class, n_inducing=5).fit(data)
    assert_same(model, kept(model, place), data)


def test_inducing_points_of_a_neighbour_model_come_back_to_rounding(place, data):
    model = make(VecchiaHGPLVM, n_inducing=5).fit(data)
    again = kept(model, place)
    assert again.n_inducing_ == 5
    assert np.array_equal(again.inducing_, model.inducing_)
    ours, theirs = (m.transform(data[5:9] + 0.05, return_std=True) for m in (model, again))
    assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_tensors_own_their_memory(one, place):
    one.save(place)
    latents = hgplvm.load(place)._model.latents
    latents += 1.0  # neither the file nor the model changes
    assert not torch.equal(latents, one._model.latents)
    assert torch.equal(hgplvm.load(place)._model.latents, one._model.latents)


@pytest.mark.parametrize("model_class", OPTIONS, ids=lambda model: model.__name__)
def test_a_fit_with_gaps_comes_back(model_class, place, data, gappy):
    model = make(model_class, max_iter=4).fit(gappy)
    assert_same(model, again := kept(model, place), data)
    assert np.array_equal(again.transform(gappy), model.embedding_)  # rows of the fit are known


def test_float32_comes_back(place, data):
    model = make(HGPLVM, dtype="float32").fit(data)
    assert_same(model, again := kept(model, place), data)
    assert again.embedding_.dtype == np.float32


def test_the_pose_comes_back(model, place, data):
    moved = pickled(model, None).recenter(3)
    assert not np.array_equal(moved.embedding_, model.embedding_)
    again = kept(moved, place)
    assert np.allclose(again.embedding_[3], 0.0, atol=1e-9)
    assert_same(moved, again, data)


@pytest.mark.parametrize("way", [kept, pickled])
def test_names_of_columns_come_back(way, place, data):
    names = [f"gene {i}" for i in range(data.shape[1])]
    frame = pd.DataFrame(data, columns=names)
    model = make(GPLVM).fit(frame)
    again = way(model, place)
    assert again.feature_names_in_.dtype == object
    assert again.feature_names_in_.tolist() == names
    assert np.array_equal(again.transform(frame), model.embedding_)
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame.rename(columns={"gene 2": "gene two"}))


def test_pandas_output_comes_back(place, data):
    model = make(GPLVM).set_output(transform="pandas").fit(data)
    found = kept(model, place).transform(data[:4] + 0.1)
    assert isinstance(found, pd.DataFrame)
    assert found.equals(model.transform(data[:4] + 0.1))
    assert found.columns.tolist() == ["gplvm0", "gplvm1"]


def test_parameters_come_back_as_they_were(place, data):
    start = np.random.default_rng(0).uniform(-0.4, 0.4, (len(data), 2))
    model = make(
        HGPLVM,
        init=start,
        center=3,
        length_scale=2.5,
        tol=1e-3,
        noise_floor=0.01,
        learning_rate=0.02,
        random_state=np.int64(7),
        verbose=0,
    ).fit(data)
    again = kept(model, place)
    ours, theirs = model.get_params(), again.get_params()
    assert ours.keys() == theirs.keys()
    assert np.array_equal(theirs.pop("init"), ours.pop("init"))
    assert theirs == ours
    assert again.center == 3
    assert np.allclose(again.embedding_[3], 0.0, atol=1e-9)
    assert_same(model, again, data)


def test_a_list_as_init_comes_back_as_an_array(place, data):
    start = np.random.default_rng(0).uniform(-0.4, 0.4, (len(data), 2))
    again = kept(make(GPLVM, init=start.tolist()).fit(data), place)
    assert np.array_equal(again.init, start)


def test_a_loaded_model_fits_as_the_one_that_was_saved(place, data, one):
    again = kept(one, place).fit(data)
    assert np.array_equal(again.embedding_, one.embedding_)


def test_callbacks_and_random_states_are_left_behind(place, data):
    model = make(GPLVM, callback=lambda state: None, random_state=np.random.RandomState(0))
    again = kept(model.fit(data), place)
    assert again.callback is None
    assert again.random_state is None
    assert model.callback is not None  # the model itself keeps them
    assert isinstance(model.random_state, np.random.RandomState)
    assert_same(model, again, data)


def test_a_path_may_be_text_and_an_old_model_is_replaced(place, data, one):
    make(GPLVM).fit(data).save(place)
    one.save(str(place))
    assert_same(one, hgplvm.load(str(place)), data)
    assert list(place.parent.iterdir()) == [place]


# --- what the file is -------------------------------------------------------------------------


def test_the_file_is_plain_safetensors_with_json(model, place):
    model.save(place)
    raw = place.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])  # the whole header is JSON
    assert json.loads(header["__metadata__"]["hgplvm"])["kind"] == "model"
    sizes = [x["data_offsets"] for name, x in header.items() if name != "__metadata__"]
    assert len(raw) == 8 + length + max(end for _, end in sizes)  # and the rest arrays
    with safe_open(place, framework="np") as file:
        assert np.array_equal(file.get_tensor("/model/latents"), model._model.latents.numpy())
        assert all(file.get_tensor(k).dtype.kind in "fib" for k in file.keys())  # noqa: SIM118
    with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError)):
        pickle.loads(raw)


# --- what cannot be -----------------------------------------------------------------------


@pytest.mark.parametrize("model_class", OPTIONS, ids=lambda model: model.__name__)
def test_only_fitted_models_are_saved(model_class, place):
    with pytest.raises(NotFittedError):
        make(model_class).save(place)
    assert list(place.parent.iterdir()) == []


def test_a_path_that_cannot_be_is_refused(one, tmp_path):
    with pytest.raises(ValueError, match=r"'path' of HGPLVM .*folder .*does not exist"):
        one.save(tmp_path / "no" / "such" / "folder")
    with pytest.raises(ValueError, match=r"must be a file, and .* is a folder"):
        one.save(tmp_path)
    for wrong in (None, 3, ""):
        with pytest.raises(
            ValueError, match="'path' parameter of HGPLVM must be the path of a file"
        ):
            one.save(wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_and_a_text_are_refused(place):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        hgplvm.load(place)
    place.write_text("a letter, not a model")
    with pytest.raises(ValueError, match="not a complete hgplvm model"):
        hgplvm.load(place)


def test_a_checkpoint_is_no_model(place, data):
    make(GPLVM, checkpoint=place).fit(data)
    with pytest.raises(ValueError, match="is an hgplvm checkpoint, not a model"):
        hgplvm.load(place)


def test_a_model_is_no_checkpoint(place, data, one):
    one.save(place)
    before = place.read_bytes()
    with pytest.raises(ValueError, match="is an hgplvm model, not a checkpoint"):
        make(HGPLVM, checkpoint=place).fit(data)
    assert place.read_bytes() == before


def forget(tree):
    del tree["fitted"]


def remove(tree, part, name):
    del tree[part]["dict"][name]


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.update({"class": "hgplvm:Estimator"}),
        lambda tree: tree.update({"class": "os:system"}),
        lambda tree: tree.update({"class": None}),
        lambda tree: tree["parameters"]["dict"].update(unheard=1),
        lambda tree: tree["parameters"]["dict"].update(max_iter=-1),
        lambda tree: tree["parameters"]["dict"].update(dtype="int8"),
        lambda tree: tree["fitted"]["dict"].update(fit=1),
        lambda tree: tree["fitted"]["dict"].update(__class__="HGPLVM"),
        lambda tree: tree["fitted"]["dict"].update(_model={"dict": {}}),
        lambda tree: remove(tree, "model", "latents"),
        lambda tree: remove(tree, "model", "units"),
        forget,
    ],
)
def test_a_file_with_another_content_is_refused(one, place, change):
    one.save(place)
    crafted(place, lambda tree: None)
    assert np.array_equal(hgplvm.load(place).embedding_, one.embedding_)  # only changed below
    crafted(place, change)
    with pytest.raises(ValueError, match="holds no hgplvm model that this program can use"):
        hgplvm.load(place)


def test_a_model_outlives_the_folder_of_its_checkpoint(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    data = np.random.default_rng(0).standard_normal((20, 4))
    model = HGPLVM(max_iter=3, random_state=0, checkpoint=folder / "fit").fit(data)
    model.save(tmp_path / "model")
    (folder / "fit").unlink()
    folder.rmdir()
    loaded = hgplvm.load(tmp_path / "model")
    assert loaded.checkpoint is None
    assert np.array_equal(loaded.transform(data + 0.1), model.transform(data + 0.1))


def test_devices_and_lists_as_parameters_are_kept(tmp_path):
    data = np.random.default_rng(0).standard_normal((20, 4))
    start = np.random.default_rng(1).uniform(-0.4, 0.4, (20, 2)).astype(object)
    model = HGPLVM(max_iter=3, init=start, device=torch.device("cpu")).fit(data)
    model.save(tmp_path / "model")
    loaded = hgplvm.load(tmp_path / "model")
    assert loaded.device == "cpu"
    assert np.array_equal(loaded.init, start.astype(float))
