"""Pages of `fedgraft show` are made once, and as they would be made now."""

from pathlib import Path

import pytest

from fedgraft.interface import explained, kept_pages


@pytest.fixture(autouse=True)
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fedgraft" / "pages"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of which pages were made."""
    names: list[str] = []
    make = explained.pages
    monkeypatch.setattr(explained, "pages", lambda name: names.append(name) or make(name))
    return names


def test_a_page_is_made_once(made: list[str]) -> None:
    first, second = kept_pages.pages("fedacs"), kept_pages.pages("fedacs")
    assert first == second == [{**page.as_json(), "text": str(page)} for page in explained.pages("fedacs")]
    assert made == ["fedacs", "fedacs"]  # the second one is the line above
    assert kept_pages.resolved("fedacs") == kept_pages.resolved("fedacs")


def test_a_damaged_page_is_made_anew(made: list[str], entries: Path) -> None:
    first = kept_pages.pages("training")
    (path,) = entries.iterdir()
    for damaged in ("{", "[]", "{}", "", '{"made": '):
        path.write_text(damaged)
        assert kept_pages.pages("training") == first
    assert len(made) == 6
    assert kept_pages.pages("training") == first
    assert len(made) == 6


def test_pages_of_fedgraft_as_it_was_are_dropped(entries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_pages.pages("training")
    (before,) = entries.iterdir()
    monkeypatch.setattr(kept_pages, "_code", lambda: "0123456789abcdef")
    kept_pages.pages("clock")
    (after,) = entries.iterdir()
    assert after != before


@pytest.mark.parametrize("name", ["helpers.toy:Lines", "own.toml"])
def test_nothing_is_kept_of_what_is_not_ours(
    name: str, entries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text('extends = "fedacs"')
    kept_pages.pages(name)
    assert not entries.exists()
