"""Time the hot paths against their limits and the last release: a table, and bench.json.

Ratios are the result: their terms are measured in turns within one process, and medians are taken, so that they hold on
a busy machine too. Milliseconds depend on the machine. A missed limit is reported and is no error.

The last column is a figure over that of the last release (`last_release.json`); one that is worse by more than a tenth
is marked. At a release `--keep VERSION` makes today's figures those of the last release.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from skipped import Skipped

# One thread per process, as in a run; before NumPy and torch are loaded, which look here once.
os.environ.setdefault("OMP_NUM_THREADS", "1")

RESULT = Path(__file__).resolve().parents[1] / "bench.json"
"""{name: {"value", "limit", "better"}} of the figures of one call."""
LAST_RELEASE = Path(__file__).resolve().with_name("last_release.json")
"""{"release": version, "values": {name: value}}, values as of `RESULT`."""
MOST_WORSE = 1.1
"""How many times as bad as at the last release a figure may be before it is marked."""


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Args:
        name: in the table and in bench.json.
        measure: "module:function" that returns the value.
        limit: what the value must reach.
        better: "lower" if the value may be at most the limit, "higher" if it must be at least that.
        unit: of value and limit; "x" for ratios.
        needs: a package that is not one of fedgraft's own dependencies.
        least: "module:function" of what could be had here at the moment at best, shown beside a value that missed.
    """

    name: str
    measure: str
    limit: float
    better: str
    unit: str = "x"
    needs: str = ""
    least: str = ""

    def function(self) -> Callable[..., float]:
        """What measures it."""
        return _load(self.measure)

    def reached(self, value: float) -> bool:
        """Whether a value is within the limit."""
        return value <= self.limit if self.better == "lower" else value >= self.limit

    def worse(self, value: float, before: float) -> bool:
        """Whether a value is worse than one of before by more than chance."""
        return value > before * MOST_WORSE if self.better == "lower" else value * MOST_WORSE < before


