"""Laws of encoders and of all abilities that only some have."""

from fedgraft.testing import encoders
from fedgraft.testing.laws import check
from laws import edge_encoders, edge_layers, metapath_encoders, network_encoders

FAMILIES = (encoders, edge_encoders, edge_layers, metapath_encoders, network_encoders)


def check_encoder(cls, /, **options):
    """Hold an encoder with these options to all laws."""
    check(laws(cls, **options))


def laws(cls, /, **options):
    """The laws of an encoder, to be called one by one; arguments as `check_encoder`."""
    return [law for family in FAMILIES for law in family.LAWS.held(cls, lambda: cls(**options))]
