"""Containers and files to series, series to windows: what every detector sees."""
