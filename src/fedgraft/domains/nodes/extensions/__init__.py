"""What sharing methods of single papers add to the task `node`: a file each."""
