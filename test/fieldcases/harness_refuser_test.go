package fieldcases_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// newRefuser is a service that has no effects and says no to every request, in
// the words of say. It returns a fakeTool's address and no more, for addTool.
func newRefuser(t *testing.T, say func(*http.Request) string) *fakeTool {
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
	return &fakeTool{url: server.URL}
}
