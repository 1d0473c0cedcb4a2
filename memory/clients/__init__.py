"""Other programs' settings: how each MCP client is told to start `tiermem mcp`."""
