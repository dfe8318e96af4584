"""Tools of MCP servers. Imports the package `mcp`, so it is imported late: by the name `open_servers`."""
