"""The README and every page of the documentation are true: what they tell a reader to do is done and compared."""

import json
import re
from pathlib import Path

import pytest
from pages import blocks, compare, run_page

import fairmdp

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _marks(page):
    return [pytest.mark.ray] if "with fm.RayCluster(" in page.read_text() else []


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem, marks=_marks(p)) for p in PAGES])
def test_page(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(page, capsys, monkeypatch)


@pytest.mark.slow
def test_the_paragraph_that_a_story_quotes_is_that_of_its_report(tmp_path, monkeypatch, capsys):
    page = ROOT / "docs" / "story-spreadsheet.md"
    monkeypatch.chdir(tmp_path)
    run_page(page, capsys, monkeypatch)
    document = re.search(r'id="document">(.*?)</script>', Path("report.html").read_text(), re.S)[1]
    quoted = " ".join(line[2:] for line in page.read_text().splitlines() if line.startswith("> "))
    assert " ".join(json.loads(document)["briefing"]) == quoted


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / "README.md").read_text())
    assert len(links) > 10 and [link for link in links if not (ROOT / link).exists()] == []


def test_every_page_is_linked():
    index = (ROOT / "docs" / "index.md").read_text()
    assert [p.stem for p in PAGES[1:] if p.stem != "index" and f"\n{p.stem}\n" not in index] == []


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "api.md").read_text().split()
    assert set(fairmdp.__all__) - set(reference) == {
        "scenarios",
        "plots",
        "__version__",
    }  # functions of these two are listed one by one
    listed = {name.removeprefix("fairmdp.scenarios.") for name in reference}
    assert {function.__name__ for function in fairmdp.scenarios.SCENARIOS.values()} <= listed
    assert set(fairmdp.plots.__all__) <= listed


def test_wrong_pages_are_noticed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    for text, complaint in (
        ("```python\nprint(1)\n```\n\n```\n2\n```\n", "but it is\n1"),
        ("```console\n$ fairmdp scenarios --json\n[]\n```\n", "but it is"),
        ("```console\n$ fairmdp solve three-state --rho 0.1,0.1,0.5\n...\n```\n", "ended with 3"),
        ("```sh\nrm -r folder\n```\n", "cannot be run here"),
        ("```text\n1\n```\n\n```\n1\n```\n", "output of nothing"),
        ("```perl\n1\n```\n", "a block of 'perl'"),
    ):
        page.write_text(text)
        with pytest.raises(AssertionError, match=complaint):
            run_page(page, capsys, monkeypatch)


def test_blocks_and_noise():
    assert sum(len(blocks(page)) for page in PAGES) > 60
    compare("gap 1.0e-15 ... 2", "gap -3.4e-16 and then 2", "here")
