"""What `state.bin` may hold: every part is checked before a run goes on from it, or its model is used.

Its fingerprint has no key: whoever writes a state can write anything. So types, counts and lengths are checked here.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, get_args, get_origin

import numpy as np

from fedgraft import wire
from fedgraft.contracts import Selector, ServerOptimizer, View
from fedgraft.contracts.values import SCORED_SPLITS as SPLITS
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.halo import HaloStore
from fedgraft.engine.server.ledger import DIRECTIONS, PURPOSES
from fedgraft.engine.server.rounds.next_round import kept_model
from fedgraft.engine.server.run_state import AFTER_STEPS, FAILURES, RunState, kinds_of, types_stored
from fedgraft.engine.server.smoothing import CrossClientEdges
from fedgraft.errors import FedgraftError, InputError, WireError
from fedgraft.experiment.storage.folder_check import ROWS, memory_of
from fedgraft.wire.layouts import Array, Layout

Hints: TypeAlias = Mapping[str, Any]
"""{part of a table: its type, or the hints of a table in its place}."""
_COUNTED: Final[Hints] = {"bytes": int, "hash": str}
_CONTENT: Final[Hints] = {
    **{"format": int, "versions": dict[str, str], "origin": str},
    **{"rows": dict[str, dict[str, Any]], "memories": dict[str, str], "state": dict[str, Any]},
}
_POINT: Final[Hints] = {
    **dict.fromkeys(("round", "bytes"), int),
    **dict.fromkeys(("seconds", *SPLITS, "flops", "simulated_seconds"), float),
}
_BEST: Final[Hints] = {
    "round": int,
    **dict.fromkeys(("choice", *SPLITS), float),
    **dict.fromkeys(("sums", "scores"), dict[str, dict[str, float]]),
}
_HALO: Final[Hints] = {"nodes": int, "owner": Array, "place": Array}
_PUBLISHED: Final[Hints] = {"version": int, "arrays": dict[str, Array]}
_BROADCAST: Final[Hints] = {
    **{"version": int, "downlink": dict[str, Any], "published": dict[str, Any]},
    **{"held": dict[str, int], "kept": dict[str, str]},
}
_SMOOTHED: Final[Hints] = {"choice": int, "before": dict[str, float], "failed": dict[str, str]}
_IN_FLIGHT: Final[Hints] = {
    **dict.fromkeys(("client", "round"), int),
    **dict.fromkeys(("arrives", "weight", "training", "communication"), float),
    **{"report": dict[str, float], "arrays": dict[str, Array]},
}
_NAMES: Final = {int: "a whole number >= 0", float: "a number", str: "a text", dict: "a table", list: "a list"}


def format_of(tree: Any) -> int:
    """Return the number of the format of `state.bin`. Raises `WireError` where it has none."""
    _check_record(tree, {"format": int}, "")
    return int(tree["format"])


def checked_content(tree: Any) -> dict[str, Any]:
    """Return the parts of `state.bin`. Raises `WireError` if they are not those of its format."""
    _check_record(tree, _CONTENT, "")
    for name in ROWS:
        _check_record(tree["rows"].get(name), _COUNTED, f"rows.{name}")
    return dict(tree)


def checked_memories(names: Any, clients: int) -> dict[int, str]:
    """Return {client: file with its memory; ~client: with its set-up message}. Raises `WireError` for other names."""
    files: dict[int, str] = {}
    for key, name in names.items():
        whose = memory_of(name)
        if whose is None or str(whose[0]) != key or not -clients <= whose[0] < clients:
            raise WireError(f"memories: client {key!r} of {clients} has the file {name!r}")
        files[whose[0]] = name
    return files


def checked_state(tree: Any) -> RunState:
    """A run's state as it was packed. Raises `WireError` for parts that are missing, unknown or of a wrong type."""
    hints = types_stored()
    _check_record(tree, hints, "state")
    if strange := sorted(tree.keys() - hints.keys()):
        raise WireError(f"state has {', '.join(strange)}, which this version does not know")
    _check_columns(tree["curve"])
    state = RunState.from_tree(tree)
    clients = len(state.profiles)
    _demand(clients > 0, "state.profiles is empty")
    _demand(len(tree["chosen"]) == clients, f"state.chosen is not of {clients} clients")
    _demand(len(state.exchange.halos) in (0, clients), f"state.halos are not of {clients} clients")
    _demand(all(client < clients for client in state.clients.cohort), f"state.cohort is not among {clients} clients")
    for name in ("failing", "scores"):
        _check_clients(tree[name], clients, f"state.{name}")
    for name in ("seconds", "simulated_seconds"):
        _demand(0 <= getattr(state, name) < math.inf, f"state.{name} is {getattr(state, name)}")
    for client, profile in enumerate(state.profiles):
        known = all(map(math.isfinite, profile.values())) and 0 <= profile.get("examples", 0) < 2**31
        _demand(known, f"state.profiles: client {client} has {profile}")
    return state


