"""The lineage in Dagster, a module for each asset. Only here is dagster imported.

Modules of assets go without `from __future__ import annotations`: Dagster reads the type of `context` itself.
"""
