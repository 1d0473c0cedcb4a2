"""The tools that agents call, one file a toolset."""
