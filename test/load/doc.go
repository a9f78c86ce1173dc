// Package load runs the whole system under load, with real processes, a real
// database and a real service, and shows what it promises there: that a client
// which freezes holds nobody up, and that a lost worker and a frozen dispatcher
// neither lose nor repeat an effect.
//
// It does not promise a speed: that depends on the machine and on what else
// runs on it. The figures are logged; LEASEHOLD_TEST_STRICT=1 holds them to the
// targets, on a machine of its own.
package load
