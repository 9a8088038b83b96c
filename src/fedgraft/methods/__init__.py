"""One file a method, found by its name, one family a package; beside them what several methods share."""
