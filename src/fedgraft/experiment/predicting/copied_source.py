"""A module of torch as one Python file: the definitions that it runs are copied, those of fedgraft among them.

Functions, classes and constants are copied where what is copied names them; methods where something reads an attribute
of that name. Annotations and counts of operations are left out.
"""

import ast
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn

from fedgraft.errors import InputError
from fedgraft.nn.whole_networks import WholeNetwork

_ABSENT: Final = ("Sparse", "Stacked")
"""Classes of states that no copied module is given, of which there is no more than the name."""
_TEXT: Final = '''"""A trained model; README.md says what it reads."""

{imports}
{constants}{definitions}

def assembled(kind, /, **parts):
    """Return an object of a class with these parts; no weights are drawn."""
    made = kind.__new__(kind)
    if not isinstance(made, nn.Module):
        vars(made).update(parts)
        return made
    nn.Module.__init__(made)
    for name, part in parts.items():
        is_buffer = isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter)
        made.register_buffer(name, part) if is_buffer else setattr(made, name, part)
    return made


def weights(*shape):
    """Return weights that are not set yet."""
    return nn.Parameter(torch.empty(shape))


def build():
    """Return the model, with weights that are not set yet."""
    return {made}


def load(folder=Path(__file__).parent):
    """Return the trained model, in evaluation mode."""
    model = build()
    model.load_state_dict(load_file(Path(folder) / "model.safetensors"))
    return model.eval()
'''
_IMPORTS: Final = (
    *("from pathlib import Path", "import torch", "from safetensors.torch import load_file", "from torch import nn"),
)
_HELD: Final = frozenset(vars(nn.Module()))
"""Attributes that every module of torch has."""


def source_of(
    module: nn.Module, constants: str = "", network: tuple[str, str] = ("", ""), more: Sequence[type] = ()
) -> str:
    """Return the text of a file with functions `build`, which makes such a module, and `load`.

    Args:
        module: over tensors. Raises `InputError` for one of a class that no file has.
        constants: lines before its definitions.
        network: what stands for a network that was given: a line that imports its class, and what makes it.
        more: further classes to be copied whole.
    """
    copier = _Copier(network)
    made = copier.text_of(module, more)
    lines = {*_IMPORTS, *copier.imports}
    standard = {line for line in lines if line.split()[1].partition(".")[0] in sys.stdlib_module_names}
    return _TEXT.format(
        imports="\n".join([*sorted(standard), "", *sorted(lines - standard)]),
        constants=f"\n{constants}" if constants else "",
        definitions="".join(f"\n\n{ast.unparse(ast.fix_missing_locations(each))}\n" for each in copier.copied.values()),
        made=made,
    )


@dataclass(frozen=True, eq=False)
class _Class:
    """A class that is copied: its module, its statement, and the methods that nothing reads so far."""

    module: str
    node: ast.ClassDef
    left: list[ast.FunctionDef]


class _Copier:
    """Copies definitions, each once, what is used before its user; `copied` has them by their names in the file."""

    def __init__(self, network: tuple[str, str]) -> None:
        self.imports, self.copied = set[str](), dict[str, ast.stmt]()
        self._network, self._packages = network, {"fedgraft"}
        self._names: dict[tuple[str, str], str] = {}
        self._classes: list[_Class] = []
        self.read = {"forward", "backward"}
        """Attributes that something reads; torch reads these."""

    def text_of(self, module: nn.Module, more: Sequence[type]) -> str:
        """Copy what a module and further classes need; return the text of a call that makes the module."""
        for kind in more:
            self.named(kind.__module__, kind.__name__)
            self.read |= {name for name in vars(kind) if not name.startswith("_")}
        while True:  # objects are made of attributes that are read, and may need further definitions
            before = len(self.read), len(self.copied)
            text = self._made(module, "    ")
            for each in self._classes:
                for method in [method for method in each.left if method.name in self.read]:
                    each.left.remove(method)
                    each.node.body.append(self.cleaned(each.module, method))
            if before == (len(self.read), len(self.copied)):
                return text

    def named(self, module: str, name: str) -> str:
        """Return the name in the file of a global name of a module, which is copied or imported."""
        found = _definitions(module).get(name)
        if isinstance(found, tuple):
            source, original = found
            if self.is_ours(source):
                return self.named(source, original)
            line = f"from {source} import {original}" if original else f"import {source}"
            self.imports.add(line + f" as {name}" * (name != (original or source)))
        if found is None or isinstance(found, tuple):  # without any it is built in
            return name
        if (module, name) not in self._names:
            unique = name if name not in self._names.values() else f"{name}_{len(self._names)}"
            self._names[module, name] = unique
            self.copied[unique] = self._copy(module, unique, found)
        return self._names[module, name]

    def module_of(self, module: str, name: str) -> str | None:
        """Return which module of ours a global name of a module is; None if it is no module."""
        found = _definitions(module).get(name)
        source, original = found if isinstance(found, tuple) else ("", "")
        is_module = self.is_ours(source) and original not in _definitions(source)
        return f"{source}.{original}".strip(".") if is_module else None

    def is_ours(self, module: str) -> bool:
        """Return whether definitions of a module are copied."""
        return module.partition(".")[0] in self._packages

    def cleaned(self, module: str, node: ast.stmt) -> Any:
        """Return a copy of a statement of a module, in the file's names and without what is left out."""
        made = ast.parse(ast.unparse(node)).body[0]
        return _Cleaner(self, module, made).visit(made)

    def _copy(self, module: str, name: str, node: Any) -> Any:
        if name in _ABSENT:
            return ast.parse(f'class {name}:\n    """No state of a trained model is one."""').body[0]
        if isinstance(node, ast.expr):
            return self.cleaned(module, ast.Assign([ast.Name(name, ast.Store())], node, lineno=0))
        if isinstance(node, ast.FunctionDef):
            made = self.cleaned(module, node)
            made.name = name
            return made
        drawn = issubclass(getattr(sys.modules[module], node.name), nn.Module)  # `assembled` makes these
        head, methods = copy(node), [each for each in node.body if isinstance(each, ast.FunctionDef)]
        kept = {each.name for each in methods if each.name.startswith("__") and not (drawn and each.name == "__init__")}
        fields = [each for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)]
        fields = [each for each in fields if each.value is not None or not drawn]
        head.body = [*node.body[: ast.get_docstring(node) is not None], *fields] or [ast.Pass()]
        made = self.cleaned(module, head)
        made.name = name
        made.body += [self.cleaned(module, each) for each in methods if each.name in kept]
        self._classes.append(_Class(module, made, [each for each in methods if each.name not in kept]))
        return made

    def _made(self, value: Any, indent: str) -> str:
        """Return the text that makes an object."""
        inner, kind = indent + "    ", type(value)
        if isinstance(value, nn.Parameter):
            return f"weights({', '.join(map(str, value.shape))})"
        if isinstance(value, Tensor):
            return f"torch.empty({tuple(value.shape)}, dtype={value.dtype})"
        if isinstance(value, nn.ModuleList):
            return f"nn.ModuleList([{_joined([self._made(each, inner) for each in value], indent)}])"
        if kind.__module__ == "builtins":
            return repr(value)
        ours = not kind.__module__.startswith("torch.")
        held = {key: each for key, each in vars(value).items() if key not in _HELD and (key in self.read or not ours)}
        if isinstance(value, nn.Module):
            held |= {**value._parameters, **value._buffers, **value._modules}
        name = f"nn.{kind.__name__}"
        if ours:
            if kind.__name__ not in _definitions(kind.__module__):
                raise InputError(f"{kind.__name__} cannot be exported: give the class a module of its own.")
            self._packages.add(kind.__module__.partition(".")[0])
            name = self.named(kind.__module__, kind.__name__)
        given = {"module": self._network[1]} if isinstance(value, WholeNetwork) else {}
        if given:
            self.imports.add(self._network[0])
        parts = given | {key: self._made(each, inner) for key, each in held.items() if key not in given}
        return f"assembled({_joined([name, *(f'{key}={text}' for key, text in parts.items())], indent)})"


