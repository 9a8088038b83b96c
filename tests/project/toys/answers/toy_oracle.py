"""Answers: as the model says, or what each example is labelled with."""

from dataclasses import dataclass

import numpy as np

from fedgraft.contracts.answers import OwnAnswers, Ways


class Knowing(Ways):
    """Leave answers alone, or look the labels up."""

    texts = "", "labels"

    def answered(self, around, answers, means, layer, way):
        """Return probabilities; of examples without a label the model's."""
        shares = np.full_like(answers, 0.01 / answers.shape[1])
        known = around.label >= 0
        shares[~known] = answers[~known]
        shares[known, around.label[known]] += 0.99
        return shares if way else answers


@dataclass(frozen=True)
class Oracle(OwnAnswers):
    """An oracle, if validation gains by it."""

    def ways(self, classes, hidden):
        """Return both."""
        return Knowing()
