"""The seam: a plan chooses once how updates are collected, and each end has one part for each answer."""

import re
from importlib import resources
from pathlib import Path

import pytest

from fedgraft.engine.client.addend import Addend, NoisyAddend
from fedgraft.engine.client.contribution import OwnUpdate, contribution_of
from fedgraft.engine.privacy.collection import Collection, NoisySums, Sums, TrustedServer, collection_of
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.secure_sum import Assurance, SecureSum
from fedgraft.engine.protocol.protocol import AddedForm, Form, MaskedForm, form_of
from fedgraft.errors import InputError
from fedgraft.testing.runs import toy

CODES = {"codec": {"name": "quantized", "scale": "agreed"}, "evaluation": {"at": "clients"}}
NOISE = Privacy("client", 4.0, 1e-3, shares=5)


def plan_of(name: str, **options):
    return toy(**({**CODES, "secure_sum": {"name": name, **options}} if name else {})).plan


@pytest.mark.parametrize(
    ("name", "signed", "assurance", "form", "contribution"),
    [
        ("", False, Assurance.NONE, Form, OwnUpdate),
        ("clear", False, Assurance.NONE, AddedForm, Addend),
        ("secagg", False, Assurance.MASKED, MaskedForm, Addend),
        ("secagg", True, Assurance.SIGNED, MaskedForm, Addend),
    ],
)
def test_each_end_has_one_part_for_each_answer(name, signed, assurance, form, contribution):
    plan = plan_of(name, **({"signed": signed} if name else {}))
    made = contribution_of(plan)
    assert plan.collection.assurance == assurance
    assert plan.collection.single == (name == "")
    assert type(form_of(plan)) is form
    assert type(made) is contribution
    assert (made.masking is not None) == (assurance > Assurance.NONE)


def test_noise_is_for_sums_alone():
    assert type(collection_of(SecureSum(), Privacy(), 9)) is Collection
    assert type(collection_of(SecureSum("clear"), Privacy(), 9)) is Sums
    assert type(collection_of(SecureSum("secagg"), NOISE, 9)) is NoisySums
    assert type(collection_of(SecureSum(), NOISE, 9)) is Collection, "and a recipe that asks for it is refused"
    trusting = collection_of(SecureSum(), Privacy("client", 4.0, 1e-3, name="central"), 9)
    assert type(trusting) is TrustedServer
    assert (trusting.single, trusting.noisy, trusting.claims, trusting.hides) == (True, False, True, False)
    assert NoisyAddend.secret is not Addend.secret


def test_noise_keeps_as_many_neighbours_as_shares_of_it_are_needed():
    """Of 9 clients, 5 shares: beside a client that knows its own, 4 of its 8 neighbours must stay; 0.55 is more."""
    sums, noisy = collection_of(SecureSum("secagg"), Privacy(), 9), collection_of(SecureSum("secagg"), NOISE, 9)
    assert (noisy.least, noisy.least_by) == (5, "privacy.shares")
    assert sums.least == 3
    assert noisy.staying(9) == sums.staying(9) == 0.55
    assert noisy.staying(6) == pytest.approx(4 / 5)
    assert noisy.staying(5) == 1.0
    assert noisy.staying(1) == 0.55, "there is no sum"


def test_fewer_clients_than_a_sum_is_of_are_refused_by_the_option_that_says_so():
    with pytest.raises(InputError, match=r"^privacy\.shares must be at most 4, the number of clients; got 5\.$"):
        collection_of(SecureSum("secagg"), NOISE, 9).check_clients(4)
    with pytest.raises(InputError, match=r"^secure_sum\.least_cohort must be at most 2, .*; got 3\.$"):
        collection_of(SecureSum("secagg"), Privacy(), 9).check_clients(2)
    collection_of(SecureSum(), Privacy(), 9).check_clients(1)


def test_what_is_hidden_is_encrypted_and_answered_once():
    assert not collection_of(SecureSum("clear"), Privacy(), 9).hides
    assert collection_of(SecureSum("secagg"), Privacy(), 9).hides
    assert collection_of(SecureSum("clear"), NOISE, 9).hides


def test_options_of_sums_and_of_noise_are_asked_in_few_files():
    """Who asks again whether updates are added up writes a second seam."""
    root = Path(str(resources.files("fedgraft")))
    asked = re.compile(r"secure_sum\.(active|masked|signed)\b|privacy\.active\b")
    files = {path.name for path in sorted(root.rglob("*.py")) if asked.search(path.read_text())}
    assert len(files) <= 8, files
