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
testcluster -- go test -race ./...

step "migrations and store on PostgreSQL $second"
if [[ -x /usr/lib/postgresql/$second/bin/postgres ]] || command -v npm >/dev/null; then
	testcluster -version "$second" -- go test -race "${on_version[@]}"
elif [[ ${CI:-} == true ]]; then
	echo "neither PostgreSQL $second nor npm, which could fetch it, is here" >&2
	exit 1
else
	echo "NOT RUN: neither PostgreSQL $second nor npm, which could fetch it, is here"
fi

for module in $(.ci/modules.sh); do
	[[ $module == . ]] && continue
	step "module $module"
	# No race detector: these modules have no goroutines of their own, and it
	# would compile their large dependencies a second time.
	(cd "$module" && go test ./...)
done
