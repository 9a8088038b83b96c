"""A module of torch as one Python file: the definitions that it runs are copied, those of fedgraft among them.

Functions, classes and constants are copied where what is copied names them; members of classes where something reads an
attribute of that name. What a trained model does not need is left out: annotations, assertions, counts of operations,
and branches for sparse states.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from typing import Any, Final

from torch import Tensor, nn

from fedgraft.nn.layers import Maskable
from fedgraft.nn.whole_networks import WholeNetwork

Place = tuple[str, str]
"""(module, name of a definition in it); ("module", "") = the module itself."""
_ABSENT: Final = {("fedgraft.nn.sparse", "Sparse"), ("fedgraft.nn.sparse", "Stacked")}
"""Classes of which a copied module is given no object: `isinstance` of these is false."""
_COUNTS: Final = {"flops.count", "_count", "_count_back"}
"""Functions that note operations; calls of them are left out."""
_TEXT: Final = '''"""{says}"""

{imports}
{constants}{definitions}

def assembled(kind, **parts):
    """Return an object of a class with these parts; no weights are drawn."""
    made = kind.__new__(kind)
    if not isinstance(made, nn.Module):
        vars(made).update(parts)
        return made
    nn.Module.__init__(made)
    for name, part in parts.items():
        if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
            made.register_buffer(name, part)
        else:
            setattr(made, name, part)
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
    "from pathlib import Path",
    "import torch",
    "from safetensors.torch import load_file",
    "from torch import nn",
)


def source_of(
    module: nn.Module, says: str, constants: str = "", network: tuple[str, str] = ("", ""), more: Sequence[type] = ()
) -> str:
    """Return the text of a file with functions `build`, which makes such a module, and `load`.

    Args:
        module: in which no layer is masked.
        says: the file's docstring.
        constants: lines before its definitions.
        network: what stands for a network that was given: a line that imports its class, and what makes it.
        more: further classes to be copied.
    """
    copier = _Copier(network)
    made = copier.text_of(module, more)
    lines = {*_IMPORTS, *copier.imports}
    standard = {line for line in lines if line.split()[1].partition(".")[0] in sys.stdlib_module_names}
    return _TEXT.format(
        says=says,
        imports="\n".join([*sorted(standard), "", *sorted(lines - standard)]),
        constants=f"\n{constants}" if constants else "",
        definitions="".join(f"\n\n{text}\n" for text in copier.definitions()),
        made=made,
    )


def unmasked(module: nn.Module) -> nn.Module:
    """Multiply weights of masked layers by their masks, which are gone then, and return the module."""
    for layer in module.modules():
        if isinstance(layer, Maskable) and layer.masked:
            layer.weight.data, layer.masked = layer.used.detach(), False
            del layer.mask
    return module


@dataclass(eq=False)
class _Copied:
    """A definition in the file's names; of a class the members that nothing has read yet are `left`."""

    node: Any
    left: list[ast.stmt]
    drawn: bool = False
    """Whether it is a module of torch, of which `assembled` makes objects."""


