"""Sinks: where the lines of `patchad watch` go, one file each."""
