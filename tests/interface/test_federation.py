"""The commands of a federation that need no server."""


def test_init_says_what_comes_next(fedgraft, tmp_path):
    done = fedgraft("federation", "init", "here", "--names", "north,south", "--recipe", "fedacs", "--port", "8123")
    assert done.code == 0
    assert [line.partition(":")[0] for line in done.err.splitlines()] == [
        "1. Start the server",
        "2. Hand each site its folder, over a safe way",
        "3. Look who is there",
        "A site may name the server in its policy",
        "This machine has seen these keys, and the secret of all sites; with --no-keys sites make their own.",
        "So these keys prove nothing against this server",
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
    assert done.err.startswith("error: No server answers at localhost:1; start it with 'fedgraft federation start")
    assert done.err.count("\n") == 1


def test_keys_are_made_at_sites_and_the_server_is_given_their_public_halves(fedgraft, tmp_path):
    done = fedgraft("federation", "init", "here", "--no-keys", "--recipe", "fedacs")
    assert "2. Each site: fedgraft federation keygen NAME." in done.err
    assert "has seen" not in done.err
    done = fedgraft("federation", "keygen", "site", "--new-secret")
    assert "Send site/node.pub to the server" in done.err
    assert "Hand site/matching.secret to the other sites over a safe way" in done.err
    done = fedgraft("federation", "add", "here", "north", "--key", "site/node.pub")
    assert (done.code, "north is client 0" in done.err, "it puts node.key there" in done.err) == (0, True, True)
    assert not (tmp_path / "here/nodes/north/node.key").exists()
    done = fedgraft("federation", "add", "here", "south")
    assert "south is client 1" in done.err
    assert "This machine has seen its key." in done.err
    done = fedgraft("federation", "rotate", "here", "south")
    assert done.err.startswith("The old key of south is refused from now on.")
    done = fedgraft("federation", "remove", "here", "south")
    assert "south is refused from now on. Client 1 stays free for it alone." in done.err
    done = fedgraft("federation", "remove", "here", "south")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "error: south has no key" in done.err
    done = fedgraft("federation", "init", "there", "--no-keys", "--insecure", "--recipe", "fedacs")
    assert done.err.startswith("error: --no-keys and --insecure cannot be given together")
