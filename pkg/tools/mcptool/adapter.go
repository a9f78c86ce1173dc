package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/leasehold/leasehold/pkg/tools"
)

// The keys under which every call carries its identities in _meta.
const (
	MetaOperationID = "leasehold.dev/operation_id"
	MetaRunID       = "leasehold.dev/run_id"
)

// adapter calls a tool that cannot be asked.
type adapter struct {
	cfg    Config
	caps   tools.Capabilities
	server *shared
	close  sync.Once
}

// asker calls a tool that can: only it has the method, since a method is taken
// for a promise.
type asker struct{ *adapter }

var (
	_ tools.Adapter = (*adapter)(nil)
	_ tools.Querier = asker{}
)

// RequestTimeout is the longest that one call may take; the claim that it is
// made under must be longer.
func (a *adapter) RequestTimeout() time.Duration { return a.cfg.Timeout }

// Close gives the session back; the last tool of a server ends it.
func (a *adapter) Close() error {
	a.close.Do(a.server.release)
	return nil
}

// Call implements tools.Adapter.
func (a *adapter) Call(ctx context.Context, req tools.Request) tools.Outcome {
	args, err := a.arguments(req)
	if err != nil {
		o := tools.Outcome{Kind: tools.NotSent, Detail: "not sent: " + err.Error()}
		if req.Attempt <= 1 {
			// What can never be sent is refused for good: trying for ever would
			// leave its run waiting for ever.
			o.Kind = tools.Rejected
			o.Result, _ = json.Marshal(map[string]string{"error": o.Detail})
		}
		return o
	}
	x := a.exchange(ctx, a.cfg.Tool, args, req)
	return a.finish(x, a.judgeCall(x, req.Attempt))
}

// Query implements tools.Querier.
func (a asker) Query(ctx context.Context, req tools.Request) tools.Outcome {
	args, err := fill(a.cfg.Query.Arguments, req)
	if err != nil {
		return tools.Outcome{Kind: tools.Unknown, Detail: a.server.known.line("not asked: " + err.Error())}
	}
	x := a.exchange(ctx, a.cfg.Query.Tool, args, req)
	return a.finish(x, a.judgeQuery(x))
}

// arguments are the operation's request, with the identities added where the
// configuration says so.
func (a *adapter) arguments(req tools.Request) (any, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(req.Body, &members); err != nil || members == nil {
		return nil, errors.New("the request is not a JSON object, and a tool's arguments are one")
	}
	for _, add := range []struct{ name, value string }{
		{a.cfg.OperationID, string(req.OperationID)}, {a.cfg.RunID, req.RunID.String()},
	} {
		if add.name == "" {
			continue
		}
		if _, taken := members[add.name]; taken {
			return nil, fmt.Errorf("the request has an argument %q of its own, which is the place of an identity", add.name)
		}
		members[add.name], _ = json.Marshal(add.value) // a string: nothing can fail
	}
	return members, nil
}

// exchange is one tools/call and what became of it.
type exchange struct {
	tool    string
	began   time.Time
	took    time.Duration
	written bool
	status  int
	result  *mcp.CallToolResult
	err     error
}

func (a *adapter) exchange(ctx context.Context, tool string, args any, req tools.Request) exchange {
	x := exchange{tool: tool, began: time.Now()}
	f := &flight{ctx: ctx}
	bounded, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()

	it, err := a.server.get(bounded)
	if err != nil {
		x.err, x.took = err, time.Since(x.began)
		return x
	}
	x.result, x.err = it.CallTool(f.into(bounded), &mcp.CallToolParams{
		Meta:      mcp.Meta{MetaOperationID: string(req.OperationID), MetaRunID: req.RunID.String()},
		Name:      tool,
		Arguments: args,
	})
	x.took = time.Since(x.began)
	x.written, x.status = f.facts()
	var refusal *jsonrpc.Error
	if errors.Is(x.err, mcp.ErrConnectionClosed) || errors.Is(x.err, mcp.ErrSessionMissing) ||
		// A pipe that broke stays broken; a POST that failed says nothing about
		// the next, and others may be at work in its session.
		a.cfg.Server.URL == "" && x.err != nil && !errors.As(x.err, &refusal) && bounded.Err() == nil {
		// For the next call. What became of this one is not to be found out by
		// sending it again.
		a.server.drop(it)
	}
	return x
}
