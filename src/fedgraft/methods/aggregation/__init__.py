"""What counts of what arrived? One file a rule."""
