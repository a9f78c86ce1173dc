package fieldcases_test

import (
	"os"
	"testing"

	"github.com/leasehold/leasehold/test/lab"
	"github.com/leasehold/leasehold/test/lab/labtest"
)

// programs is shared by all tests. It is a package variable because TestMain and
// the tests have no other way to meet.
var programs = lab.Programs{Extra: []string{"./test/fieldcases/internal/labworker"}}

func TestMain(m *testing.M) { os.Exit(labtest.Run(m, &programs)) }

// world is the lab's, with the test at hand; the cases add methods to it.
type world struct {
	*lab.World

	t *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{World: labtest.New(t, &programs), t: t}
}

// receive waits for a value.
func receive[T any](w *world, what string, c <-chan T) (v T) {
	w.T.Helper()
	w.Until(what, func() bool {
		select {
		case v = <-c:
			return true
		default:
			return false
		}
	})
	return v
}

// offer sends a value that the test may no longer want: a hook of a Tool must not
// hang on a channel that nobody reads.
func offer[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}
