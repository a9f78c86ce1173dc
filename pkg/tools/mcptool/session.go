package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pool holds the servers of one process, each once for all its tools.
type pool struct {
	mu      sync.Mutex
	servers map[string]*shared // guarded by mu
}

// take returns the server of those settings. Give it back with release.
func (p *pool) take(s Server, log *slog.Logger) *shared {
	raw, _ := json.Marshal(s) // strings and numbers: nothing can fail
	key := string(raw)
	p.mu.Lock()
	defer p.mu.Unlock()
	it, ok := p.servers[key]
	if !ok {
		it = &shared{pool: p, key: key, server: s, log: log, known: &redactor{}, turn: make(chan struct{}, 1)}
		p.servers[key] = it
	}
	it.users++
	return it
}

// shared is one server and its session, if there is one.
type shared struct {
	pool   *pool
	key    string
	server Server
	log    *slog.Logger
	known  *redactor
	users  int // guarded by pool.mu

	turn    chan struct{} // held by who looks at or changes session
	session *session      // guarded by turn
	closed  bool          // guarded by turn
}

type session struct {
	*mcp.ClientSession

	over chan struct{} // closed once the session has ended
}

// legacy is the protocol version that is asked for. The SDK's newest one would
// make it probe with another message first, which older servers over stdio
// leave unanswered, and brings calls of several rounds, which are several sends.
const legacy = "2025-11-25"

var errClosed = errors.New("the tool was closed")

// get returns the living session, or makes one: before a call, never under one.
func (s *shared) get(ctx context.Context) (*session, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a session: %w", ctx.Err())
	}
	defer func() { <-s.turn }()
	if s.closed {
		return nil, errClosed
	}
	if s.session != nil {
		select {
		case <-s.session.over:
			s.session = nil
		default:
			return s.session, nil
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "leasehold", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{}, // no roots, no sampling, no questions to a person
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	made, err := client.Connect(ctx, s.transport(), &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		return nil, fmt.Errorf("make a session: %w", err)
	}
	s.session = &session{ClientSession: made, over: make(chan struct{})}
	go func(it *session) {
		defer close(it.over)
		_ = it.Wait()
		_ = it.Close() // the process too, if there is one
	}(s.session)
	return s.session, nil
}

func (s *shared) transport() mcp.Transport {
	if s.server.URL != "" {
		return remote(s.server, s.known)
	}
	return &command{server: s.server, known: s.known, log: s.log}
}

// drop ends a session that has failed, so that the next call makes another.
func (s *shared) drop(it *session) {
	s.turn <- struct{}{}
	if s.session == it {
		s.session = nil
	}
	<-s.turn
	_ = it.Close()
}

// release ends the session with its last user.
func (s *shared) release() {
	s.pool.mu.Lock()
	s.users--
	last := s.users == 0
	if last {
		delete(s.pool.servers, s.key)
	}
	s.pool.mu.Unlock()
	if !last {
		return
	}
	s.turn <- struct{}{}
	it := s.session
	s.session, s.closed = nil, true
	<-s.turn
	if it != nil {
		_ = it.Close()
		<-it.over
	}
}
