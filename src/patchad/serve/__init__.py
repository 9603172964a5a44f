"""Serve: streams and detection over HTTP, and a live page; the same store and streams as `patchad watch`."""
