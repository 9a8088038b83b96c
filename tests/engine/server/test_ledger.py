import json

from hypothesis import given
from hypothesis import strategies as st

from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES, Entry, Ledger

CHARGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 5),
        st.sampled_from(DIRECTIONS),
        st.sampled_from([purpose for purpose in PURPOSES if purpose != "header"]),
        st.integers(0, 1000),
        st.integers(0, 64),
    )
)


def test_a_message_is_charged_in_two_entries():
    ledger = Ledger()
    ledger.charge(3, 1, "up", "model", 100, header=24)
    assert ledger.drain() == [Entry(3, 1, "up", "model", 76), Entry(3, 1, "up", "header", 24)]
    assert ledger.drain() == []
    assert ledger.total == 100
    assert ledger.summary() == {
        **dict.fromkeys(["down", "probe", "halo", "statistics", "evaluation", "smoothing", "matching", "masking"], 0),
        **{"total": 100, "up": 100, "model": 76, "header": 24},
    }


def test_what_is_empty_makes_no_entry():
    ledger = Ledger()
    ledger.charge(0, 0, "up", "model", 0)
    ledger.charge(0, 0, "up", "model", 24, header=24)
    assert [entry.purpose for entry in ledger.pending] == ["header"]


def test_a_line_is_what_an_encoder_makes_of_it():
    entry = Entry(3, 1, "local", "training", 0, 12)
    assert entry.json() == json.dumps(vars(entry))


@given(CHARGES)
def test_entries_add_up_to_the_totals_by_direction_and_by_purpose(charges):
    ledger = Ledger()
    for round, client, direction, purpose, payload, header in charges:
        ledger.charge(round, client, direction, purpose, payload + header, header)
    entries = ledger.drain()
    assert sum(entry.bytes for entry in entries) == ledger.total == sum(c[4] + c[5] for c in charges)
    assert ledger.total == sum(ledger.totals[direction] for direction in DIRECTIONS)
    assert ledger.total == sum(ledger.totals[purpose] for purpose in PURPOSES)
    for purpose in PURPOSES:
        assert ledger.totals[purpose] == sum(entry.bytes for entry in entries if entry.purpose == purpose)