def _check_columns(curve: Mapping[str, Array]) -> None:
    """Raise `WireError` unless the curve is as `RunState.to_tree` stores it: a number a point in each column."""
    known = kinds_of(curve)
    _check_record(curve, dict.fromkeys(known, Array), "state.curve")
    lengths = {len(column) if column.ndim == 1 else -1 for column in curve.values()}
    _demand(len(lengths) == 1 and -1 not in lengths, "state.curve has columns of several lengths")
    for name, code in known.items():
        _demand(curve[name].dtype == np.dtype(code), f"state.curve.{name} is {_described(curve[name])}")


# --- as part of a run -------------------------------------------------------------------------------------------------


def check_state(
    state: RunState, plan: Plan, selector: Selector[Any], where: str, optimizer: ServerOptimizer[Any] | None = None
) -> None:
    """Raise `InputError` unless this run can go on from a state that `checked_state` returned, of the file `where`.

    All that the loop and the methods rely on must be there.
    """
    with _damaged(where):
        _check_best(state, plan)
        _check_history(state, plan)
        _check_halo_store(state, plan)
        _check_sharing(state, plan)
        _check_broadcast(state, plan)
        _check_in_flight(state, plan)
        _check_methods(state, plan, selector)
        _check_server_optimizer(state, plan, optimizer)
        _check_smoothing(state, plan)


def check_models(state: RunState, plan: Plan, where: str) -> None:
    """Raise `InputError` unless the models of a state can be used."""
    with _damaged(where):
        _check_sharing(state, plan)


@contextmanager
def _damaged(where: str) -> Iterator[None]:
    try:
        yield
    except FedgraftError as error:
        raise InputError(f"{where} is damaged: {str(error).rstrip('.')}.") from error


def _check_history(state: RunState, plan: Plan) -> None:
    _demand(state.bytes.keys() >= {*DIRECTIONS, *PURPOSES}, f"state.bytes has only {', '.join(state.bytes)}")
    _demand(
        state.clients.failures.keys() >= {*FAILURES},
        f"state.failures has only {', '.join(state.clients.failures)}",
    )
    _demand(len(state.curve) > 0, "state.curve is empty")
    kinds = {**_POINT, **dict.fromkeys(AFTER_STEPS if plan.local_steps else (), float)}
    for number, point in enumerate(state.curve):
        _check_record(point, kinds, f"state.curve[{number}]")
        _demand(point["round"] <= state.round, f"state.curve[{number}] is of round {point['round']} of {state.round}")
    known = (state.scores, state.best["scores"], state.best_after_steps.get("scores", {}))
    for client, scores in ((client, each) for by_client in known for client, each in by_client.items()):
        _demand(scores.keys() >= {*SPLITS}, f"state.scores of client {client} are of {', '.join(scores) or 'nothing'}")
    for split, losses in state.losses.items():
        _demand(split in SPLITS and len(losses) == 2, f"state.losses of {split} are {len(losses)}")


def _check_best(state: RunState, plan: Plan) -> None:
    _check_record(state.best, {**_BEST, "models": dict[str, dict[str, Array]]}, "state.best")
    _demand(len(state.best["models"]) > 0, "state.best has no model")
    for group, model in state.best["models"].items():
        with _within(f"state.best, model {group}"):
            wire.check(model, plan.model_layout)
    if state.best_after_steps:
        _check_record(state.best_after_steps, _BEST, "state.best_after_steps")
    for best in (state.best, state.best_after_steps):
        for split, sums in best.get("sums", {}).items():
            _demand(split in SPLITS and sums.keys() == {*plan.task.sums}, f"state.best has sums {', '.join(sums)}")


def _check_halo_store(state: RunState, plan: Plan) -> None:
    """Rows of nodes, and who needs which."""
    _demand(bool(state.exchange.halos) == bool(plan.halo_widths), "state.halos are of another task")
    for client, halo in enumerate(state.exchange.halos):
        _check_record(halo, _HALO, f"state.halos[{client}]")
        for name in ("owner", "place"):
            fits = halo[name].dtype == np.int64 and halo[name].ndim == 1
            _demand(fits, f"state.halos[{client}].{name} is {_described(halo[name])}")
    if not state.exchange.halo_store:
        return
    _demand(bool(state.exchange.halos), "state.halo_store is of another task")
    start: dict[str, Any] = {**HaloStore.of(state.exchange.halos, plan.halo_layout).start()}
    _check_record(
        state.exchange.halo_store,
        {name: int if name == "time" else list[Array] for name in start},
        "state.halo_store",
    )
    for name in ("rows", "published", "seen"):
        shapes, wanted = ([_described(array) for array in each[name]] for each in (state.exchange.halo_store, start))
        _demand(shapes == wanted, f"state.halo_store.{name} is {', '.join(shapes)}, not {', '.join(wanted)}")


