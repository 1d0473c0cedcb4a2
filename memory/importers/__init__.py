"""Memories from elsewhere, read one by one."""

from memory.importers.discovery import discover
from memory.importers.items import ImportFailure, ImportItem, ImportOptions

__all__ = ["ImportFailure", "ImportItem", "ImportOptions", "discover"]
