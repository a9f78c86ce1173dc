#!/usr/bin/env bash
# Lists the folders of the modules with code, the root first. tools/ has none.
set -euo pipefail
cd "$(dirname "$0")/.."
find . -name go.mod -not -path './tools/*' -not -path '*/testdata/*' -not -path './bin/*' \
	-exec dirname {} + | sort
