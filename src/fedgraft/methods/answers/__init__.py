"""Answers: what is made of a trained model's answers."""
