"""Prompts whose answers tell rival conventions apart, and the decision on what came."""
