"""Ridge: one linear model in closed form, from sums that each client sends once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Linear, Regression, SilentSharing, Trainer, Update
from fedgraft.contracts.abilities.linear import LinearTask
from fedgraft.contracts.facts import TaskFacts
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import NonNegativeFloat, PositiveInt
from fedgraft.domains.closed_form import Floats, Solution, nearest_means, packed, ridge, unpacked
from fedgraft.errors import InputError, require
from fedgraft.nn import flops
from fedgraft.wire.layouts import Arrays, Layout, Spec, Tree

FORMS = ("auto", "class_sums", "gram", "random_features")
CLASSES, CROSS, DIAGONAL, GRAM, TARGETS = (
    f"sums.{name}" for name in ("classes", "cross", "diagonal", "gram", "targets")
)
"""Names of what is sent up. Sums of squares are apart: a codec that rounds by the largest would lose products."""
COLUMNS = 1000
"""Most columns of which products are sent without a budget: two megabytes a client; ours."""
FEWEST = 256
"""Fewest random features that `auto` takes before sums of classes, ours: fewer are worse on Cora and Amazon Photo."""
SHARPNESS = {"class_sums": 6.0, "gram": 5.0, "random_features": 5.0}
"""Factor of logits, ours: chosen on the validation of Cora and Amazon Photo, and coarsely."""


class State(TypedDict):
    """State at the server.

    model: the global model; sums: float64, of all clients that were heard; heard: uint8 [N], 1 for these.
    """

    model: Arrays
    sums: dict[str, Floats]
    heard: NDArray[np.uint8]


@dataclass(frozen=True)
class Ridge(SilentSharing[State]):
    """Ridge: one linear model in closed form, from sums over training examples that each client sends once.

    The server adds the sums up and solves. With a codec that loses nothing the model is that of all examples in one
    place, however they are cut. One round is enough; in later ones those are added who were not heard of before.

    - "class_sums": the sum of features and the number of examples of each class. The logit of a class is the inner
      product with its mean, all means brought to one length.
    - "gram": X^T X, its upper triangle, and X^T Y, with a column of ones. Least squares with a penalty of the weights.
    - "random_features": the same of X P, P being `width` columns of random signs that a seed draws.

    Source: Rebuffi et al., "iCaRL", CVPR 2017, Eq. (2), for nearest means; Hoerl and Kennard, "Ridge Regression",
        Technometrics 1970; its penalty by generalised cross-validation, see `closed_form.ridge`.
    Differs: sums come from clients. Features are not brought to length 1: `inputs.scale` does that. The penalty is
        in mean eigenvalues; to choose it takes no validation example, and nothing more is sent. Targets of classes are
        0 and 1; logits are what is told of them times `sharpness`, so that their softmax tells classes apart.

    Args:
        form: "class_sums", "gram", "random_features", or "auto". With a byte budget that is what half of it pays for
            as all clients' uploads: gram, or random_features of `width`, a half, a fourth ... of it, not below 256
            columns, or class_sums. Without one it is gram up to 1000 columns of features, and class_sums beyond. Of
            numbers, which have no classes, it is random_features in place of class_sums, and of any width.
        width: columns of random features, >= 1; with no fewer than there are features these are taken as they are.
        penalty: of squared weights, in mean eigenvalues of the features' covariance, >= 0; 0 = chosen by generalised
            cross-validation.
        sharpness: factor of logits, >= 0; 0 = 6 with class_sums, else 5. Numbers have none.
        min_group_size: examples, >= 1, that a client must have of a class for its sums to hold them; of numbers at all.
            The sums of one example are the example.
        linear: the task's model; no option.

    State: see `State`.
    Needs: a task whose model is linear: tasks about nodes with [model] name = "mlp", hidden = [].
    Cost: with f features and k outputs, numbers up per client: k (f + 1); (f + 1) (f + 2) / 2 + (f + 1) k + k; or
        the same of `width` in place of f. The model down only where it is scored, smoothed with, or in later rounds.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (LinearTask,)
    uploads_steps: ClassVar[bool] = False

    form: Literal["auto", "class_sums", "gram", "random_features"] = "auto"
    width: PositiveInt = 512
    penalty: NonNegativeFloat = 0.0
    sharpness: NonNegativeFloat = 0.0
    min_group_size: PositiveInt = 2
    linear: Linear | None = field(default=None, init=False)

    def fitted(self, facts: TaskFacts) -> Self:
        """With the model that is solved for."""
        needed, linear = "a form of numbers, 'gram', 'random_features' or 'auto': the task has no classes", facts.linear
        require(linear is None or linear.classes or self.form != "class_sums", "Ridge.form", needed, self.form)
        fitted = replace(self)
        object.__setattr__(fitted, "linear", linear)
        return fitted

    def within(self, pays: Callable[[Layout], bool] | None) -> Self:
        """With a form, if it is "auto"."""
        if self.form != "auto":
            return self
        if self._model.features <= COLUMNS if pays is None else self._paid("gram", self.width, pays):
            return self._with("gram", self.width)
        width, fewest = self.width, FEWEST if self._model.classes else 1
        while pays is not None and width >= fewest:
            if self._paid("random_features", width, pays):
                return self._with("random_features", width)
            width //= 2
        return (
            self._with("class_sums", self.width)
            if self._model.classes
            else self._with("random_features", max(1, width))
        )

    def _with(self, form: Literal["class_sums", "gram", "random_features"], width: int) -> Self:
        """With a form and a width, for the same model."""
        return replace(self, form=form, width=width).fitted(TaskFacts(linear=self._model))

    def _paid(self, form: Literal["gram", "random_features"], width: int, pays: Callable[[Layout], bool]) -> bool:
        """Return whether the sums of a form are paid for."""
        return pays(self._with(form, width).uploads(Layout(())))

    def init(self, model: Arrays, clients: int) -> State:
        """The drawn model, no sums."""
        sums = {spec.name: np.zeros(spec.shape) for spec in self.uploads(Layout(()))}
        return {"model": model, "sums": sums, "heard": np.zeros(clients, np.uint8)}

    def collects(self, state: State, round: int, g: np.random.Generator) -> bool:
        """Return True: sums are always sent."""
        return True

    def model(self, state: State, group: int = 0) -> Arrays:
        """The global model."""
        return state["model"]

    def uploads(self, model: Layout) -> Layout:
        """Sums, and no update."""
        outputs, columns = self._model.outputs, self._columns + 1
        if self._form == "class_sums":
            return Layout((Spec(CLASSES, "float32", (outputs, columns), "sums"),))
        shapes = {
            CROSS: (columns, outputs),
            DIAGONAL: (columns,),
            GRAM: (columns * (columns - 1) // 2,),
            TARGETS: (outputs,),
        }
        return Layout(tuple(Spec(name, "float32", shape, "sums") for name, shape in shapes.items()))

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Sums over training examples; nothing is trained."""
        columns, outputs, squares = self._columns + 1, self._model.outputs, np.zeros(self._model.outputs)
        cross = np.zeros((columns, outputs))
        products = np.zeros((0, 0) if self._form == "class_sums" else (columns, columns))
        for inputs, targets, weights in self._parts(trainer):
            counted = inputs * weights[:, None]
            cross += counted.T @ targets
            flops.count(inputs.size * (outputs + len(products)))
            if len(products):
                products += counted.T @ inputs
                squares += weights @ targets**2
        diagonal, above = packed(products)
        sums = (
            {CROSS: cross, DIAGONAL: diagonal, GRAM: above, TARGETS: squares} if len(products) else {CLASSES: cross.T}
        )
        return {name: array.astype(np.float32) for name, array in sums.items()}, memory

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Add the sums of those who were not heard of before, and solve."""
        heard, sums = state["heard"].copy(), dict(state["sums"])
        for update in updates:
            if not heard[update.client]:
                heard[update.client] = 1
                sums = {name: value + update.arrays[name] for name, value in sums.items()}
        return {
            "model": {**state["model"], **self._placed(self._solved(sums), state["model"])},
            "sums": sums,
            "heard": heard,
        }

    def _parts(self, trainer: Trainer) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Inputs with a column of ones, targets and weights of examples that count, in parts."""
        examples = sum(
            (part.targets.sum(0) if self._model.classes else len(part.targets)) for part in trainer.regression()
        )
        for part in trainer.regression():
            few = examples < self.min_group_size
            kept = (part.targets @ few == 0) if self._model.classes else np.full(len(part.targets), not few)
            yield self._inputs(part)[kept], part.targets[kept].astype(np.float64), part.weights[kept].astype(np.float64)

    def _inputs(self, part: Regression) -> Floats:
        """Features or random features, and a column of ones."""
        inputs = part.inputs.astype(np.float64)
        if self._form == "random_features":
            flops.count(inputs.size * self.width)
            inputs = inputs @ self._signs
        return np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)

    def _solved(self, sums: dict[str, Floats]) -> Solution:
        """The linear model of the features."""
        if self._form == "class_sums":
            by_class = sums[CLASSES]
            solved = nearest_means(by_class[:, :-1], by_class[:, -1])
        else:
            gram = unpacked(sums[DIAGONAL], sums[GRAM])
            solved = ridge(gram, sums[CROSS], sums[TARGETS], self.penalty)
        weight = solved.weight @ self._signs.T if self._form == "random_features" else solved.weight
        factor = (self.sharpness or SHARPNESS[self._form]) if self._model.classes else 1.0
        return Solution(factor * weight, factor * solved.bias)

    def _placed(self, solved: Solution, model: Arrays) -> Arrays:
        """The parameters of the task's model."""
        names, linear = (self._model.weight, self._model.bias), self._model
        arrays = solved.weight.T if linear.by_features else solved.weight, solved.bias
        return {
            name: np.ascontiguousarray(array).reshape(model[name].shape).astype(model[name].dtype)
            for name, array in zip(names, arrays, strict=True)
        }

    @property
    def _model(self) -> Linear:
        if self.linear is None:
            raise InputError("sharing Ridge was fitted to no task.")
        return self.linear

    @property
    def _form(self) -> str:
        """The form; where nobody has chosen yet, as without a budget."""
        form = self.within(None).form
        return "gram" if form == "random_features" and self.width >= self._model.features else form

    @property
    def _columns(self) -> int:
        """How many features there are, or random ones."""
        return self.width if self._form == "random_features" else self._model.features

    @cached_property
    def _signs(self) -> Floats:
        """P [features, width], so that lengths stay what they are in the mean."""
        drawn = generator(0, "projection").integers(0, 2, (self._model.features, self.width))
        signs: Floats = (2.0 * drawn - 1.0) / np.sqrt(self.width)
        return signs
