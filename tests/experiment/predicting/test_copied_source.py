"""Source text of modules: what is copied, by which names, and in which order."""

from pathlib import Path

import pytest
import torch
from torch import nn

from fedgraft.experiment.predicting.copied_source import source_of

PARTS = {
    "__init__.py": "",
    "one.py": '''
from dataclasses import dataclass
from typing import ClassVar
from . import two
from .two import LOWEST as LEAST, scaled as other

STEP, UNREAD = 3.0, other(1.0)

def scaled(x: "NotThere") -> "NotThere":
    """Three times, and no less than so much."""
    assert x is not None
    total: float = two.scaled(x * STEP)
    return total.clamp(min=LEAST)

@dataclass(frozen=True)
class Shift:
    """Of numbers."""
    kind: ClassVar[str] = "shift"
    by: float
    unread: object = None

    def moved(self, x):
        return x + self.by + other(0 * x)

    def unused(self):
        return NOTHING
''',
    "two.py": """
LOWEST: float = -1.0

def scaled(x):
    return x * 2.0
""",
    "net.py": """
import torch
from torch import nn
from .one import Shift, scaled

class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer, self.norm, self.shift = nn.Linear(width, 2), nn.BatchNorm1d(2), Shift(0.5)
        self.layers = nn.ModuleList([nn.Linear(2, 2)])

class Net(Base):
    def forward(self, x):
        return self.shift.moved(scaled(self.layers[0](self.norm(self.layer(x)))))
""",
}


def test_a_module_of_ones_own_is_copied_with_all_that_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ones_own"
    package.mkdir()
    for name, text in PARTS.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    net: nn.Module = __import__("ones_own.net").net.Net(3).eval()
    text = source_of(net, "CLASSES = ['a', 'b']\n")
    made: dict[str, object] = {"__file__": str(tmp_path / "model.py"), "__name__": "model"}
    exec(text, made)
    copied = made["build"]()  # type: ignore[operator]
    copied.load_state_dict(net.state_dict())
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(copied.eval()(x), net(x))
    assert made["CLASSES"] == ["a", "b"]
    for left_out in ("ones_own", "NotThere", "UNREAD", "unused", "def __init__"):
        assert left_out not in text
    assert text.count("def scaled") == 2, "two functions of one name"
