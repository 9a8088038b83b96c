"""The demonstration, on a small scale: what it shows, what it writes, what it leaves alone."""

import pytest

from fedgraft.errors import InputError, Interrupted
from fedgraft.experiment.predicting.predict import predict
from fedgraft.interface import demo
from helpers.tiny import TINY

SMALL = {**TINY, "training.epochs": 1}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    out = tmp_path_factory.mktemp("shown") / "demo"
    return out, demo.demo(out, SMALL, progress=False)


def test_methods_stand_side_by_side(shown):
    out, table = shown
    assert [row["run"] for row in table] == list(demo.METHODS)
    assert len({row["target"] for row in table}) == 1
    assert table[1]["bytes_to_target"] is not None  # the target is what FedACS reached
    assert table[2]["bytes"] < 1000, "nothing told, each shop alone: nothing but headers"
    assert (out / "report.html").stat().st_size > 100_000


def test_its_pairs_can_be_predicted(shown):
    out, _ = shown
    assert len(predict(out / "graft_rating", {"pairs": out / "pairs.csv"})) == 6


@pytest.mark.slow
def test_a_second_demonstration_replaces_the_first_and_is_equal(shown, capsys):
    out, table = shown
    again = demo.demo(out, SMALL, progress=False)
    assert [row["digest"] for row in again] == [row["digest"] for row in table]
    last = capsys.readouterr().out.strip().splitlines()[-3:]
    assert [line.split()[0] for line in last] == ["Report", "Predict", "Go"]


def test_nothing_else_is_replaced(tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="not an older demonstration"):
        demo.demo(tmp_path)
    with pytest.raises(SystemExit) as ended:
        demo.main(["--out", str(tmp_path)])
    assert ended.value.code == 2
    assert "not an older demonstration" in capsys.readouterr().err
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_a_foreign_folder_inside_a_demonstration_is_kept(shown):
    out, _ = shown
    toml = out / "alone" / "experiment.toml"
    ours = toml.read_text()
    toml.write_text('description = "mine"\n')
    try:
        with pytest.raises(InputError, match="alone is not the demonstration's"):
            demo.demo(out, SMALL, progress=False)
        assert (out / "fedacs" / "summary.json").exists()
    finally:
        toml.write_text(ours)


@pytest.mark.parametrize(
    ("stop", "code", "said"),
    [(KeyboardInterrupt(), 130, "Interrupted;"), (Interrupted("after round 1", 15), 143, "Ended by SIGTERM;")],
)
def test_an_interrupted_demonstration_begins_anew(tmp_path, capsys, monkeypatch, stop, code, said):
    def stopped(*_, **__):
        raise stop

    monkeypatch.setattr(demo.api, "run", stopped)
    with pytest.raises(SystemExit) as ended:
        demo.main(["--out", str(tmp_path / "demo")])
    assert ended.value.code == code
    assert capsys.readouterr().err == f"{said} started again, the demonstration begins anew.\n"
