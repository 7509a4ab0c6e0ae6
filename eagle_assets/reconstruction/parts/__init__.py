"""Judging what is stored, part by part: what was found is kept, and found again only where it may differ."""
