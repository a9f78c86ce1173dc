package fieldcases_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasehold/leasehold/test/lab"
)

// newRefuser is a service that has no effects and says no to every request, in
// the words of say. It returns a Tool's address and no more, for AddTool.
func newRefuser(t *testing.T, say func(*http.Request) string) *lab.Tool {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		words := say(r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write([]byte(words))
	}))
	t.Cleanup(server.Close)
	return &lab.Tool{URL: server.URL}
}
