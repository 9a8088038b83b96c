"""Runs as files: a folder per run, written so that a kill loses nothing, checked as it is read, and opened again."""
