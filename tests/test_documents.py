"""The documents by copy and paste, as `make walk` does it in a fresh environment."""

import re
import warnings

import pytest

from tests.walk import DOCUMENTS, ROOT, blocks, walk

pytest.importorskip("anndata")
pytest.importorskip("scanpy")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_of_code_runs(document, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scanpy, to its developers, and of data that are small
        count = walk(document, tmp_path)
    assert count == len(blocks(document)) > 1


def test_a_block_that_fails_is_seen(tmp_path, monkeypatch):
    from tests import walk as module

    (tmp_path / "page.md").write_text("```python\nimport hgplvm\nhgplvm.HGPLVM().nothing\n```\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    with pytest.raises(AttributeError, match="nothing"):
        walk("page.md", tmp_path)
    (tmp_path / "page.md").write_text("```sh\nhgplvm fit nothing.csv\n```\n")
    with pytest.raises(RuntimeError, match=r"failed with code 2: hgplvm fit nothing\.csv"):
        walk("page.md", tmp_path)


def test_documents_have_no_other_kind_of_code():
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        kinds = set(re.findall(r"^```(\S+)$", text, re.MULTILINE))
        assert kinds <= {"python", "sh", "text", "{toctree}", "{eval-rst}"}, document


def test_the_command_that_installs_is_the_one_of_the_walk():
    command = "install -c constraints.txt '.[anndata]'"
    assert command in (ROOT / "README.md").read_text()
    assert command in (ROOT / "docs" / "index.md").read_text()
    assert "'.[anndata]'" in (ROOT / "Makefile").read_text().split("walk:")[1]
