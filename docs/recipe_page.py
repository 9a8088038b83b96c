"""Write docs/recipe.md, a recipe section by section, from the docstrings of what the sections set.

python docs/recipe_page.py          # write the page
python docs/recipe_page.py --check  # exit code 1 if the stored one is stale
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from stored_page import write_or_check

from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.options import Option
from fedgraft.experiment.recipes.sections import METHODS, SETTINGS, VALUES
from fedgraft.interface.explained import DEFAULTS, method_page, section_page

PAGE = Path(__file__).with_name("recipe.md")
OPENING = """\
# A recipe, section by section

*Written by `python docs/recipe_page.py` from the docstrings; `fedgraft show SECTION` prints the same.*

A recipe is a TOML file that says everything of an experiment: one section for each choice. `name` says which method,
every other key is one of that method's options; what is left out has its default. `fedgraft run my.toml` runs it.

```toml
extends = "fedacs"          # a recipe that comes with fedgraft, or a file: "base.toml", next to this one
rounds = 30

[selector]
name = "oort"               # another method than the recipe's: it starts from its own defaults
clients = 4

[training]
learning_rate = 0.01        # the recipe's other options of this section stay
```

- What the file says goes before what it extends, by the rules of overrides: giving a section another `name` drops the
  other options that it had, which were meant for another method.
- On the command line an override is `SECTION.KEY=VALUE`, a value as in TOML:
  `fedgraft run my.toml budget.bytes=2MB rounds=5`. In Python:
  `fedgraft.run("my.toml", budget={"bytes": "2MB"}, rounds=5)`.
- A section that names a method may be the name alone: `codec = "float16"`.
- A method outside fedgraft is named `"package.module:Class"`.
- `fedgraft show fedacs --toml > my.toml` writes a recipe with every option resolved. Every run has such a file,
  `experiment.toml`, which `fedgraft run RUN/experiment.toml` runs again.
- Paths are relative to the current folder. In [data], `{here}` at the head of a path is the folder of the recipe's own
  file: `root = "{here}/data"`.
"""


def written() -> str:
    """Return the page."""
    parts = [OPENING, f"## Outside sections\n\n{table(section_page(VALUES[0]).options)}"]
    for section in METHODS:
        page, family = section_page(section), METHODS[section]
        own = sorted({*discovery.names(family)} - {*discovery.presets(family)})
        names = ", ".join(f"[{name}]({methods_page(family, name)})" for name in own)
        parts.append(f"## [{section}]\n\n{page.about}\n\nNames: {names}.")
        if section in DEFAULTS and (options := method_page(family, DEFAULTS[section]).options):
            parts.append(f"Options of the default, `{DEFAULTS[section]}`:\n\n{table(options)}")
    for section in SETTINGS:
        page = section_page(section)
        parts.append(f"## [{section}]\n\n{page.about}\n\n{table(page.options)}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def table(options: Iterable[Option]) -> str:
    """Return options as a table of Markdown."""
    rows = [
        f"| `{each.name}` | {escaped(each.type)} | {f'`{each.default}`' if each.default else 'must be given'} "
        f"| {escaped(each.text)} |"
        for each in options
    ]
    return "\n".join(["| option | type | default | what it is |", "|---|---|---|---|", *rows])


def escaped(text: str) -> str:
    """Return a text as a cell of a table holds it."""
    return text.replace("|", "\\|")


def methods_page(family: str, name: str) -> str:
    """Return where a method's page is."""
    return f"methods/{name}{'-sampler' if (family, name) == ('samplers', 'all') else ''}.md"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, written()))
