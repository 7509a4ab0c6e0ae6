"""Searches for what the plain inverse does not settle, run on models of the servers that a provider may run."""
