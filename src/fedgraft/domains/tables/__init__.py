"""A user's own tables: schemas say what columns there are, one reader reads them, errors name file and row."""
