"""Time the hot paths against their limits: a table, and bench.json with {name: {"value", "limit", "better"}}.

Ratios are the result: their terms are measured in turns within one process, and medians are taken, so that they hold on
a busy machine too. Milliseconds depend on the machine. A missed limit is reported and is no error.
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
    Figure("ray_over_workers", "deployed:ray_over_processes", 1.5, "lower", needs="ray"),
    Figure("flower_round", "deployed:flower_round_seconds", 2, "lower", "s", needs="flwr"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print as it goes, write bench.json."""
    names = [figure.name for figure in FIGURES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", action="append", choices=names, help=f"one of {', '.join(names)}")
    wanted = parser.parse_args(arguments).only or names
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{os.cpu_count()} cores{load}\n{'':17} {'value':>9} {'limit':>12}           seconds")
    results: dict[str, dict[str, float | str]] = {}
    missed = []
    for figure in FIGURES:
        if figure.name not in wanted:
            continue
        began = time.perf_counter()
        try:
            value = float(f"{figure.function()():.4g}")
        except ModuleNotFoundError as error:
            if not figure.needs or error.name != figure.needs:
                raise
            print(f"{figure.name:17} skipped: {figure.needs} is not installed (make install)")
            continue
        except Skipped as error:
            print(f"{figure.name:17} skipped: {error}")
            continue
        elapsed = time.perf_counter() - began
        sign = "<=" if figure.better == "lower" else ">="
        verdict = "ok" if figure.reached(value) else "MISSED"
        limit = f"{sign} {figure.limit:g} {figure.unit}"
        print(
            f"{figure.name:17} {value:6.2f} {figure.unit:2} {limit:>12} {verdict:>8} {elapsed:9.1f}",
            flush=True,
        )
        results[figure.name] = {"value": value, "limit": figure.limit, "better": figure.better}
        if not figure.reached(value):
            missed.append(figure.name)
            if figure.least:
                print(f"{'':17} {_load(figure.least)():6.2f} {figure.unit:2} is the best that could be had here now")
    RESULT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"Missed: {', '.join(missed)}" if missed else "All limits reached.", f"Figures in {RESULT.name}.")


def _load(path: str) -> Callable[..., float]:
    module, name = path.split(":")
    function: Callable[..., float] = getattr(import_module(module), name)
    return function


if __name__ == "__main__":
    main()
