#!/usr/bin/env bash
# Runs every fuzz target of the module, each for FUZZTIME (default 20s), with two
# workers. An input that fails is written to testdata/fuzz beside its target:
# keep it, it is the test of the fix.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzztime=${FUZZTIME:-20s}
only=${FUZZ:-^Fuzz} # a target's name, or a pattern
failed=()
ran=0

# Only packages that have targets are compiled for fuzzing.
for folder in $(grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
	listed=$(go test -list "$only" "$folder") || { echo "$listed"; failed+=("$folder"); continue; }
	for target in $(grep '^Fuzz' <<<"$listed" || true); do
		echo "== $folder $target, $fuzztime"
		ran=$((ran + 1))
		# No other test of the package runs beside it.
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -parallel 2 "$folder" || failed+=("$folder $target")
	done
done

echo "$ran targets"
((ran > 0)) || { echo "no target matches $only" >&2; exit 1; }
if ((${#failed[@]})); then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
