"""Kinds of labels and what is made of them: losses, scores, units, answers, constant baselines."""
