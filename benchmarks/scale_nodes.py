"""Node classification by the recipe `fedais` on ever larger made-up graphs: seconds of a round, and peak memory.

Prints what it measures, writes docs/results/scale_nodes.json and draws scale_nodes.png beside it (`scale_figure`).
Every federation has a process of its own, so that peak memory is that of one alone: generation of the graph, cut,
set-up, rounds, and a scoring before and after them. Seconds of a round are those of training, in one thread
and by no other process unless workers are named, without scoring.

Seconds of a processor are what a round takes on a core that nobody else uses; seconds on the clock are more where
others do. A missed limit is reported and is no error.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

# One thread per process, as in a run; before NumPy and torch are loaded, which look here once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from fedgraft.experiment import job as jobs
from memory import resident
from served import ServedReply
from timing import in_turns, ratio
from workloads import federation

RESULT = Path(__file__).resolve().parents[1] / "docs" / "results" / "scale_nodes.json"
GIB, GIGA = 1 << 30, 10**9


@dataclass(frozen=True)
class Size:
    """A made-up graph, cut over clients, and the model that learns on it.

    Args:
        nodes, clients, degree, features, classes, sparse: as of the data set `blocks`.
        halo: most neighbours elsewhere of a node, `exchange.halo`; 0 = all.
        model, hidden: the encoder; the recipe's.
        workers: processes that serve clients; 0 = the federation's own.
    """

    nodes: int
    clients: int
    degree: float
    features: int = 602
    classes: int = 41
    sparse: bool = False
    halo: int = 10
    model: str = "sage"
    hidden: tuple[int, ...] = (256, 128)
    workers: int = 0

    def overrides(self) -> dict[str, Any]:
        """What differs from the recipe."""
        graph = {key: getattr(self, key) for key in ("nodes", "clients", "degree", "features", "classes", "sparse")}
        made = {"data.name": "blocks", **{f"data.{key}": value for key, value in graph.items()}}
        return {**made, "exchange.halo": self.halo, "model.name": self.model, "model.hidden": [*self.hidden]}


REDDIT = Size(nodes=233_000, clients=100, degree=489)
"""Nodes, features, classes and edges (57 million) of the data set of that name."""
PUBMED = Size(nodes=19_717, clients=100, degree=4.5, features=500, classes=3, sparse=True, halo=0)
DENSE = Size(nodes=58_250, clients=100, degree=50)
"""A quarter of Reddit's nodes, so that others fit into an hour."""

