package protocol

import (
	"fmt"

	"github.com/google/uuid"
)

// TaskID is the caller's name for one piece of logical work. It is stable
// across retries and is never used to decide who may write.
type TaskID string

// RunID names one execution of a task. The platform mints it and never reuses
// it, so a message that bears an old run's id can only reach that old run.
type RunID uuid.UUID

// Owner is one acquisition of one lease: a new random UUID each time, never a
// host name or a process id. (Owner, Epoch) stays unique even if a failover
// that lost commits hands out an epoch twice.
type Owner uuid.UUID

// CallID names one call of a journaled write, so that a writer who lost the
// reply can ask again and be told the outcome of its own write.
type CallID uuid.UUID

// Epoch is the ownership term of a run: a fencing token.
//
// Invariant: it only grows, and it is comparable within one run only.
type Epoch int64

// Revision is the version of a run's state, or of an operation's.
//
// Invariant: every accepted write of a run moves it by exactly one.
type Revision int64

// StepID names a step within a run. It is chosen by the workflow's author (or
// by a plan) and must be the same when the workflow is executed again.
type StepID string

// EffectVersion counts the versions of one planned effect, from 1. Changing a
// planned effect raises it; retrying never does.
type EffectVersion int32

// OperationID names one business side-effect intent for ever: retry, takeover
// and reconciliation never mint another. See NewOperationID.
type OperationID string

// Lease is the right to write one run's state: who holds it, in which term. It
// is passed by value; whether it still holds is only the database's to say.
type Lease struct {
	RunID RunID
	Owner Owner
	Epoch Epoch
}

func (l Lease) String() string {
	return fmt.Sprintf("run %s owner %s epoch %d", l.RunID, l.Owner, l.Epoch)
}

// Claim is a dispatcher's right to call a tool for one operation. Revision is
// the operation's revision as of the claim.
type Claim struct {
	OperationID OperationID
	Owner       Owner
	Revision    Revision
}

// NewOwner returns an owner for one acquisition.
func NewOwner() Owner { return Owner(uuid.New()) }

// NewCallID returns an id for one journaled call.
func NewCallID() CallID { return CallID(uuid.New()) }

// ParseRunID parses the canonical text form of a run id: lower case, with
// hyphens. Other spellings of a UUID are refused, since an operation id contains
// this one letter by letter.
func ParseRunID(s string) (RunID, error) {
	u, err := parseUUID("run id", s)
	return RunID(u), err
}

// ParseOwner parses the canonical text form of an owner.
func ParseOwner(s string) (Owner, error) {
	u, err := parseUUID("owner", s)
	return Owner(u), err
}

func parseUUID(field, s string) (uuid.UUID, error) {
	u, err := uuid.Parse(s)
	if err != nil || u.String() != s {
		return uuid.UUID{}, fmt.Errorf("%w: %s %q is not a lower-case UUID", ErrInvalid, field, shorten(s))
	}
	return u, nil
}

func (id RunID) String() string  { return uuid.UUID(id).String() }
func (o Owner) String() string   { return uuid.UUID(o).String() }
func (id CallID) String() string { return uuid.UUID(id).String() }

// IsZero reports whether id is the zero value, which names no run.
func (id RunID) IsZero() bool { return id == RunID{} }

// IsZero reports whether o is the zero value, which owns nothing.
func (o Owner) IsZero() bool { return o == Owner{} }

// MarshalText implements encoding.TextMarshaler.
func (id RunID) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *RunID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseRunID(string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (o Owner) MarshalText() ([]byte, error) { return uuid.UUID(o).MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Owner) UnmarshalText(b []byte) (err error) {
	*o, err = ParseOwner(string(b))
	return err
}
