package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

func ExampleDigestRequest() {
	a, digestA, _ := protocol.DigestRequest([]byte(`{"customer": 9007199254740993, "amount": 10.50}`))
	_, digestB, _ := protocol.DigestRequest([]byte(`{"amount":1.05e1,"customer":9007199254740993}`))
	_, digestC, _ := protocol.DigestRequest([]byte(`{"amount":1.05e1,"customer":9007199254740992}`))
	fmt.Println(string(a))
	fmt.Println(digestA == digestB, digestA == digestC)
	// Output:
	// {"amount":10.5,"customer":9007199254740993}
	// true false
}

func ExampleCanonical_refused() {
	_, err := protocol.Canonical([]byte(`{"order":{"lines":[{"sku":"a","sku":"b"}]}}`))
	fmt.Println(err)
	// Output:
	// invalid argument: JSON at "/order/lines/0/sku": duplicate object member name
}

func ExampleSubstitute() {
	input := []byte(`{"order":{"id":9007199254740993}}`)
	charge := []byte(`{"charge_id":"ch_1","amount":10.50}`)
	request := []byte(`{"order":{"$ref":"input#/order/id"},"refund":{"$ref":"steps.charge#/amount"},"note":{"$$ref":"literal"}}`)

	out, err := protocol.Substitute(request, func(ref string) (json.RawMessage, error) {
		source, pointer, _ := strings.Cut(ref, "#")
		docs := map[string][]byte{"input": input, "steps.charge": charge}
		return protocol.Lookup(docs[source], pointer)
	})
	fmt.Println(string(out), err)
	// Output:
	// {"order":9007199254740993,"refund":10.50,"note":{"$ref":"literal"}} <nil>
}

func ExampleShortKey() {
	run, _ := protocol.ParseRunID("0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11")
	id, _ := protocol.NewOperationID("acme", run, "charge", 1)
	key, _ := protocol.ShortKey(id, 32)
	fmt.Println(id)
	fmt.Println(key)
	fmt.Println(protocol.UUIDKey(id))
	// Output:
	// acme/0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11/charge/1
	// z742id5xzt5li7uvgffymqyjx2lfnxhk
	// cff9a40f-b7cc-8ab4-be95-314b864309be
}
