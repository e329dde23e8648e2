"""What can be drawn: arrays, tensors, tables, models and annotated data."""

import numpy as np
import pandas as pd
import pytest
import torch

from hgplvm import HGPLVM, VecchiaHGPLVM, pl
from hgplvm.pl._sources import Decoder, decoder_of, draw, history_of
from tests.pl.helpers import ClosedForm, hyperbolic, moved_to_origin, scatters


@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        np.ndarray.tolist,
        lambda p: torch.from_numpy(p.copy()),
        pd.DataFrame,
        lambda p: np.asfortranarray(p),
        lambda p: p.astype(np.float32),
    ],
    ids=["array", "list", "tensor", "table", "fortran", "float32"],
)
def test_kinds_of_arrays(points, kind):
    (scatter,) = scatters(pl.poincare(kind(points)))
    assert np.allclose(scatter.get_offsets(), points, atol=1e-6)


def test_points_keep_their_places_without_a_root(points):
    drawn = draw("test", points)
    assert drawn.pose is None
    assert drawn.covariance is None
    assert np.allclose(drawn.points, points)
    sheet = -(drawn.lorentz[:, 0] ** 2) + (drawn.lorentz[:, 1:] ** 2).sum(1)
    assert torch.allclose(sheet, -torch.ones(60, dtype=torch.float64))


def test_a_pose_goes_back_to_where_points_are_stored(points):
    drawn = draw("test", points, root=11)
    assert np.allclose(drawn.points, moved_to_origin(points, points[11]))
    assert torch.allclose(drawn.pose.back(drawn.seen(drawn.lorentz)), drawn.lorentz)
    # places are named in stored coordinates, whatever is seen
    at = drawn.place("start", 11).numpy()
    assert np.allclose(at[1:] / (1 + at[0]), points[11])


def test_covariances_of_annotated_data_are_matrices(cells, covariances):
    drawn = draw("test", cells)
    assert np.allclose(drawn.covariance.numpy(), covariances)
    del cells.obsm["hgplvm_covariance"]
    assert draw("test", cells).covariance is None


def test_results_under_a_key_of_their_own(cells, points, covariances):
    cells.obsm["X_b"], cells.obsm["b_covariance"] = -points, 2 * covariances.reshape(60, 4)
    cells.uns["b"] = {"history": {"objective": np.array([5.0])}}
    drawn = draw("test", cells, key="b")
    assert np.allclose(drawn.points, -points)
    assert np.allclose(drawn.covariance.numpy(), 2 * covariances)
    assert history_of("test", cells, key="b") == {"objective": np.array([5.0])}


def test_a_view_of_annotated_data_is_drawn(cells, points):
    view = cells[10:20]
    assert view.is_view
    (scatter,) = scatters(pl.poincare(view, root="cell12"))
    assert np.allclose(scatter.get_offsets(), moved_to_origin(points[10:20], points[12]))
    assert view.is_view


def test_names_of_rows_that_stand_twice_are_no_root(cells):
    cells.obs_names = ["twin", "twin", *cells.obs_names[2:]]
    with pytest.raises(ValueError, match=r"the name of one row, and 2 have the name 'twin'"):
        pl.poincare(cells, root="twin")


@pytest.mark.parametrize("key", [3, "", None])
def test_a_key_is_a_text(cells, key):
    with pytest.raises(
        ValueError, match=r"'key' parameter of poincare must be a text without '/', the name of"
    ):
        pl.poincare(cells, key=key)


def test_an_embedding_that_is_not_there(cells):
    del cells.obsm["X_hgplvm"]
    with pytest.raises(
        ValueError, match=r"poincare finds no embedding under the key 'hgplvm': run "
    ):
        pl.poincare(cells)


def test_an_embedding_with_more_axes(cells):
    cells.obsm["X_deep"] = np.zeros((60, 3))
    with pytest.raises(
        ValueError, match=r"must have 2 columns, .* Got 3 instead; fit with n_compo"
    ):
        pl.poincare(cells, key="deep")


# --- decoders -------------------------------------------------------------------------------


def test_blocks_are_put_together_in_order(points):
    stub = ClosedForm(points)
    decode = Decoder(stub, np.array(["0", "1", "2"]), "test")
    direct = stub.inverse_transform(points, return_std=True)
    whole, parts = decode(points, [2, 0]), decode(points, [2, 0], block=7)
    for one, other, exact in zip(whole, parts, direct, strict=True):
        assert np.array_equal(one, exact[:, [2, 0]])
        assert np.array_equal(one, other)


def test_names_of_a_model_that_was_fitted_to_a_table(points):
    table = pd.DataFrame(np.c_[points, points[:, 0] ** 2], columns=["u", "v", "w"])
    model = HGPLVM(max_iter=1, init="random", random_state=0).fit(table)
    assert decoder_of("test", model).names.tolist() == ["u", "v", "w"]
    assert decoder_of("test", model).column("w") == 2


def test_names_of_a_representation(cells):
    import hgplvm

    hgplvm.tl.hgplvm(cells, "exact", use_rep="X_pca", max_iter=1, init="random")
    assert decoder_of("test", cells).names.tolist() == [f"X_pca_{i}" for i in range(1, 5)]
    assert pl.decoder(cells, "X_pca_2", resolution=4).get_title() == "X_pca_2"


def test_a_model_of_nearest_neighbours_is_drawn_in_every_way():
    data = np.random.default_rng(0).standard_normal((60, 4))
    model = VecchiaHGPLVM(max_iter=2, random_state=0, n_neighbors=10).fit(data)
    assert len(scatters(pl.uncertainty(model))) == 1
    assert np.isfinite(pl.decoder(model, 0, resolution=5).images[0].get_array()).all()
    path = pl.trajectory(model, 0, 1, features=0, n_points=5).figure.axes[1].lines[0].get_xydata()
    assert hyperbolic(*path[[0, -1]]) == pytest.approx(hyperbolic(*model.embedding_[:2]))
    assert np.array_equal(pl.history(model).lines[0].get_ydata(), model.history_["objective"])


# --- histories ------------------------------------------------------------------------------


def test_the_history_of_an_object_has_the_names_of_its_model(fitted, model):
    found = history_of("test", fitted)
    assert found.keys() == model.history_.keys()
    for name, values in model.history_.items():
        assert np.array_equal(found[name], values)


def test_what_was_read_from_a_file_is_drawn_alike(fitted, tmp_path):
    import anndata

    fitted.write_h5ad(tmp_path / "a.h5ad")
    again = anndata.read_h5ad(tmp_path / "a.h5ad")
    for one, other in zip(
        pl.length_scales(fitted).lines, pl.length_scales(again).lines, strict=True
    ):
        assert one.get_label() == other.get_label()
        assert np.array_equal(one.get_xydata(), other.get_xydata())
    images = [pl.decoder(a, "Spi1", resolution=6).images[0].get_array() for a in (fitted, again)]
    assert np.array_equal(*images)


def test_nothing_was_written_down(points):
    assert history_of("test", points) == {}
    assert history_of("test", HGPLVM()) == {}
