#!/usr/bin/env bash
# Generates Go code beside .proto files, with the plug-ins that go.mod names.
# The compiler is Debian's package protobuf-compiler. The generated code is committed, so
# builds do not need it.
#
#   scripts/protoc.sh internal/node/nodeproto/nodev1/node.proto
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v protoc >/dev/null; then
    echo "protoc: missing; install Debian's protobuf-compiler" >&2
    exit 1
fi

# protoc expects plug-ins as programs on PATH; `go tool` builds and runs those of go.mod.
plugins=$(mktemp -d)
trap 'rm -rf "$plugins"' EXIT
for plugin in protoc-gen-go protoc-gen-connect-go; do
    printf '#!/bin/sh\nexec go tool %s "$@"\n' "$plugin" >"$plugins/$plugin"
    chmod +x "$plugins/$plugin"
done

PATH="$plugins:$PATH" protoc \
    --go_out=. --go_opt=paths=source_relative \
    --connect-go_out=. --connect-go_opt=paths=source_relative,simple,package_suffix= \
    "$@"
