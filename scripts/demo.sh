#!/usr/bin/env bash
# What `make demo` shows: pool trees, and the scheduler in virtual time, from files in examples/.
# usage: demo.sh PATH_OF_WEIR, in the root of the repository
set -euo pipefail

weir=$1
plot=$(dirname "$weir")/burst.svg
report=$(dirname "$weir")/report.html

say() {
    echo
    echo "# $*"
}

# show EXIT_CODE ARGUMENT...: prints the call, runs weir and expects that exit code.
show() {
    local expected=$1 code=0
    shift
    echo "\$ weir $*"
    "$weir" "$@" || code=$?
    if [ "$code" -ne "$expected" ]; then
        echo "demo: exit code $code, expected $expected" >&2
        exit 1
    fi
}

say "A company's tree: guarantees, weights, limits, a FIFO pool, pools of users. Who is entitled to what?"
show 0 shares examples/departments.yaml --pools-only

say "Why does merge-3 get nothing?"
show 0 shares examples/departments.yaml --explain merge-3

say "Production is promised 2000 CPU for twelve hours a day, research 1000 CPU on average. Are 2000 cores enough?"
show 0 check examples/production-research.yaml

say "And 1900? (The answer is no, so the exit code is 1.)"
show 1 check examples/production-research-1900.yaml

say "A day of a pool that saves 100 CPU and bursts to 500, as a plot."
show 0 shares examples/burst.yaml --for 24h --step 10m --plot "$plot"

say "Three days of production and research with real scheduling decisions: jobs start, wait and are preempted."
show 0 simulate examples/simulate/production-research.yaml --html "$report"

cat <<END

The picture is $plot: entitlement with demand, and accumulated volume with its capacity.
The report of the simulation is $report: open it in a browser.

Three things to try:
  ./$weir shares examples/production-research.yaml --for 3d --step 6h     each gets 1000 CPU on average
  ./$weir check examples/departments.yaml --job cpu=8,memory=200GiB       can such a job be placed at all?
  edit examples/departments.yaml (a weight, a limit, a typo) and look again
END
