package fieldcases_test

// What the programs are made of. They are built by the tests and run as
// processes, which the go command cannot know: without these imports it would
// answer "(cached)" after a change of theirs.
import (
	_ "github.com/leasehold/leasehold/internal/cli"
	_ "github.com/leasehold/leasehold/pkg/runner"
)
