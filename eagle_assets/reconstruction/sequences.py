"""The stage `token_sequences`: rows of responses in, rows of sequences out, and the audit of what was written."""

from __future__ import annotations
