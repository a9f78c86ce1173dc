package protocol

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// Frozen: computed with sha256sum and base32 of coreutils. Operations in doubt
// are looked for under these keys, so a change here is a change of meaning.
func TestDerivedKeysAreFrozen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id                        OperationID
		short26, short40, short99 string
		uuid, label               string
	}{
		{
			"acme/0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11/charge/1",
			"z742id5xzt5li7uvgffymqyjx2", "z742id5xzt5li7uvgffymqyjx2lfnxhkcjkutsxg", "z742id5xzt5li7uvgffymqyjx2lfnxhkcjkutsxg7sluvjdilsga",
			"cff9a40f-b7cc-8ab4-be95-314b864309be", "op-z742id5xzt5li7uvgffymqyjx2",
		},
		{
			"acme/0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11/charge/2",
			"5kfrxhn7vyx4tku64n4tmf2cco", "5kfrxhn7vyx4tku64n4tmf2ccolp3pmymws7n5jk", "5kfrxhn7vyx4tku64n4tmf2ccolp3pmymws7n5jk4mcnezhuao6q",
			"ea8b1b9d-bfae-8fc9-aa9e-e37936174213", "op-5kfrxhn7vyx4tku64n4tmf2cco",
		},
		{
			"default/ffffffff-ffff-ffff-ffff-ffffffffffff/a.b_c:d-e/2147483647",
			"4gy2szsjyv2dozlplabppwzmeb", "4gy2szsjyv2dozlplabppwzmebpwguhxwgnrp2cu", "4gy2szsjyv2dozlplabppwzmebpwguhxwgnrp2cunudvmv5hslqa",
			"e1b1a966-49c5-8437-a56f-5802f7db2c20", "op-4gy2szsjyv2dozlplabppwzmeb",
		},
	} {
		for limit, want := range map[int]string{26: c.short26, 40: c.short40, 99: c.short99} {
			if got, err := ShortKey(c.id, limit); err != nil || got != want {
				t.Errorf("short key of %s within %d: %s, %v; want %s", c.id, limit, got, err, want)
			}
		}
		if got := UUIDKey(c.id); got != c.uuid {
			t.Errorf("UUID of %s: %s, want %s", c.id, got, c.uuid)
		}
		if got, err := DNSLabelKey(c.id, "op"); err != nil || got != c.label {
			t.Errorf("label of %s: %s, %v; want %s", c.id, got, err, c.label)
		}
	}
}

func TestDerivedKeysHaveTheShapeThatProvidersAskFor(t *testing.T) {
	t.Parallel()
	id, err := NewOperationID("acme", aRun(t), "charge", 1)
	if err != nil {
		t.Fatal(err)
	}
	u, err := uuid.Parse(UUIDKey(id))
	if err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 {
		t.Errorf("UUID %s: version %d, variant %s, %v", u, u.Version(), u.Variant(), err)
	}
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) // RFC 1123
	for _, start := range []string{"a", "op", "leasehold-job", strings.Repeat("x", MaxDNSLabelStart)} {
		if got, err := DNSLabelKey(id, start); err != nil || !label.MatchString(got) || len(got) > 63 {
			t.Errorf("label %q, %v", got, err)
		}
	}
	for _, start := range []string{"", "-", "a-", "Op", "1a", "a_b", "a.b", "é", strings.Repeat("x", MaxDNSLabelStart+1)} {
		if got, err := DNSLabelKey(id, start); !errors.Is(err, ErrInvalid) {
			t.Errorf("start %q gave %q, %v", start, got, err)
		}
	}
	for _, limit := range []int{-1, 0, MinShortKey - 1} {
		if got, err := ShortKey(id, limit); !errors.Is(err, ErrInvalid) {
			t.Errorf("limit %d gave %q, %v", limit, got, err)
		}
	}
}
