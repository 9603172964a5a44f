"""Benchmarks: suites, protocols, records, tables and figures."""
