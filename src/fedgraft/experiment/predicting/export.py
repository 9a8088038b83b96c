"""A trained model as a folder that needs no fedgraft: source text of its layers, weights, a README."""

import copy
import json
import runpy
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import torch

from fedgraft.contracts.abilities.plain import PlainModel, PlainTask, Tensors
from fedgraft.contracts.data import AgreedData, Data
from fedgraft.contracts.encoder import NetworkEncoder
from fedgraft.contracts.parts import has
from fedgraft.errors import InputError
from fedgraft.experiment.predicting.copied_source import source_of
from fedgraft.experiment.predicting.predict import thresholds_of
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.data_now import listed
from fedgraft.experiment.storage.finished_run import SHOWN, FinishedRun, load_model
from fedgraft.nn.layers import unmask

SOURCE, WEIGHTS, README, FEATURES = "model.py", "model.safetensors", "README.md", "features.py"
TABLES, NAMES = "client.safetensors", "client.json"
_TEXT: Final = """# {title}

`{source}` defines the network by the layers that it was trained with, `{weights}` holds its state dict:

{usage}
It needs torch, numpy and safetensors{needs}. Inputs:

{inputs}
Outputs: {outputs}
{notes}"""
_READ: Final = """
Features are made of the columns of the training data by `features(table)` of `features.py`{edges}, which needs pandas.
"""
_DECIDED: Final = """
The class {positive_class!r}{label} is answered where its probability, by softmax of the outputs, is at least
{least:.6g}: the threshold with the largest F1 on validation.
"""
_SMOOTHED: Final = """
The run smoothed its answers over the graph after training; `fedgraft predict` does, this model alone does not.
"""


def export(run: FinishedRun, folder: Path, client: str | None = None) -> None:
    """Write a trained model to a folder: model.py, model.safetensors, README.md, and what it reads of a client's data.

    Args:
        run: whose model.
        folder: made when missing; files of these names are replaced.
        client: whose model, where each has its own; None = the one of all.

    Raises `InputError` for a task, an encoder or options that cannot be exported.
    """
    plain = _plain(run, client)
    module = copy.deepcopy(plain.module)
    unmask(module)
    sharing = run.experiment.recipe.sections["sharing"]["name"]
    whose = "of all clients" if client is None else f"of client {client}"
    text = _TEXT.format(
        title=f"Model {whose}, recipe {run.experiment.recipe.name}, sharing {sharing}",
        source=SOURCE,
        weights=WEIGHTS,
        needs=", and the network's own module" * bool(plain.network[0]),
        usage=indent(plain.usage, "    "),
        inputs=plain.inputs,
        outputs=plain.outputs,
        notes=(_SMOOTHED if run.plan.smoothing else "") + _decided(run),
    )
    source = source_text(plain, module).encode()
    contents = {SOURCE: source, WEIGHTS: _bytes(module.state_dict()), README: text.encode()}
    if features := _features(run, client):
        contents[FEATURES] = features.encode()
        edges = ", what edges carry by `edge_features(table)`" * ("def edge_features" in features)
        contents[README] += _READ.format(edges=edges).encode()
    if plain.client:
        names = json.dumps(plain.names, ensure_ascii=False)
        contents |= {TABLES: _bytes(plain.client), NAMES: names.encode()}
    with disk.written(f"--out {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        disk.replace(folder, contents)


def _decided(run: FinishedRun) -> str:
    """Return which class of which label is answered where it is not the likeliest."""
    return "".join(
        _DECIDED.format(
            positive_class=each.positive_class, least=each.least, label=f" of {each.label!r}" * bool(each.label)
        )
        for each in thresholds_of(run, None)
    )


def exported(folder: Path) -> torch.nn.Module:
    """Return the model that `export` wrote, in evaluation mode."""
    model: torch.nn.Module = runpy.run_path(str(folder / SOURCE))["load"](folder)
    return model


def _plain(run: FinishedRun, client: str | None) -> PlainModel:
    """Return the model as a module over tensors."""
    task, name = _as_read(run.plan.task, run.experiment.data), run.experiment.task_name
    exported: PlainTask | None = task.ability(PlainTask)
    if exported is None:
        raise InputError(f"Models of task {name!r} cannot be exported; those of {_those(PlainTask)} can.")
    encoder = getattr(task, "encoder", None)
    if hasattr(encoder, "module") and not isinstance(encoder, NetworkEncoder):
        used = run.experiment.recipe.sections["model"]["name"]
        raise InputError(f"Encoder {used!r} has layers of another library, and cannot be exported.")
    if client is not None:
        number = run.number(client)
        return exported.plain(run.client_model(number), run.shards[number], run.memory(number).get("shared", {}))
    if run.plan.personal or any("/" in name for name in run.models):
        names = listed(run.names, SHOWN)
        raise InputError(f"Each client ended with a model of its own; say whose with --client, one of {names}.")
    return exported.plain(load_model(run.run_folder), None, run.newcomer_memory.get("shared", {}))


def _as_read(task: Any, data: Data[Any]) -> Any:
    """Return the task without options that have no effect on how data are read."""
    void = data.void if isinstance(data, AgreedData) else {}
    return replace(task, **{name: value for name, value in void.items() if hasattr(task, name)}) if void else task


def _features(run: FinishedRun, client: str | None) -> str:
    """Return a module that makes features of the user's columns; "" where there is nothing to make."""
    data, shard = run.experiment.data, None if client is None else run.shards[run.number(client)]
    return data.plain(run.plan.task, shard) if isinstance(data, AgreedData) else ""


def _bytes(tensors: Tensors) -> bytes:
    return disk.model_bytes({name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()})


def source_text(plain: PlainModel, module: torch.nn.Module) -> str:
    """Return the text of a plain model, in whose module no layer is masked."""
    constants = f"CLASSES = {list(plain.classes)}\n" if plain.classes else ""
    return source_of(module, constants, plain.network, plain.readers)


def _those(ability: type) -> str:
    return ", ".join(name for name in discovery.names("tasks") if has(discovery.find("tasks", name), ability))
