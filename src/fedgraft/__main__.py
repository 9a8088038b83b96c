"""`python -m fedgraft`: the command, where it is not on the path."""

from fedgraft.interface.cli import main

if __name__ == "__main__":  # a worker process imports this module too
    main()
