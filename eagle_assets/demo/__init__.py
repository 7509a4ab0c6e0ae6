"""The whole graph on a loopback server with known ids, and a closing page that holds the verdicts against them."""
