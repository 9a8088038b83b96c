"""Candidates for advice: for each task a few recipes, what clients can do alone, and what one place could do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fedgraft.errors import InputError
from fedgraft.experiment.recipes.recipe_files import recipes

LOCAL = "model alone"
"""In place of a yardstick's name: a recipe's own model, trained by each client alone."""


@dataclass(frozen=True)
class Candidate:
    """A recipe of ours to try: its name in the table, why it is on the list, and overrides of it.

    `marked` is what a user must agree to before it is tried; "" for nothing. `fixed` are overrides that hold whatever
    the user says, without which it were another recipe.
    """

    name: str
    recipe: str
    why: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    marked: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Alone:
    """A yardstick that every client computes by itself.

    Args:
        name: of the yardstick.
        figure: of a recipe that it is held against: "validation", its score; or "own", where clients of the recipe,
            too, choose by their own validation split, as the yardstick's do, which flatters both.
    """

    name: str
    figure: str


@dataclass(frozen=True)
class Choice:
    """The list of a task.

    Args:
        recipes: to try, the most useful first; one that is not among ours is passed over.
        alone: yardsticks of clients alone, beside the recipe's own model trained alone.
        central: cheap yardsticks that need all data in one place, the cheapest first.
    """

    recipes: tuple[Candidate, ...]
    alone: tuple[Alone, ...] = ()
    central: tuple[str, ...] = ()


ONCE: Final = Candidate("graft_once", "graft_once", "a closed form: one message of each owner", fixed={"rounds": 1})
AS_OTHERS_DO: Final[Mapping[str, Any]] = {
    "model": {"name": "gcn", "hidden": [64]},
    "task.head": "convolution",
    "exchange.neighbours": 0,
    "loss.dropout": 0.5,
    "selector": {"name": "all"},
    "sampler": {"name": "all"},
    "training.epochs": 3,
    "training.learning_rate": 0.01,
    "training.weight_decay": 5e-4,
    "training.keep_moments": True,
    "rounds": 60,
    "evaluation.every": 2,
}
"""What frameworks of federated graph learning train by default: two graph convolutions on own edges, full batches."""


def _as_others_do(sharing: str, why: str, **options: Any) -> Candidate:
    """Return the plain network for nodes with a sharing method and its options."""
    return Candidate(f"{sharing}, gcn", "fedlocal", why, {**AS_OTHERS_DO, "sharing": {"name": sharing, **options}})


def _shared_otherwise(recipe: str) -> tuple[Candidate, ...]:
    """Return a recipe with two sharing methods for clients that differ."""
    return (
        Candidate(f"{recipe}, fedprox", recipe, "held near the shared model", {"sharing": {"name": "fedprox"}}),
        Candidate(f"{recipe}, fedper", recipe, "last layers of each client's own", {"sharing": {"name": "fedper"}}),
    )


CHOICES = {
    "rating": Choice(
        (
            Candidate("graft_rating", "graft_rating", "our own for ratings: users told of once, then each alone"),
            Candidate("graft_rating, fedper", "graft_rating", "its first layer shared", {"sharing.name": "fedper"}),
            Candidate("fedacs", "fedacs", "best of the published ones on Ciao and Epinions"),
            Candidate("fedacs, random clients", "fedacs", "what choosing brings", {"selector.name": "random"}),
        ),
        (Alone("client_biases", "validation"),),
        ("central_biases",),
    ),
    "node": Choice(
        (
            Candidate("graft_node", "graft_node", "fewest bytes, best on most of our graphs"),
            ONCE,
            Candidate(
                "graft_node, labels shared",
                "graft_node",
                "errors on training nodes are smoothed too",
                {"answers.share_labels": True},
                marked="labels of training nodes leave their clients",
            ),
            Candidate("fedais", "fedais", "a deep model that sees features of neighbours elsewhere"),
            _as_others_do("fedavg", "federated averaging on own parts, as others do it: what edges elsewhere bring"),
            _as_others_do("fedprox", "clients are held near the shared model, where they differ", mu=0.1),
            _as_others_do("fedper", "each client's last layer is its own, where they differ"),
        ),
        (),
        ("smoothed_features", "mlp"),
    ),
    "graph": Choice(
        (
            Candidate("graft_graph", "graft_graph", "our own for graphs"),
            Candidate("cefgl", "cefgl", "clients keep a part of the model; fewest bytes of the published ones"),
            Candidate("cefgl, averaged", "cefgl", "one model for all", {"sharing.name": "fedavg"}),
            *_shared_otherwise("cefgl"),
        ),
        (Alone("wl_kernel", "own"), Alone("majority", "validation")),
    ),
    "ranking": Choice(
        (
            Candidate("graft_ranking", "graft_ranking", "our own for items to rank: fewest bytes"),
            Candidate("reputation_ucb", "reputation_ucb", "a bandit weighs clients' worth against their seconds"),
            Candidate("reputation_ucb, random clients", "reputation_ucb", "no bandit", {"selector.name": "random"}),
        ),
        (),
        ("popularity", "ease"),
    ),
    "typed_node": Choice(
        (
            Candidate("rafhgl", "rafhgl", "the task's main recipe"),
            Candidate("rafhgl, random clients", "rafhgl", "no agent that chooses clients", {"selector.name": "random"}),
            *_shared_otherwise("rafhgl"),
        ),
        (),
        ("typed_majority",),
    ),
    "link": Choice(
        (
            Candidate("links", "links", "the task's recipe"),
            Candidate("links, sage", "links", "an encoder that keeps a node's own state apart", {"model.name": "sage"}),
            Candidate("links, mlp", "links", "features of two nodes alone: what edges bring", {"model.name": "mlp"}),
        ),
        tuple(Alone(name, "validation") for name in ("feature_cosine", "adamic_adar", "preferential_attachment")),
    ),
    "node_regression": Choice(
        (
            Candidate("node_regression", "node_regression", "the task's recipe"),
            ONCE,
            Candidate(
                "node_regression, own parts",
                "node_regression",
                "no states cross: what edges elsewhere bring",
                {"exchange.states": False},
            ),
        ),
        (Alone("node_mean", "validation"),),
        ("node_ridge",),
    ),
    "graph_regression": Choice(
        (
            Candidate("graph_regression", "graph_regression", "the task's recipe"),
            Candidate(
                "graph_regression, cefgl",
                "graph_regression",
                "clients keep a part of the convolutions, too",
                {"sharing.name": "cefgl"},
            ),
        ),
        (Alone("graph_ridge", "own"), Alone("graph_mean", "validation")),
    ),
}
"""{task: its list}."""


def choice_of(task: str, agreed: bool) -> Choice:
    """Return a task's list, with marked recipes only if the user `agreed`. Raises `InputError` for other tasks."""
    if task not in CHOICES:
        raise InputError(f"There is no list of recipes for task {task!r}; there is one for {', '.join(CHOICES)}.")
    choice, known = CHOICES[task], recipes()
    tried = tuple(each for each in choice.recipes if each.recipe in known and (agreed or not each.marked))
    return Choice(tried, choice.alone, choice.central)
