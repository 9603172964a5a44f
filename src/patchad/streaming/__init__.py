"""Streams: the stages that a batch call pushes all rows through, pushed row by row."""
