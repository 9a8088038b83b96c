"""FedPer: a shared base, and last layers that every client keeps to itself."""

from dataclasses import dataclass

from fedgraft.methods.one_model import SharedBase


@dataclass(frozen=True)
class FedPer(SharedBase):
    """FedPer: a shared base, and last layers that every client keeps to itself.

    Clients train both at once. The base is averaged as in FedAvg; the private layers stay as a client left them and are
    never reset.

    Source: Arivazhagan et al., "Federated Learning with Personalization Layers", 2019 (arXiv:1912.00818), Algorithms 1
        and 2.
    Differs: clients send differences to the base they received. What the task says can never travel (on graphs: first
        layer, normalisations and head) stays private under any name, so that there this method differs from FedAvg by
        the convolutions named here.

    Args:
        private: parameters whose names begin like one of these stay at the client. By default what models here end
            with: "convolutions.1." and "head." (task `graph`: the last of two convolutions, CEFGL's depth; the paper
            keeps 1 to 4 last layers) and "out." (task `rating`). With convolutions of another depth name the last, such
            as "convolutions.4."; names that no parameter begins with do nothing.

    State:
        model: the base's arrays. Private parameters are in their client's memory.
    Needs: something left to share.
    Cost: the base down and its difference up, per selected client.
    """
