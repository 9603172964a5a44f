"""Hostile inputs: generators of files and calls, and an engine that runs them in a process of its own."""
