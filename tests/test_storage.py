"""Files that hgplvm keeps: complete or not there, and never executed."""

import json
import math
import os
import pickle
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from hgplvm import _storage as storage

INCOMPLETE = "not a complete hgplvm"


@pytest.fixture
def place(tmp_path):
    return tmp_path / "kept.hgplvm"


def bare_header(place, header):
    """Write a file with this header, whatever it says."""
    save_file({"/x": np.zeros(2)}, place, metadata={storage.HEADER: json.dumps(header)})


# --- what goes in comes out -------------------------------------------------------------------


def test_a_nested_tree_comes_back(place):
    tree = {
        "none": None,
        "flags": [True, False],
        "whole": -(2**53) - 1,
        "text": "Poincaré \u2028 \x00 \"quoted\" /a/b {'list': 1}",
        "empty": {"dict": {}, "list": [], "text": ""},
        "deep": [{"list": [1, [2, [3, {"array": None, "texts": "no", "dict": "keys"}]]]}],
        "tuple": (1, "two"),
    }
    storage.write(place, "model", tree)
    found = storage.read(place, "model")
    assert found == {**tree, "tuple": [1, "two"]}
    assert [type(flag) for flag in found["flags"]] == [bool, bool]
    assert type(found["whole"]) is int


def test_floats_come_back_bit_by_bit(place):
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**63, size=300, dtype=np.uint64)
    numbers = [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.pi, math.inf, -math.inf]
    numbers += [x for x in bits.view(np.float64).tolist() if not math.isnan(x)]
    tree = {"numbers": numbers, "nan": math.nan, "numpy": [np.float64(0.1), np.float32(0.1)]}
    storage.write(place, "model", tree)
    found = storage.read(place, "model")
    assert [x.hex() for x in found["numbers"]] == [x.hex() for x in numbers]
    assert math.isnan(found["nan"])
    assert found["numpy"] == [0.1, float(np.float32(0.1))]


@pytest.mark.parametrize(
    "array",
    [
        np.array([[0.1, -0.0, math.inf], [math.nan, -math.inf, 5e-324]]),
        np.linspace(0, 1, 7, dtype=np.float32),
        np.array([2**63 - 1, -(2**63)]),
        np.array([[True], [False]]),
        np.arange(256, dtype=np.uint8),
        np.array(3.5),
        np.empty((0, 3)),
        np.empty(0, dtype=np.int64),
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::-3],
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_arrays_keep_dtype_shape_and_bits(place, array):
    storage.write(place, "model", {"a": {"b": [array]}})
    found = storage.read(place, "model")["a"]["b"][0]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()  # both in C order


def test_two_names_of_one_array_come_back_as_two(place):
    array = np.arange(3.0)
    storage.write(place, "model", {"one": array, "two": array, "part": array[1:]})
    found = storage.read(place, "model")
    found["one"][:] = -1.0
    assert found["two"].tolist() == [0.0, 1.0, 2.0]
    assert found["part"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [str, object])
@pytest.mark.parametrize("shape", [(4,), (2, 2), (0,)])
def test_arrays_of_texts_come_back(place, dtype, shape):
    texts = ["β⁻¹", "", "a" * 40, "\\"]
    array = np.array(texts[: math.prod(shape)], dtype=dtype).reshape(shape)
    storage.write(place, "model", {"names": array})
    found = storage.read(place, "model")["names"]
    assert found.dtype.kind == array.dtype.kind
    assert found.shape == shape
    assert found.tolist() == array.tolist()


def test_tensors_come_back_as_arrays(place):
    tensors = {
        "double": torch.tensor([0.1, math.inf], dtype=torch.float64, requires_grad=True),
        "single": torch.arange(6, dtype=torch.float32).reshape(2, 3).mT,
        "whole": torch.tensor([[1, 2]]),
        "flags": torch.tensor([True, False]),
        "scalar": torch.tensor(0.1, dtype=torch.float64),
        "bytes": torch.Generator().manual_seed(3).get_state(),
    }
    storage.write(place, "model", {"t": tensors})
    found = storage.read(place, "model")["t"]
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert isinstance(found[name], np.ndarray)
        assert found[name].dtype == tensor.detach().numpy().dtype
        assert np.array_equal(found[name], tensor.detach().numpy())


# --- what is no complete file is refused ------------------------------------------------------


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file '.*gone\.hgplvm'"):
        storage.read(tmp_path / "gone.hgplvm", "model")
    with pytest.raises(FileNotFoundError, match="There is no file"):
        storage.read(tmp_path, "model")


def test_every_file_that_was_cut_short_is_refused(place):
    storage.write(place, "model", {"a": np.arange(20.0), "b": [np.arange(3), "text", 1.5]})
    whole = place.read_bytes()
    for length in [*range(0, len(whole), 7), 7, 8, 9, len(whole) - 8, len(whole) - 1]:
        place.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=INCOMPLETE):
            storage.read(place, "model")
    place.write_bytes(whole)
    assert storage.read(place, "model")["b"][1:] == ["text", 1.5]


@pytest.mark.parametrize("length", [1, 8, 100, 10_000])
def test_random_bytes_are_refused(place, length):
    place.write_bytes(np.random.default_rng(length).bytes(length))
    with pytest.raises(ValueError, match=INCOMPLETE):
        storage.read(place, "model")


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


def dump(thing, place):
    place.write_bytes(pickle.dumps(thing))


