package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

func placeholder() *regexp.Regexp { return regexp.MustCompile(`\$\{([^}]*)\}`) }

func checkPlaceholders(v any) error {
	_, err := replace(v, func(expr string) (json.RawMessage, error) {
		if pointer, ok := strings.CutPrefix(expr, "request/"); ok {
			return json.RawMessage(`""`), protocol.ValidatePointer("/" + pointer)
		}
		switch expr {
		case "operation_id", "run_id", "remote_id":
			return json.RawMessage(`""`), nil
		}
		return nil, errors.New("is not one of ${operation_id}, ${run_id}, ${remote_id}, ${request/...}")
	})
	return err
}

// fill gives the placeholders in a query's arguments their values.
func fill(args map[string]any, req tools.Request) (any, error) {
	if args == nil {
		return map[string]any{}, nil
	}
	return replace(args, func(expr string) (json.RawMessage, error) {
		if pointer, ok := strings.CutPrefix(expr, "request/"); ok {
			return protocol.Lookup(req.Body, "/"+pointer)
		}
		value := map[string]string{
			"operation_id": string(req.OperationID), "run_id": req.RunID.String(), "remote_id": req.RemoteID,
		}[expr]
		if value == "" {
			return nil, errors.New("no answer has named it yet")
		}
		return json.Marshal(value)
	})
}

// replace copies v. A string that is one placeholder becomes its value, of any
// type; within a longer string it becomes text.
func replace(v any, value func(expr string) (json.RawMessage, error)) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			made, err := replace(inner, value)
			if err != nil {
				return nil, err
			}
			out[k] = made
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			made, err := replace(inner, value)
			if err != nil {
				return nil, err
			}
			out[i] = made
		}
		return out, nil
	case string:
		return replaceString(v, value)
	}
	return v, nil
}

func replaceString(s string, value func(expr string) (json.RawMessage, error)) (any, error) {
	var out strings.Builder
	last := 0
	for _, m := range placeholder().FindAllStringSubmatchIndex(s, -1) {
		expr := s[m[2]:m[3]]
		raw, err := value(expr)
		if err != nil {
			return nil, fmt.Errorf("placeholder ${%s}: %w", expr, err)
		}
		if m[0] == 0 && m[1] == len(s) {
			return raw, nil
		}
		out.WriteString(s[last:m[0]])
		out.WriteString(scalar(raw))
		last = m[1]
	}
	out.WriteString(s[last:])
	return out.String(), nil
}
