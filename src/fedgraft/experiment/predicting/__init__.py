"""Trained models in use: answers to queries, exported models, what a site keeps of a federated run."""
