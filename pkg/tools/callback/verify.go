package callback

import (
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// DefaultWindow is how far a message's time may be from now, unless a tool says
// otherwise.
const DefaultWindow = 5 * time.Minute

// MinSecret is the least length of a secret in bytes. Signatures can be tried
// offline by whoever has seen one; 32 random bytes are beyond trying.
const MinSecret = 16

// maxSignatures bounds how many signatures of one message are looked at.
const maxSignatures = 4

var (
	// ErrSignature: no secret of the tool made this signature for this message.
	// Nothing in it can be believed.
	ErrSignature = errors.New("the signature is not the tool's")
	// ErrStale: the tool did sign it, at a time outside the window. It may be
	// somebody else's recording; the tool signs it anew if it still means it.
	ErrStale = errors.New("the message was signed too long ago, or in the future")
)

// Verifier knows what one tool signs with. It is safe for concurrent use.
type Verifier struct {
	Tool string
	// Secrets are those in force: more than one during a rotation.
	Secrets [][]byte
	// Window is how far the message's time may be from now, on both sides.
	Window time.Duration
}

// Verify reports whether the tool signed this body for this operation, at a time
// near now. The error wraps ErrSignature or ErrStale and holds nothing of the
// secret or of the right signature.
func (v Verifier) Verify(header http.Header, id protocol.OperationID, body []byte, now time.Time) error {
	if tool, err := one(header, HeaderTool); err != nil || tool != v.Tool {
		return fmt.Errorf("%w: it is not the tool that %s names", ErrSignature, HeaderTool)
	}
	// A line break in it could make a part of the body pass for a part of the id.
	if _, err := protocol.ParseOperationID(id); err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	timestamp, err := one(header, HeaderTimestamp)
	if err != nil {
		return err
	}
	// One spelling of a time: what is signed is the text.
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return fmt.Errorf("%w: %s is not a whole number of seconds", ErrSignature, HeaderTimestamp)
	}
	signatures, err := one(header, HeaderSignature)
	if err != nil {
		return err
	}
	if !v.made(signatures, timestamp, id, body) {
		return ErrSignature
	}
	// Judged last: that a time is wrong is told only to whom the tool trusts.
	if at := time.Unix(seconds, 0); at.Before(now.Add(-v.Window)) || at.After(now.Add(v.Window)) {
		return fmt.Errorf("%w: allowed are %s", ErrStale, v.Window)
	}
	return nil
}

// made compares with every secret, whichever fits, so that the time it takes
// says nothing.
func (v Verifier) made(signatures, timestamp string, id protocol.OperationID, body []byte) bool {
	given := strings.Split(signatures, ",")
	if len(given) > maxSignatures {
		return false
	}
	found := false
	for _, secret := range v.Secrets {
		if len(secret) < MinSecret {
			continue // an empty one, above all, is anybody's
		}
		want := mac(secret, v.Tool, timestamp, id, body)
		for _, s := range given {
			text, known := strings.CutPrefix(strings.TrimSpace(s), scheme)
			got, err := hex.DecodeString(text)
			if known && err == nil && hmac.Equal(got, want) {
				found = true
			}
		}
	}
	return found
}

// one reads a header that must be there once: of two, a proxy and we might each
// believe another.
func one(header http.Header, name string) (string, error) {
	values := header.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", fmt.Errorf("%w: header %s must be given once", ErrSignature, name)
	}
	return values[0], nil
}
