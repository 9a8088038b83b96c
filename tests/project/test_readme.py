"""What somebody must read first: for whom, what is simulated, who sees what, what it costs, where to go on."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST = README.partition("```")[0]
"""What stands before the first block."""


@pytest.mark.parametrize(
    "said",
    [
        r"\*\*For whom\.\*\*",
        r"\*\*When not\.\*\*",
        r"for others there is none yet",
        r"Clients are simulated .* or they are \[nodes at their\s+sites\]\(docs/deploy\.md\)",
        r"\*\*Who sees what\.\*\*",
        r"features or hidden states of neighbours elsewhere",
        r"\[Security\]\(docs/security\.md\)",
    ],
)
def test_the_first_page_says_whom_it_is_for_what_is_simulated_and_who_sees_what(said):
    assert re.search(said, FIRST, re.DOTALL)


@pytest.mark.parametrize(
    "page", ["quickstart", "which_recipe", "glossary", "recipe", "device", "comparison", "deploy", "advise", "security"]
)
def test_it_leads_on(page):
    assert f"(docs/{page}.md)" in README


def test_methods_of_papers_are_said_to_be_from_papers():
    for name in ("fedais", "cefgl", "rafhgl", "reputation_ucb"):
        assert f"(docs/methods/{name}.md)" in README
        assert "**Source.**" in (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")


def test_every_word_that_is_peculiar_is_in_the_glossary():
    words = "sampler codec lever baseline digest halo rows downlink selection operations target purpose fold"
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    known = set(re.findall(r"[a-z]+", " ".join(re.findall(r"\*\*(.+?)\*\*", glossary))))
    assert not {*words.split()} - known


def test_the_recipe_that_shares_features_says_so_where_one_reads_first():
    for page in ("docs/security.md", "docs/which_recipe.md", "docs/methods/node.md"):
        assert "features" in (ROOT / page).read_text(encoding="utf-8")
    table = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("## Recipe by recipe")[2]
    assert "`fedais`" in table
