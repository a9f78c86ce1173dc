package mcptool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK's own command transport blocks in a write for as long as a server
// does not read, whatever the deadline; and it kills one process, not a group.

// command is the transport to a server that is a child process.
type command struct {
	server Server
	known  *redactor
	log    *slog.Logger
}

// Connect starts the process. It implements mcp.Transport.
func (c *command) Connect(context.Context) (mcp.Connection, error) {
	// Not CommandContext: the process outlives the call that started it.
	cmd := exec.Command(c.server.Command, c.server.Args...) //nolint:noctx // the operator's command; ended by Close
	cmd.Dir = c.server.Dir
	cmd.SysProcAttr = ownGroup()
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for i, p := range c.server.Env {
		value, err := p.read(c.known)
		if err != nil {
			return nil, fmt.Errorf("server.env[%d]: %w", i, err)
		}
		cmd.Env = append(cmd.Env, p.Name+"="+value)
	}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), inRead.Close(), inWrite.Close())
	}
	cmd.Stdin, cmd.Stdout = inRead, outWrite
	cmd.Stderr = &stderr{known: c.known, log: c.log}
	// A grandchild that keeps stderr open must not hold up Wait.
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	_, _ = inRead.Close(), outWrite.Close() // the child's ends
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.server.Command, err), inWrite.Close(), outRead.Close())
	}
	p := &process{cmd: cmd, in: inWrite, out: outRead, exited: make(chan struct{})}
	p.lines = bufio.NewScanner(outRead)
	p.lines.Buffer(make([]byte, 0, min(64<<10, c.server.MaxAnswer)), c.server.MaxAnswer)
	go func() {
		defer close(p.exited)
		_ = cmd.Wait()
		killGroup(cmd) // what it started goes with it
	}()
	return p, nil
}

// process is the connection. It implements mcp.Connection.
type process struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	lines  *bufio.Scanner
	exited chan struct{}

	writing sync.Mutex // serializes writes: a message is one line
	closing sync.Once
}

// slack bounds a write for which nobody set a deadline.
const slack = 5 * time.Second

func (p *process) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return err // the turn came too late
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(slack)
	}
	if err := p.in.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("write to the server: %w", err)
	}
	f := flightOf(ctx)
	if f != nil && isCall(msg) {
		if err := f.board(); err != nil {
			return err
		}
		if err := f.leave(); err != nil {
			return err
		}
	}
	if n, err := p.in.Write(append(data, '\n')); err != nil {
		if f != nil && isCall(msg) && n == 0 {
			f.stayed() // a pipe says exactly what it took
		}
		// Half a line may be in the pipe; whatever came after it would be
		// read as its end.
		_ = p.in.Close()
		return fmt.Errorf("write to the server: %w", err)
	}
	return nil
}

func isCall(msg jsonrpc.Message) bool {
	r, ok := msg.(*jsonrpc.Request)
	return ok && r.Method == "tools/call"
}

func (p *process) Read(context.Context) (jsonrpc.Message, error) {
	for p.lines.Scan() {
		if len(p.lines.Bytes()) == 0 {
			continue
		}
		msg, err := jsonrpc.DecodeMessage(p.lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("read from the server: %w", err)
		}
		return msg, nil
	}
	if err := p.lines.Err(); err != nil {
		return nil, fmt.Errorf("read from the server: %w", err)
	}
	return nil, io.EOF
}

func (p *process) SessionID() string { return "" }

// Close ends the process: by the end of its input, then by force.
func (p *process) Close() error {
	p.closing.Do(func() {
		_ = p.in.Close()
		select {
		case <-p.exited:
		case <-time.After(2 * time.Second):
			killGroup(p.cmd)
			<-p.exited
		}
		_ = p.out.Close()
	})
	return nil
}

// stderr passes what a server complains about to the log, a little at a time.
type stderr struct {
	known *redactor
	log   *slog.Logger
	lines int
}

const maxStderrLines = 200

func (s *stderr) Write(b []byte) (int, error) {
	if s.lines < maxStderrLines && s.log != nil {
		s.lines++
		s.log.Info("mcp server wrote to stderr", "text", s.known.line(string(b[:min(len(b), 2000)])))
	}
	return len(b), nil
}
