"""Draw docs/architecture.svg from the code's imports: packages from top to bottom, and who imports whom.

python docs/architecture_picture.py          # write the picture
python docs/architecture_picture.py --check  # exit code 1 if the stored one is stale
"""

import ast
import html
import sys
from collections import Counter
from pathlib import Path

from stored_page import write_or_check

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "fedgraft"
PICTURE = Path(__file__).with_suffix("").with_name("architecture.svg")
FLOORS = (
    ("interface",),
    ("testing",),
    ("reports",),
    ("experiment",),
    ("runtimes",),
    ("engine.server", "engine.client", "engine"),
    ("methods", "methods.rl"),
    ("domains",),
    ("contracts",),
    ("nn",),
    ("wire",),
    ("secrets",),
    ("errors",),
)
"""Packages from top to bottom; import-linter holds the same order (pyproject.toml)."""
NAMES = tuple(
    name
    for floor in FLOORS
    for name in floor
    if (SOURCE / name.replace(".", "/")).is_dir() or (SOURCE / f"{name}.py").is_file()
)
LEFT, TOP, ROW, CELL, WIDTH = 600, 110, 34, 44, 600 + 44 * len(NAMES) + 60
INK, SOFT, LINE, FILL = "#1F2933", "#52606D", "#E4E7EB", "#0072B2"


def package_of(path: Path) -> str:
    """Return the name of `NAMES` that a source file belongs to; "" for the package's own files."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    known = [name for name in NAMES if parts[: name.count(".") + 1] == tuple(name.split("."))]
    return max(known, key=len, default="")


def imported(path: Path) -> set[str]:
    """Return the files' dotted names that a source file imports, below fedgraft."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fedgraft":
            inside = node.module.removeprefix("fedgraft").lstrip(".")
            for alias in node.names:
                whole = f"{inside}.{alias.name}".lstrip(".")
                place = SOURCE / whole.replace(".", "/")
                found.add(whole if place.is_dir() or place.with_suffix(".py").is_file() else inside)
    return found


def counted() -> Counter[tuple[str, str]]:
    """Return {(importing package, imported package): number of files imported}."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        importer = package_of(path)
        for dotted in imported(path):
            target = package_of(SOURCE / (dotted.replace(".", "/") + ".py"))
            if importer and target and importer != target:
                counts[importer, target] += 1
    return counts


def described(name: str) -> str:
    """Return the first line of a package's documentation."""
    path = SOURCE / name.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].rstrip(".") if text else ""


def drawn() -> str:
    """Return the picture as SVG."""
    counts, height = counted(), TOP + ROW * len(NAMES) + 16
    largest = max(counts.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="30" font-size="17" font-weight="bold" fill="{INK}">Packages import only what is below</text>',
        f'<text x="16" y="52" font-size="13" fill="{SOFT}">A row imports from a column; the number counts files. '
        "Nothing stands left of the diagonal.</text>",
    ]
    for row, name in enumerate(NAMES):
        y = TOP + ROW * row
        label = html.escape(name.replace(".", "/"))
        parts.append(f'<line x1="16" x2="{WIDTH - 16}" y1="{y}" y2="{y}" stroke="{LINE}"/>')
        parts.append(f'<text x="16" y="{y + 22}" font-size="14" font-weight="bold" fill="{INK}">{label}</text>')
        about = html.escape(shortened(described(name)))
        parts.append(f'<text x="150" y="{y + 22}" font-size="11.5" fill="{SOFT}">{about}</text>')
        x = LEFT + CELL * row + CELL / 2
        parts.append(
            f'<text x="{x}" y="{TOP - 8}" font-size="11" fill="{SOFT}" text-anchor="start" '
            f'transform="rotate(-35 {x} {TOP - 8})">{label}</text>'
        )
        parts.append(
            f'<rect x="{LEFT + CELL * row + 4}" y="{y + 4}" width="{CELL - 8}" height="{ROW - 8}" fill="{LINE}"/>'
        )
        for column, other in enumerate(NAMES):
            if number := counts[name, other]:
                shade = 0.15 + 0.75 * (number / largest) ** 0.5
                cx = LEFT + CELL * column
                colour = "white" if shade > 0.5 else INK
                parts.append(
                    f'<rect x="{cx + 4}" y="{y + 4}" width="{CELL - 8}" height="{ROW - 8}" fill="{FILL}" '
                    f'fill-opacity="{shade:.2f}"/>'
                )
                parts.append(
                    f'<text x="{cx + CELL / 2}" y="{y + 21}" font-size="12" text-anchor="middle" '
                    f'fill="{colour}">{number}</text>'
                )
    parts.append("</svg>\n")
    return "\n".join(parts)


def shortened(text: str, most: int = 74) -> str:
    """Return a text of at most so many characters, cut behind a word."""
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0].rstrip(",;:") + " ..."


if __name__ == "__main__":
    sys.exit(write_or_check(PICTURE, drawn()))
