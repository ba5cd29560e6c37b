#!/usr/bin/env bash
# Builds the tests of a node's lower rooms into a directory, as static programs with all that
# they run, for a machine that has no Go: one with control groups of version 2 only, say.
#
#   v2.sh DIRECTORY
#
# On that machine, as root: DIRECTORY/run [FLAGS OF GO TESTS]
set -euo pipefail

cd "$(dirname "$0")/.."
out=${1:?directory}
mkdir -p "$out/programs"
export CGO_ENABLED=0 GOOS=linux
go build -trimpath -ldflags '-s -w' -o "$out/programs/" ./cmd/weir-supervisor ./cmd/weir-init ./cmd/weir-pod \
    ./internal/node/cgroup/testdata/reference ./internal/node/jobproxy/testdata/proxy ./internal/node/jobproxy/testdata/attack
for room in cgroup jobinit gpu image jobproxy; do
    go test -c -trimpath -ldflags '-s -w' -o "$out/$room.test" "./internal/node/$room"
done
cat >"$out/run" <<'RUN'
#!/usr/bin/env bash
# Runs the tests beside it. Made by scripts/v2.sh.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export WEIR_TEST_PROGRAMS=$here/programs
code=0
for room in cgroup jobinit gpu image jobproxy; do
    echo "== $room"
    (cd "$here" && "./$room.test" -test.timeout 5m "$@") || code=1
done
echo "== jobproxy, all jobs in a supervisor"
(cd "$here" && WEIR_TEST_SUPERVISOR=1 ./jobproxy.test -test.timeout 5m "$@") || code=1
exit $code
RUN
chmod +x "$out/run"
echo "v2: copy $out to the machine and run there, as root: $out/run -test.short"
