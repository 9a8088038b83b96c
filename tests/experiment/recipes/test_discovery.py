import importlib.metadata
import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from fedgraft.contracts import Selection, Selector
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.methods.samplers.all import All
from fedgraft.methods.selectors.oort import Oort


@dataclass(frozen=True)
class Mine(Selector[None]):
    """Takes the first clients.

    Args:
        many: how many.
    """

    limit: ClassVar[int] = 9

    many: int
    share: float = 0.5
    label: str = "mine"
    tags: tuple[str, ...] = ()
    deep: bool = False
    cache: dict = field(default_factory=dict, init=False)

    def init(self, view):
        return None

    def select(self, state, view, g):
        return Selection(tuple(range(self.many)))


class Undressed(Selector):
    """No dataclass."""


@pytest.mark.parametrize("family", discovery.FAMILIES)
def test_every_file_of_a_family_holds_the_class_it_is_named_after(family):
    for name in sorted({*discovery.names(family)} - {*discovery.presets(family)}):
        cls = discovery.find(family, name)
        assert cls.__name__.lower() == name.replace("_", "")
        assert issubclass(cls, discovery.CONTRACTS[family])


def test_a_name_finds_its_class():
    assert discovery.find("selectors", "oort") is Oort
    assert discovery.find("samplers", "all") is All  # not the selector of that name
    assert {"all", "random", "oort", "fedacs", "power_of_choice"} <= set(discovery.names("selectors"))


def test_a_path_finds_a_class_outside():
    assert discovery.find("selectors", "test_discovery:Mine") is Mine


def test_an_entry_point_finds_a_class_outside(monkeypatch):
    point = importlib.metadata.EntryPoint("mine", "test_discovery:Mine", "fedgraft.selectors")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda: importlib.metadata.EntryPoints([point]))
    assert discovery.find("selectors", "mine") is Mine
    assert "mine" in discovery.names("selectors")
    assert "mine" not in discovery.names("samplers")
    assert discovery.one_line("selectors", "mine") == Mine.__doc__.splitlines()[0]


@pytest.fixture
def preset(monkeypatch):
    monkeypatch.setattr("fedgraft.methods.selectors.PRESETS", {"pair": ("oort", {"clients": 2})}, raising=False)


def test_a_preset_is_a_class_with_options(preset):
    assert "pair" in discovery.names("selectors")
    assert discovery.find("selectors", "pair") is Oort
    assert discovery.one_line("selectors", "pair") == "oort with clients = 2"
    assert discovery.one_line("selectors", "oort") == Oort.__doc__.splitlines()[0]
    built = discovery.build("selectors", "selector", {"name": "pair", "alpha": 1.5})
    assert (built.clients, built.alpha) == (2, 1.5)
    assert discovery.build("selectors", "selector", {"name": "pair", **discovery.options_of(built)}) == built


def test_a_preset_is_what_it_is_called(preset):
    wanted = r"^selector\.clients must be 2 with selector\.name = 'pair'; got 3\. selector\.name = 'oort' takes any\.$"
    with pytest.raises(InputError, match=wanted):
        discovery.build("selectors", "selector", {"name": "pair", "clients": 3})
    with pytest.raises(InputError, match=r"^No selector named 'pairs'\. Did you mean 'pair'\?"):
        discovery.find("selectors", "pairs")


def test_an_entry_point_comes_before_a_preset(preset, monkeypatch):
    point = importlib.metadata.EntryPoint("pair", "test_discovery:Mine", "fedgraft.selectors")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda: importlib.metadata.EntryPoints([point]))
    assert discovery.build("selectors", "selector", {"name": "pair", "many": 3}) == Mine(3)


