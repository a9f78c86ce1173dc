package remote

import "time"

// Fault is one way to misbehave towards a request.
type Fault string

// The faults.
const (
	// DropAnswer: the effect, then the connection goes.
	DropAnswer Fault = "drop answer"
	// HoldAnswer: the effect, then silence until the client has gone.
	HoldAnswer Fault = "hold answer"
	// CutAnswer: the effect, then half of the answer.
	CutAnswer Fault = "cut answer"
	// LateEffect: silence, and the effect after the client has given up.
	LateEffect Fault = "late effect"
	// StoredError: the effect and a 500, which an endpoint that knows keys gives
	// again to every repetition.
	StoredError Fault = "stored 500"
	// GatewayError: the effect, and a 503 of somebody in between.
	GatewayError Fault = "gateway 503"
	// Busy: a 409 while the effect is still being made.
	Busy Fault = "busy 409"
	// HiddenEffect: the effect, no answer, and for a while no query finds it.
	HiddenEffect Fault = "hidden effect"
	// CloseEarly: the connection goes before the request was read.
	CloseEarly Fault = "close early"
	// Throttle: a 429 with a delay; no effect.
	Throttle Fault = "throttle 429"
	// Refuse: a 402, for ever; no effect.
	Refuse Fault = "refuse 402"
)

// Faults lists the faults that an endpoint can have.
func Faults(e Endpoint) []Fault {
	all := []Fault{
		DropAnswer, HoldAnswer, CutAnswer, LateEffect, StoredError, GatewayError, CloseEarly, Throttle, Refuse,
	}
	switch e {
	case Keyed:
		return append(all, Busy, HiddenEffect)
	case Named, Asked:
		return append(all, HiddenEffect)
	case Plain:
	}
	return all
}

const (
	// effectDelay is how long a late effect takes: longer than a client waits
	// (RequestTimeout), and well inside MaxRequest beyond that.
	effectDelay = RequestTimeout + 400*time.Millisecond
	// busyFor is how long an effect takes whose request was answered with a 409.
	busyFor = 400 * time.Millisecond
	// hiddenFor is how long queries do not see a hidden effect: less than Settle.
	hiddenFor = 700 * time.Millisecond
)

// What the service's documentation would say about it.
const (
	// RequestTimeout is how long a client should wait.
	RequestTimeout = time.Second
	// MaxRequest is how long a request may still be executed after that. It is
	// far above effectDelay, since this machine may be short of time.
	MaxRequest = 3 * time.Second
	// Settle is how long queries may lag behind.
	Settle = time.Second
)
