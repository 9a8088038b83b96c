"""Reads tables of text, Parquet, Excel and databases, packed or not, row by row with the place of each cell."""
