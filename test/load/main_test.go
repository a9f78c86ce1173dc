package load_test

import (
	"os"
	"testing"

	"github.com/leasehold/leasehold/test/lab"
	"github.com/leasehold/leasehold/test/lab/labtest"
)

// programs is shared by all tests. It is a package variable because TestMain and
// the tests have no other way to meet.
var programs = lab.Programs{Extra: []string{"./examples/payments"}, Fast: true}

func TestMain(m *testing.M) { os.Exit(labtest.Run(m, &programs)) }
