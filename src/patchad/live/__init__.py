"""Live: rows from outside in, verdicts and events out, and nothing lost on the way."""
