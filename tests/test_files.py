"""Files that are there as a whole or not at all; :mod:`tests.test_storage` has more of it."""

import os
import stat

import pytest

from hgplvm._files import whole, write_text


def test_a_text_is_written_and_replaced(tmp_path):
    place = tmp_path / "a.txt"
    for text in ("one", "zwölf\n"):
        write_text(place, text)
        assert place.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    place = tmp_path / "a.txt"
    place.write_text("old")

    def write_half():
        with whole(place) as name:
            with open(name, "w") as file:
                file.write("ne")
            raise error

    with pytest.raises(error):
        write_half()
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "a.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list((tmp_path / "far").iterdir()) == [target]


def test_permissions_are_those_of_the_old_file_or_of_any_new_one(tmp_path):
    place, other = tmp_path / "a.txt", tmp_path / "b.txt"
    other.touch()
    write_text(place, "new")
    assert place.stat().st_mode == other.stat().st_mode
    os.chmod(place, 0o640)
    write_text(place, "newer")
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
