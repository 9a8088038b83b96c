"""Links between pages lead somewhere; every method has a page."""

import re
from pathlib import Path

import pytest

from fedgraft.contracts.option_groups import settable
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.sections import STAGES

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_exist(page):
    broken = [
        target for target in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()
    ]
    assert not broken


@pytest.mark.parametrize("family", discovery.FAMILIES)
def test_every_method_has_a_page_that_the_index_links(family):
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for name in sorted({*discovery.names(family)} - {*discovery.presets(family)}):
        page = f"methods/{name}{'-sampler' if (family, name) == ('samplers', 'all') else ''}.md"
        assert (ROOT / "docs" / page).is_file(), page
        assert f"({page})" in index, f"{page} is not in docs/index.md"


@pytest.mark.parametrize("family", discovery.FAMILIES)
def test_a_methods_page_names_all_its_options(family):
    for name in sorted({*discovery.names(family)} - {*discovery.presets(family)}):
        page = f"{name}{'-sampler' if (family, name) == ('samplers', 'all') else ''}.md"
        text = (ROOT / "docs" / "methods" / page).read_text(encoding="utf-8")
        options = {*settable(discovery.find(family, name))} - {*STAGES.values()}
        missing = sorted(option for option in options if option not in text)
        assert not missing, f"{page} does not name {', '.join(missing)}"


@pytest.mark.parametrize("family", discovery.FAMILIES)
def test_a_preset_is_named_on_the_page_of_its_method(family):
    for name, (of, _) in discovery.presets(family).items():
        text = (ROOT / "docs" / "methods" / f"{of}.md").read_text(encoding="utf-8")
        assert f"`{name}`" in text, f"{of}.md does not name {name}"
