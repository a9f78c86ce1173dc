package protocol

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of the identities, in bytes. An operation id is as long as its longest
// parts allow, which stays below the 255 bytes that providers take as an
// idempotency key.
const (
	MaxTenant      = 63
	MaxStepID      = 128
	MaxTaskID      = 200
	MaxOperationID = MaxTenant + MaxStepID + len("//00000000-0000-0000-0000-000000000000/2147483647")
)

// NewOperationID names the effect of one step of one run:
//
//	tenant/run/step/version
//
// It is made of nothing that a retry changes: no worker, epoch, attempt, time
// or model output. Errors wrap ErrInvalid and name the field.
func NewOperationID(tenant string, run RunID, step StepID, version EffectVersion) (OperationID, error) {
	if err := ValidateTenant(tenant); err != nil {
		return "", err
	}
	if run.IsZero() {
		return "", fmt.Errorf("%w: run id is zero", ErrInvalid)
	}
	if err := ValidateStepID(step); err != nil {
		return "", err
	}
	if version < 1 {
		return "", fmt.Errorf("%w: effect version %d is less than 1", ErrInvalid, version)
	}
	return OperationID(tenant + "/" + run.String() + "/" + string(step) + "/" + strconv.FormatInt(int64(version), 10)), nil
}

// OperationParts is what an operation id is made of.
type OperationParts struct {
	Tenant        string
	RunID         RunID
	StepID        StepID
	EffectVersion EffectVersion
}

// ParseOperationID is the inverse of NewOperationID: it takes exactly what that
// returns, letter by letter.
func ParseOperationID(id OperationID) (OperationParts, error) {
	parts, err := parseOperationID(id)
	if err != nil {
		return OperationParts{}, fmt.Errorf("operation id %q: %w", shorten(string(id)), err)
	}
	return parts, nil
}

func parseOperationID(id OperationID) (OperationParts, error) {
	fields := strings.Split(string(id), "/")
	if len(fields) != 4 {
		return OperationParts{}, fmt.Errorf("%w: not of the form tenant/run/step/version", ErrInvalid)
	}
	run, err := ParseRunID(fields[1])
	if err != nil {
		return OperationParts{}, err
	}
	version, err := strconv.ParseInt(fields[3], 10, 32)
	if err != nil {
		return OperationParts{}, fmt.Errorf("%w: effect version is not a number from 1 to 2147483647", ErrInvalid)
	}
	p := OperationParts{fields[0], run, StepID(fields[2]), EffectVersion(version)}
	again, err := NewOperationID(p.Tenant, p.RunID, p.StepID, p.EffectVersion)
	if err != nil {
		return OperationParts{}, err
	}
	// "01" and "+1" are numbers too; two spellings would be two ledger rows.
	if again != id {
		return OperationParts{}, fmt.Errorf("%w: effect version is not spelt %d", ErrInvalid, version)
	}
	return p, nil
}

// ValidateTenant reports whether s can name a tenant: 1 to MaxTenant of the
// characters A-Z a-z 0-9 . _ : -
func ValidateTenant(s string) error { return validateName("tenant", s, MaxTenant) }

// ValidateStepID reports whether s can name a step: 1 to MaxStepID of the
// characters A-Z a-z 0-9 . _ : -
func ValidateStepID(s StepID) error { return validateName("step id", string(s), MaxStepID) }

// ValidateTaskID reports whether s can name a task: 1 to MaxTaskID bytes of
// printable text. Control and invisible characters are refused, since two ids
// that look alike to a person must not be two tasks.
func ValidateTaskID(s TaskID) error {
	if err := validateLength("task id", string(s), MaxTaskID); err != nil {
		return err
	}
	if !utf8.ValidString(string(s)) {
		return fmt.Errorf("%w: task id is not valid UTF-8", ErrInvalid)
	}
	for _, r := range string(s) {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%w: task id has the unprintable character %U", ErrInvalid, r)
		}
	}
	return nil
}

// validateName has no '/' in its alphabet, which is what makes operation ids
// parse in one way only.
func validateName(field, s string, most int) error {
	if err := validateLength(field, s, most); err != nil {
		return err
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("._:-", r):
		default:
			return fmt.Errorf("%w: %s %q has %q; allowed are A-Z a-z 0-9 . _ : -", ErrInvalid, field, s, r)
		}
	}
	// Adapters put operation ids into URL paths, where these two move the path.
	if s == "." || s == ".." {
		return fmt.Errorf("%w: %s must not be %q", ErrInvalid, field, s)
	}
	return nil
}

func validateLength(field, s string, most int) error {
	if s == "" {
		return fmt.Errorf("%w: %s is empty", ErrInvalid, field)
	}
	if len(s) > most {
		return fmt.Errorf("%w: %s has %d bytes; at most %d are allowed", ErrInvalid, field, len(s), most)
	}
	return nil
}

// shorten keeps what comes from outside from filling an error message.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
