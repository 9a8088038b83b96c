"""The command line, the Python interface, live progress, the demonstration."""
