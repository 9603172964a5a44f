"""From scores to events: levels, edges, severity."""
