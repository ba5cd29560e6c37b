#!/usr/bin/env bash
# Builds what is installed on machines: for each architecture a static binary and an archive
# with the systemd units and the notices of third parties, and checksums.
#
#   dist.sh DIRECTORY [ARCHITECTURE]...    amd64 and arm64 by default
#
# Archives are named after git describe. The Go toolchain stamps the binaries with the same
# version. Two builds of one commit are identical.
set -euo pipefail

cd "$(dirname "$0")/.."
out=${1:?directory}
shift
architectures=("$@")
[ $# -gt 0 ] || architectures=(amd64 arm64)

version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
moment=$(git log -1 --format=%ct 2>/dev/null || echo 0)

mkdir -p "$out"
echo '*' >"$out/.gitignore"
rm -f "$out"/weir-* "$out/SHA256SUMS"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

scripts/notices.sh "$stage/NOTICES"
for architecture in "${architectures[@]}"; do
    binary=$out/weir-linux-$architecture
    export CGO_ENABLED=0 GOOS=linux GOARCH=$architecture
    go build -trimpath -ldflags '-s -w' -o internal/node/programs/built/ ./cmd/weir-supervisor ./cmd/weir-init ./cmd/weir-pod
    go build -trimpath -ldflags '-s -w' -tags smallprograms -o "$binary" ./cmd/weir
    name=weir-$version-linux-$architecture
    mkdir -p "$stage/$name"
    install -m 755 "$binary" "$stage/$name/weir"
    install -m 644 LICENSE "$stage/NOTICES" packaging/*.service packaging/*.conf packaging/weir.yaml docs/installation.md "$stage/$name"
    tar --sort=name --mtime="@$moment" --owner=0 --group=0 --numeric-owner -C "$stage" -cf - "$name" | gzip -6n >"$out/$name.tar.gz"
done
(cd "$out" && sha256sum weir-* >SHA256SUMS)
(cd "$out" && ls -l weir-* SHA256SUMS | awk '{print "dist:", $NF, $5}')
