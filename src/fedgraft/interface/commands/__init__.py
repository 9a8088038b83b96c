"""Commands of `fedgraft`, one a file; a file's first line is what `fedgraft --help` says of it."""
