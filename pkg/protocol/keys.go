package protocol

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// Derived keys, for remotes that cannot take an operation id as it is. All come
// from SHA-256 of the id's bytes, so a person can find one with
//
//	printf %s "$operation_id" | sha256sum
//
// They are frozen: an operation in doubt is asked about, or sent again, under
// the key of its first attempt, possibly by a later release.

// Bounds of the derived keys. 26 letters of base 32 are 130 bits.
const (
	MinShortKey      = 26
	MaxShortKey      = 52
	MaxDNSLabel      = 63
	MaxDNSLabelStart = MaxDNSLabel - len("-") - MinShortKey
)

var dnsLabelStart = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

// ShortKey derives a key of at most limit letters and digits (a-z, 2-7). limit
// must be at least MinShortKey, below which keys could collide; no key is
// longer than MaxShortKey.
func ShortKey(id OperationID, limit int) (string, error) {
	if limit < MinShortKey {
		return "", fmt.Errorf("%w: key limit %d is less than %d", ErrInvalid, limit, MinShortKey)
	}
	return letters(id)[:min(limit, MaxShortKey)], nil
}

// UUIDKey derives a UUID of version 8 (RFC 9562), in its usual text form.
func UUIDKey(id OperationID) string {
	sum := sha256.Sum256([]byte(id))
	u := uuid.UUID(sum[:16])
	u[6] = u[6]&0x0f | 0x80 // version 8: our own derivation
	u[8] = u[8]&0x3f | 0x80 // the RFC's variant
	return u.String()
}

// DNSLabelKey derives a DNS-1123 label: start, a hyphen and 26 letters and
// digits. Start begins with a letter, so the label is a DNS-1035 label too.
func DNSLabelKey(id OperationID, start string) (string, error) {
	if len(start) > MaxDNSLabelStart || !dnsLabelStart.MatchString(start) {
		return "", fmt.Errorf("%w: start %q is not 1 to %d of a-z 0-9 - beginning with a letter", ErrInvalid, shorten(start), MaxDNSLabelStart)
	}
	return start + "-" + letters(id)[:MinShortKey], nil
}

func letters(id OperationID) string {
	sum := sha256.Sum256([]byte(id))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}
