package model_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// asked is what a client called, answered what came of it. Times are
// microseconds of the machine's clock, which is the database's clock too, since
// the server runs here.
type asked struct {
	verb     string // acquire, write, renew or release
	lease    protocol.Lease
	expected protocol.Revision // write
	ttl      int64
}

type answered struct {
	// outcome is ok, held, lease lost, conflict, or unanswered: it may have
	// happened, and nothing will ever tell.
	outcome  string
	epoch    protocol.Epoch    // acquire
	revision protocol.Revision // acquire and write
	// The database took its decision between these two: both are the instant
	// itself where a journal bears it, and else the call and its reply.
	from, to int64
}

const unanswered = "unanswered"

// leaseState is a run as the rules of a lease see it.
type leaseState struct {
	started  bool
	owner    protocol.Owner
	epoch    protocol.Epoch
	revision protocol.Revision
	// The lease runs out between these two.
	soonest, latest int64
}

const never = int64(1) << 62

// leaseModel judges the history of one run.
func leaseModel() porcupine.Model {
	return porcupine.Model{
		Partition: byRun,
		Init:      func() any { return leaseState{} },
		Step: func(state, input, output any) (bool, any) {
			next, legal := state.(leaseState).step(input.(asked), output.(answered))
			return legal, next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

func byRun(history []porcupine.Operation) [][]porcupine.Operation {
	runs := make(map[protocol.RunID][]porcupine.Operation)
	for _, op := range history {
		id := op.Input.(asked).lease.RunID
		runs[id] = append(runs[id], op)
	}
	out := make([][]porcupine.Operation, 0, len(runs))
	for _, ops := range runs {
		out = append(out, ops)
	}
	return out
}

func (s leaseState) step(in asked, out answered) (leaseState, bool) {
	mine := !s.owner.IsZero() && s.owner == in.lease.Owner && s.epoch == in.lease.Epoch
	mayLive := s.latest > out.from
	mayBeOver := s.owner.IsZero() || s.soonest <= out.to

	switch out.outcome {
	case unanswered:
		// If it did not happen, the checker may put it after everything else.
		if !mine || !mayLive {
			return s, true
		}
		out.to = never - in.ttl
		return s.apply(in, out), true
	case leaseLost:
		return s, !mine || mayBeOver
	case held:
		return s, !s.owner.IsZero() && mayLive
	case conflict:
		return s, mine && mayLive && s.revision != in.expected
	}
	switch in.verb {
	case "acquire":
		if !mayBeOver || out.epoch != s.epoch+1 {
			return s, false
		}
		s.owner, s.epoch = in.lease.Owner, out.epoch
		if !s.started {
			s.started = true
			s.revision++
		}
		s.soonest, s.latest = out.from+in.ttl, out.to+in.ttl
		return s, s.revision == out.revision
	case "write":
		if !mine || !mayLive || s.revision != in.expected || out.revision != in.expected+1 {
			return s, false
		}
	default:
		if !mine || !mayLive {
			return s, false
		}
	}
	return s.apply(in, out), true
}

// apply is what an accepted call of the holder does.
func (s leaseState) apply(in asked, out answered) leaseState {
	switch in.verb {
	case "release":
		s.owner = protocol.Owner{}
		return s
	case "write":
		s.revision++
	}
	s.soonest, s.latest = out.from+in.ttl, out.to+in.ttl
	return s
}
