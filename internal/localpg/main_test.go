package localpg_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/localpg"
)

// envParent makes the test binary a program that starts a cluster in the named directory ("-" for a
// temporary one), says where, and waits to be killed.
const envParent = "LOCALPG_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envParent); dir != "" {
		os.Exit(beParent(dir))
	}
	goleak.VerifyTestMain(m)
}

func beParent(dir string) int {
	if dir == "-" {
		dir = ""
	}
	cluster, err := localpg.Start(context.Background(), localpg.Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("%d %s %s\n", cluster.Pid(), cluster.Dir(), cluster.DSN("postgres", localpg.Superuser))
	<-time.After(time.Minute) // the test kills this process long before; an orphan must not stay for ever
	return 1
}
