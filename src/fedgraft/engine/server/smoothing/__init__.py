"""Smoothing of answers over edges between clients, hop by hop."""
