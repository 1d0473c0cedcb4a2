"""The context guard: what coding agents call at their events. Standard library only."""
