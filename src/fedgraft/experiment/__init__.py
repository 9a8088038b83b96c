"""A recipe becomes a checked experiment, is run, stored, resumed and used for prediction."""
