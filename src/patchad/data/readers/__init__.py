"""File formats: one module for each family, and the registry of suffixes."""
