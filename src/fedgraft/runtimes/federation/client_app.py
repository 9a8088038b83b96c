"""The ClientApp that Flower's app must have; nodes answer by themselves, see `executor`."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Refuse: a SuperNode that Flower's own program runs has no data."""
    raise RuntimeError("This node was not started by 'fedgraft node'.")