class _Cleaner(ast.NodeTransformer):
    """Makes a statement of a module one of the file."""

    def __init__(self, copier: _Copier, module: str, whole: ast.stmt) -> None:
        self._copier, self._module = copier, module
        self._fields = whole.body if isinstance(whole, ast.ClassDef) else []
        stored = [each for each in ast.walk(whole) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
        self._local = {each.id for each in stored} | {each.arg for each in ast.walk(whole) if isinstance(each, ast.arg)}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Take the file's name of what is global."""
        return node if node.id in self._local else ast.Name(self._copier.named(self._module, node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Take the file's name of a definition in a module of ours; note any other attribute that is read."""
        of = node.value.id if isinstance(node.value, ast.Name) else ""
        module = None if of in self._local else self._copier.module_of(self._module, of)
        if module is not None:
            return ast.Name(self._copier.named(module, node.attr), node.ctx)
        if isinstance(node.ctx, ast.Load):
            self._copier.read.add(node.attr)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave annotations out."""
        node.returns = None
        self.generic_visit(node)
        node.body = [each for each in node.body if not isinstance(each, ast.Pass)] or [ast.Pass()]
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Leave the annotation out."""
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Leave the annotation out; a field of a dataclass has one that says nothing."""
        value = node.value and self.visit(node.value)
        if node in self._fields and not ast.unparse(node.annotation).startswith("ClassVar"):
            return ast.AnnAssign(node.target, ast.Name("object", ast.Load()), value, node.simple)
        return value and ast.Assign([self.visit(node.target)], value, lineno=0)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Leave calls that count operations out."""
        called = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        return ast.Pass() if called in ("flops.count", "_count", "_count_back") else self.generic_visit(node)


@cache
def _definitions(module: str) -> Mapping[str, Any]:
    """Return of a module's global names their statement, a constant's value, or (module, name) that is imported."""
    found: dict[str, Any] = {}
    loaded = import_module(module)
    file = getattr(loaded, "__file__", None)  # a notebook's module has none
    for each in ast.parse(Path(file).read_text(encoding="utf-8") if file else "").body:
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            found[each.name] = each
        elif isinstance(each, ast.ImportFrom):
            source = resolve_name("." * each.level + (each.module or ""), loaded.__package__)
            found |= {alias.asname or alias.name: (source, alias.name) for alias in each.names}
        elif isinstance(each, ast.Import):
            found |= {alias.asname or alias.name: (alias.name, "") for alias in each.names}
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            target = each.targets[0] if isinstance(each, ast.Assign) else each.target
            pairs = [(target, each.value)]
            if isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple):
                pairs = [*zip(target.elts, each.value.elts, strict=True)]
            found |= {ast.unparse(name): value for name, value in pairs}
    return found


def _joined(parts: Sequence[str], indent: str) -> str:
    """Return arguments, one a line if they are long."""
    short, inner = ", ".join(parts), f"\n{indent}    "
    if "\n" not in short and len(short) < 80:
        return short
    return f"{inner}{(',' + inner).join(parts)},\n{indent}"
