#!/usr/bin/env bash
# Runs the linters over the product. The tool is built from tools/go.mod by the
# go command, which caches it like any other package.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

linter=$(go tool -n -modfile=tools/go.mod golangci-lint)
"$linter" run ./...
for module in $(.ci/modules.sh); do
	[[ $module == . ]] && continue
	# Layout only. These modules hold tests with very large dependencies: checking
	# types there would cost as much again as checking the product, and go test
	# runs the useful part of go vet on them anyway.
	(cd "$module" && "$linter" fmt --config "$root/.golangci.yml" --diff)
done
