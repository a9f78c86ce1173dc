//go:build race

package fieldcases_test

// raceDetector: the programs are built as the tests are, so that a data race in
// one of them fails a test and most of the build is in the cache already.
const raceDetector = true