class _Copier:
    """Copies definitions, each once, and keeps what they import."""

    def __init__(self, network: tuple[str, str]) -> None:
        self.imports, self.attributes = set[str](), {"forward", "backward"}  # which torch calls
        self._network, self._packages = network, {"fedgraft"}
        self._names: dict[Place, str] = {}
        self._copied: dict[str, _Copied] = {}

    def text_of(self, module: nn.Module, more: Sequence[type]) -> str:
        """Copy what a module and further classes need; return the text of a call that makes the module."""
        for kind in more:
            self.global_name(kind.__module__, kind.__name__)
        while True:  # objects are made of attributes that are read, and may need further definitions
            before = len(self.attributes), len(self._copied)
            text = self._made(module, "    ")
            self._copy_members()
            if before == (len(self.attributes), len(self._copied)):
                return text

    def definitions(self) -> Iterator[str]:
        """Yield the text of what was copied, behind what it uses at once."""
        done = set[str]()

        def ordered(name: str) -> Iterator[str]:
            if name in done or name not in self._copied:
                return
            done.add(name)
            node = self._copied[name].node
            for other in _used_at_once(node):
                yield from ordered(other)
            yield ast.unparse(ast.fix_missing_locations(node))

        for name in self._copied:
            yield from ordered(name)

    def global_name(self, module: str, name: str) -> str:
        """Return the name in the file of a global name of a module, which is copied or imported."""
        place = self.resolved(module, name)
        if place is None:  # it is built in
            return name
        source, original = place
        if not self.is_ours(source):
            line = f"from {source} import {original}" if original else f"import {source}"
            self.imports.add(line + f" as {name}" * (name != (original or source)))
            return name
        if place not in self._names:
            taken = {*self._names.values()}
            self._names[place] = next(each for each in (original, *_numbered(original)) if each not in taken)
            self._copied[self._names[place]] = self._begun(*place)
        return self._names[place]

    def resolved(self, module: str, name: str) -> Place | None:
        """Return where a global name of a module is from; None for one that it has not."""
        found = _definitions(module).get(name)
        if not isinstance(found, tuple):
            return found and (module, name)
        source, original = found
        if not original or not self.is_ours(source):
            return source, original
        return self.resolved(source, original) or (f"{source}.{original}", "")

    def is_ours(self, module: str) -> bool:
        """Return whether definitions of a module are copied."""
        return module.partition(".")[0] in self._packages

    def cleaned(self, module: str, node: ast.stmt) -> Any:
        """Return a copy of a statement of a module, in the file's names and without what is left out."""
        made = ast.parse(ast.unparse(node)).body[0]
        return _Cleaner(self, module, made).visit(made)

    def _begun(self, module: str, name: str) -> _Copied:
        node, unique = _definitions(module)[name], self._names[module, name]
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            return _Copied(self.cleaned(module, ast.Assign([ast.Name(unique, ast.Store())], node.value, lineno=0)), [])
        if isinstance(node, ast.FunctionDef):
            made = self.cleaned(module, node)
            made.name = unique
            return _Copied(made, [])
        head, members = copy(node), list(node.body)
        head.body = [members.pop(0)] if ast.get_docstring(node) else [ast.Pass()]
        made = self.cleaned(module, head)
        made.name = unique
        return _Copied(made, members, issubclass(getattr(sys.modules[module], name), nn.Module))

    def _copy_members(self) -> None:
        """Copy members of classes that something reads, until there are no more."""
        places = {unique: module for (module, _), unique in self._names.items()}
        while found := [
            (name, each, member)
            for name, each in self._copied.items()
            for member in each.left
            if self._is_read(member, each)
        ]:
            for name, each, member in found:
                each.left.remove(member)
                each.node.body.append(self.cleaned(places[name], member))
            places = {unique: module for (module, _), unique in self._names.items()}

    def _is_read(self, member: ast.stmt, of: _Copied) -> bool:
        if isinstance(member, ast.FunctionDef):
            special = member.name.startswith("__") and not (of.drawn and member.name == "__init__")
            return special or member.name in self.attributes
        if isinstance(member, ast.Assign):
            return ast.unparse(member.targets[0]) in self.attributes
        if not isinstance(member, ast.AnnAssign):
            return False
        is_field = not of.drawn and not ast.unparse(member.annotation).startswith("ClassVar")
        return is_field or (member.value is not None and ast.unparse(member.target) in self.attributes)

    def _made(self, value: Any, indent: str) -> str:
        """Return the text that makes an object."""
        inner = indent + "    "
        if isinstance(value, nn.Parameter):
            return f"weights({', '.join(map(str, value.shape))})"
        if isinstance(value, Tensor):
            return f"torch.empty({tuple(value.shape)}, dtype={value.dtype})"
        if isinstance(value, nn.ModuleList):
            return f"nn.ModuleList([{_joined([self._made(each, inner) for each in value], indent)}])"
        if type(value).__module__ == "builtins":
            return repr(value)
        kind, held = type(value), vars(value)
        is_torchs = kind.__module__.startswith("torch.")
        if is_torchs:
            name = f"nn.{kind.__name__}"
        else:
            self._packages.add(kind.__module__.partition(".")[0])
            name = self.global_name(kind.__module__, kind.__name__)
            held = {key: each for key, each in held.items() if key in self.attributes}
        if isinstance(value, nn.Module):
            held = {key: each for key, each in held.items() if key not in _HELD}
            held |= {**value._parameters, **value._buffers, **value._modules}
        given = isinstance(value, WholeNetwork)
        if given:
            self.imports.add(self._network[0])
        parts = {
            key: self._network[1] if given and key == "module" else self._made(each, inner)
            for key, each in held.items()
        }
        return f"assembled({_joined([name, *(f'{key}={text}' for key, text in parts.items())], indent)})"


_HELD: Final = frozenset(vars(nn.Module()))
"""Attributes that every module of torch has."""


