"""Runtimes for the net: torch and ONNX."""
