"""Kinds of messages have their numbers from the protocol's table."""

import fedgraft.engine.protocol.table  # noqa: F401
