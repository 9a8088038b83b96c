"""Laws of abilities that only this project's own methods have; those of the contracts are in `fedgraft.testing`."""
