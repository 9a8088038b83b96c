"""What a law says when it is broken."""

import builtins

import pytest

from fedgraft.errors import InputError
from fedgraft.methods.codecs.float16 import Float16
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.selectors.random import Random
from fedgraft.testing import check_codec, check_encoder, check_selector
from fedgraft.testing.laws import Laws, check, expect, expect_error, for_all, strategies


class Even:
    """Numbers that are even."""


class Named(Even):
    """An ability."""


def is_even(number):
    expect(number % 2 == 0, "a number must be even", number)


def is_small(number):
    expect(number < 10, "a number must be below 10", number)


@pytest.fixture
def laws():
    laws = Laws()
    laws.every(is_even)
    laws.having(Named)(is_small)
    return laws


def test_laws_apply_by_ability(laws):
    assert [str(law) for law in laws.held(Even, lambda: 2)] == ["is_even"]
    assert [str(law) for law in laws.held(Named, lambda: 2)] == ["is_even", "is_small"]
    check(laws.held(Named, lambda: 2))


def test_a_broken_law_names_the_class_the_law_and_what_was_seen(laws):
    with pytest.raises(AssertionError, match=r"^Even breaks the law 'is_even': a number must be even; got 3\.$"):
        check(laws.held(Even, lambda: 3))


def test_all_broken_laws_are_told(laws):
    with pytest.raises(AssertionError, match=r"(?s)^Named breaks .*'is_even'.*\nNamed breaks .*'is_small'.*got 11\.$"):
        check(laws.held(Named, lambda: 11))


def test_an_error_within_a_law_breaks_it(laws):
    with pytest.raises(AssertionError, match="Even breaks the law 'is_even': it raised ValueError: "):
        check(laws.held(Even, lambda: "x%"))


def test_an_error_while_the_case_is_made_is_the_callers(laws):
    with pytest.raises(ZeroDivisionError):
        check(laws.held(Even, lambda: 1 // 0))


def test_the_case_is_made_once_and_when_it_is_needed(laws):
    made = []
    held = laws.held(Named, lambda: made.append(1) or 2)
    assert not made
    check(held)
    assert made == [1]


def test_what_is_seen_is_told_in_short():
    with pytest.raises(AssertionError) as caught:
        expect(False, "it must be short", "x" * 10_000, list(range(10_000)))
    assert len(str(caught.value)) < 400


def test_an_expected_error_must_come_with_its_text():
    with expect_error(KeyError, "it must be refused", "known"):
        raise KeyError("not known")
    with (
        pytest.raises(AssertionError, match="it must be refused, with a text like 'known'; got \"'gone'\""),
        expect_error(KeyError, "it must be refused", "known"),
    ):
        raise KeyError("gone")
    with (
        pytest.raises(AssertionError, match=r"it must be refused; nothing was raised\."),
        expect_error(KeyError, "it must be refused"),
    ):
        pass


def test_a_property_tells_the_simplest_example_that_breaks_it(laws):
    def below_ten(number):
        expect(number < 10, "a number must be below 10", number)

    laws.every(lambda case: for_all(below_ten, {"number": strategies().integers(0, 1000)}))
    with pytest.raises(AssertionError, match="got 10") as caught:
        check(laws.held(Even, lambda: 2))
    assert "number=10" in "".join(caught.value.__notes__)


def test_without_hypothesis_it_is_said_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def without(name, *others):
        if name.startswith("hypothesis"):
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'fedgraft\[testing\]'"):
        for_all(lambda: None, {})


@pytest.mark.parametrize("checker", [check_selector, check_encoder, check_codec])
def test_a_checker_wants_a_class(checker):
    instance = {check_selector: Random(), check_encoder: GIN(), check_codec: Float16()}[checker]
    with pytest.raises(InputError, match=r"^A checker takes a class, and its options by name, as \(.*got "):
        checker(instance)
