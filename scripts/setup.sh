#!/usr/bin/env bash
# Installs what a Debian machine with only Go lacks.
#
#	scripts/setup.sh        everything that `make test` needs
#	scripts/setup.sh page   what builds the page of `make run`
#
# Does nothing, silently, if everything is installed. Go's own tools
# (staticcheck, benchstat) need no step: they are tool dependencies in go.mod.
set -euo pipefail

if ! command -v go >/dev/null; then
    echo "setup: Go is missing; go.mod names the version" >&2
    exit 1
fi

packages=()
optional=()

# The page is built by npm.
if ! command -v npm >/dev/null; then
    packages+=(nodejs npm)
fi

if [ "${1:-}" != page ]; then
    # The race detector links through cgo, so it needs a C compiler with headers.
    if ! echo '#include <stdlib.h>' | "${CC:-gcc}" -x c -fsyntax-only - 2>/dev/null; then
        packages+=(gcc libc6-dev)
    fi

    # The store's tests run a private PostgreSQL server, see postgres.sh.
    if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && ! command -v initdb >/dev/null; then
        packages+=(postgresql)
    fi

    # The fault campaign uses network namespaces as machines, with a file system each.
    if ! command -v ip >/dev/null; then
        packages+=(iproute2)
    fi
    if ! PATH=$PATH:/usr/sbin:/sbin command -v mkfs.ext4 >/dev/null; then
        packages+=(e2fsprogs)
    fi

    # Tests open the page in a real browser. The one without windows takes half the CPU time, so it is
    # installed even beside another browser; tests run without it if that fails.
    if ! command -v chromium-headless-shell >/dev/null; then
        if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then
            optional+=(chromium-headless-shell)
        else
            packages+=(chromium-headless-shell)
        fi
    fi
fi

if [ ${#packages[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    if [ ${#packages[@]} -eq 0 ]; then
        exit 0
    fi
    echo "setup: this is not Debian; install these by hand: ${packages[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
fi
install() {
    echo "setup: installing $*"
    "${as_root[@]}" apt-get -o Acquire::Retries=3 update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 install -y -qq --no-install-recommends "$@"
}
if [ ${#packages[@]} -gt 0 ]; then
    install "${packages[@]}"
fi
if [ ${#optional[@]} -gt 0 ]; then
    install "${optional[@]}" || echo "setup: going on without ${optional[*]}; tests in the browser take longer" >&2
fi
