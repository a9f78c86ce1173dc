package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// taskFile is a task as a person writes it.
type taskFile struct {
	TaskID      string          `json:"task_id"`
	Tenant      string          `json:"tenant"`
	Workflow    string          `json:"workflow"`
	Queue       string          `json:"queue"`
	Input       json.RawMessage `json:"input"`
	Priority    int             `json:"priority"`
	MaxAttempts int             `json:"max_attempts"`
	Deadline    *time.Time      `json:"deadline"`
	AvailableAt *time.Time      `json:"available_at"`
	// RunID is here only to be refused by name.
	RunID json.RawMessage `json:"run_id"`
}

func (e *env) readTasks(name string) ([]store.NewTask, error) {
	if name == "" {
		return nil, errors.New("-f FILE must be given (- for standard input)")
	}
	raw, err := e.readFile(name)
	if err != nil {
		return nil, err
	}
	if !json.Valid(raw) {
		if raw, err = yamlToJSON(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	// Canonicalising finds what a JSON decoder would swallow, such as a key
	// given twice; the numbers keep every digit.
	canonical, err := protocol.Canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	items := []json.RawMessage{canonical}
	if canonical[0] == '[' {
		if err := json.Unmarshal(canonical, &items); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var (
		tasks []store.NewTask
		errs  []error
	)
	for i, item := range items {
		t, err := parseTask(item)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: task %d: %w", name, i+1, err))
		}
		tasks = append(tasks, t)
	}
	return tasks, errors.Join(errs...)
}

func (e *env) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(e.In)
	}
	return os.ReadFile(name)
}

func parseTask(raw json.RawMessage) (store.NewTask, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var f taskFile
	if err := dec.Decode(&f); err != nil {
		return store.NewTask{}, err
	}
	switch {
	case f.RunID != nil:
		return store.NewTask{}, errors.New("run_id: it is minted by the platform and cannot be given")
	case f.TaskID == "":
		return store.NewTask{}, errors.New("task_id: must be given: it is what makes creating the task twice harmless")
	case f.Workflow == "":
		return store.NewTask{}, errors.New("workflow: must be given, such as plan")
	}
	t := store.NewTask{
		TaskID: protocol.TaskID(f.TaskID), Tenant: f.Tenant, Workflow: f.Workflow, Queue: f.Queue, Input: f.Input,
		Priority: f.Priority, MaxAttempts: f.MaxAttempts,
	}
	if f.Deadline != nil {
		t.Deadline = *f.Deadline
	}
	if f.AvailableAt != nil {
		t.AvailableAt = *f.AvailableAt
	}
	return t, nil
}

// yamlToJSON turns a YAML document into JSON, node by node: a number keeps its
// digits (decoding into Go values would round a 64-bit id).
func yamlToJSON(raw []byte) ([]byte, error) {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document; write a list of tasks instead")
	}
	var out bytes.Buffer
	if err := nodeToJSON(&out, &doc); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func nodeToJSON(out *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return nodeToJSON(out, n.Content[0])
	case yaml.AliasNode:
		return fmt.Errorf("line %d: aliases are not taken, write the value out", n.Line)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, c := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := nodeToJSON(out, c); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case yaml.MappingNode:
		out.WriteByte('{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				out.WriteByte(',')
			}
			key, err := json.Marshal(n.Content[i].Value)
			if err != nil {
				return err
			}
			out.Write(key)
			out.WriteByte(':')
			if err := nodeToJSON(out, n.Content[i+1]); err != nil {
				return err
			}
		}
		out.WriteByte('}')
		return nil
	case yaml.ScalarNode:
		return scalarToJSON(out, n)
	default:
		return fmt.Errorf("line %d: unknown kind of node", n.Line)
	}
}

func scalarToJSON(out *bytes.Buffer, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		out.WriteString("null")
		return nil
	case "!!bool", "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			out.WriteString(n.Value)
			return nil
		}
		if n.ShortTag() == "!!bool" {
			var b bool
			if err := n.Decode(&b); err != nil {
				return err
			}
			fmt.Fprint(out, b)
			return nil
		}
		return fmt.Errorf("line %d: %q is not a JSON number; write it in decimal, or quote it to mean text", n.Line, n.Value)
	}
	text, err := json.Marshal(n.Value)
	out.Write(text)
	return err
}
