"""The commands of a federation that need no server."""

import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")


def test_init_says_what_comes_next(fedgraft, tmp_path):
    done = fedgraft("federation", "init", "here", "--names", "north,south", "--recipe", "fedacs", "--port", "8123")
    assert done.code == 0
    assert [line.partition(":")[0] for line in done.err.splitlines()] == [
        "1. Start the server",
        "2. Hand each site its folder, over a safe way",
        "3. Look who is there",
    ]
    assert (tmp_path / "here/nodes/south/node.key").is_file()
    assert "fedgraft federation start here" in done.err
    again = fedgraft("federation", "init", "here", "--clients", "2")
    assert again.code == 2
    assert again.err.startswith("error: here has a federation already;")


def test_init_without_security_says_so(fedgraft):
    done = fedgraft("federation", "init", "here", "--clients", "1", "--recipe", "fedacs", "--insecure")
    assert "Whoever reaches localhost:8000 can take part and read along" in done.err


def test_a_folder_that_is_no_federation_is_named(fedgraft):
    for command in ("start", "status"):
        done = fedgraft("federation", command, "nowhere")
        assert done.code == 2
        assert "nowhere has no federation.toml: make it with 'fedgraft federation init nowhere'" in done.err


def test_where_no_server_answers_status_is_one_line(fedgraft):
    fedgraft("federation", "init", "here", "--clients", "1", "--recipe", "fedacs", "--port", "1")
    done = fedgraft("federation", "status", "here")
    assert done.code == 1
    assert done.err.startswith("error: No SuperLink answers at localhost:1; start it with 'fedgraft federation start")
    assert done.err.count("\n") == 1
