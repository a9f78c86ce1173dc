package app

import (
	"os"
	"testing"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/pgtest"
)

// asProcess makes this test binary be the process of the role it names, so that
// tests can send real signals to a real process.
const asProcess = "LEASEHOLD_TEST_PROCESS"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProcess); name != "" {
		os.Exit(Main(stock(config.Role(name))))
	}
	pgtest.Main(m)
}
