"""The way out of a client: one place, and what its policy keeps."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import fedgraft
from fedgraft.engine.privacy.policy import Policy
from fedgraft.engine.protocol.gate import Gate
from fedgraft.errors import AllClientsFailedError, BeyondLimitError, InputError
from fedgraft.experiment.described import without_data
from fedgraft.experiment.job import load
from fedgraft.experiment.running import runner
from fedgraft.wire import Message
from helpers.toy_runs import run, toy

CLIENT = Path(fedgraft.__file__).parent / "engine" / "client"


def gate(recipe: str = "plain_gcn", **policy: object) -> Gate:
    """The gate of a recipe under a policy."""
    return Gate(replace(without_data(recipe).plan, policy=Policy(**policy)))


def hello(examples: int) -> Message:
    """A client's first reply."""
    return Message("hello", 0, {"examples": float(examples)})


def calls(path: Path, name: str) -> int:
    """How often a file calls `wire.NAME`."""
    tree = ast.parse(path.read_text())
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "wire"
        for node in ast.walk(tree)
    )


def test_one_way_out() -> None:
    """Replies become bytes in the gate; a client itself encodes what it keeps of a set-up message, and nothing else."""
    assert {path.name: count for path in CLIENT.glob("*.py") if (count := calls(path, "encode"))} == {
        "client_rows.py": 1
    }
    assert calls(CLIENT.parent / "protocol" / "gate.py", "encode") == 1


def test_without_a_policy_all_passes() -> None:
    assert gate().passed(hello(0)) == gate(capabilities=("sizes",), purposes=("statistics",)).passed(hello(0))


@pytest.mark.parametrize(
    ("policy", "reply", "why"),
    [
        ({"capabilities": ("update",)}, hello(5), "policy.capabilities has no 'sizes'"),
        ({"purposes": ("model",)}, hello(5), "policy.purposes has no 'statistics'"),
        ({"purposes": ("statistics",)}, Message("probe", 1, {"loss": 1.0, "loss_sq": 1.0}), "no 'probe'"),
        ({"min_examples": 6}, hello(5), "5 training examples are fewer than policy.min_examples = 6"),
        ({"most_parameters_per_example": 2.0}, hello(5), "for 5 training examples are more than"),
        ({"purposes": ("model",)}, Message("measure", 1), "policy.purposes has no 'evaluation'"),
        ({"most_rounds": 3}, Message("train", 4, {"loss": 1.0}, {}), "round 4 is behind the last"),
        ({"most_rounds": 3}, Message("evaluate", 4), "round 4 is behind the last"),
        (
            {"secure_sum": "signed"},
            Message("train", 1, {"loss": 1.0}, {}),
            "policy.secure_sum = 'signed', and it is not",
        ),
    ],
)
def test_what_is_not_allowed_stays(policy, reply, why) -> None:
    with pytest.raises(BeyondLimitError, match=why):
        gate(**policy).passed(reply)


def test_an_error_always_leaves() -> None:
    assert gate(capabilities=(), purposes=(), most_rounds=1).passed(Message("error", 9, text="refused request"))


def test_who_has_too_few_examples_takes_no_part_and_the_run_goes_on() -> None:
    state, _, _ = run(toy(policy={"min_examples": 30}))
    assert sorted(state.joined) == [1, 2, 4]


@pytest.mark.parametrize(
    ("recipe", "kind", "word"),
    [("graft_once", "border", "rows"), ("graft_once", "train", "sums"), ("graft_rating", "hello", "users")],
)
def test_counts_and_means_of_few_examples_stay(recipe, kind, word) -> None:
    passing, reply = (
        gate(recipe, least_of_class=10),
        Message(kind, 0, {"hello": {"examples": 50.0}, "train": {"loss": 1.0}}.get(kind, {})),
    )
    asked = []

    def fewest(told):
        asked.append(told)
        return 9

    if word == "rows":
        assert passing.passed(reply, fewest)
        assert asked == []
        return
    with pytest.raises(BeyondLimitError, match=f"tells {word} of 9 examples, policy.least_of_class = 10"):
        passing.passed(reply, fewest)
    assert asked == [{word}]
    assert passing.passed(reply, lambda told: 10)


def test_a_client_with_a_small_class_tells_no_counts_of_it(tmp_path) -> None:
    changes = {"data.name": "blocks", "data.nodes": 150, "data.clients": 4, "rounds": 1, "baselines": []}
    changes |= {"policy.least_of_class": 1000, "checkpoint.every_seconds": 0, "runtime.workers": 0}
    with pytest.raises(AllClientsFailedError, match="it tells sums of 4 examples"):
        runner.execute(load("graft_once", changes), tmp_path / "run")
    found = runner.execute(load("graft_once", {**changes, "policy.least_of_class": 1}), tmp_path / "other")
    assert found["failures"]["training"] == 0


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ({"capabilities": ("updat",)}, "Did you mean 'update'"),
        ({"purposes": ("models",)}, "Did you mean 'model'"),
        ({"least_of_class": -1}, "policy.least_of_class must be a whole number >= 0; got -1"),
        ({"min_examples": -1}, "policy.min_examples must be a whole number >= 0; got -1"),
        ({"most_rounds": 1.5}, "policy.most_rounds must be a whole number"),
        ({"most_parameters_per_example": float("nan")}, "must be >= 0 and finite"),
        ({"queries_per_round": 0}, "policy.queries_per_round must be a whole number >= 1; got 0"),
        (
            {"server": "SHA256:abc"},
            "policy.server must be 'sha256:' and 64 hexadecimal digits, or ''; got 'SHA256:abc'",
        ),
    ],
)
def test_a_policy_that_is_none_is_named(policy, error) -> None:
    with pytest.raises(InputError, match=error):
        Policy(**policy)
