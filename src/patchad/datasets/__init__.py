"""Data to learn and to test on."""