SERIES: dict[str, tuple[Size, ...]] = {
    "reddit": (
        REDDIT,
        replace(REDDIT, model="gcn", hidden=(64,)),
        replace(REDDIT, workers=2),
        replace(REDDIT, halo=2),
        replace(REDDIT, halo=2, workers=2),
    ),
    "nodes": tuple(replace(DENSE, nodes=DENSE.nodes * k // 4) for k in (1, 2, 4, 8)),
    "edges": tuple(replace(DENSE, degree=degree) for degree in (5, 16, 50, 160, 489)),
    "clients": tuple(replace(PUBMED, clients=100 * k) for k in (1, 2, 5, 10)),
    "clients and nodes": tuple(replace(PUBMED, clients=100 * k, nodes=PUBMED.nodes * k) for k in (1, 2, 5, 10)),
}
"""What grows; the last two, cheap and with a limit on their growth, are measured in turns."""
IN_TURNS = ("clients", "clients and nodes")
WARM_UP = 0.25
"""Rounds before those that count, times the number of clients: of a cohort of ten, nine in ten have trained by then."""

LIMITS: tuple[tuple[str, str, int, str, float, str], ...] = (
    ("reddit_peak", "reddit", 0, "peak_gib", 12, "GiB"),
    ("reddit_round", "reddit", 0, "round_seconds", 0.5, "s"),
    ("clients_x10", "clients", -1, "round_over_first", 1.3, "x"),
    ("clients_and_nodes_x10", "clients and nodes", -1, "round_over_first", 1.3, "x"),
)
"""Name, series, which of it, what of that, the most it may be, unit."""


def serve(pipe: Connection, size: Size) -> None:
    """The federation's end of the pipe: tell of the set-up, of every round that is asked for, and of the end."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    built = jobs.load("fedais", size.overrides())
    shards = built.data.load(built.seed)
    loaded = time.perf_counter()
    built = built.fitted(shards)
    with federation(built.plan, shards, built.selector, size.workers) as running:
        state = running.state
        pipe.send(
            {
                "edges": sum(len(shard.senders) for shard in shards) // 2,
                "load_seconds": loaded - began,
                "setup_seconds": time.perf_counter() - loaded,
                "setup_bytes": sum(state.bytes[direction] for direction in ("down", "up")),
            }
        )
        while number := pipe.recv():
            before = time.perf_counter(), busy_seconds(), state.flops, state.bytes
            running.round(number)
            pipe.send(
                {
                    "round_seconds": time.perf_counter() - before[0],
                    "round_processor_seconds": busy_seconds() - before[1],
                    "round_operations": state.flops - before[2],
                    "round_bytes": sum(state.bytes[each] - before[3][each] for each in ("down", "up")),
                }
            )
        running.score()
        peak = sum(resident("VmHWM", each) for each in ("self", *workers())) / GIB
        pipe.send({"peak_gib": peak, "products_per_second": products_per_second(size)})


def workers() -> list[int]:
    """Processes that serve this one's clients: those that it has started, and those that they have."""
    parents = {int(path.parent.name): _fields(path)[1] for path in Path("/proc").glob("[0-9]*/stat")}
    found = [os.getpid()]
    for parent in found:
        found += [child for child, its_parent in parents.items() if int(its_parent) == parent]
    return found[1:]


def _fields(stat: Path) -> list[str]:
    """What the system says of a process, behind its name; zeros where it has ended."""
    try:
        return stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ["0"] * 50


def busy_seconds() -> float:
    """What this process and its workers have had of all cores."""
    spent = [_fields(Path(f"/proc/{each}/stat")) for each in workers()]
    return time.process_time() + sum(int(fields[11]) + int(fields[12]) for fields in spent) / os.sysconf("SC_CLK_TCK")


def products_per_second(size: Size, repeats: int = 50) -> float:
    """Operations a processor second of the first layer's product over all nodes of a client, the fastest time."""
    rows, seconds = max(1, size.nodes // size.clients), []
    left, right = torch.randn(rows, size.features), torch.randn(size.features, size.hidden[0])
    for _ in range(repeats):
        began = time.process_time()
        left @ right
        seconds.append(time.process_time() - began)
    return 2 * rows * size.features * size.hidden[0] / max(min(seconds), 1e-9)


def measure(sizes: Sequence[Size], repeats: int, together: bool) -> Iterator[dict[str, Any]]:
    """What each takes; in turns, round by round, or one after the other.

    Args:
        sizes: of the graphs.
        repeats: rounds that count.
        together: whether all are there at once.
    """
    first: list[float] = []
    for group in [sizes] if together else [[size] for size in sizes]:
        with ExitStack() as stack:
            running = [stack.enter_context(ServedReply(serve, size)) for size in group]
            for size, served in zip(group, running, strict=True):
                for number in range(1, warm_up(size) + 1):
                    served.round(number)
            in_turns({f"{place:03}": _from(served) for place, served in enumerate(running)}, repeats, warm_up=0)
            for size, served in zip(group, running, strict=True):
                told = {key: [each[key] for each in served.rounds[-repeats:]] for key in served.rounds[-1]}
                cost = told["round_processor_seconds"]
                first = first or cost
                figures: dict[str, Any] = {**asdict(size), **served.told, "rounds": len(served.rounds)}
                figures.update({key: median(values) for key, values in told.items()})
                figures["round_over_first"] = ratio({"this": cost, "first": first}, "this", "first")
                last = served.close()
                figures["products_seconds"] = figures["round_operations"] / last["products_per_second"]
                yield {**figures, "peak_gib": last["peak_gib"]}


def warm_up(size: Size) -> int:
    """Rounds that do not count."""
    return round(WARM_UP * size.clients)


def _from(served: ServedReply) -> Callable[[int], None]:
    done = len(served.rounds)
    return lambda number: served.round(done + number)


def verdicts(results: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """{name: {"value", "limit", "unit", "reached"}} of the limits whose series were measured."""
    found = {}
    for name, series, place, key, limit, unit in LIMITS:
        if series in results:
            value = results[series][place][key]
            found[name] = {"value": value, "limit": limit, "unit": unit, "reached": value <= limit}
    return found


def line(found: dict[str, Any]) -> str:
    """One row of the table."""
    return (
        f"{found['nodes']:>9,} {found['edges'] / 1e6:8.2f} {found['clients']:7,} {found['model']:>5} "
        f"{found['load_seconds'] + found['setup_seconds']:8.1f} {found['round_seconds']:8.3f} "
        f"{found['round_processor_seconds']:9.3f} {found['products_seconds']:8.3f} {found['round_over_first']:6.2f} "
        f"{found['round_bytes'] / 1e6:8.1f} {found['peak_gib']:7.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print as it goes, write the figures and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SERIES", action="append", choices=[*SERIES], help=f"of {', '.join(SERIES)}")
    parser.add_argument("--rounds", type=int, default=20, help="rounds that count (20)")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw what is there")
    options = parser.parse_args(arguments)
    stored = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    results: dict[str, list[dict[str, Any]]] = stored.get("series", {})
    if not options.draw:
        wanted = options.only or [*SERIES]
        print(
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n{'nodes':>9} {'M edges':>8} {'clients':>7} model "
            f"{'set-up s':>8} {'round s':>8} {'processor':>9} {'products':>8} {'/first':>6} {'MB':>8} {'GiB':>7}"
        )
        for name in wanted:
            print(name)
            results[name] = []
            for found in measure(SERIES[name], options.rounds, name in IN_TURNS):
                print(line(found), flush=True)
                results[name].append(found)
            results = {each: results[each] for each in SERIES if each in results}
            content = {"machine": {"cores": os.cpu_count(), "torch": torch.__version__}, "limits": verdicts(results)}
            text = json.dumps({**content, "series": _rounded(results)}, indent=1)
            RESULT.write_text(text + "\n", encoding="utf-8")
        for name, verdict in verdicts(results).items():
            word = "ok" if verdict["reached"] else "MISSED"
            print(f"{name:22} {verdict['value']:6.2f} <= {verdict['limit']:g} {verdict['unit']:3} {word}")
    from fedgraft.reports.figures.figure_style import draw  # plotly takes a second
    from scale_figure import WIDTH, figure

    print(draw(figure(results), RESULT.with_suffix(".png"), WIDTH))


def _rounded(value: Any) -> Any:
    """Floats to four significant digits."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
