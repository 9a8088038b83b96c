"""Write docs/policy.md: what a site lets leave, and what each recipe has a client tell, from what methods declare.

python docs/policy_page.py          # write the page
python docs/policy_page.py --check  # exit code 1 if the stored one is stale
"""

import sys
from pathlib import Path

from stored_page import write_or_check

from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.protocol.gate import Gate
from fedgraft.engine.protocol.message_kind import MessageKind
from fedgraft.engine.protocol.table import TABLE
from fedgraft.experiment.described import without_data
from fedgraft.experiment.policies import joining_tells, kinds_of
from fedgraft.experiment.recipes.recipe_files import recipes

PAGE = Path(__file__).with_name("policy.md")
OPENING = """\
# What a site lets leave: its policy

*Written by `python docs/policy_page.py` from what methods declare.*

A server proposes a recipe. A site decides what may leave. Each array and scalar that a client sends says in a word
what it tells of the client's data. One gate in the client lets out what the site's policy allows, and nothing else.

```
fedgraft policy check policy.toml graft_node     # what the recipe has a client tell, and each rule that it breaks
fedgraft node nodes/ann --data ann.csv --policy policy.toml
fedgraft run graft_node policy.min_examples=20 # the same in a simulation
```

```toml
[policy]
purposes = ["model", "halo", "statistics", "evaluation"]
capabilities = ["update", "sizes", "losses", "scores"]
min_examples = 100
networks = ["mlp", "sage"]
most_parameters_per_example = 20
most_rounds = 200
secure_sum = "required"  # or "signed", "allowed", "never"
least_cohort = 10
queries_per_round = 1
server = "sha256:0f3a..."  # 'fedgraft federation init' says it
```

| rule | what it does | what is beyond it |
|---|---|---|
| `purposes` | purposes of the ledger for which anything is sent | the node does not start, or does not join |
| `capabilities` | what messages may tell of a client | the same |
| `networks` | names of `[model]` that are trained | the same |
| `most_rounds` | rounds of a run | the same |
| `min_examples` | training examples that a client must have | the client takes no part, and is named |
| `least_of_class` | training examples that each class must have of which the client has any, and each user where it \
tells of users, for counts, sums and means over these to leave outside masked sums | the message stays |
| `most_parameters_per_example` | size of the model that travels, for each training example | the same |
| `secure_sum` | whether updates leave in [masked sums](secure_sums.md) alone, or never | the same |
| `least_cohort` | clients that such a sum must be of | the same |
| `queries_per_round` | different requests of one kind in a round; 1 | the order is refused ([audit log](audit.md)) |
| `epsilon`, `delta` | [differential privacy](privacy.md#what-a-site-allows-over-all-runs) over all runs of its data; \
by default what the site's own recipe claims, no limit where it claims nothing | the reply stays |
| `server` | digest of the key of the authority by which the node knows the server | the node does not start |

A model that is much larger than a client's data can be made to hold them: that is what the last rule is for. An order
that is beyond a rule, such as a probe where `purposes` has none, fails at the client.

- **Without a file** a node has the purposes and capabilities that its own recipe needs, the one in its folder. What a
  file does not say is the same. A server whose recipe asks for more is refused as the node joins. The server is
  told a code (`policy forbids`); the node's log says what is more.
- Models may be scored at clients in any case, where that tells no more than scoring at the server.
- A policy of the server's recipe, `[policy]`, is for simulations: a node has its own. A simulation of a recipe that its
  policy forbids does not begin.

**What a policy does not do.** It says which things leave, not how much of the data one of them holds: an update of an
allowed network may still be turned back into examples ([what an update tells](security.md#what-an-update-tells)). A
server may choose who trains, lie about others, and send any numbers as a model. Rows that are
[encrypted](security.md#encrypted-rows) count as what they hold, since other sites read them.
"""
KINDS = """\
## Kinds of messages

One table has all that both ends, a policy, an audit log and this page say of a kind: \
`fedgraft.engine.protocol.table`. A client answers no kind that its plan does not have, and none in another round. \
"Added up" is under secure sums; each such kind has sums, and so pads, of its own.

| kind | purpose | rounds | what a reply holds | added up | an error of it |
|---|---|---|---|---|---|
"""


def _kind(row: MessageKind) -> str:
    """Return the line of a kind."""
    added = f"sum {row.added.segment}" if row.added else "no"
    says = row.says if row.reply else f"(a request alone) {row.says}"
    return f"| `{row.name}` | {row.purpose or 'of the request'} | {row.rounds.words} | {says} | {added} | {row.error} |"


def written() -> str:
    """Return the page."""
    words = "\n".join(f"| `{word}` | {what} |" for word, what in CAPABILITIES.items())
    rows = []
    for recipe in sorted(recipes()):
        experiment = without_data(recipe)
        if not experiment.plan.at_home:
            experiment = without_data(recipe, {"evaluation.at": "clients"})
        gate, kinds = Gate(experiment.plan), kinds_of(experiment)
        told = {*gate.told_by(kinds), *joining_tells(experiment)}
        purposes = {*gate.purposes_of(kinds), *joining_tells(experiment).values()}
        rows.append(f"| `{recipe}` | {', '.join(sorted(told))} | {', '.join(sorted(purposes))} |")
    table = "\n".join(["| recipe | capabilities | purposes |", "|---|---|---|", *rows])
    return (
        "\n\n".join(
            (
                OPENING.strip(),
                f"## Capabilities\n\n| word | what is told of one client |\n|---|---|\n{words}",
                "## What each recipe has a client tell\n\nWith the data set that the recipe names, scored at clients "
                '(`evaluation.at = "clients"`) unless it keeps scores '
                "at home. Own tables add `columns`, and `ids` where sites match them. "
                f"[Security](security.md) says it message by message.\n\n{table}",
                KINDS + "\n".join(map(_kind, TABLE.values())),
            )
        )
        + "\n"
    )


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, written()))
