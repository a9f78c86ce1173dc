package sending

import (
	"encoding/json"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Text makes s fit for a text column: a remote's own id or error line may hold
// bytes that PostgreSQL refuses, and one such byte would keep the answer, and
// every answer in its batch, out of the ledger.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// document encodes raw for jsonb. What is no JSON text is kept as a JSON
// string: an adapter that hands on a remote's HTML page as its result must not
// cost us the fact that the effect exists.
func document(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if storable, _, err := protocol.ToStorable(raw); err == nil {
		return storable
	}
	quoted, err := json.Marshal(Text(string(raw)))
	if err != nil {
		return nil
	}
	return quoted
}
