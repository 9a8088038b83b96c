"""A node that drops an order as if it had died at it: `python -m helpers.dropping_node NUMBER node DIR --data FILE`.

NUMBER says which of the orders that it is given, from 0 on. The SuperNode is told that the task has ended, and nobody
answers its message.
"""

import sys

from flwr.common.constant import SubStatus
from flwr.supernode.runtime.run_clientapp import push_task_output

from fedgraft.__main__ import main
from fedgraft.runtimes.federation.patched import executor


def drop(number):
    """Have this process drop an order."""
    execute, left = executor._execute, [number]

    def dropping(task, answer):
        left[0] -= 1
        if left[0] == -1:
            push_task_output(task, None, SubStatus.FAILED, "dropped")
        else:
            execute(task, answer)

    executor._execute = dropping


if __name__ == "__main__":
    drop(int(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    main()
