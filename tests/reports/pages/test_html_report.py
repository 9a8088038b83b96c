import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs_version

from fedgraft.errors import InputError
from fedgraft.reports.figures import figures
from fedgraft.reports.pages.html_report import plotly_basic, write_report
from helpers.fake_runs import write_run

EVIL = '<img src=x onerror="alert(1)">&</script>'


class Page(HTMLParser):
    """Tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._silent = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._silent else data + "\n"


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has the first of its figures, which takes a tenth of the time; for tests that are of the rest."""
    monkeypatch.setattr(figures, "every", lambda runs, target, against: [figures.score(runs, against)])


def test_one_file_that_fetches_nothing(tmp_path: Path) -> None:
    out = write_report([write_run(tmp_path / "a"), write_run(tmp_path / "b", cohort=3)], tmp_path / "new" / "r.html")
    assert [path.name for path in out.parent.iterdir()] == ["r.html"]
    page = read(out)
    assert not [attributes for _, attributes in page.tags if {"src", "href"} & set(attributes)]
    assert out.stat().st_size <= 1_600_000
    scripts = re.findall(r"<script>(.*?)</script>", out.read_text(), re.S)
    assert sum("plotly.js (basic" in script for script in scripts) == 1
    figures = [a["id"] for t, a in page.tags if a.get("class") == "plotly-graph-div"]
    assert figures == [f"figure-{i}" for i in range(1, 17)]
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")


@pytest.mark.usefixtures("one_figure")
def test_the_page_says_what_was_run(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / "a", end=0.95), write_run(tmp_path / "b", end=1.05, recipe="random", seed=2)]
    text = read(write_report(folders, tmp_path / "r.html", "rmse=1.0", "Who trains?")).text
    for part in (
        "Who trains?",
        "ciao",
        "fedacs, random",
        "torch 2.13.0",
        f"{2:032x}",
        "not reached",
        "validation rmse ≤ 1",
        "central_biases",
        "0.9490",
        'name = "random"',
        "What differs",
        "selector.name",
    ):
        assert part in text
    assert "Warning" not in text


def test_the_script_is_of_the_version_that_draws_figures_elsewhere() -> None:
    found = re.search(r"plotly\.js \(basic - minified\) v(\d+)\.", plotly_basic())
    assert found is not None
    assert found[1] == get_plotlyjs_version().partition(".")[0]


@pytest.mark.usefixtures("one_figure")
def test_the_page_begins_with_what_came_out(tmp_path: Path) -> None:
    page = read(write_report([write_run(tmp_path / "a"), write_run(tmp_path / "b", end=1.0)], tmp_path / "r.html"))
    assert page.text.index("a is best: RMSE") < page.text.index("Scores")


def changed(folder: Path, **changes: Any) -> Path:
    path = folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


@pytest.mark.usefixtures("one_figure")
def test_data_and_further_measures_are_shown_where_a_run_tells_them(tmp_path: Path) -> None:
    clients = [
        {"name": f"<i>shop {k}", "train": 10 * k + 3, "validation": 1, "test": 2, "classes": [k, 3]} for k in range(2)
    ]
    measures = {"test": {"accuracy": 0.5, "macro_f1": 0.4321}}
    folder = changed(
        write_run(tmp_path / "a", clients=2, metric="accuracy", better="higher"),
        data={"classes": ["good", "<b>bad"], "clients": clients},
        measures=measures,
    )
    page = read(
        write_report([folder, write_run(tmp_path / "b", metric="accuracy", better="higher")], tmp_path / "r.html")
    )
    assert "22 examples (16 train, 2 validation, 4 test) at 2 clients." in page.text
    assert "<i>shop 1" in page.text
    assert {"macro-F1", "0.4321"} <= set(page.text.split())
    shares = [attributes for tag, attributes in page.tags if tag == "i"]
    assert [share["title"] for share in shares] == ["<b>bad: 3, 100 %", "good: 1, 25 %", "<b>bad: 3, 75 %"]
    with pytest.raises(InputError, match=r"summary\.json is damaged: data is"):
        write_report([changed(folder, data={"classes": [], "clients": [{"name": "a"}]})], tmp_path / "r.html")


