"""Detections to one self-contained HTML page."""
