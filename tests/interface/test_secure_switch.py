"""`fedgraft run RECIPE --secure` and `fedgraft.run(..., secure=True)` mask updates, and say what they changed."""

import tomllib

import pytest

import fedgraft as package
from fedgraft.errors import InputError

SMALL = ["data.name=blocks", "data.nodes=120", "data.clients=4", "data.features=8", "model.hidden=[8]", "rounds=2"]
QUICK = [*SMALL, "baselines=[]", "runtime.workers=0"]


def test_a_command_changes_prints_and_stores(fedgraft, tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    ran = fedgraft("run", "graft_node", *QUICK, "--secure", "--out", str(tmp_path / "run"), "-q", "--json")
    assert ran.code == 0
    assert ran.json()["bytes"]["masking"] > 0
    assert (
        "--secure changes answers.refit to '', codec.scale to 'agreed', codec.rounding to 'stochastic'" in caplog.text
    )
    stored = tomllib.loads((tmp_path / "run" / "experiment.toml").read_text())
    assert stored["secure_sum"]["name"] == "secagg"
    assert stored["codec"]["scale"] == "agreed"


def test_several_seeds_have_it_too(fedgraft, tmp_path) -> None:
    ran = fedgraft("run", "plain_gcn", *QUICK, "--secure", "--seeds", "1,2", "--out", str(tmp_path / "runs"), "-q")
    assert ran.code == 0
    for seed in (1, 2):
        stored = tomllib.loads((tmp_path / "runs" / f"seed-{seed}" / "experiment.toml").read_text())
        assert stored["secure_sum"]["name"] == "secagg"


def test_what_the_user_has_set_is_told_in_one_error(fedgraft) -> None:
    refused = fedgraft("run", "graft_node", *QUICK, "--secure", "selector.name=oort", "evaluation.at=server")
    assert refused.code == 2
    assert "2 things must change" in refused.err
    assert "Set by you, and so not changed: evaluation.at, selector.name." in refused.err


def test_python_has_the_same_switch(caplog: pytest.LogCaptureFixture) -> None:
    options = {"data": {"name": "blocks", "nodes": 120, "clients": 4, "features": 8}, "model": {"hidden": [8]}}
    run = package.run("plain_gcn", **options, rounds=1, baselines=[], runtime={"workers": 0}, secure=True)
    assert run.summary["bytes"]["masking"] > 0
    assert "secure=True changes codec.name to 'quantized'" in caplog.text
    with pytest.raises(InputError, match=r"secure_sum\.name must be 'secagg' with secure=True"):
        package.run("plain_gcn", **options, secure_sum={"name": "clear"}, secure=True)
    with pytest.raises(InputError, match=r"Set by you, and so not changed: aggregation\.name"):
        package.run(run.experiment, aggregation="median", secure=True)
