"""What a person calls: command line, Python interface, live progress, the demonstration."""
