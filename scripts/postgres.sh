#!/usr/bin/env bash
# A private PostgreSQL server for tests, from Debian's packages.
#
#   postgres.sh start [PID]    starts a new one and prints its directory and its URL on two lines;
#                              with PID, it is stopped and removed when that process has ended
#   postgres.sh restart DIR [smart|fast|immediate]
#   postgres.sh stop DIR       stops it and removes the directory
#
# It listens only on a unix socket in its directory, so it needs no free port. Commits are on
# disk when they return (fsync stays on). WEIR_POSTGRES_CONFIG holds further lines for its
# configuration, such as an address to listen on; it trusts everybody who connects there. Root
# cannot run a server, so the script switches to the user postgres of Debian's package or,
# without it, to nobody.
set -euo pipefail

say() {
    echo "postgres.sh: $*" >&2
    exit 1
}

# bin is the directory of the newest server on this machine.
bin=$({ ls -d /usr/lib/postgresql/*/bin 2>/dev/null || true; } | sort -V | tail -n 1)
if [ -z "$bin" ] && command -v initdb pg_ctl >/dev/null; then
    bin=$(dirname "$(readlink -f "$(command -v initdb)")")
fi
[ -x "$bin/initdb" ] || say "PostgreSQL is not installed; scripts/setup.sh installs it"

owner=$(id -un)
as_owner=()
if [ "$(id -u)" -eq 0 ]; then
    owner=postgres
    id "$owner" >/dev/null 2>&1 || owner=nobody
    as_owner=(runuser -u "$owner" --)
fi

start() {
    local dir
    dir=$(mktemp -d -t weir-postgres.XXXXXX)
    chown "$owner" "$dir"
    cd "$dir"
    "${as_owner[@]}" "$bin/initdb" -D "$dir/data" -U weir -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$dir/initdb.log" 2>&1 ||
        { cat "$dir/initdb.log" >&2; say "initdb failed"; }
    cat >>"$dir/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$dir'
fsync = on
synchronous_commit = on
shared_buffers = 64MB
max_connections = 200
# On a full disk a connection fails after a vacuum of the catalogue, which removes a file that each connection needs.
autovacuum = off
log_timezone = UTC
${WEIR_POSTGRES_CONFIG:-}
CONF
    echo 'host all all all trust' >>"$dir/data/pg_hba.conf"
    control "$dir" start
    if [ -n "${1:-}" ]; then
        (
            trap '' HUP INT
            while [ -d "$dir" ] && kill -0 "$1" 2>/dev/null; do sleep 1; done
            if [ -d "$dir" ]; then stop "$dir" immediate; fi
        ) >/dev/null 2>&1 </dev/null &
    fi
    echo "$dir"
    echo "postgres:///postgres?host=$dir&user=weir"
}

# control DIR start|stop|restart [MODE]
control() {
    local mode=()
    [ "$2" = start ] || mode=(-m "${3:-fast}")
    cd "$1"
    "${as_owner[@]}" "$bin/pg_ctl" -D "$1/data" -l "$1/server.log" -w -t 60 -s "${mode[@]}" "$2" >/dev/null ||
        { tail -n 20 "$1/server.log" >&2; say "$2 failed"; }
}

stop() {
    control "$1" stop "${2:-fast}"
    cd /
    rm -rf "$1"
}

case "${1:-}" in
start) start "${2:-}" ;;
restart) control "${2:?directory}" restart "${3:-fast}" ;;
stop) stop "${2:?directory}" "${3:-fast}" ;;
*) say "usage: start [PID] | restart DIR [MODE] | stop DIR" ;;
esac
