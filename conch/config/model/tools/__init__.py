"""Settings of tools: the policy of their calls, fetching over HTTP, MCP servers."""
