"""A node whose SuperNode has ended: when it begins another one, and when it gives up."""

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

from fedgraft.errors import MachineError
from fedgraft.interface import node as interface
from fedgraft.runtimes.federation.child import ANEW
from fedgraft.runtimes.federation.folders import NodeFolder

STUCK = "a message is held for 60 s, and nobody is at work on its answer"
TAKEN = f"[code: 1] {interface.TAKEN}"


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Have SuperNodes of a node end with such codes and last words, each some seconds after the one before."""
    clock = [0.0]
    monkeypatch.setattr(interface.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(interface.time, "sleep", lambda seconds: None)

    def played(*ends, apart=1000.0):
        left, begun = list(ends), []

        class SuperNode:
            def __init__(self, address, trust, home, log, unanswered):
                clock[0] += apart if begun else 0.0
                begun.append(unanswered)
                self.code, said = left.pop(0)
                log.write(f"{said}\n".encode())

            def serve(self, answer, stop):
                pass

            def close(self):
                pass

            def wait(self):
                return self.code

        class OfNobody:
            answer = None

        monkeypatch.setattr(interface, "SuperNode", SuperNode)
        folder = NodeFolder(tmp_path, 0, "north", "localhost", 8000, True)
        interface._answer(OfNobody(), folder, lambda: not left)
        return begun

    return played


def test_one_that_held_an_order_is_begun_anew_with_a_line_in_the_log(play, caplog):
    assert play((ANEW, STUCK), (ANEW, STUCK), (0, "goodbye")) == [60, 60, 60]
    assert caplog.messages == [f"The SuperNode is begun anew, and orders are served again: {STUCK}"] * 2


def test_the_server_may_hold_it_for_connected_for_a_while(play):
    """Also days after the node was started, where the SuperNode had no time to say goodbye."""
    assert len(play((0, "goodbye"), (ANEW, STUCK), (1, TAKEN), (0, ""), apart=100.0)) == 4
    with pytest.raises(MachineError, match="exit code 1"):
        play((ANEW, STUCK), (1, TAKEN), (1, TAKEN), (0, ""), apart=100.0)


def test_another_error_ends_the_node(play):
    with pytest.raises(MachineError, match=r"Flower's SuperNode has ended \(exit code 1\): no certificate"):
        play((1, "no certificate"), (0, ""))
