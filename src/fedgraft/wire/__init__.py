"""Arrays, layouts, messages and trees as bytes: the one serialiser.

`pack` and `unpack` are for trees, `encode` and `decode` for messages.
"""

from fedgraft.wire.buffers import DEFAULT_LIMIT as DEFAULT_LIMIT
from fedgraft.wire.messages import KINDS as KINDS
from fedgraft.wire.messages import TEXT_BYTES as TEXT_BYTES
from fedgraft.wire.messages import Message as Message
from fedgraft.wire.messages import arrays_bytes as arrays_bytes
from fedgraft.wire.messages import check as check
from fedgraft.wire.messages import declare as declare
from fedgraft.wire.messages import decode as decode
from fedgraft.wire.messages import encode as encode
from fedgraft.wire.messages import header_bytes as header_bytes
from fedgraft.wire.messages import kind_of as kind_of
from fedgraft.wire.messages import message_bytes as message_bytes
from fedgraft.wire.messages import place_of as place_of
from fedgraft.wire.trees import MAX_DEPTH as MAX_DEPTH
from fedgraft.wire.trees import pack as pack
from fedgraft.wire.trees import pieces as pieces
from fedgraft.wire.trees import unpack as unpack
