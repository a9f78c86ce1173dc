// Package sendonce sends an HTTP request at most once and knows whether any of
// it left.
//
// It promises:
//   - One Do puts one request on one connection. Nothing below it sends again:
//     no redirect is followed, and a connection that dies is not replaced. The
//     standard client does both (it replays a request that
//     carries an Idempotency-Key on a reused connection, and one that an HTTP/2
//     peer refused), out of sight of whoever counts attempts. Here each request
//     is bound to a single http.ClientConn, which has nothing to replay on.
//   - Exchange.Sent is false only if no byte of the request was handed to the
//     operating system.
//   - No byte is handed over once the caller's context has ended. The context
//     is asked at every write, beneath TLS and HTTP framing, so a process that
//     was frozen anywhere above that point wakes up to a refusal. A request that
//     was cut off half-way is reset rather than left in the kernel's buffers.
//
// It does not promise:
//   - that a process frozen between that last question and the write system
//     call sends nothing when it wakes up: no program can ask after its last
//     instruction;
//   - that bytes which were handed over are delivered in time. Options.Unacked
//     bounds how long the kernel goes on trying for a frozen process (Linux);
//   - that a proxy or balancer on the way does not repeat the request itself.
package sendonce
