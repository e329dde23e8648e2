"""The report: one page, and the numbers beside it."""

import csv
import json
from html.parser import HTMLParser

from hgplvm._reproduce.report import (
    Claim,
    Picture,
    Section,
    Table,
    as_text,
    write_numbers,
    write_report,
)
from hgplvm._reproduce.runs import Result, Results, Task

SECTION = Section(
    "Table <2>",
    "First.\n\nSecond & last.",
    (Table(("system", "d"), (("a & b", "0.5"), ("long name", "0.25")), "What it is."),),
    (Claim("a is above b", "+0.1", True), Claim("x", "", None)),
    cells=({"row": "a", "measured": 0.5},),
)


class Balanced(HTMLParser):
    """Collects the words, and checks that every element is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.images = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images.append(dict(attrs))
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_holds_everything_and_needs_nothing(tmp_path):
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    section = Section(SECTION.title, SECTION.text, SECTION.tables, SECTION.claims)
    pictures = Section("More", pictures=(Picture("dot", 'A "dot"'),))
    write_report([section, pictures], tmp_path / "report.html", "Title", "Lead")
    text = (tmp_path / "report.html").read_text()
    page = Balanced()
    page.feed(text)
    assert page.open == []
    for word in ("Table <2>", "Second & last.", "a & b", "0.25", "What it is.", "yes"):
        assert word in page.words
    assert page.images[0]["src"] == "data:image/png;base64,iVBORw=="
    assert page.images[0]["alt"] == 'A "dot"'
    assert "http" not in text


def test_a_table_in_the_terminal_has_straight_columns():
    lines = as_text(SECTION).splitlines()
    assert lines[2:5] == ["system        d", "a & b       0.5", "long name  0.25"]
    assert lines[-2:] == ["- a is above b: yes (+0.1)", "- x: not measured ()"]


def test_numbers_are_one_line_a_run_and_one_entry_a_cell(tmp_path):
    results = Results(
        [
            Result(Task("PCA", "SBT-4", 1), scores={"trustworthiness": 0.5}, seconds=1.25),
            Result(Task("PCA", "SBT-4", 0, (("k", 3),)), "failed: x, y"),
        ]
    )
    write_numbers(results, [SECTION], tmp_path)
    with (tmp_path / "runs.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert first["options"] == "k=3"
    assert (first["status"], first["trustworthiness"], first["seconds"]) == ("failed: x, y", "", "")
    assert (second["seconds"], second["trustworthiness"]) == ("1.25", "0.500000")
    (entry,) = json.loads((tmp_path / "numbers.json").read_text())
    assert entry["cells"] == [{"row": "a", "measured": 0.5}]
    assert entry["claims"][0]["holds"] is True
