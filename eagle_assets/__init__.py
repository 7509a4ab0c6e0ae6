"""Exact training tokens for EAGLE-3 drafters from OpenRouter text, with a verdict for every response."""

__version__ = "0.1.0"