@pytest.mark.parametrize("writes", [dump, torch.save], ids=["pickle", "torch.save"])
def test_a_pickle_is_refused_and_never_run(place, tmp_path, writes):
    marker = tmp_path / "marker"
    writes({"tree": Trap(marker)}, place)
    for kind in ("model", "checkpoint"):
        with pytest.raises(ValueError, match=INCOMPLETE):
            storage.read(place, kind)
    assert not marker.exists()
    if writes is dump:  # the trap does spring for those who unpickle
        pickle.loads(place.read_bytes())["tree"].close()
        assert marker.exists()


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"hgplvm": "no json {"}])
def test_safetensors_of_others_are_refused(place, metadata):
    save_file({"x": np.zeros(2)}, place, metadata=metadata)
    with pytest.raises(ValueError, match=INCOMPLETE):
        storage.read(place, "model")


@pytest.mark.parametrize(
    "tree",
    [
        {"dict": {"x": {"array": "/gone"}}},
        {"dict": {"x": {"array": 3}}},
        {"dict": {"x": {"texts": ["a"], "shape": [2], "objects": False}}},
        {"dict": {"x": {"something": "else"}}},
        {"dict": 5},
        {"list": 5},
    ],
)
def test_headers_that_do_not_fit_their_file_are_refused(place, tree):
    bare_header(place, {"format": storage.FORMAT, "kind": "model", "tree": tree})
    with pytest.raises(ValueError, match=INCOMPLETE):
        storage.read(place, "model")


@pytest.mark.parametrize("header", [[], 3, None, {"format": 1}, {"kind": "model"}])
def test_headers_that_say_too_little_are_refused(place, header):
    bare_header(place, header)
    with pytest.raises(ValueError, match=INCOMPLETE):
        storage.read(place, "model")


def test_another_kind_is_called_by_its_name(place):
    storage.write(place, "checkpoint", {"x": 1})
    with pytest.raises(ValueError, match="is an hgplvm checkpoint, not a model"):
        storage.read(place, "model")
    assert storage.read(place, "checkpoint") == {"x": 1}


@pytest.mark.parametrize("difference", [-1, 1, 40])
def test_another_format_is_named_with_ours(place, difference):
    theirs = storage.FORMAT + difference
    bare_header(place, {"format": theirs, "kind": "model", "tree": {"new": "things"}})
    told = rf"has format {theirs}, and .* reads format {storage.FORMAT} alone"
    with pytest.raises(ValueError, match=told):
        storage.read(place, "model")


# --- a file is written as a whole or not at all -----------------------------------------------


@pytest.mark.parametrize("thing", [object(), {1, 2}, b"bytes", 1j, len, np.random.RandomState(0)])
def test_what_cannot_be_kept_leaves_nothing_behind(place, tmp_path, thing):
    with pytest.raises(TypeError, match=rf"A {type(thing).__name__} cannot be kept"):
        storage.write(place, "model", {"fine": np.zeros(3), "nested": [{"thing": thing}]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file(place, tmp_path, monkeypatch, error):
    storage.write(place, "model", {"version": 1})
    before = place.read_bytes()

    def half(arrays, name, metadata):
        save_file(arrays, name, metadata=metadata)
        with open(name, "rb+") as file:
            file.truncate(os.path.getsize(name) // 2)
        raise error

    monkeypatch.setattr(storage, "save_file", half)
    with pytest.raises(type(error)):
        storage.write(place, "model", {"version": 2, "x": np.zeros(100)})
    assert place.read_bytes() == before
    assert list(tmp_path.iterdir()) == [place]


def test_a_file_is_replaced_as_a_whole(place, tmp_path):
    storage.write(place, "model", {"version": 1, "x": np.zeros(1000)})
    storage.write(place, "model", {"version": 2})
    assert storage.read(place, "model") == {"version": 2}
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_permissions_are_those_of_the_file_that_is_replaced(place, mode):
    storage.write(place, "model", {"version": 1})
    place.chmod(mode)
    storage.write(place, "model", {"version": 2})
    assert stat.S_IMODE(place.stat().st_mode) == mode


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_of_a_new_file_are_those_of_any_new_file(place, tmp_path):
    (other := tmp_path / "other").touch()
    storage.write(place, "model", {})
    assert place.stat().st_mode == other.stat().st_mode


LOOP = """
import itertools, sys
import numpy as np
from hgplvm import _storage as storage
print("ready", flush=True)
for version in itertools.count(int(sys.argv[2])):
    tree = {"version": version, "x": np.full(300_000, float(version)), "y": np.full(9, version)}
    storage.write(sys.argv[1], "model", tree)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_process_leaves_a_complete_file(place):
    storage.write(place, "model", {"version": 0, "x": np.zeros(5), "y": np.zeros(2, dtype=int)})
    random = np.random.default_rng(0)
    last = 0
    for kill in range(3):
        first = 1_000_000 * (kill + 1)
        child = subprocess.Popen(
            [sys.executable, "-c", LOOP, str(place), str(first)], stdout=subprocess.PIPE
        )
        try:
            assert child.stdout.readline() == b"ready\n"
            while storage.read(place, "model")["version"] < first:  # it has begun
                assert child.poll() is None
            time.sleep(0.05 * random.random())
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
        found = storage.read(place, "model")
        assert found["version"] >= first > last
        assert set(found["x"].tolist()) == {float(found["version"])}
        assert set(found["y"].tolist()) == {found["version"]}
        last = found["version"]
