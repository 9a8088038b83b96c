"""What the tasks of nodes share."""