@pytest.mark.parametrize(
    ("family", "name", "message"),
    [
        (
            "selectors",
            "ort",
            r"^No selector named 'ort'\. Did you mean 'oort'\? Known: oort, favor, .* \(20 in all\)\.$",
        ),
        ("codecs", "quantised", r"^No codec named 'quantised'\. Did you mean 'quantized'\?"),
        ("sharing", "fedavgg", r"^No sharing named 'fedavgg'\. Did you mean 'fedavg'\?"),
        ("tasks", "ratings", r"^No task named 'ratings'\. Did you mean 'rating'\?"),
        ("selectors", "__init__", r"^No selector named '__init__'"),
        ("selectors", "../oort", r"^No selector named"),
        ("selectors", "", r"^No selector named ''"),
    ],
)
def test_an_unknown_name_comes_with_the_nearest(family, name, message):
    with pytest.raises(InputError, match=message):
        discovery.find(family, name)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:Mine", "'no_such_module:Mine' cannot be imported"),
        ("test_discovery:Nothing", "'test_discovery:Nothing' cannot be imported"),
        (":Mine", "':Mine' cannot be imported"),
        ("test_discovery:", "'test_discovery:' cannot be imported"),
        (".discovery:find", "cannot be imported"),
        ("test_discovery:pytest", "must be a dataclass that is a fedgraft.contracts.Selector"),
        ("test_discovery:All", "must be a dataclass that is a fedgraft.contracts.Selector"),
        ("test_discovery:Undressed", "must be a dataclass that is a fedgraft.contracts.Selector"),
    ],
)
def test_a_path_that_leads_nowhere_is_named(path, message):
    with pytest.raises(InputError, match=message):
        discovery.find("selectors", path)


def mine(**options):
    return discovery.build("selectors", "selector", {"name": "test_discovery:Mine", **options})


def test_a_section_is_a_name_and_the_fields_of_its_class():
    built = mine(many=3, share=1, tags=["a", "b"])
    assert (built.many, built.share, built.tags) == (3, 1.0, ("a", "b"))
    assert isinstance(built.share, float)
    assert discovery.options_of(built) == {"many": 3, "share": 1.0, "label": "mine", "tags": ("a", "b"), "deep": False}


def test_a_list_needs_no_quotes():
    assert mine(many=1, tags="a, b").tags == ("a", "b")
    assert mine(many=1, tags="[a]").tags == ("a",)
    assert discovery.build("models", "model", {"name": "sage", "hidden": "64,32"}).hidden == (64, 32)
    assert discovery.build("models", "model", {"name": "sage", "hidden": 64}).hidden == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^selector\.many must be given: how many\.$"),
        ({"many": 1, "shares": 2}, r"^No selector option named 'shares'\. Did you mean 'share'\? Known: deep, label,"),
        ({"many": 1, "limit": 2}, r"^No selector option named 'limit'"),
        ({"many": 1, "cache": {}}, r"^No selector option named 'cache'"),
        ({"many": "three"}, r"^selector\.many must be of type int; got 'three'\.$"),
        ({"many": 1.5}, r"^selector\.many must be of type int; got 1\.5\.$"),
        ({"many": True}, r"^selector\.many must be of type int; got True\.$"),
        ({"many": 1, "share": False}, r"^selector\.share must be of type float; got False\.$"),
        ({"many": 1, "share": math.inf}, r"^selector\.share must be finite; got inf\.$"),
        ({"many": 1, "share": "nan"}, r"^selector\.share must be finite; got nan\.$"),
        ({"many": 1, "label": 5}, r"^selector\.label must be of type str; got 5\.$"),
        ({"many": 1, "tags": [1]}, r"^selector\.tags must be of type tuple\[str, \.\.\.\]; got \[1\]\.$"),
        ({"many": None}, r"^selector\.many must be of type int; got None\.$"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        mine(**options)


@dataclass(frozen=True)
class Choice:
    """Has an option of a few texts."""

    way: Literal["fast", "slow"] = "fast"


def test_the_nearest_of_a_few_texts_is_named():
    with pytest.raises(
        InputError, match=r"^data\.way must be one of 'fast', 'slow'; got 'slwo'\. Did you mean 'slow'\?$"
    ):
        discovery.construct(Choice, "data", {"way": "slwo"})
    assert discovery.construct(Choice, "data", {"way": "slow"}).way == "slow"


def test_only_a_section_that_names_a_method_has_the_option_name():
    with pytest.raises(
        InputError, match=r"^No selector option named 'nam'\. Did you mean 'name'\? .* many, name, share"
    ):
        mine(many=1, nam="oort")
    with pytest.raises(InputError, match=r"^No runtime option named 'name'\. Known: deep, label, many, share, tags\.$"):
        discovery.construct(Mine, "runtime", {"name": "oort"}, named=False)


def test_what_must_be_given_is_what_has_no_default(preset):
    assert discovery.lacking("selectors", "selector", {"name": "test_discovery:Mine"}) == ["many"]
    assert discovery.lacking("selectors", "selector", {"name": "test_discovery:Mine", "many": 3}) == []
    assert discovery.lacking("selectors", "selector", {"name": "pair"}) == []
    assert discovery.lacking("data", "data", {"name": "pubmed"}) == ["root"], "which set the name says"


def test_every_line_read_from_source_is_that_of_the_class():
    assert tuple(discovery.CONTRACTS) == discovery.FAMILIES
    for family in discovery.FAMILIES:
        for name in {*discovery.names(family)} - {*discovery.presets(family)}:
            assert discovery.one_line(family, name) == discovery.find(family, name).__doc__.splitlines()[0]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("helpers.toy_lines:Gone", "cannot be imported (No module named 'helpers.toy_lines')"),
        ("fedgraft.experiment.recipes.discovery:Selector", "Choose the clients that train in a round."),
    ],
)
def test_a_line_from_elsewhere(monkeypatch, value, line):
    point = importlib.metadata.EntryPoint("mine", value, "fedgraft.selectors")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda: importlib.metadata.EntryPoints([point]))
    assert discovery.one_line("selectors", "mine") == line


