"""What the site has beyond this folder: pages of the repository's root, notebooks as pages, folders in the menu.

A hook of MkDocs, named in `mkdocs.yml`. Files stay as they are, so that links between them hold in the repository too.
"""

import json
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT_PAGES = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of a folder where the menu names the folder."""
    config.nav = _unfolded(config.nav)


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages of the root, and one for each notebook, beside the notebook itself."""
    for source, page in ROOT_PAGES.items():
        text = (DOCS.parent / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=_renamed(text, prefix="")))
    for path in sorted(DOCS.glob("tutorials/*.ipynb")):
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=_page_of(path)))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links out of this folder, and to notebooks, to the pages that were made of their files."""
    up = "../" * page.file.src_uri.count("/")
    return _renamed(markdown, prefix=f"{up}../", to=up).replace(".ipynb)", ".md)")


def _renamed(text: str, prefix: str, to: str = "") -> str:
    names = "|".join(map(re.escape, ROOT_PAGES))
    return re.sub(rf"\]\({re.escape(prefix)}({names})(?=[)#])", lambda match: f"]({to}{ROOT_PAGES[match[1]]}", text)


def _page_of(path: Path) -> str:
    """The Markdown of a notebook: its texts, its code, and what that printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            printed = "".join(output.get("text") or output["data"]["text/plain"])
            parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _unfolded(nav: list) -> list:
    """The menu with each "folder/" made an entry for each of its pages, in order of their names."""
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
