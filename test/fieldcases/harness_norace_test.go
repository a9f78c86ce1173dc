//go:build !race

package fieldcases_test

const raceDetector = false