def test_the_family_of_a_class_outside():
    assert discovery.family_of("test_discovery:Mine") == "selectors"
    with pytest.raises(InputError, match=r"^'pathlib:Path' must be a dataclass that is one of fedgraft\.contracts: "):
        discovery.family_of("pathlib:Path")
    with pytest.raises(InputError, match=r"^class: 'no\.where:Path' cannot be imported"):
        discovery.family_of("no.where:Path")


def test_a_section_without_a_name_says_what_there_is():
    with pytest.raises(InputError, match=r"^\[selector\] needs a name\. Known: acfl, afl, all, "):
        discovery.build("selectors", "selector", {"many": 3})


def test_a_method_s_own_checks_speak_of_its_section():
    with pytest.raises(InputError, match=r"^sampler\.batch_size must be"):
        discovery.build("samplers", "sampler", {"name": "all", "batch_size": -3})


@dataclass(frozen=True)
class Half(Selector[None]):
    """Cannot select."""

    def init(self, view):
        return None


def test_a_class_that_lacks_a_part_of_its_contract_is_told_which():
    with pytest.raises(InputError, match=r"^selector: class Half lacks what its contract asks for: select\.$"):
        discovery.build("selectors", "selector", {"name": "test_discovery:Half"})


def test_an_option_of_another_class_of_the_family_names_it():
    message = r"^No selector option named 'alpha' with selector\.name = 'all'; selector\.name = 'oort' or .* has it\.$"
    with pytest.raises(InputError, match=message):
        discovery.build("selectors", "selector", {"name": "all", "alpha": 1.0})


@pytest.mark.parametrize(
    ("name", "option", "right"),
    [("cora", "edges", "nodes"), ("blocks", "nodes", "nodes"), ("molecules", "graphs", "graphs")],
)
def test_a_file_where_a_data_set_has_a_number_names_the_data_set_that_reads_it(name, option, right):
    message = rf"^data.{option} of data set '{name}' is a number; got 'mine.csv'. A table .* needs data.name={right}\.$"
    with pytest.raises(InputError, match=message):
        discovery.build("data", "data", {"name": name, option: "mine.csv"})


@pytest.mark.parametrize("family", discovery.FAMILIES)
def test_an_option_that_no_method_has_is_named_whatever_its_value_is(family: str) -> None:
    for name in discovery.names(family):
        for value in ("text", "e.csv", 3):
            with pytest.raises(InputError, match=r"option named 'no_such_option'"):
                discovery.build(family, "section", {"name": name, "no_such_option": value})
