// Package tools drives the built-in adapters end to end: the stock processes,
// a configuration file, a real PostgreSQL, real commands.
package tools
