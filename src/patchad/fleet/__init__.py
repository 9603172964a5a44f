"""Fleets: many series, or very long ones, on all cores of a machine or on a cluster, with the answers of one pass."""
