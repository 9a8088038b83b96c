"""The report in a browser, at four widths and in both modes: nothing is wider than the page, no labels overlap."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fedgraft.reports.figures.figure_style import BROWSERS
from fedgraft.reports.pages.html_report import write_report
from helpers.fake_runs import write_run

WIDTHS = (1400, 1000, 768, 400)
DARK = {"light": "1", "dark": "0"}
MEASURE = """<script>addEventListener("load", () => setTimeout(() => {
  const apart = (a, b) => a.right < b.left + 1 || b.right < a.left + 1 || a.bottom < b.top + 1 || b.bottom < a.top + 1;
  const overlaps = [], outside = [], figures = document.querySelectorAll(".plotly-graph-div");
  for (const f of figures) {
    const labels = [...f.querySelectorAll(".xtick text, .ytick text, .annotation-text, .legendtext")]
      .map(t => [t.textContent, t.getBoundingClientRect()]);
    const frame = f.getBoundingClientRect();
    labels.forEach(([text, box], i) => {
      if (box.right > frame.right + 1 || box.bottom > frame.bottom + 1) outside.push([f.id, text]);
      for (const [other, its] of labels.slice(i + 1)) if (!apart(box, its)) overlaps.push([f.id, text, other]);
    });
  }
  parent.postMessage(JSON.stringify({width: innerWidth, wide: document.documentElement.scrollWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches, page: getComputedStyle(document.body).backgroundColor,
    figures: figures.length, overlaps, outside}), "*");
}, 2500))</script>"""
FRAMES = """<!doctype html><body><script>
addEventListener("message", e => {
  document.body.append(Object.assign(document.createElement("pre"), {textContent: e.data}));
});
</script>FRAMES</body>"""


def told(round: int, chosen: tuple[int, ...]) -> dict[str, dict[int, float]]:
    return {"score": {client: client / 10 + round for client in range(5)}}


@pytest.mark.slow
@pytest.mark.parametrize("mode", DARK)
def test_nothing_overflows_and_no_labels_overlap(tmp_path: Path, mode: str) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no chromium or google-chrome on the path to open the report with")
    folders = [
        write_run(tmp_path / "a long name of a run", explanation=told, rounds=25),
        *(write_run(tmp_path / "b" / f"seed-{seed}", end=0.97, seed=seed, cohort=3) for seed in (1, 2, 3)),
    ]
    page = write_report(folders, tmp_path / "r.html").read_text(encoding="utf-8")
    (tmp_path / "r.html").write_text(page.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    frames = "".join(
        f'<iframe src="r.html" style="width:{width}px;height:900px;border:0"></iframe>' for width in WIDTHS
    )
    (tmp_path / "frames.html").write_text(FRAMES.replace("FRAMES", frames), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,1000", "--virtual-time-budget=12000"]
    options += [f"--blink-settings=preferredColorScheme={DARK[mode]}", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [browser, *options, "--dump-dom", (tmp_path / "frames.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    seen = [json.loads(text) for text in re.findall(r"<pre>(\{.*?\})</pre>", done.stdout)]
    assert sorted(each["width"] for each in seen) == sorted(WIDTHS)
    for each in seen:
        assert each["figures"] > 10
        assert each["dark"] == (mode == "dark")
        assert (each["page"] == "rgb(255, 255, 255)") == (mode == "light")
        assert each["wide"] <= each["width"]
        assert (each["width"], each["overlaps"], each["outside"]) == (each["width"], [], [])
