package callback

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// The headers of a callback.
const (
	HeaderTool      = "Leasehold-Tool"
	HeaderTimestamp = "Leasehold-Timestamp"
	HeaderSignature = "Leasehold-Signature"
)

// PathPrefix begins the path of every callback.
const PathPrefix = "/callbacks/"

// The first line of what is signed. A later version has another, so no
// signature can be taken for one of the other version.
const signedAs = "leasehold-callback-v1"

const scheme = "v1="

// Path is the path of callbacks about an operation, and what is signed of it.
func Path(id protocol.OperationID) string { return PathPrefix + string(id) }

// Sign returns the value of the signature's header for a body. During a
// rotation, the values by the old and by the new secret may stand in it side by
// side, with a comma between them.
func Sign(secret []byte, tool string, at time.Time, id protocol.OperationID, body []byte) string {
	return scheme + hex.EncodeToString(mac(secret, tool, strconv.FormatInt(at.Unix(), 10), id, body))
}

func mac(secret []byte, tool, timestamp string, id protocol.OperationID, body []byte) []byte {
	h := hmac.New(sha256.New, secret)
	for _, line := range []string{signedAs, tool, timestamp, http.MethodPost, Path(id)} {
		h.Write([]byte(line))
		h.Write([]byte{'\n'})
	}
	h.Write(body)
	return h.Sum(nil)
}

// Fingerprint names a message by who says what about which operation. It does
// not depend on when, or with which secret, it was signed: sent once more, it is
// the same message.
func Fingerprint(tool string, id protocol.OperationID, body []byte) string {
	h := sha256.New()
	for _, line := range []string{signedAs, tool, Path(id)} {
		h.Write([]byte(line))
		h.Write([]byte{'\n'})
	}
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// NewRequest returns the signed request that brings m to the reconciler at base,
// such as "https://leasehold.example". It may be sent again until it is
// answered, and for as long as the window lasts; after that, sign it anew.
//
// An answer of 5xx, or none, says nothing: send it again. Any other says what
// became of it. The error wraps protocol.ErrInvalid.
func NewRequest(
	ctx context.Context, base, tool string, secret []byte, at time.Time, m Message,
) (*http.Request, error) {
	body, err := m.Encode()
	if err != nil {
		return nil, err
	}
	url := strings.TrimSuffix(base, "/") + Path(m.OperationID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make callback request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(HeaderTool, tool)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	req.Header.Set(HeaderSignature, Sign(secret, tool, at, m.OperationID, body))
	return req, nil
}