def _check_sharing(state: RunState, plan: Plan) -> None:
    """Models of all groups, as they are trained from, sent and scored."""
    clients = len(state.profiles)
    _check_like(state.sharing, plan.sharing.init(plan.first, clients), "state.sharing")
    with _within("state.sharing"):
        for group in plan.groups(state.sharing, range(clients)):
            wire.check(
                {**plan.sharing.model(state.sharing, group), **state.merging.sampler_shared}, plan.download_layout
            )
            wire.check(kept_model(plan, state, group), plan.scored_layout)


def _check_broadcast(state: RunState, plan: Plan) -> None:
    """Models on their way to the clients."""
    _check_record(state.exchange.broadcast, _BROADCAST, "state.broadcast")
    _check_clients(state.exchange.broadcast["held"], len(state.profiles), "state.broadcast.held")
    for key, sent in state.exchange.broadcast["published"].items():
        _check_record(sent, _PUBLISHED, f"state.broadcast.published.{key}")
        with _within(f"state.broadcast.published.{key}"):
            wire.check(sent["arrays"], plan.coded_download_layout)
    for key, memory in state.exchange.broadcast["downlink"].items():
        scored, where = key.startswith("evaluate-"), f"state.broadcast.downlink.{key}"
        _check_like(memory, plan.downlink.init(plan.scored_layout if scored else plan.download_layout), where)
        with _within(where):
            group = int(key.removeprefix("evaluate-"))
            sent = {**plan.sharing.model(state.sharing, group), **state.merging.sampler_shared}
            model = kept_model(plan, state, group) if scored else sent
            plan.downlink.encode(model, memory, np.random.default_rng(0))


def _check_in_flight(state: RunState, plan: Plan) -> None:
    """Late answers."""
    for number, entry in enumerate(state.exchange.in_flight):
        _check_record(entry, _IN_FLIGHT, where := f"state.in_flight[{number}]")
        _demand(entry["client"] < len(state.profiles), f"{where} is of client {entry['client']}")
        _demand(1 <= entry["round"] <= state.round, f"{where} is of round {entry['round']} of {state.round}")
        known = {*entry["report"]} >= {*Protocol.of(plan).report("train")}
        _demand(known, f"{where}.report has only {', '.join(entry['report'])}")
        with _within(where):
            wire.check(entry["arrays"], plan.upload_layout)


def _check_methods(state: RunState, plan: Plan, selector: Selector[Any]) -> None:
    """States of selector and sampler, which must look like those that they begin with."""
    samples = np.array(state.examples, np.int64)
    ones = np.ones(len(samples), np.int64)
    view = View(1, samples, ones, ones, np.ones(len(samples)), samples > 0)
    _check_like(state.selector, selector.init(view), "state.selector")
    _demand(plan.guided is not None or state.sampler is None, "state.sampler is of another sampler")


def _check_server_optimizer(state: RunState, plan: Plan, optimizer: ServerOptimizer[Any] | None) -> None:
    """The server optimiser's states, with which it must be able to step."""
    if not state.merging.server_optimizer or optimizer is None:
        _demand(not state.merging.server_optimizer, "state.server_optimizer is of another recipe")
        return
    model = {name: array for name, array in plan.first.items() if name in plan.learnt}
    still, begun = {name: np.zeros(array.shape) for name, array in model.items()}, optimizer.init(model)
    for group, kept in state.merging.server_optimizer.items():
        where = f"state.server_optimizer.{group}"
        _check_like(kept, begun, where)
        with _within(where):
            moves, _ = optimizer.step(kept, still)
            wire.check(moves, Layout.of(still))


