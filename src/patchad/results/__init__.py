"""What a detection returns."""
