"""What others could have learnt from a run: attacks on it, played on the data that it was trained on."""
