"""Sets of labelled graphs: reading them, cutting them, batches of them, the model that classifies them."""
