"""The team's own outputs, whose ids are given: taken as they are, and the inverse tried on them blind."""