def test_folders_of_the_machine_are_on_no_page(tmp_path: Path) -> None:
    toml = "recipe = 'x'\n\n[data]\nname = 'table'\nratings = '{}'\nnodes = [\"{}\"]\nnear = 'data/n.csv'\n"
    folders = [
        write_run(tmp_path / "a", toml=toml.format("/home/me/secret/r.csv", "C:\\\\me\\\\secret\\\\n.csv")),
        write_run(tmp_path / "b", toml=toml.format("/elsewhere/secret/other.csv", "/secret/n.csv")),
    ]
    text = read(write_report(folders, tmp_path / "r.html")).text
    assert "secret" not in text
    assert str(tmp_path) not in text
    assert "ratings = 'r.csv'" in text
    assert 'nodes = ["n.csv"]' in text
    assert "data/n.csv" in text
    differs = text.split("What differs")[1].split("Figures")[0]
    assert ("data.ratings" in differs, "data.nodes" in differs) == (True, False)


def test_the_first_figure_is_against_what_was_asked_for(tmp_path: Path) -> None:
    page = write_report([write_run(tmp_path / "a")], tmp_path / "r.html", against="simulated_seconds").read_text()
    places = [page.index(f"RMSE against {name}") for name in ("simulated seconds", "rounds", "bytes", "seconds")]
    assert places == sorted(places)
    with pytest.raises(InputError, match=r"against must be one of .* got 'byte'\. Did you mean 'bytes'"):
        write_report([tmp_path / "a"], tmp_path / "b.html", against="byte")
    assert not (tmp_path / "b.html").exists()


def test_equal_runs_give_an_equal_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    first, second = (write_report([folder], tmp_path / name).read_bytes() for name in ("1.html", "2.html"))
    assert first == second


@pytest.mark.usefixtures("one_figure")
def test_different_data_is_warned_about(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / "a"), write_run(tmp_path / "b", dataset="epinions", clients=7)]
    text = read(write_report(folders, tmp_path / "r.html")).text
    assert "do not have the same data set (ciao, epinions)" in text
    assert "do not have the same number of clients (5, 7)" in text
    assert "★" not in text


@pytest.mark.usefixtures("one_figure")
def test_failures_are_warned_about(tmp_path: Path) -> None:
    counted = {"setup": 0, "probe": 1, "training": 2, "scoring": 0}
    folders = [write_run(tmp_path / "a", counted=counted), write_run(tmp_path / "b")]
    text = read(write_report(folders, tmp_path / "r.html")).text
    assert "a: clients failed, 1 in probe, 2 in training." in text
    assert "clients failed" not in read(write_report(folders[1:], tmp_path / "r.html")).text


def told(round: int, chosen: tuple[int, ...]) -> dict[str, dict[int, float]]:
    """Terms of five clients; the agent wants the first two."""
    return {
        "mean reward": {client: client / 10 for client in range(5)},
        "score": {client: client / 10 + (client in chosen) for client in range(5)},
        "agent": {client: -float(client) for client in range(5)},
    }


