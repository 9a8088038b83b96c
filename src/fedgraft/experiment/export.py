"""A trained model as a folder that needs no fedgraft: source text in PyTorch Geometric's layers, weights, a README."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

import torch

from fedgraft.contracts.encoder import NetworkEncoder
from fedgraft.contracts.plain import PlainEncoder, PlainModel, PlainTask
from fedgraft.errors import InputError
from fedgraft.experiment import discovery, disk
from fedgraft.experiment.finished_run import SHOWN, FinishedRun, load_model

SOURCE, WEIGHTS, README = "model.py", "model.safetensors", "README.md"
_TEXT: Final = """# {title}

`{source}` defines the network in PyTorch Geometric's own layers, `{weights}` holds its state dict:

    from model import CLASSES, load

    logits = load()(x, edge_index)
    likeliest = [CLASSES[k] for k in logits.argmax(1)]

It needs torch, torch_geometric and safetensors{needs}. Inputs:

{inputs}
Outputs: logits, a column for each of CLASSES; their softmax is what the model takes each class's probability to be.
{notes}"""
_SMOOTHED: Final = """
The run smoothed its answers over the graph after training; `fedgraft predict` does, this model alone does not.
"""


def export(run: FinishedRun, folder: Path, client: str | None = None) -> None:
    """Write a trained model to a folder: model.py, model.safetensors and README.md.

    Args:
        run: whose model.
        folder: made when missing; files of these names are replaced.
        client: whose model, where each has its own; None = the one of all.

    Raises `InputError` for a task, an encoder or options without a counterpart in PyG.
    """
    plain = _plain(run, client)
    network = isinstance(getattr(run.plan.task, "encoder", None), NetworkEncoder)
    sharing = run.experiment.sections["sharing"]["name"]
    whose = "of all clients" if client is None else f"of client {client}"
    text = _TEXT.format(
        title=f"Model {whose}, recipe {run.experiment.recipe}, sharing {sharing}",
        source=SOURCE,
        weights=WEIGHTS,
        needs=", and the network's own module" if network else "",
        inputs=plain.inputs,
        notes=_SMOOTHED if run.plan.smoothing else "",
    )
    arrays = {name: array.detach().cpu().contiguous().numpy() for name, array in plain.arrays.items()}
    contents = {SOURCE: plain.source.encode(), WEIGHTS: disk.model_bytes(arrays), README: text.encode()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        disk.replace(folder, contents)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written: {error.strerror or error}.") from error


def exported(folder: Path) -> torch.nn.Module:
    """Return the model that `export` wrote, in evaluation mode."""
    spec = spec_from_file_location("exported_model", folder / SOURCE)
    assert spec is not None, "a file of source text has one"
    assert spec.loader is not None, "and a loader"
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    model: torch.nn.Module = module.load(folder)
    return model


def _plain(run: FinishedRun, client: str | None) -> PlainModel:
    """Return the model in PyG's words."""
    task, name = run.plan.task, run.experiment.task_name
    if not isinstance(task, PlainTask):
        raise InputError(f"Models of task {name!r} cannot be exported; those of {_those('tasks', PlainTask)} can.")
    encoder = getattr(task, "encoder", None)
    if not isinstance(encoder, PlainEncoder | NetworkEncoder):
        used = run.experiment.sections["model"]["name"]
        raise InputError(
            f"Encoder {used!r} has no counterpart among PyG's layers; {_those('models', PlainEncoder)} have, and can "
            "be exported."
        )
    if client is not None:
        number = run.number(client)
        return task.plain(run.client_model(number), run.shards[number])
    if run.plan.personal or any("/" in name for name in run.models):
        names = ", ".join([*map(repr, run.names[:SHOWN]), *(["..."] if len(run.names) > SHOWN else [])])
        raise InputError(f"Each client ended with a model of its own; say whose with --client, one of {names}.")
    return task.plain(load_model(run.folder), None)


def _those(family: str, ability: type) -> str:
    return ", ".join(name for name in discovery.names(family) if issubclass(discovery.find(family, name), ability))
