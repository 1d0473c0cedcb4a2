"""The engine: one process per data home, the only owner of stores and models."""
