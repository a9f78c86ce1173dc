package sending

import (
	"sync"

	"github.com/leasehold/leasehold/pkg/tools"
)

// Slots counts the calls that may start now: for each tool, and over all. It
// also remembers which tools had nothing more to give when last asked, so that
// a limit over all tools is not spent on asking for work that is not there.
type Slots struct {
	freed chan struct{}

	mu    sync.Mutex // guards all below
	total int
	names []string
	free  map[string]int
	size  map[string]int
	dry   map[string]bool
	// turn moves the start of each share-out, so that no tool is always first.
	turn int
}

// NewSlots returns the slots of the given tools: their own numbers, and total
// over all of them (0 means no limit over all).
func NewSlots(reg *tools.Registry, total int) *Slots {
	s := &Slots{
		freed: make(chan struct{}, 1),
		names: reg.Names(),
		free:  make(map[string]int),
		size:  make(map[string]int),
		dry:   make(map[string]bool),
	}
	sum := 0
	for _, name := range s.names {
		tool, _ := reg.Get(name)
		n := max(1, tool.Slots)
		s.free[name], s.size[name] = n, n
		sum += n
	}
	s.total = total
	if total <= 0 || total > sum {
		s.total = sum
	}
	return s
}

// Offer shares out what is free now among the tools that are not dry, most at
// the highest. limit says how many calls a tool may have in flight at present
// (nil: as many as it has slots). The shares together never exceed what is free
// over all. An empty map means that nothing can be started, or that all tools
// are dry.
func (s *Slots) Offer(most int, limit func(tool string) int) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := make(map[string]int, len(s.names))
	for _, name := range s.names {
		if s.dry[name] {
			continue
		}
		n := s.free[name]
		if limit != nil {
			inFlight := s.size[name] - s.free[name]
			n = min(n, limit(name)-inFlight)
		}
		if n > 0 {
			room[name] = n
		}
	}
	return s.share(room, min(s.total, most))
}

// share deals total out one at a time, the way cards are dealt.
func (s *Slots) share(room map[string]int, total int) map[string]int {
	shares := make(map[string]int, len(room))
	s.turn++
	for left := total; left > 0; {
		dealt := false
		for i := range s.names {
			name := s.names[(i+s.turn)%len(s.names)]
			if left > 0 && shares[name] < room[name] {
				shares[name]++
				left--
				dealt = true
			}
		}
		if !dealt {
			break
		}
	}
	return shares
}

// Take uses one slot of the tool. It may go below zero: what the database has
// handed over is ours and must be dealt with.
func (s *Slots) Take(tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[tool]--
	s.total--
}

// Give returns one slot of the tool.
func (s *Slots) Give(tool string) {
	s.mu.Lock()
	s.free[tool]++
	s.total++
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// Freed receives after slots were given back; many may stand for one.
func (s *Slots) Freed() <-chan struct{} { return s.freed }

// Took says what came of an offer: a tool that gave less than it was asked for
// is dry until Refill.
func (s *Slots) Took(offer, got map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tool, asked := range offer {
		if got[tool] < asked {
			s.dry[tool] = true
		}
	}
}

// Refill forgets which tools were dry.
func (s *Slots) Refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.dry)
}
