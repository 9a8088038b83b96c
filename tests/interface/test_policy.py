"""`fedgraft policy check`, a policy's file, and a node that keeps to it."""

from pathlib import Path

import pytest

from fedgraft.engine.privacy.policy import Policy
from fedgraft.errors import InputError
from fedgraft.experiment.described import without_data
from fedgraft.experiment.policies import own_policy, read_policy, require_allowed
from fedgraft.runtimes.federation import folders

STRICT = """
[policy]
purposes = ["model", "statistics", "evaluation"]
capabilities = ["sizes", "losses", "scores", "update"]
networks = ["mlp"]
most_rounds = 60
"""


def checked(fedgraft, *arguments: str) -> tuple[int, dict]:
    """(exit code, what is printed) of `policy check` of the strict policy."""
    Path("policy.toml").write_text(STRICT)
    done = fedgraft("policy", "check", "policy.toml", *arguments, "--json")
    return done.code, done.json()


def test_a_recipe_that_keeps_to_a_policy_is_allowed(fedgraft) -> None:
    code, said = checked(fedgraft, "graft_ranking")
    assert code == 0
    assert said["allowed"]
    assert said["told"]["hello"] == ["sizes"]
    assert all(not rule["beyond"] for rule in said["rules"])


def test_each_rule_says_what_it_forbids(fedgraft) -> None:
    code, said = checked(fedgraft, "fedais", "rounds=61")
    assert code == 1
    beyond = {rule["rule"]: rule["beyond"] for rule in said["rules"]}
    assert beyond == {
        "purposes": "halo",
        "capabilities": "class_counts, features, rows, states",
        "networks": "sage",
        "most_rounds": "61 rounds",
    }


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[policy]\ncapabilites = []", "No policy option named 'capabilites'. Did you mean 'capabilities'"),
        ("[polcy]\n", "must have the table [policy] alone; got 'polcy'. Did you mean 'policy'"),
        ("", "has no table [policy]"),
        ("[policy", "cannot be read as TOML"),
        ("[policy]\ncapabilities = ['feature']", "Did you mean 'features'"),
        ("[policy]\nmin_examples = 'many'", "policy.min_examples must be"),
    ],
)
def test_a_file_that_is_no_policy_is_one_line(tmp_path, text, error) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(InputError) as raised:
        read_policy(file)
    assert error in str(raised.value)
    assert str(file) in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match="is not there"):
        read_policy(tmp_path / "none.toml")


@pytest.mark.parametrize("recipe", ["fedais", "graft_node", "graft_rating", "rafhgl", "fedacs"])
def test_a_recipe_keeps_to_its_own_policy_wherever_models_are_scored(recipe) -> None:
    own = own_policy(without_data(recipe))
    for at in ("server", "clients"):
        require_allowed(without_data(recipe, {"evaluation.at": at}), own, "the policy")


def test_a_policy_that_says_little_has_the_rest_of_the_recipe() -> None:
    own = own_policy(without_data("fedais"), Policy(min_examples=7, capabilities=("sizes",)))
    assert own.min_examples == 7
    assert own.capabilities == ("sizes",)
    assert own.purposes is not None
    assert "probe" not in own.purposes


NODE = pytest.importorskip("fedgraft.interface.node", reason="the extra 'flower' is not installed")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"answers.share_labels": True}, "labels"),
        ({"selector.name": "power_of_choice"}, "probe"),
        ({"answers.refit": "hidden"}, "states"),
    ],
)
def test_a_node_without_a_policy_gives_a_server_no_more_than_its_own_recipe_asks_for(change, word) -> None:
    """The task is the same to the node: what differs is what the server would learn by it."""
    base = {"answers.refit": "", "answers.share_labels": False}
    own, theirs = without_data("graft_node", base), without_data("graft_node", {**base, **change})
    allowed = own_policy(own)
    with pytest.raises(InputError, match=word):
        require_allowed(theirs, allowed, "this node's policy")


def test_a_node_s_plan_has_its_own_policy_whatever_the_server_says() -> None:
    own = without_data("graft_ranking")
    recipe = without_data("graft_ranking", {"policy.capabilities": ["features"]}).to_toml().encode()
    plan = NODE.plan_of(recipe, own, allowed=own_policy(own, Policy(min_examples=50)))
    assert plan.policy.min_examples == 50
    assert "features" not in plan.policy.capabilities


def test_a_simulation_under_a_policy_that_forbids_its_recipe_does_not_begin(fedgraft) -> None:
    done = fedgraft("run", "plain_gcn", "data.name=blocks", "policy.capabilities=[]", "--out", "run")
    assert done.code == 2
    assert "Section [policy] forbids this recipe: policy.capabilities allows none, not" in done.err
    assert not Path("run").exists()


def test_a_person_sees_a_table_of_messages_and_one_of_rules(fedgraft) -> None:
    Path("policy.toml").write_text(STRICT)
    done = fedgraft("policy", "check", "policy.toml", "fedais")
    assert done.code == 1
    assert "policy.toml forbids fedais: purposes, capabilities, networks." in done.out
    assert "what it tells of a client" in done.out


def test_a_node_starts_for_the_server_that_its_policy_names_alone(tmp_path) -> None:
    certificates = pytest.importorskip("fedgraft.runtimes.federation.certificates")
    folder = folders.NodeFolder(tmp_path, 0, "ann", "localhost", 8000)
    folder.certificate.write_bytes(certificates.authority()[0].public)
    key = certificates.key_of(folder.certificate.read_bytes())
    NODE.check_server(folder, Policy())
    NODE.check_server(folder, Policy(server=key))
    folder.certificate.write_bytes(certificates.authority()[0].public)
    with pytest.raises(InputError, match=f"policy.server is {key}, and this federation has sha256:"):
        NODE.check_server(folder, Policy(server=key))
    with pytest.raises(InputError, match="has no key, for it is insecure"):
        NODE.check_server(folders.NodeFolder(tmp_path, 0, "ann", "localhost", 8000, insecure=True), Policy(server=key))
