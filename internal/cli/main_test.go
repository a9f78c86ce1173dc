package cli_test

import (
	"testing"

	"github.com/leasehold/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
