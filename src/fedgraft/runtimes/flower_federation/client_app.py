"""The ClientApp: hands each message on to the node's own process, and the answer back.

Flower starts a process for every message, so this one imports little: no torch, and nothing of the data.
"""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedgraft.runtimes.flower_federation.local_socket import ask
from fedgraft.runtimes.flower_federation.record import bytes_in, record_of

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Answer an order; what is raised here reaches the server as a message that will not be answered."""
    answer = ask(str(context.node_config["socket"]), bytes_in(message.content))
    return Message(record_of(answer), reply_to=message)
