package protocol

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest is the digest of a canonical request: lower-case hex of SHA-256. It
// says whether two requests are the same intent; it keeps nothing secret.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// DigestRequest brings a request into canonical form and digests that. What is
// stored and sent is the canonical form, so the digest can be checked later
// against what is on record.
func DigestRequest(raw []byte) (canonical []byte, digest string, err error) {
	canonical, err = Canonical(raw)
	if err != nil {
		return nil, "", err
	}
	return canonical, Digest(canonical), nil
}
