#!/usr/bin/env bash
# Prints the rows of the table of goals, with what a run of benchmarks measured beside the figure that
# the table states. Rows that were not run say so. With MOST, it fails if a row that was run is more than
# that many times worse than the table.
# usage: benchrows.sh TABLE.md BENCHMARKS.txt [MOST]
set -euo pipefail

awk -v FS='|' -v most="${3:-0}" '
function trim(s) { gsub(/^[ `]+|[ `]+$/, "", s); return s }

# The table: work, benchmark, unit, figure, goal.
FNR == NR {
    if ($0 ~ /^<!-- rows of make bench -->/) inside = 1
    else if (inside && $0 ~ /^\| [^-]/ && trim($3) ~ /^Benchmark/) {
        rows++
        work[rows] = trim($2); name[rows] = trim($3); unit[rows] = trim($4); figure[rows] = trim($5); goal[rows] = trim($6)
    } else if (inside && $0 == "" && rows > 0) inside = 0
    next
}

# The output of go test -bench: a name, the number of runs, then pairs of value and unit.
/^Benchmark/ {
    fields = split($0, field, /[ \t]+/)
    sub(/-[0-9]+$/, "", field[1])
    for (i = 3; i < fields; i += 2) {
        key = field[1] " " field[i + 1]
        values[key, ++count[key]] = field[i]
    }
}

function median(key,    n, i, j, v, list) {
    n = count[key]
    for (i = 1; i <= n; i++) list[i] = values[key, i] + 0
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j] < list[j - 1]; j--) { v = list[j]; list[j] = list[j - 1]; list[j - 1] = v }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}

END {
    print "| work | benchmark | unit | measured | table | measured / table | goal |"
    print "|---|---|---|---|---|---|---|"
    for (r = 1; r <= rows; r++) {
        key = name[r] " " unit[r]
        got = "not run"; ratio = "–"
        if (count[key] > 0) {
            m = median(key)
            got = m < 1000 ? sprintf("%.3g", m) : sprintf("%.0f", m)
            if (figure[r] + 0 > 0) {
                ratio = sprintf("%.2f", m / figure[r])
                worse = unit[r] ~ /\/s$/ ? figure[r] / m : m / figure[r]
                if (most + 0 > 0 && worse > most + 0) failed[++failures] = name[r] " " unit[r] ": " got " against " figure[r]
            }
        }
        printf "| %s | `%s` | %s | %s | %s | %s | %s |\n", work[r], name[r], unit[r], got, figure[r], ratio, goal[r]
    }
    for (f = 1; f <= failures; f++) print "more than " most " times worse than the table: " failed[f] > "/dev/stderr"
    if (failures > 0) exit 1
}' "$1" "$2"
