// Package mcp holds the MCP adapter against servers that we did not write, at
// pinned versions from npm, installed once per machine into the user's cache.
package mcp
