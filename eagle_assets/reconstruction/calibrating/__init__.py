"""How a provider serves: what its exchanges are observed to do, and the conventions that survive."""
