// Package mcptool calls one tool of an MCP server, over stdio or streamable
// HTTP, described by configuration alone.
//
// It promises that one Call is at most one tools/call message. Nothing below it
// sends again: a lost session is not replaced under a call, a redirect is not
// followed, a connection is not reused, and a second tools/call for the same
// Call is refused before it is written (flight). Whether anything of it left is
// recorded where the bytes leave and not taken from the SDK's errors, which call
// every failed POST "rejected", an answer that was lost included.
//
// What a server says about its own tools (annotations such as readOnlyHint) is
// never used: only the operator's configuration lowers a tool's risk.
//
// It does not promise that a server executes a message once, that a number
// beyond 2^53 keeps its digits in a result (the SDK reads results as floating
// point), or that calls on a shared session survive each other's faults: an
// answer that is too long or no JSON ends the session, and each call in flight
// on it is doubt.
package mcptool
