"""Stored runs read back: comparison, figures, one HTML file, and the tables of studies."""