def _check_smoothing(state: RunState, plan: Plan) -> None:
    """Edges between clients, by which answers are smoothed, and what was chosen."""
    _demand(bool(state.exchange.boundaries) == (plan.smoothing is not None), "state.boundaries are of another task")
    if state.smoothed:
        layer = {"layer": dict[str, Array]} if "layer" in state.smoothed else {}
        _check_record(state.smoothed, {**_SMOOTHED, **layer}, "state.smoothed")
        _demand(plan.smoothing is not None, "state.smoothed is of another task")
    if not state.exchange.boundaries:
        return
    weights = {"weights": np.float64} if "weights" in state.exchange.boundaries else {}
    told = {**dict.fromkeys(("own", "sizes", "pointers", "senders"), np.int64), **weights}
    _check_record(state.exchange.boundaries, dict.fromkeys(told, Array), "state.boundaries")
    for name, array in state.exchange.boundaries.items():
        _demand(array.dtype == told[name] and array.ndim == 1, f"state.boundaries.{name} is {_described(array)}")
    _demand(CrossClientEdges(**state.exchange.boundaries).fits(len(state.profiles)), "state.boundaries do not fit")


# --- types ------------------------------------------------------------------------------------------------------------


def _demand(good: bool, problem: str) -> None:
    if not good:
        raise WireError(problem)


@contextmanager
def _within(where: str) -> Iterator[None]:
    """Let a method look at a state that may be anything: whatever it raises is the state's fault."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split()).rstrip(".")
        raise WireError(f"{where}: {text or type(error).__name__}") from error


def _check_record(tree: Any, hints: Hints, where: str) -> None:
    """Raise `WireError` unless a table has every part of `hints`, each of its type."""
    _demand(isinstance(tree, dict), f"{where or 'it'} is no table")
    lacking = [name for name in hints if name not in tree]
    _demand(not lacking, f"{where or 'it'} has no {', '.join(lacking)}")
    for name, hint in hints.items():
        if problem := _misfit(tree[name], hint, f"{where}.{name}".removeprefix(".")):
            raise WireError(problem)


def _misfit(value: Any, hint: Any, where: str) -> str:
    """Return what is wrong with a value that should be of a type; "" for nothing. Whole numbers are counts."""
    if hint is Any:
        return ""
    base, inner = get_origin(hint) or hint, get_args(hint)
    if alias := getattr(base, "__value__", None):  # NDArray is a `type` statement's from NumPy 2.5 on
        base = get_origin(alias) or alias
    if base is np.ndarray:
        return "" if isinstance(value, np.ndarray) else f"{where} is no array"
    if base is int:
        good = type(value) is int and 0 <= value < 2**63
    elif base is float:
        good = type(value) in (int, float)
    else:
        good = isinstance(value, base)
    if not good:
        return f"{where} is {_shown(value)}, not {_NAMES.get(base, base.__name__)}"
    if base is list:
        parts = ((value, inner[0], f"{where}[{place}]") for place, value in enumerate(value))
    elif base is dict:
        parts = ((value, inner[1], f"{where}.{key}") for key, value in value.items())
    else:
        return ""
    return next((problem for part in parts if (problem := _misfit(*part))), "")


def _check_clients(table: Mapping[str, Any], clients: int, where: str) -> None:
    strange = sorted(table.keys() - set(map(str, range(clients))))
    _demand(not strange, f"{where} names {', '.join(strange):.60} among {clients} clients")


def _check_like(state: Any, wanted: Any, where: str, record: bool = True) -> None:
    """Raise `WireError` unless a method's state, or a part of it, is of the kind that it begins with.

    What is None at the start may become anything. The parts of a `record`, all of a state, have names that stay.
    """
    wanted = wanted.item() if isinstance(wanted, np.generic) else wanted
    numbers = isinstance(state, int | float) and isinstance(wanted, int | float)
    if wanted is None or numbers or (state is None and not isinstance(wanted, dict | list)):
        return
    if type(state) is not type(wanted):  # a whole state takes long to show
        raise WireError(f"{where} is {_shown(state)}, not {_NAMES.get(type(wanted), 'an array')}")
    if isinstance(wanted, np.ndarray):
        alike = (state.dtype.kind, state.ndim) == (wanted.dtype.kind, wanted.ndim)
        _demand(alike, f"{where} is {_described(state)}, not like {_described(wanted)}")
    elif isinstance(wanted, dict):
        lacking = sorted(wanted.keys() - state.keys()) if record else []
        _demand(not lacking, f"{where} has no {', '.join(lacking)}")
        for name in wanted.keys() & state.keys():
            _check_like(state[name], wanted[name], f"{where}.{name}", record=False)
    elif isinstance(wanted, list) and len(state) == len(wanted):
        for place, (one, other) in enumerate(zip(state, wanted, strict=True)):
            _check_like(one, other, f"{where}[{place}]", record=False)


def _shown(value: Any) -> str:
    return f"{' '.join(repr(value).split()):.60}"


def _described(array: Array) -> str:
    return f"{array.dtype.name} {list(array.shape)}"
