package sqltool

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// refused is the outcome of a statement that failed. Whatever it was, nothing
// was done; only what the configuration lists is a verdict about the request.
func (a *adapter) refused(err error) tools.Outcome {
	o := a.outcome(tools.NotExecuted, "rolled back", err)
	if errors.Is(err, errNoRow) {
		o.Kind, o.Result = tools.Rejected, []byte(`{"error":{"message":"no row"}}`)
		return o
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Severity != "ERROR" && pg.SeverityUnlocalized != "ERROR" {
		return o
	}
	if slices.Contains(a.Rejects, pg.Code) || len(pg.Code) == 5 && slices.Contains(a.Rejects, pg.Code[:2]) {
		o.Kind = tools.Rejected
		o.Result, _ = json.Marshal(map[string]any{"error": map[string]string{
			"code": pg.Code, "message": a.known.Text(pg.Message), "constraint": pg.ConstraintName,
		}})
	}
	return o
}

// succeeded is the outcome of an effect that is recorded with result.
func (a *adapter) succeeded(detail string, result []byte) tools.Outcome {
	o := tools.Outcome{Kind: tools.Succeeded, Detail: detail, Result: result}
	if a.RemoteID == "" || result == nil {
		return o
	}
	found, err := protocol.Lookup(result, a.RemoteID)
	if err != nil || string(found) == "null" {
		return o
	}
	if json.Unmarshal(found, &o.RemoteID) != nil {
		o.RemoteID = string(found)
	}
	return o
}

// outcome is one that an error led to, with what a person would want to see.
func (a *adapter) outcome(kind tools.Kind, what string, err error) tools.Outcome {
	evidence := map[string]string{"stage": what, "error": a.known.Text(err.Error())}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		evidence["sqlstate"], evidence["constraint"] = pg.Code, pg.ConstraintName
	}
	answer, _ := json.Marshal(evidence) // strings: there is nothing in it that can fail
	return tools.Outcome{
		Kind:   kind,
		Detail: strings.Join(strings.Fields(what+": "+evidence["error"]), " "),
		Answer: answer,
	}
}
