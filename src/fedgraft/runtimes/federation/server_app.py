"""The ServerApp: hands the way to the nodes to whoever runs the loop."""

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedgraft.runtimes.flower_simulation.grid_link import FlowerLink
from fedgraft.runtimes.federation.link import Link


def server_app(run: Callable[[Link, Mapping[str, Any]], None]) -> ServerApp:
    """Return a ServerApp that calls a function with the way to the nodes and the configuration of Flower's run."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run(FlowerLink(grid), dict(context.run_config))

    return app
