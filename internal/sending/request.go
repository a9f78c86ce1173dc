package sending

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// AttentionDigest is why a person is needed when the ledger's request is no
// longer the one that was planned: nobody may guess which of the two is meant.
const AttentionDigest = "the stored request does not match its digest"

// NewRequest returns what an adapter gets to see of an operation, or an error
// if what is stored is not what was planned. jsonb writes a document its own
// way, so the body is brought back into the canonical form that was digested.
func NewRequest(op store.ClaimedOperation) (tools.Request, error) {
	body, digest, err := protocol.DigestRequest(op.Body)
	if err != nil {
		return tools.Request{}, fmt.Errorf("read request of %s: %w", op.Claim.OperationID, err)
	}
	if digest != op.Digest {
		return tools.Request{}, fmt.Errorf("check request of %s: digest %s, planned as %s",
			op.Claim.OperationID, digest, op.Digest)
	}
	return tools.Request{
		OperationID: op.Claim.OperationID,
		RunID:       op.RunID,
		StepID:      op.StepID,
		Tool:        op.Tool,
		Body:        body,
		Digest:      digest,
		Attempt:     op.Attempt,
		FirstSentAt: op.FirstSentAt,
		RemoteID:    op.RemoteID,
	}, nil
}

// Corrupt is the verdict on an operation whose request is not the planned one.
func Corrupt(err error) Verdict {
	v := forCall.refuse("not sent: " + err.Error())
	v.Attention = AttentionDigest
	return v
}

// RequestTimeout is how long one call of the tool can take at most, where its
// adapter says so.
func RequestTimeout(tool tools.Tool) (time.Duration, bool) {
	limited, ok := tool.Adapter.(interface{ RequestTimeout() time.Duration })
	if !ok {
		return 0, false
	}
	return limited.RequestTimeout(), true
}
