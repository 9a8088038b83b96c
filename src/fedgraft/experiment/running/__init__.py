"""Experiments being run: loaded, trained, followed, summarised, beside baselines."""
