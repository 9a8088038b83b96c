"""More rounds for a run that has ended: as if they had been asked for at first, or a reason why not."""

import pytest

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from helpers.tiny import TINY
from helpers.toy_runs import EVERYTHING, toy


def content(folder):
    """All of a run but what a clock on the wall measured."""
    store = RunFolder.open(folder)
    summary = {key: value for key, value in store.summary().items() if key not in ("seconds", "curve")}
    curve = [[*point[:2], *point[3:]] for point in store.summary()["curve"]]
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in store.rows()]
    files = [(folder / name).read_bytes() for name in ("ledger.jsonl", "model.safetensors", "experiment.toml")]
    return summary, curve, rows, files, store.load()[1]


def test_a_run_that_goes_on_ends_as_if_all_rounds_had_been_asked_for_at_first(tmp_path):
    execute(toy(**EVERYTHING), tmp_path / "whole")
    execute(toy(**{**EVERYTHING, "rounds": 6}), tmp_path / "longer")
    summary = resume(tmp_path / "longer", rounds=EVERYTHING["rounds"])
    assert summary["rounds"] == EVERYTHING["rounds"]
    for one, other in zip(content(tmp_path / "longer"), content(tmp_path / "whole"), strict=True):
        assert one == other


def test_rounds_changed_in_the_file_are_made_too(tmp_path):
    execute(toy(rounds=2), tmp_path / "run")
    path = tmp_path / "run" / "experiment.toml"
    path.write_text(path.read_text().replace("rounds = 2", "rounds = 4"))
    assert resume(tmp_path / "run")["digest"] == execute(toy(rounds=4))["digest"]


def test_killed_before_its_next_checkpoint_it_still_goes_on(tmp_path, monkeypatch):
    execute(toy(rounds=2), tmp_path / "run")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fedgraft.experiment.running.runner._train", killed)
        with pytest.raises(KeyboardInterrupt):
            resume(tmp_path / "run", rounds=4)
    assert not (tmp_path / "run" / "summary.json").exists(), "what it came to is no result any more"
    assert resume(tmp_path / "run")["digest"] == execute(toy(rounds=4))["digest"]


def test_answers_are_smoothed_anew_after_the_new_last_round(tmp_path):
    changes = {
        "data": {"name": "blocks", "nodes": 120, "clients": 2, "features": 8},
        "model.hidden": 4,
        "selector.name": "all",
        "answers.smoothing": 1,
        "training.schedule": "constant",
        "runtime.workers": 0,
        "baselines": [],
    }
    for name, rounds in (("whole", 4), ("longer", 2)):
        fedgraft.run("fedais", out=tmp_path / name, overrides={**changes, "rounds": rounds}, progress=False)
    fedgraft.resume(tmp_path / "longer", progress=False, rounds=4)
    for one, other in zip(content(tmp_path / "longer"), content(tmp_path / "whole"), strict=True):
        assert one == other


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training.schedule": "cosine"}, r"training.schedule = 'cosine' spreads learning rates .* --from RUN"),
        ({"selector.min_selections": 3}, r"selector 'fedacs' chooses by how many rounds are planned"),
        (
            {"selector.name": "all", "evaluation.every": 3},
            r"round 2 was scored as the last one, though evaluation.every = 3",
        ),
        ({"patience": 1, "training.learning_rate": 9.0, "rounds": 8}, r"was ended by 'patience' after \d+ rounds"),
    ],
)
def test_rounds_that_would_have_been_others_cannot_be_added_to(tmp_path, changes, message):
    given = {**TINY, "training.schedule": "constant", "baselines": [], **changes}
    fedgraft.run("fedacs", out=tmp_path / "run", overrides=given, progress=False)
    before = content(tmp_path / "run")
    with pytest.raises(InputError, match=message):
        fedgraft.resume(tmp_path / "run", progress=False, rounds=9)
    assert content(tmp_path / "run") == before, "and nothing has changed"


def test_there_are_never_fewer_rounds_than_were_made(tmp_path):
    execute(toy(rounds=3), tmp_path / "run")
    with pytest.raises(InputError, match=r"rounds must be >= 3, as many as were made; got 2"):
        resume(tmp_path / "run", rounds=2)
    assert (tmp_path / "run" / "summary.json").exists()