FIGURES = (
    Figure("overhead_ms", "overhead:overhead_ms", 10, "lower", "ms"),
    Figure("encode_4bit_ms", "codec:encode_ms", 8, "lower", "ms"),
    Figure("decode_4bit_ms", "codec:decode_ms", 2, "lower", "ms"),
    Figure("clients_x10", "growth:clients_x10", 1.3, "lower"),
    Figure("nodes_x10", "growth:nodes_x10", 12, "lower"),
    Figure("round_over_floor", "floor:over_floor", 1.15, "lower"),
    Figure("usual_over_round", "usual:usual_over_ours", 2.8, "higher", needs="torch_geometric"),
    Figure("graphs_over_floor", "graphs:over_floor", 1.15, "lower", needs="torch_geometric"),
    Figure("graphs_usual", "graphs:usual_over_ours", 2, "higher", needs="torch_geometric"),
    Figure("nodes_s256_least", "nodes_least:s256_over_least", 1.12, "lower"),
    Figure("nodes_g64_least", "nodes_least:g64_over_least", 1.40, "lower"),
    Figure("nodes_cs_floor", "nodes:cs_over_floor", 1.5, "lower", least="nodes_least:cs_over_floor"),
    Figure("nodes_s256_usual", "nodes_usual:s256_over_ours", 2.5, "higher", needs="torch_geometric"),
    Figure("nodes_g64_usual", "nodes_usual:g64_over_ours", 4, "higher", needs="torch_geometric"),
    Figure("typed_acm_floor", "typed:acm_over_floor", 1.3, "lower"),
    Figure("typed_dblp_floor", "typed:dblp_over_floor", 1.3, "lower"),
    Figure("han_acm_part", "typed_usual:acm_part", 3, "higher", needs="torch_geometric"),
    Figure("han_dblp_part", "typed_usual:dblp_part", 3, "higher", needs="torch_geometric"),
    Figure("han_acm_whole", "typed_usual:acm_whole", 3, "higher", needs="torch_geometric"),
    Figure("han_dblp_whole", "typed_usual:dblp_whole", 3, "higher", needs="torch_geometric"),
    Figure("ranking_floor", "ranking:over_floor", 1.2, "lower"),
    Figure("ranking_seconds", "ranking:ranking_seconds", 0.1, "lower", "s"),
    Figure("selection_ms", "selection:slowest_ms", 100, "lower", "ms"),
    Figure("selection_mb", "selection:most_megabytes", 200, "lower", "MB"),
    Figure("selection_1m_ms", "selection:million_ms", 50, "lower", "ms"),
    Figure("workers_2_over_1", "workers:two_over_one", 0.60, "lower", least="workers:free_cores"),
    Figure("memory_over_data", "memory:peak_over_data", 2, "lower"),
    Figure("reading_over_pandas", "reading:over_pandas", 1.5, "lower"),
    Figure("reading_memory", "reading:memory_over_pandas", 3, "lower"),
    Figure("ray_over_workers", "deployed:ray_over_processes", 1.5, "lower", needs="ray"),
    Figure("federation_round", "deployed:federation_round_seconds", 0.8, "lower", "s", needs="uvicorn"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print as it goes, write bench.json; with `--keep` also the figures of a release."""
    names = [figure.name for figure in FIGURES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", action="append", choices=names, help=f"one of {', '.join(names)}")
    parser.add_argument("--keep", metavar="VERSION", help="make these figures those of the last release")
    options = parser.parse_args(arguments)
    last = json.loads(LAST_RELEASE.read_text(encoding="utf-8"))
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{os.cpu_count()} cores{load}\n{'':17} {'value':>9} {'limit':>12}           seconds    / {last['release']}")
    values: dict[str, float] = {}
    for figure in FIGURES:
        if figure.name in (options.only or names):
            value = _measured(figure, last["values"].get(figure.name))
            if value is not None:
                values[figure.name] = value
    measured = {figure.name: figure for figure in FIGURES if figure.name in values}
    results = {
        name: {"value": values[name], "limit": figure.limit, "better": figure.better}
        for name, figure in measured.items()
    }
    RESULT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    missed = [name for name, figure in measured.items() if not figure.reached(values[name])]
    print(f"Missed: {', '.join(missed)}" if missed else "All limits reached.", f"Figures in {RESULT.name}.")
    if options.keep:
        kept = {"release": options.keep, "values": {**last["values"], **values}}
        LAST_RELEASE.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _measured(figure: Figure, before: float | None) -> float | None:
    """Measure a figure and print its line; None where it cannot be measured here.

    Args:
        figure: what to measure.
        before: its value at the last release; None for a new one.
    """
    began = time.perf_counter()
    try:
        value = float(f"{figure.function()():.4g}")
    except ModuleNotFoundError as error:
        if not figure.needs or error.name != figure.needs:
            raise
        print(f"{figure.name:17} skipped: {figure.needs} is not installed (make install)")
        return None
    except Skipped as error:
        print(f"{figure.name:17} skipped: {error}")
        return None
    elapsed = time.perf_counter() - began
    limit = f"{'<=' if figure.better == 'lower' else '>='} {figure.limit:g} {figure.unit}"
    verdict = "ok" if figure.reached(value) else "MISSED"
    change = "new" if before is None else f"{value / before:.2f}" + (" WORSE" if figure.worse(value, before) else "")
    line = f"{figure.name:17} {value:6.2f} {figure.unit:2} {limit:>12} {verdict:>8} {elapsed:9.1f} {change:>10}"
    print(line.rstrip(), flush=True)
    if figure.least and not figure.reached(value):
        print(f"{'':17} {_load(figure.least)():6.2f} {figure.unit:2} is the best that could be had here now")
    return value


def _load(path: str) -> Callable[..., float]:
    module, name = path.split(":")
    function: Callable[..., float] = getattr(import_module(module), name)
    return function


if __name__ == "__main__":
    main()
