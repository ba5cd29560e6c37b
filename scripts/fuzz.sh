#!/usr/bin/env bash
# Runs every fuzz target whose name matches, one after the other, each for a bounded time.
# usage: fuzz.sh NAME_REGEXP TIME PACKAGE...
set -euo pipefail

name=$1
time=$2
shift 2

ran=0
for package in $(go list "$@"); do
    for target in $(go test -list "$name" "$package" | grep '^Fuzz' || true); do
        echo "== $package $target"
        go test -run '^$' -fuzz "^${target}\$" -fuzztime "$time" "$package"
        ran=$((ran + 1))
    done
done
if [ "$ran" -eq 0 ]; then
    echo "fuzz: no target matches $name" >&2
    exit 1
fi
echo "fuzz: $ran targets, $time each"