@pytest.mark.usefixtures("one_figure")
def test_a_page_says_why_clients_were_chosen(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", explanation=told, rounds=3)
    page = read(write_report([folder], tmp_path / "r.html"))
    text = page.text.split("Why these clients")[1].split("Settings")[0]
    rows = [json.loads(line)["selected"] for line in (folder / "rounds.jsonl").read_text().splitlines()]
    agreed, shared = rows.count([0, 1]), sum(len({0, 1} & {*row}) for row in rows)
    for part in (
        "mean of the chosen",
        "mean reward",
        "3 of 3",
        "agent's value",
        f"{agreed} of 3 rounds",
        f"{100 * shared / 6:.0f} %",
        "40 %",
        "in the place of",
        ", ".join(map(str, rows[-1])),
    ):
        assert part in " ".join(text.split())
    assert sum(attributes.get("id") == "why-1" for _, attributes in page.tags) == 1
    assert not [tag for tag, _ in page.tags if tag == "h3"]


@pytest.mark.usefixtures("one_figure")
def test_of_several_runs_those_that_tell_have_a_part_each(tmp_path: Path) -> None:
    explanation = {f"<b>{EVIL}": {0: 1.0}}
    folders = [
        write_run(tmp_path / "a", explanation=told),
        write_run(tmp_path / "b"),
        write_run(tmp_path / "c", explanation=lambda round, chosen: explanation),
    ]
    page = read(write_report(folders, tmp_path / "r.html"))
    assert [attributes["id"] for _, attributes in page.tags if "why" in (attributes.get("id") or "")] == [
        "why-1",
        "why-3",
    ]
    assert sum(tag == "h3" for tag, _ in page.tags) == 2
    assert f"<b>{EVIL}" in page.text
    assert "img" not in {tag for tag, _ in page.tags}
    assert page.text.count("would have chosen instead") == 1
    assert "Why these clients" not in read(write_report(folders[1:2], tmp_path / "b.html")).text


@pytest.mark.usefixtures("one_figure")
def test_long_cohorts_are_cut(tmp_path: Path) -> None:
    explanation = {"agent": {client: float(client) for client in range(60)}}
    folder = write_run(tmp_path / "a", clients=60, cohort=30, explanation=lambda round, chosen: explanation)
    text = read(write_report([folder], tmp_path / "r.html")).text
    assert "and 14 more" in text


def test_whatever_a_run_holds_is_shown_as_text(tmp_path: Path) -> None:
    toml = f"recipe = 'x'\nnote = '''{EVIL}'''\n"
    folder = write_run(tmp_path / "<i>a & b", recipe=EVIL, dataset=EVIL, baselines={EVIL: 1.0}, toml=toml)
    other = write_run(tmp_path / "b", dataset="<u>")
    page = read(write_report([folder, other], tmp_path / "r.html", title=EVIL))
    assert not {"img", "i", "u"} & {tag for tag, _ in page.tags}
    assert page.text.count(EVIL) >= 6


@pytest.mark.usefixtures("one_figure")
def test_what_a_run_holds_is_no_template(tmp_path: Path) -> None:
    toml = "recipe = 'x'\nnote = '{{ 7 * 7 }}{% raw %}{# gone #}'\n"
    text = read(write_report([write_run(tmp_path / "a", toml=toml)], tmp_path / "r.html", title="{{ title }}")).text
    assert toml in text
    assert text.count("{{ title }}") == 2


def test_control_characters_of_a_folder_are_visible(tmp_path: Path) -> None:
    page = write_report([write_run(tmp_path / "a\x1b[31m")], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "\x1b" not in page
    assert page.count(r"a\x1b[31m") >= 3  # summary, runs, settings


@pytest.mark.usefixtures("one_figure")
def test_the_best_run_is_marked(tmp_path: Path) -> None:
    page = read(write_report([write_run(tmp_path / "a"), write_run(tmp_path / "b", end=1.0)], tmp_path / "r.html"))
    classes = [attributes.get("class") for tag, attributes in page.tags if tag == "td"]
    assert classes.count("best") == 6  # three scores; bytes, simulated seconds and operations to the target
    assert "★ best of the runs." in page.text


@pytest.mark.usefixtures("one_figure")
def test_every_setting_is_open_in_print(tmp_path: Path) -> None:
    page = write_report([write_run(tmp_path / "a")], tmp_path / "r.html").read_text(encoding="utf-8")
    script = re.findall(r"<script>(.*?)</script>", page, re.S)[-1]
    assert '"beforeprint"' in script
    assert "d.open = true" in script
    assert "@media print" in page


def test_a_run_without_scores_can_be_reported(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", baselines={})
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    summary.update(dict.fromkeys(("validation", "test", "test_at_best_validation")))
    path.write_text(json.dumps({**summary, "curve": [[0, 1, 0.0, None, None, 0, 0.0]]}))
    assert "Bytes to validation" not in write_report([folder], tmp_path / "r.html").read_text()


@pytest.mark.usefixtures("one_figure")
def test_what_cannot_be_reported_is_refused(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a")
    other = write_run(tmp_path / "b", metric="auc", better="higher")
    with pytest.raises(InputError, match="different metrics"):
        write_report([a, other], tmp_path / "r.html")
    with pytest.raises(InputError, match="no such folder"):
        write_report([tmp_path / "c"], tmp_path / "r.html")
    with pytest.raises(InputError, match="--target names 'auc'"):
        write_report([a], tmp_path / "r.html", "auc=0.8")
    assert not (tmp_path / "r.html").exists()
    with pytest.raises(InputError, match=r"a/summary\.json/r\.html cannot be written"):
        write_report([a], a / "summary.json" / "r.html")


@pytest.mark.slow
def test_the_page_draws_its_figures_in_a_browser(tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no chromium or google-chrome on the path to open the report with")
    out = write_report([write_run(tmp_path / "a", explanation=told)], tmp_path / "r.html")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--enable-logging=stderr"]
    done = subprocess.run(
        [browser, *options, profile, "--dump-dom", out.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.count('class="main-svg"') >= 6
    assert "Agent's value of each client" in done.stdout or "Score of each client" in done.stdout
    assert "RMSE against bytes" in done.stdout
    assert "CONSOLE" not in done.stderr
