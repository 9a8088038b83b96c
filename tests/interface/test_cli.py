"""The command line: what goes where, which exit code, and which words when something is wrong."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fedgraft.experiment.job import load
from fedgraft.experiment.recipes import discovery
from helpers.tiny import ARGUMENTS

# --- run and resume ---------------------------------------------------------------------------------------------------


def test_run_says_what_happened_and_leaves_a_folder(fedgraft) -> None:
    done = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "a")
    assert done.code == 0
    assert "fedacs on shops: 2 rounds (rounds)" in done.out
    assert "baseline global_mean" in done.out
    assert "round 2/2" in done.err
    assert Path("a/summary.json").is_file()


def test_run_as_json_prints_the_summary_and_nothing_else(fedgraft) -> None:
    done = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "a", "--seed", 7, "--json")
    assert done.code == 0
    summary = done.json()
    assert summary == {**json.loads(Path("a/summary.json").read_text()), "folder": "a"}
    assert summary["seed"] == 7
    assert "round 2/2" in done.err
    quiet = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "b", "--seed", 7, "--json", "--quiet")
    assert quiet.err == ""
    assert quiet.json()["digest"] == summary["digest"], "equal seeds give equal bits"


def test_a_run_without_out_gets_a_folder_of_its_own(fedgraft) -> None:
    assert fedgraft("run", "fedacs", *ARGUMENTS, "-q").code == 0
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("fedacs-")


def test_python_m_is_the_command_with_worker_processes_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedgraft", "run", "fedacs", *ARGUMENTS, "runtime.workers=2", "--json", "-q"]
    done = subprocess.run([*command, "--out", "a"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rounds"] == 2


def test_resume_of_a_finished_run_says_the_same_again(fedgraft) -> None:
    first = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "a", "--json").json()
    again = fedgraft("resume", "a", "--json")
    assert again.code == 0
    assert again.json() == first
    assert again.err == "a has finished already; --rounds N gives it more rounds.\n"


@pytest.mark.parametrize(("kept", "words"), [(100, "is not valid TOML"), (0, "[data] needs a name")])
def test_resume_names_a_damaged_file(fedgraft, finished_run: Path, kept: int, words: str) -> None:
    Path("a").mkdir()
    Path("a/experiment.toml").write_text((finished_run / "experiment.toml").read_text()[:kept])
    done = fedgraft("resume", "a")
    assert done.code == 2
    assert done.err.startswith("error: a/experiment.toml")
    assert words in done.err


def test_a_recipe_file_and_a_runs_own_experiment_are_recipes(fedgraft) -> None:
    first = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "a", "--json").json()
    again = fedgraft("run", "a/experiment.toml", "--out", "b", "--json").json()
    assert again["digest"] == first["digest"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], ["Missing argument 'RECIPE'", "fedgraft run [OPTIONS] RECIPE [SECTION.KEY=VALUE]"]),
        (["run", "fedacss"], ["No recipe named 'fedacss'. Did you mean 'fedacs'?"]),
        (["run", "FedACS"], ["No recipe named 'FedACS'. Did you mean 'fedacs'?"]),
        (["run", "nowhere.toml"], ["No recipe file nowhere.toml", "fedacs"]),
        (["run", "fedacs", "--sed", "1"], ["No such option", "--seed"]),
        (["run", "fedacs", "--seed", "x"], ["Invalid value for '--seed'", "integer"]),
        (["run", "fedacs", "--seed", "-1"], ["seed must be >= 0; got -1"]),
        (["run", "fedacs", "rounds"], ["'rounds' is not an override", "section.key=value"]),
        (["run", "fedacs", "round=3"], ["No key named 'round'. Did you mean 'rounds'?"]),
        (["run", "fedacs", "rounds=many"], ["rounds must be a whole number; got 'many'"]),
        (["run", "fedacs", "selectr.name=oort"], ["No section named 'selectr'. Did you mean 'selector'?"]),
        (["run", "fedacs", "selector.name=ort"], ["No selector named 'ort'. Did you mean 'oort'?"]),
        (["run", "fedacs", "training.epoch=3"], ["No training option named 'epoch'. Did you mean 'epochs'?"]),
        (["run", "fedacs", "training.epochs=0"], ["training.epochs must be >= 1; got 0"]),
        (["run", "fedacs", "training.epochs=much"], ["training.epochs must be of type int; got 'much'"]),
        (["run", "fedacs", "training.name=x"], ["No training option named 'name'. Known: final_rate, "]),
        (["run", "fedacs", "selector.score_split=TEST"], ["got 'TEST'. Did you mean 'test'?"]),
        (["run", "fedacs", "alternatives=3"], ["alternatives must hold sections such as [alternatives.", "got 3"]),
        (["run", "fedacs", "codec.name=chain", "codec.codecs=3", "codec.bits=4"], ["codec.codecs must be a list of"]),
        (["run", "fedacs", "task.folds=1"], ["task.folds must be >= 2; got 1"]),
        (["run", "fedacs", "model.name=gtc"], ["No model named 'gtc'"]),
        (["run", "fedacs", "--rounds", "3"], ["--rounds is a key of recipes", "write rounds=VALUE, without dashes"]),
        (["run", "fedacs", "--selector.name=oort"], ["write selector.name=VALUE"]),
        (["run", "fedacs", "runtime.device=gpu"], ["runtime.device must be one of 'cpu', 'cuda'; got 'gpu'"]),
        (["run", "fedacs", "budget.bytes=2XB"], ["budget.bytes", "2XB"]),
        (["run", "fedacs", "data.name=ciao"], ["data.root must be given: folder"]),
        (["run", "fedacs", "data.name=ciao", "data.root=nowhere"], ["nowhere"]),
        (["run", "fedacs", "data.name=table", "data.ratings=nowhere.csv"], ["no file nowhere.csv"]),
        (["run", "fedacs", "data.name=table", "data.ratings=broken.csv"], ["broken.csv, row 2", "'rating'", "'x'"]),
        (["run", "fedacs", *ARGUMENTS, "--out", "file/run"], ["--out file/run cannot be written"]),
        (
            ["run", "fedacs", "data.ratings=r.csv"],
            ["named 'ratings' with data.name = 'shops'; data.name = 'table' has"],
        ),
        (["resume", "nowhere"], ["nowhere is not a run's folder"]),
        (["resume", "a", "rounds=9"], ["rounds=9 is none of resume's; write --rounds 9."]),
        (["resume", "a", "training.epochs=2"], ["'fedgraft run RECIPE --from RUN' begins a new one"]),
        (["list", "selectr"], ["No kind named 'selectr'. Did you mean 'selectors'?"]),
        (["show", "fedacss"], ["No recipe, method or section named 'fedacss'. Did you mean 'fedacs'?"]),
        (["compare", "nowhere"], ["nowhere"]),
        (["report", "nowhere", "-o", "x.html"], ["nowhere"]),
        (["predict", "nowhere", "--pairs", "p.csv", "-o", "o.csv"], ["nowhere is not a run's folder"]),
        (["predict", "nowhere", "--pairs", "p.csv", "-o", "o.txt"], ["--out o.txt must end in .csv or .parquet"]),
        (["rum"], ["No command named 'rum'. Did you mean 'run'"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_bad_input_is_one_message_and_exit_code_2(fedgraft, arguments, words) -> None:
    Path("file").write_text("in the way")
    Path("broken.csv").write_text("user,item,rating,category\na,b,5,c\na,d,x,c\n")
    done = fedgraft(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err
    assert not Path("a").exists()


def test_names_of_folders_and_notes_on_data_cannot_steer_a_terminal(fedgraft, monkeypatch, caplog) -> None:
    folder = "a\x1b[2J\nround 9"
    done = fedgraft("run", "fedacs", *ARGUMENTS, "--out", folder)
    assert r"in a\x1b[2J\nround 9" in done.out
    compared, missed = fedgraft("compare", folder), fedgraft("resume", folder + "b")
    assert r"a\x1b[2J\nround 9b is not a run" in missed.err
    assert "\x1b" not in "".join(each.out + each.err for each in (done, compared, missed))
    logging.getLogger("fedgraft.data").warning("set %s: odd", folder)
    told = [record.getMessage() for record in caplog.records if record.name == "fedgraft.data"]
    assert told[-1:] == [r"set a\x1b[2J\nround 9: odd"]


def test_an_out_that_holds_a_run_is_not_touched(fedgraft) -> None:
    first = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "a", "--json").json()
    again = fedgraft("run", "fedacs", *ARGUMENTS, "--out", "a", "--seed", 2, "--json")
    assert again.code == 2
    assert again.out == ""
    assert "--out a holds a run already" in again.err
    assert "fedgraft resume a" in again.err
    assert {**json.loads(Path("a/summary.json").read_text()), "folder": "a"} == first


def test_a_budget_that_does_not_pay_for_a_round_is_exit_code_3(fedgraft) -> None:
    done = fedgraft("run", "fedacs", *ARGUMENTS, "budget.bytes=1kB", "--out", "a", "--json")
    assert done.code == 3
    assert done.out == ""
    assert "budget.bytes = 1000 does not pay for one round" in done.err
    assert not Path("a").exists()


# --- predict ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predict_writes_answers(fedgraft, finished_run: Path, suffix: str) -> None:
    Path("pairs.csv").write_text("user,item\nuser-01,item-01\nnewcomer,item-02\nuser-02,novelty\n")
    done = fedgraft("predict", finished_run, "--pairs", "pairs.csv", "-o", f"new/folder/answers{suffix}", "--json")
    assert done.code == 0
    assert done.json() == {"file": f"new/folder/answers{suffix}", "answers": 3}
    assert f"3 answers in new/folder/answers{suffix}" in done.err
    path = Path(f"new/folder/answers{suffix}")
    answers = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert list(answers) == ["user", "item", "client", "rating", "basis"]
    assert answers["basis"][1].startswith("user new to")


def test_an_id_that_a_spreadsheet_would_compute_is_text_in_csv_and_as_it_is_in_parquet(fedgraft, finished_run) -> None:
    Path("pairs.csv").write_text("user,item,=note\n=1+1,item-01,-5\n")
    for suffix in ("csv", "parquet"):
        assert fedgraft("predict", finished_run, "--pairs", "pairs.csv", "-o", f"out.{suffix}").code == 0
    row = pd.read_csv("out.csv", dtype=str).iloc[0]
    assert (row["user"], row["item"], row["'=note"]) == ("'=1+1", "item-01", "-5")
    assert pd.read_parquet("out.parquet")[["user", "=note"]].iloc[0].tolist() == ["=1+1", "-5"]


def test_predict_with_a_clients_own_files(fedgraft, finished_run: Path) -> None:
    Path("own.csv").write_text("user,item,rating\nann,tea,5\nann,cake,4\nben,tea,2\n")
    Path("trust.csv").write_text("user,trusts\nben,ann\n")
    Path("pairs.csv").write_text("user,item\nben,cake\n")
    asked = ["predict", finished_run, "--pairs", "pairs.csv", "-o", "answers.csv", "--data", "own.csv"]
    assert fedgraft(*asked, "--trust", "trust.csv").code == 0
    assert pd.read_csv("answers.csv")["basis"].tolist() == ["known user and item"]


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ("missing.csv", "--pairs: no file missing.csv"),
        ("pairs.xlsx", "--pairs: no file pairs.xlsx"),
        ("lacking.csv", "pairs need a column 'item'"),
        ("empty.csv", "the file is empty"),
        ("broken.parquet", "cannot be read as parquet"),
    ],
)
def test_predict_with_bad_questions(fedgraft, finished_run: Path, pairs: str, words: str) -> None:
    Path("pairs.txt").write_text("user,item\na,b\n")
    Path("lacking.csv").write_text("user,thing\na,b\n")
    Path("empty.csv").write_text("")
    Path("broken.parquet").write_text("no parquet")
    done = fedgraft("predict", finished_run, "--pairs", pairs, "-o", "answers.csv")
    assert done.code == 2
    assert words in done.err
    assert not Path("answers.csv").exists()


def test_answers_that_cannot_be_written(fedgraft, finished_run: Path) -> None:
    Path("pairs.csv").write_text("user,item\nuser-01,item-01\n")
    Path("file").write_text("in the way")
    done = fedgraft("predict", finished_run, "--pairs", "pairs.csv", "-o", "file/answers.csv")
    assert done.code == 2
    assert "--out file/answers.csv cannot be written" in done.err


# --- compare, report, list, show --------------------------------------------------------------------------------------


def test_compare_and_report(fedgraft, finished_run: Path) -> None:
    shown = fedgraft("compare", finished_run, "--target", "rmse=1.5")
    assert shown.code == 0
    assert "test" in shown.out
    found = fedgraft("compare", finished_run, "--json")
    assert found.err == ""
    assert len(found.json()["runs"]) == 1
    made = fedgraft("report", finished_run, "-o", "report.html")
    assert made.code == 0
    assert made.out == ""
    assert "Report in report.html" in made.err
    assert Path("report.html").read_text().startswith("<!")
    made = fedgraft("report", finished_run, "-o", "report.html", "--json")
    assert made.json() == {"file": "report.html", "runs": 1}
    assert fedgraft("trust", finished_run, "--json").json() == {"folder": str(finished_run), "trusted": []}


def test_runs_are_compared_against_simulated_seconds(fedgraft, finished_run: Path) -> None:
    shown = fedgraft("compare", finished_run, "--against", "simulated_seconds")
    assert shown.out.index("after sim.") < shown.out.index("after ", shown.out.index("after sim.") + 1)
    assert fedgraft("report", finished_run, "-o", "report.html", "--against", "flops").code == 0
    page = Path("report.html").read_text()
    assert page.index("RMSE against operations") < page.index("RMSE against rounds")
    for command in (["compare", finished_run], ["report", finished_run, "-o", "other.html"]):
        done = fedgraft(*command, "--against", "simulated_second")
        assert done.code == 2
        assert "Did you mean 'simulated_seconds'?" in done.err
        assert done.err.count("\n") == 1


def test_a_target_must_be_understood(fedgraft, finished_run: Path) -> None:
    done = fedgraft("compare", finished_run, "--target", "rmse=low")
    assert done.code == 2
    assert "--target" in done.err or "target" in done.err


def test_list_names_everything_there_is(fedgraft) -> None:
    found = fedgraft("list", "--json").json()
    for family in discovery.FAMILIES:
        assert list(found[family]) == discovery.names(family)
        assert all(found[family].values()), "each with a line that says what it is"
    assert "fedacs" in found["recipes"]
    assert list(fedgraft("list", "selectors", "--json").json()) == ["selectors"]
    shown = fedgraft("list", "selectors")
    assert shown.code == 0
    assert all(name in shown.out for name in discovery.names("selectors"))


def test_show_explains_recipes_and_methods(fedgraft) -> None:
    shown = fedgraft("show", "fedacs")
    assert shown.code == 0
    assert "# recipe fedacs" in shown.out
    assert "# selectors: fedacs" in shown.out
    assert 'name = "shops"' in shown.out
    assert "Source:" in fedgraft("show", "gat").out


@pytest.mark.parametrize(
    ("name", "family"),
    [("fedais", "samplers"), ("fedpns", "samplers"), ("fedgraph", "samplers"), ("fedsage_plus", "sharing")],
)
def test_show_explains_a_recipe_without_its_data_and_the_methods_of_its_name(fedgraft, name: str, family: str) -> None:
    shown = fedgraft("show", name)
    assert shown.code == 0
    assert f"# recipe {name}\n" in shown.out
    assert f"# root must be given: fedgraft run {name} data.root=..." in shown.out
    assert f"# {family}: {name}\n" in shown.out


def test_show_explains_a_section_and_the_method_that_it_has_by_default(fedgraft) -> None:
    shown = fedgraft("show", "training").out
    assert shown.startswith("# section [training]\n\nOptions of a client's training in a round")
    assert "\nlearning_rate: number = 0.005\n    at the first round, > 0.\n" in shown
    shown = fedgraft("show", "runtime").out
    assert "  ray        Actors of a Ray cluster" in shown
    assert "\nworkers: integer = -1\n    how many processes, >= 0;" in shown
    assert "\nrounds: integer = 60\n    most rounds, >= 1.\n" in fedgraft("show", "seed").out


def test_show_says_of_a_preset_what_it_stands_for_and_what_is_left_to_set(fedgraft) -> None:
    (page,) = fedgraft("show", "cora", "--json").json()["pages"]
    assert page["about"].startswith("pyg_nodes with set = 'cora'.\n\nNode classification")
    assert {"name": "root", "type": "path", "default": "", "text": page["options"][0]["text"]} == page["options"][0]
    assert "set" not in {option["name"] for option in page["options"]}


def test_show_explains_a_class_elsewhere(fedgraft) -> None:
    (page,) = fedgraft("show", "helpers.toy:Lines", "--json").json()["pages"]
    assert page["title"] == "data: helpers.toy:Lines"
    done = fedgraft("show", "pathlib:Path")
    assert (done.code, "'pathlib:Path' must be a dataclass that is one of fedgraft.contracts" in done.err) == (2, True)


def test_a_shown_recipe_is_a_file_that_run_takes(fedgraft) -> None:
    Path("my.toml").write_text(fedgraft("show", "fedacs", "--toml").out)
    assert load("my.toml").recipe.sections == load("fedacs").recipe.sections
    assert fedgraft("show", "my.toml", "--toml").out == Path("my.toml").read_text()


def test_help_names_every_command_and_is_no_error(fedgraft) -> None:
    shown = fedgraft("--help")
    assert shown.code == 0
    for command in ("run", "resume", "predict", "serve", "compare", "report", "list", "show"):
        assert f"  {command} " in shown.out
        assert fedgraft(command, "-h").code == 0