class _Cleaner(ast.NodeTransformer):
    """Makes a statement of a module one of the file."""

    def __init__(self, copier: _Copier, module: str, whole: ast.stmt) -> None:
        self._copier, self._module, self._whole = copier, module, whole
        names = [each for each in ast.walk(whole) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
        self._local = {each.id for each in names} | {each.arg for each in ast.walk(whole) if isinstance(each, ast.arg)}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Take the file's name of what is global."""
        is_global = isinstance(node.ctx, ast.Load) and node.id not in self._local
        return ast.Name(self._copier.global_name(self._module, node.id), node.ctx) if is_global else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Take the file's name of a definition in a module of ours; note any other attribute."""
        place = self._place(node.value)
        if place is not None and not place[1] and self._copier.is_ours(place[0]):
            return ast.Name(self._copier.global_name(place[0], node.attr), node.ctx)
        if isinstance(node.ctx, ast.Load):
            self._copier.attributes.add(node.attr)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave annotations out."""
        node.returns = None
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Leave the annotation out."""
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Leave the annotation out; a field of a dataclass has one that says nothing."""
        value = None if node.value is None else self.visit(node.value)
        if node is self._whole and not ast.unparse(node.annotation).startswith("ClassVar"):
            return ast.AnnAssign(node.target, ast.Name("object", ast.Load()), value, node.simple)
        return value and ast.Assign([self.visit(node.target)], value, lineno=0)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave it out."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Leave calls that count operations out."""
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in _COUNTS:
            return None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Say whether there is an object of a class; a `cast` is what it is of."""
        if self._place(node.func) == ("typing", "cast"):
            return self.visit(node.args[1])  # type: ignore[no-any-return]
        if isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            kinds = [each for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)]
            if kinds and all(self._place(each) in _ABSENT for each in kinds):
                return ast.Constant(False)
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Fold `not` of what is known."""
        self.generic_visit(node)
        known = _known(node.operand) if isinstance(node.op, ast.Not) else None
        return node if known is None else ast.Constant(not known)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Fold what is known of `and` and `or`."""
        self.generic_visit(node)
        ends = isinstance(node.op, ast.Or)  # the value that decides
        values = [each for each in node.values if _known(each) is not (not ends)]
        if any(_known(each) is not None for each in values):
            return ast.Constant(ends)
        return ast.BoolOp(node.op, values) if len(values) > 1 else values[0] if values else ast.Constant(not ends)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Take the branch that is known."""
        self.generic_visit(node)
        known = _known(node.test)
        return node if known is None else node.body if known else node.orelse

    def visit_If(self, node: ast.If) -> Any:
        """Take the branch that is known, and none without statements."""
        self.generic_visit(node)
        known = _known(node.test)
        if known is not None:
            return node.body if known else node.orelse
        if not node.body and not node.orelse:
            return None
        node.body = node.body or [ast.Pass()]
        return node

    def _place(self, node: ast.AST) -> Place | None:
        """Return where a global name is from."""
        is_global = isinstance(node, ast.Name) and node.id not in self._local
        return self._copier.resolved(self._module, node.id) if is_global else None  # type: ignore[attr-defined]


@cache
def _definitions(module: str) -> Mapping[str, Any]:
    """Return {name: statement, or the place that it is imported from} of a module's global names."""
    found: dict[str, Any] = {}
    loaded = import_module(module)
    for each in ast.parse(inspect.getsource(loaded)).body:
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            found[each.name] = each
        elif isinstance(each, ast.ImportFrom):
            source = resolve_name("." * each.level + (each.module or ""), loaded.__package__)
            found |= {alias.asname or alias.name: (source, alias.name) for alias in each.names}
        elif isinstance(each, ast.Import):
            found |= {alias.asname or alias.name: (alias.name, "") for alias in each.names}
        elif isinstance(each, ast.AnnAssign) and each.value is not None:
            found[ast.unparse(each.target)] = each
        elif isinstance(each, ast.Assign):
            target, value = each.targets[0], each.value
            pairs = zip(target.elts, value.elts, strict=True) if isinstance(target, ast.Tuple) else [(target, value)]  # type: ignore[attr-defined]
            found |= {ast.unparse(name): ast.Assign([name], part, lineno=0) for name, part in pairs}
    return found


def _used_at_once(node: Any) -> Iterator[str]:
    """Yield names that a definition needs when it is made: of a function its decorators and defaults."""
    if isinstance(node, ast.FunctionDef):
        parts = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    elif isinstance(node, ast.ClassDef):
        parts = [*node.decorator_list, *node.bases]
        for member in node.body:
            yield from _used_at_once(member)
    else:
        parts = [node]
    yield from (each.id for part in parts for each in ast.walk(part) if isinstance(each, ast.Name))


def _known(node: ast.expr) -> bool | None:
    """Return what is known of a condition."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}{number}" for number in range(2, 100))


def _joined(parts: Sequence[str], indent: str) -> str:
    """Return arguments, one a line if they are long."""
    short = ", ".join(parts)
    if "\n" not in short and len(short) < 80:
        return short
    inner = f"\n{indent}    "
    return f"{inner}{(',' + inner).join(parts)},\n{indent}"
