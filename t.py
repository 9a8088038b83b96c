import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score


def fedgraft(*words: object) -> str:
    """Run a command to its end; return what it printed."""
    command = [sys.executable, "-m", "fedgraft", *map(str, words)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def start(*words: object, until: str) -> subprocess.Popen:
    """Start a command that stays, and wait until it says something."""
    command = [sys.executable, "-u", "-m", "fedgraft", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert any(until in line for line in process.stdout)
    return process


def score_of(run: str) -> float:
    """The average precision on test of a run, in the round that was best on validation."""
    return json.loads((Path(run) / "summary.json").read_text())["test_at_best_validation"]

g = np.random.default_rng(0)
banks = np.array(["east", "north", "west"])
accounts, transfers = 309, 3600
bank, ring = np.arange(accounts) % 3, np.arange(9)
stolen = g.random(transfers) < 0.05
source = g.integers(9, accounts, transfers)
shop = g.integers(9, 40, transfers)  # half of all other transfers go to a few, too
target = np.where(stolen, g.choice(ring, transfers), np.where(g.random(transfers) < 0.5, shop, g.permutation(source)))
kept = source != target
names = np.array([f"DE{k:06}" for k in g.permutation(accounts)])
every = pd.DataFrame(
    {
        "from": names[source],
        "to": names[target],
        "from_bank": banks[bank[source]],
        "to_bank": banks[bank[target]],
        "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.sort(g.integers(0, 90 * 86400, transfers)), "s"),
        "amount": np.exp(g.normal(4, 1, transfers)).round(2),
        "fraud": np.where(stolen & (g.random(transfers) < 0.9), "yes", "no"),  # some are never noticed
    }
)[kept]
known, tomorrow = every.iloc[:-400], every.iloc[-400:]
print(f"{(every['from_bank'] != every['to_bank']).mean():.0%} of transfers go to another bank")
known.head(3)

for number, name in enumerate(banks):
    folder = Path(name)
    folder.mkdir()
    own = (known["from_bank"] == name) | (known["to_bank"] == name)
    known[own].to_csv(folder / "transfers.csv", index=False)
    pd.DataFrame({"node": names[bank == number]}).to_csv(folder / "accounts.csv", index=False)
    print(name, own.sum(), "transfers")

recipe = """
extends = "graft_edge"
rounds = 10
yardsticks = []

[data]
name = "edges"
nodes = "accounts.csv"
edges = "transfers.csv"
source = "from"
target = "to"
source_client = "from_bank"
target_client = "to_bank"
time = "when"
label = "fraud"
match = "psi"
"""
Path("ring.toml").write_text(recipe)
with socket.socket() as free:
    free.bind(("localhost", 0))
    port = free.getsockname()[1]
fedgraft("federation", "init", "fed", "--names", ",".join(banks), "--recipe", "ring.toml", "--port", port)

processes = [start("federation", "start", "fed", until="ready")]
for name in banks:
    tables = [f"nodes={name}/accounts.csv", f"edges={name}/transfers.csv"]
    processes += [start("node", f"fed/nodes/{name}", "--data", tables[0], "--data", tables[1], until="joining")]
try:
    fedgraft("run", "fed/recipe.toml", "--on", "fed", "--out", "run", "-q")
finally:
    for process in reversed(processes):
        process.terminate()
        process.communicate()
print(f"average precision on test {score_of('run'):.3f}")

known.to_csv("transfers.csv", index=False)
pd.DataFrame({"node": names, "client": banks[bank]}).to_csv("accounts.csv", index=False)
beside = 'yardsticks=["local_only", "own_edge_boosting", "edge_logistic"]'
fedgraft("run", "ring.toml", beside, "--out", "here", "-q")
here, there = (json.loads((Path(run) / "summary.json").read_text()) for run in ("here", "run"))
print("the same bits:", here["digest"] == there["digest"])
pd.Series({"federated": score_of("here"), **here["yardsticks"]}, name="average precision").round(3)

scored = []
for name in banks:
    mine = tomorrow[(tomorrow["from_bank"] == name)]
    mine.drop(columns="fraud").to_csv(f"{name}/tomorrow.csv", index=False)
    (run,) = Path(f"fed/nodes/{name}/runs").iterdir()
    fedgraft("predict", run, "--edges", f"{name}/tomorrow.csv", "-o", f"{name}/scored.csv", "--probabilities")
    scored.append(pd.read_csv(f"{name}/scored.csv").assign(stolen=(mine["fraud"] == "yes").to_numpy()))
scored = pd.concat(scored)
print(f"average precision {average_precision_score(scored['stolen'], scored['probability_yes']):.3f}")
found = scored.nlargest(15, "probability_yes").groupby("to")["to_bank"].agg(["first", "count"])
found["of the ring"] = found.index.isin(names[ring])
found.sort_values("count", ascending=False)