package acceptance_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/leasehold/leasehold/test/lab"
	"github.com/leasehold/leasehold/test/lab/labtest"
)

// programs and table are package variables because TestMain and the tests have
// no other way to meet.
var (
	programs = lab.Programs{Extra: []string{
		"./test/acceptance/internal/scripted", "./test/acceptance/internal/holder",
	}}
	table report
)

func TestMain(m *testing.M) {
	code := labtest.Run(m, &programs)
	if err := table.publish(os.Getenv(reportVariable)); err != nil {
		fmt.Fprintln(os.Stderr, "publish the report:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func newWorld(t *testing.T) *lab.World { t.Helper(); return labtest.New(t, &programs) }
