"""Every test runs in a folder of its own."""

import pytest


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Paths are shown as given, so that tests give short ones."""
    monkeypatch.chdir(tmp_path)
