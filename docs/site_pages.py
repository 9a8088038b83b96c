"""What the site has beyond this folder: pages of the repository's root, notebooks as pages, folders as entries of the menu.

A hook of MkDocs, named in `mkdocs.yml`. Files stay as they are, so that links between them hold in the repository too.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
ROOT_PAGES = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of a folder where the menu names the folder."""
    config.nav = _unfolded(config.nav)


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages of the root."""
    for source, page in ROOT_PAGES.items():
        text = (DOCS.parent / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=_renamed(text, prefix="")))


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links out of this folder to the pages that were made of their files."""
    return _renamed(markdown, prefix="../")


def _renamed(text: str, prefix: str) -> str:
    names = "|".join(map(re.escape, ROOT_PAGES))
    return re.sub(rf"\]\({re.escape(prefix)}({names})(?=[)#])", lambda match: f"]({ROOT_PAGES[match[1]]}", text)


def _unfolded(nav: list) -> list:
    """The menu with each "folder/" made a page for each of its Markdown files and notebooks, in order of their names."""
    entries: list = []
    for entry in nav:
        if isinstance(entry, dict):
            ((title, value),) = entry.items()
            entries.append({title: _unfolded(value if isinstance(value, list) else [value])})
        elif entry.endswith("/"):
            entries += [f"{entry}{path.stem}.md" for path in sorted((DOCS / entry).iterdir()) if _is_page(path)]
        else:
            entries.append(entry)
    return entries


def _is_page(path: Path) -> bool:
    return path.suffix in {".md", ".ipynb"} and path.name != "index.md"
