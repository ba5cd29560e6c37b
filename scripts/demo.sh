#!/usr/bin/env bash
# What `make run` shows: the user documents' example, computed offline.
# usage: demo.sh PATH_OF_WEIR
set -euo pipefail

weir=$1
show() {
    echo
    echo "\$ weir $*"
    "$weir" "$@"
}

show shares examples/production-research.yaml
show shares examples/production-research.yaml --explain research
show check examples/production-research.yaml
show shares examples/burst.yaml --for 24h --step 10m --plot bin/burst.svg

echo
echo "bin/burst.svg is the plot of the last command. Next: README.md has a tour, weir help lists the commands."
