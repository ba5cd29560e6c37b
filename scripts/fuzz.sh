#!/usr/bin/env bash
# Runs every fuzz target whose name matches, one after the other, each for a bounded time.
# It finds the targets in the given packages, so a new target needs no entry anywhere.
# With KEEP=1 it adds inputs that reached new code to testdata/corpus, for targets that have one.
# usage: fuzz.sh NAME_REGEXP TIME PACKAGE...
set -euo pipefail

name=$1
time=$2
shift 2

# Minimise a new input in at most ten steps. By default Go spends up to a minute on each input,
# which for long seeds is all of a short run.
minimize=10x

# keep adds what Go found for a target, except for long inputs, to the corpus beside the code.
keep() {
    local found corpus
    found=$(go env GOCACHE)/fuzz/$1/$2
    corpus=$(go list -f '{{.Dir}}' "$1")/testdata/corpus/$2.txt
    if [ ! -f "$corpus" ] || [ ! -d "$found" ]; then
        return
    fi
    { cat "$corpus"; find "$found" -type f -exec sh -c 'for f; do tail -n +2 "$f" | paste -sd "\t" -; done' - {} +; } |
        awk 'length <= 1000' | LC_ALL=C sort -u >"$corpus.new"
    mv "$corpus.new" "$corpus"
}

ran=0
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "$@"); do
    listed=$(go test -run '^$' -list "$name" "$package")
    for target in $(grep '^Fuzz' <<<"$listed" || true); do
        echo "== $package $target"
        go test -run '^$' -fuzz "^${target}\$" -fuzztime "$time" -fuzzminimizetime "$minimize" "$package"
        if [ -n "${KEEP:-}" ]; then
            keep "$package" "$target"
        fi
        ran=$((ran + 1))
    done
done
if [ "$ran" -eq 0 ]; then
    echo "fuzz: no target matches $name" >&2
    exit 1
fi
echo "fuzz: $ran targets, $time each"
