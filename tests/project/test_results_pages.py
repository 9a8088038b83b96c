"""Results pages are short and in one order; sentences of the pages that a newcomer reads first hold few figures."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
READ_FIRST = [ROOT / "README.md", ROOT / "docs" / "architecture.md", *RESULTS]
MOST_WORDS = 600
MOST_FIGURES = 2
SECTIONS = ["What was run", "How to repeat it", "What holds", "What does not hold", "Held against", "Open"]

WRITTEN = re.compile(r"<!-- tables: written by fedgraft study -->.*?<!-- /tables -->", re.DOTALL)
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
TABLE_ROW = re.compile(r"^ *\|.*$", re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK_TARGET = re.compile(r"\]\([^)]*\)")
COMMAND = re.compile(r"`[^`]*`")
NEW_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=#)")
SENTENCE_END = re.compile(r"(?<=[.!?])[)*\"]*\s+(?![a-z\d])")  # no end: "e.g. so", "Fig. 3"
DATE = r"\b\d{4}-\d{2}-\d{2}|\b(?:19|20)\d{2}(?![\d.,]\d)"
NUMBERED = r"\b(?:tables?|figures?|figs?\.|sections?|eqs?\.|seeds?|python|torch|version|apache-) ?\d[\d.]*"
NAME = re.compile(rf"{DATE}|{NUMBERED}(?:(?:, | and | to )\d[\d.]*)*|\b\w+\([^)]*\)|[A-Za-z_]\w*", re.IGNORECASE)
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


def prose(text):
    """The text without what a command wrote, code blocks, pictures and tables."""
    for left_out in (WRITTEN, CODE, PICTURE, TABLE_ROW):
        text = left_out.sub("", text)
    return text


def sentences(text):
    blocks = NEW_BLOCK.split(LINK_TARGET.sub("]", prose(text)))
    return [sentence for block in blocks for sentence in SENTENCE_END.split(" ".join(block.split())) if sentence]


def figures(sentence):
    """The numbers of a sentence; those in commands, dates and names such as "FedAIS2" and "Table 3" are none."""
    return FIGURE.findall(NAME.sub(" ", COMMAND.sub(" ", sentence)))


def crowded(text):
    return [sentence for sentence in sentences(text) if len(figures(sentence)) > MOST_FIGURES]


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.name)
def test_a_results_page_is_short(page):
    assert len(prose(page.read_text(encoding="utf-8")).split()) <= MOST_WORDS


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.name)
def test_a_results_page_has_its_sections_in_order(page):
    assert re.findall(r"^## (.*)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE) == SECTIONS


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.name)
def test_a_results_page_links_its_appendix(page):
    assert (page.parent / "appendix" / page.name).is_file()
    assert f"](appendix/{page.name})" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", READ_FIRST, ids=lambda page: page.name)
def test_no_sentence_has_more_than_two_figures(page):
    assert not crowded(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("It takes 91 MB, 26.8 GFLOP and 22 rounds.", ["91", "26.8", "22"]),
        ("It costs 2,720 MB (96.65 % more).", ["2,720", "96.65"]),
        ("By 10 to 20 %.", ["10", "20"]),
        ("FedAIS2 with `bits=4` of 2025-01-31, in Tables 3 and 4, seeds 1, 2 and 3, Beta(10, 1).", []),
        ("Figs. 3 and 4 of Python 3.11.", []),
        ("Weisfeiler-Lehman is from 2011; 2,011 nodes are not.", ["2,011"]),
    ],
)
def test_what_counts_as_a_figure(sentence, expected):
    assert figures(sentence) == expected


def test_a_crowded_sentence_is_found_in_text_and_nowhere_else():
    few = "Two figures, 1 and 2.\nThe next one has 3.\n\n| 1 | 2 | 3 |\n\n```\n1 2 3\n```\n\n- 4 and 5\n- 6 and 7\n"
    written = "<!-- tables: written by fedgraft study -->\nOf 1, 2, 3.\n<!-- /tables -->\n"
    assert crowded(few + written) == []
    assert crowded("See [1, 2](2.md) and 3.\n") == ["See [1, 2] and 3."]
    assert crowded("About 1, e.g. 2 or\n3.\n") == ["About 1, e.g. 2 or 3."]
