// Package telemetry is what a process tells about itself: its log, its metrics,
// and the admin server with /livez, /readyz and /metrics.
//
// It promises that the metrics of the protocol keep their names, that no
// identity (task, run, operation, owner) ever becomes a label, that the log
// keeps trace_id at the top level whatever the logger was made of, and that
// /livez is about this process's own loops: an outage of the database makes a
// process not ready and never dead.
//
// It does not promise that a scrape is cheap enough to be public: the admin
// server has no login, and is for the pod's own network.
package telemetry
