"""A figure as a picture, drawn by an installed browser: Plotly itself draws in a browser only."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import plotly.graph_objects as go

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SECONDS_TO_DRAW = 120


def draw(figure: go.Figure, path: Path, width: int) -> str:
    """Write a figure as a PNG, `width` pixels wide; as a page beside it where no browser is there, or where it fails.

    Returns:
        What was done, for people.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return _as_page(figure, path, f"No browser ({', '.join(BROWSERS)}) to draw {path.name} with")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "figure.html"
        figure.write_html(page, config={"staticPlot": True}, default_width=f"{width}px")
        size = f"--window-size={width + 16},{int(figure.layout.height) + 16}"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000"]
        where = [f"--user-data-dir={folder}/profile", size, f"--screenshot={path.resolve()}"]
        command = [browser, *options, *where, page.as_uri()]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_TO_DRAW)
        except (OSError, subprocess.SubprocessError) as error:
            return _as_page(figure, path, f"{browser} did not draw {path.name} ({type(error).__name__})")
    return f"Drawn: {path}"


def _as_page(figure: go.Figure, path: Path, why: str) -> str:
    figure.write_html(path.with_suffix(".html"))
    return f"{why}: see {path.with_suffix('.html')}."
