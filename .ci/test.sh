#!/usr/bin/env bash
# Runs every test of every module. One PostgreSQL server serves all packages of
# a run; the tests of what depends on its version run on a second version too.
set -euo pipefail
cd "$(dirname "$0")/.."

second=16
on_version=(./migrations/... ./pkg/store/...)

step() { echo "== $*"; }
testcluster() { go run ./internal/pgtest/cmd/testcluster "$@"; }

step "all packages"
# The acceptance experiments are `make accept`: they time real processes.
mapfile -t packages < <(go list ./... | grep -v /test/acceptance)
testcluster -- go test -race "${packages[@]}"

step "migrations and store on PostgreSQL $second"
# Debian has 15; this one comes from npm. No race detector: the run above had it.
testcluster -version "$second" -- go test "${on_version[@]}"

for module in $(.ci/modules.sh); do
	[[ $module == . ]] && continue
	step "module $module"
	# No race detector: these modules have no goroutines of their own, and it
	# would compile their large dependencies a second time.
	(cd "$module" && go test ./...)
done
