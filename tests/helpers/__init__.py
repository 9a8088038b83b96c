"""What tests share: toy experiments, small graphs, runs that are killed."""
