"""Experiments: suites, records, tables and figures."""
