#!/usr/bin/env bash
# A Kubernetes cluster of one real node on this machine: etcd, an API server, containerd, a kubelet, and weir, which runs jobs as its pods.
#
#	scripts/kubelet.sh              start it, try everything below, print a transcript, stop it
#	scripts/kubelet.sh up           start it and leave it running
#	scripts/kubelet.sh try          run the commands of the transcript
#	scripts/kubelet.sh down         stop it and remove what it left
#	scripts/kubelet.sh env          print the variables with which weir and kubectl reach it
#
# It needs root and Debian's packages containerd, runc, busybox-static and containernetworking-plugins. The other programs are built from source once, in
# about twenty minutes of CPU time. No registry is needed: the images are made here. Everything is in bin/kubelet (WEIR_KUBELET_DIR), the bridge
# weir-kubelet0 and the control groups /weir-kubelet.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
dir=${WEIR_KUBELET_DIR:-$root/bin/kubelet}
bridge=weir-kubelet0
gateway=10.77.0.1
group=weir-kubelet
node=node-1
weir=$root/bin/weir
admin_token=admin-token
weir_token=weir-token

fail() { echo "kubelet.sh: $*" >&2; exit 1; }

check() {
    [ "$(id -u)" = 0 ] || fail "must run as root"
    for program in containerd ctr runc busybox openssl ip; do
        command -v "$program" >/dev/null || fail "$program is missing: apt-get install containerd runc busybox-static containernetworking-plugins openssl iproute2"
    done
    [ -x /usr/lib/cni/bridge ] || fail "/usr/lib/cni/bridge is missing: apt-get install containernetworking-plugins"
    [ -x "$weir" ] || fail "$weir is missing: make build"
}

# free_port prints a port that nobody listens on.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo $port; return; }
    done
}

# start NAME COMMAND... runs a program in the background.
start() {
    local name=$1
    shift
    setsid "$@" >>"$dir/log/$name.log" 2>&1 </dev/null &
    echo $! >"$dir/pids/$name"
}

# await SECONDS WHAT COMMAND... waits until a command succeeds.
await() {
    local limit=$1 what=$2
    shift 2
    local end=$((SECONDS + limit))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "$what: not within $limit s; the logs are in $dir/log"
        sleep 0.2
    done
}

# certificate NAME SUBJECT [SAN] makes a key and a certificate signed by the cluster.
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$dir/pki/$1.key" -out "$dir/pki/$1.csr" -subj "$2" 2>/dev/null
    openssl x509 -req -in "$dir/pki/$1.csr" -CA "$dir/pki/ca.crt" -CAkey "$dir/pki/ca.key" -CAcreateserial -days 30 -out "$dir/pki/$1.crt" \
        -extfile <(echo "${3:+subjectAltName=$3}") 2>/dev/null
}

# kubeconfig FILE CREDENTIALS
kubeconfig() {
    cat >"$1" <<EOF
apiVersion: v1
kind: Config
current-context: kubelet
contexts: [{name: kubelet, context: {cluster: kubelet, user: user}}]
clusters: [{name: kubelet, cluster: {server: "https://127.0.0.1:$api_port", certificate-authority: "$dir/pki/ca.crt"}}]
users: [{name: user, user: {$2}}]
EOF
}

# image NAME ROOT CONFIG imports an image with one layer.
image() {
    local work sum
    work=$(mktemp -d "$dir/image.XXXX")
    tar --owner=0 --group=0 -C "$2" -cf "$work/layer.tar" .
    sum=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
    echo "{\"architecture\": \"$(dpkg --print-architecture)\", \"os\": \"linux\", \"config\": $3, \"rootfs\": {\"type\": \"layers\", \"diff_ids\": [\"sha256:$sum\"]}}" >"$work/config.json"
    echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$1\"], \"Layers\": [\"layer.tar\"]}]" >"$work/manifest.json"
    tar -C "$work" -cf "$work/image.tar" manifest.json config.json layer.tar
    ctr --address "$dir/containerd.sock" --namespace k8s.io images import "$work/image.tar" >>"$dir/log/images.log"
    rm -rf "$work"
}

images() {
    local box=$dir/busybox applet
    mkdir -p "$box"/{bin,tmp,etc,proc,dev,sys}
    chmod 1777 "$box/tmp"
    cp "$(command -v busybox)" "$box/bin/busybox"
    for applet in $("$box/bin/busybox" --list); do [ "$applet" = busybox ] || ln -sf busybox "$box/bin/$applet"; done
    echo 'job:x:65532:65532::/job:/bin/sh' >"$box/etc/passwd"
    image weir.test/busybox:1 "$box" '{"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]}'
    image weir.test/pause:1 "$box" '{"Entrypoint": ["/bin/sleep", "1000000000"]}'
    mkdir -p "$dir/weir-root/usr/local/bin"
    cp "$weir" "$dir/weir-root/usr/local/bin/weir"
    image weir.test/weir:1 "$dir/weir-root" '{"Entrypoint": ["/usr/local/bin/weir"]}'
    rm -rf "$box" "$dir/weir-root"
}

up() {
    check
    [ ! -e "$dir/pids" ] || fail "$dir exists: scripts/kubelet.sh down"
    mkdir -p "$dir"/{pids,log,pki,cni,kubelet,logs,bin}
    local programs etcd_port peer_port kubelet_port weir_port
    programs=$(cd "$root" && go run ./test/tools etcd kube-apiserver kubelet kubectl)
    for program in $programs; do ln -sf "$program" "$dir/bin/"; done
    ln -sf "$weir" "$dir/bin/weir"
    ln -sf "$weir" "$dir/bin/kubectl-weir"
    etcd_port=$(free_port) peer_port=$(free_port) api_port=$(free_port) kubelet_port=$(free_port) weir_port=$(free_port)

    ip link add $bridge type bridge
    ip addr add $gateway/24 dev $bridge
    ip link set $bridge up

    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$dir/pki/ca.key" -out "$dir/pki/ca.crt" -subj /CN=kubelet.sh -days 30 2>/dev/null
    openssl ecparam -name prime256v1 -genkey -noout -out "$dir/pki/sa.key"
    openssl ec -in "$dir/pki/sa.key" -pubout -out "$dir/pki/sa.pub" 2>/dev/null
    certificate apiserver /CN=kube-apiserver "IP:127.0.0.1,DNS:kubernetes.default.svc"
    certificate apiserver-kubelet /O=system:masters/CN=kube-apiserver
    certificate kubelet-server "/O=system:nodes/CN=system:node:$node" "IP:$gateway,DNS:$node"
    certificate kubelet "/O=system:nodes/CN=system:node:$node"
    printf '%s\n' "$admin_token,admin,1,system:masters" "$weir_token,system:serviceaccount:weir-system:weir,2,system:serviceaccounts" >"$dir/pki/tokens.csv"
    kubeconfig "$dir/admin.kubeconfig" "token: $admin_token"
    kubeconfig "$dir/weir.kubeconfig" "token: $weir_token"
    kubeconfig "$dir/kubelet.kubeconfig" "client-certificate: \"$dir/pki/kubelet.crt\", client-key: \"$dir/pki/kubelet.key\""

    start etcd "$dir/bin/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$etcd_port" \
        --advertise-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls "http://127.0.0.1:$peer_port" \
        --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" --initial-cluster "default=http://127.0.0.1:$peer_port"
    start apiserver "$dir/bin/kube-apiserver" --etcd-servers="http://127.0.0.1:$etcd_port" --bind-address=127.0.0.1 --secure-port="$api_port" \
        --tls-cert-file="$dir/pki/apiserver.crt" --tls-private-key-file="$dir/pki/apiserver.key" --client-ca-file="$dir/pki/ca.crt" \
        --kubelet-client-certificate="$dir/pki/apiserver-kubelet.crt" --kubelet-client-key="$dir/pki/apiserver-kubelet.key" \
        --kubelet-certificate-authority="$dir/pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
        --service-account-key-file="$dir/pki/sa.pub" --service-account-signing-key-file="$dir/pki/sa.key" --service-account-issuer=https://weir.test \
        --token-auth-file="$dir/pki/tokens.csv" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --service-cluster-ip-range=10.0.0.0/24

    cat >"$dir/containerd.toml" <<EOF
version = 2
root = "$dir/containerd"
state = "$dir/containerd-state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "$dir/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "weir.test/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/cni"
EOF
    cat >"$dir/cni/10-bridge.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "weir-kubelet", "plugins": [
  {"type": "bridge", "bridge": "$bridge", "isGateway": true, "ipam": {"type": "host-local", "dataDir": "$dir/cni-state", "subnet": "10.77.0.0/24", "gateway": "$gateway"}}]}
EOF
    start containerd containerd --config "$dir/containerd.toml"

    cat >"$dir/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $gateway
port: $kubelet_port
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $dir/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $dir/pki/kubelet-server.crt
tlsPrivateKeyFile: $dir/pki/kubelet-server.key
containerRuntimeEndpoint: unix://$dir/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$group
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
podLogsDir: $dir/logs
volumePluginDir: $dir/volume-plugins
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
evictionPressureTransitionPeriod: 10s
EOF
    for controller in /sys/fs/cgroup/*/; do # version 1 has a hierarchy for each controller
        [ ! -e /sys/fs/cgroup/cgroup.controllers ] || controller=/sys/fs/cgroup/
        mkdir -p "$controller$group"
    done
    [ ! -e "/sys/fs/cgroup/cpuset/$group/cpuset.cpus" ] || {
        cat /sys/fs/cgroup/cpuset/cpuset.cpus >"/sys/fs/cgroup/cpuset/$group/cpuset.cpus"
        cat /sys/fs/cgroup/cpuset/cpuset.mems >"/sys/fs/cgroup/cpuset/$group/cpuset.mems"
    }
    await 60 containerd ctr --address "$dir/containerd.sock" version
    images
    await 120 "the API server" "$dir/bin/kubectl" --kubeconfig "$dir/admin.kubeconfig" get --raw /readyz
    export KUBECONFIG=$dir/admin.kubeconfig
    "$dir/bin/kubectl" apply --server-side -f "$root/packaging/kubernetes/weir.yaml" >"$dir/log/apply.log"
    "$dir/bin/kubectl" -n default create serviceaccount default >>"$dir/log/apply.log" # nothing here does that

    cat >"$dir/bin/start-kubelet" <<EOF
#!/bin/sh
setsid $dir/bin/kubelet --config=$dir/kubelet.yaml --kubeconfig=$dir/kubelet.kubeconfig --root-dir=$dir/kubelet --hostname-override=$node \\
    --node-ip=$gateway --cert-dir=$dir/kubelet/pki --v=2 >>$dir/log/kubelet.log 2>&1 </dev/null &
echo \$! >$dir/pids/kubelet
EOF
    chmod +x "$dir/bin/start-kubelet"
    "$dir/bin/start-kubelet"
    await 120 "the node" sh -c "$dir/bin/kubectl get node $node -o 'jsonpath={.status.conditions[?(@.type==\"Ready\")].status}' | grep True"

    cat >"$dir/weir.yaml" <<EOF
scheduler:
  listen: 0.0.0.0:$weir_port
  data_dir: $dir/data
  trust_loopback: true
  kubernetes:
    enabled: true
    kubeconfig: $dir/weir.kubeconfig
    init_image: weir.test/weir:1
    default_image: weir.test/busybox:1
    pods_url: http://$gateway:$weir_port
EOF
    echo "export KUBECONFIG=$dir/admin.kubeconfig WEIR_ADDR=127.0.0.1:$weir_port PATH=$dir/bin:\$PATH" >"$dir/env"
    start weir "$weir" scheduler --config "$dir/weir.yaml"
    # shellcheck disable=SC1091
    . "$dir/env"
    await 60 weir weir nodes
    await 60 "the node in weir" sh -c "weir nodes | grep $node"
}

# stop NAME ends a program that start has started.
stop() {
    local pid
    [ -e "$dir/pids/$1" ] || return 0
    pid=$(cat "$dir/pids/$1")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
    rm -f "$dir/pids/$1"
}

down() {
    [ -e "$dir" ] || return 0
    local controller mounted container
    stop weir
    stop kubelet
    if [ -S "$dir/containerd.sock" ]; then
        for container in $(timeout 20 ctr --address "$dir/containerd.sock" -n k8s.io tasks list -q 2>/dev/null); do
            timeout 20 ctr --address "$dir/containerd.sock" -n k8s.io tasks delete --force "$container" >/dev/null 2>&1 || true
        done
        for container in $(timeout 20 ctr --address "$dir/containerd.sock" -n k8s.io containers list -q 2>/dev/null); do
            timeout 20 ctr --address "$dir/containerd.sock" -n k8s.io containers delete "$container" >/dev/null 2>&1 || true
        done
    fi
    stop containerd
    stop apiserver
    stop etcd
    awk -v below="$dir/" 'index($2, below) == 1 {print $2}' /proc/self/mounts | sort -r | while read -r mounted; do umount -l "$mounted" || true; done
    ip link del $bridge 2>/dev/null || true
    for controller in /sys/fs/cgroup/*/ /sys/fs/cgroup/; do
        [ ! -d "$controller$group" ] || find "$controller$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
    rm -rf "$dir"
}

# say prints the command that it reads, and then what the command prints, with its exit code if that is not 0.
say() {
    local command code=0
    command=$(cat)
    printf '\n$ %s\n' "$command"
    timeout 90 bash -c ". '$dir/try.sh'; $command" 2>&1 || code=$?
    [ $code = 0 ] || echo "(exit code $code)"
}

# The functions of the transcript.
helpers() {
    cat <<'EOF'
until_true() { for _ in $(seq 80); do eval "$1" >/dev/null 2>&1 && return; sleep 1; done; echo "NOT SO: $1"; return 1; }
running() { until_true "weir op jobs $1 --state running -q | grep -q ."; weir op jobs "$1" --state running -q | tail -1; }
pods() { kubectl -n weir-jobs get pods -l "weir.dev/operation=$1" -o name; }
gone() { until_true "test -z \"\$(pods $1)\""; }
last() { weir op list -q | head -1; }
EOF
}

try() {
    # shellcheck disable=SC1091
    . "$dir/env"
    helpers >"$dir/try.sh"
    mkdir -p "$dir/work"
    cd "$dir/work"
    specifications
    printf '## The cluster\n'
    say <<<'grep "k8s.io/kubernetes " '"$root"'/test/kubelet/go.mod; containerd --version; runc --version | head -1; uname -r'
    say <<<'kubectl get nodes -o wide; weir nodes'
    way_a
    way_b
    printf '\n## What is left\n'
    say <<<'until_true "! kubectl -n weir-jobs get pods -o name | grep ."; kubectl get pods -A'
    say <<<'weir get //sys/scheduler/@alerts; grep -E "level=(ERROR|WARN)" ../log/weir.log | cut -c1-300 | tail -20'
}

specifications() {
    cat >reclaim.yaml <<'EOF'
tasks: {main: {job_count: 1, command: sleep 600, cpu_limit: 1, memory_limit: 64MiB}}
job_cpu_monitor: {enable_cpu_reclaim: true, smoothing_factor: 1, vote_window_size: 2, vote_decision_threshold: 1, decrease_coefficient: 0.5, min_cpu_limit: 0.1}
EOF
    cat >disk.yaml <<'EOF'
tasks: {main: {job_count: 1, command: "dd if=/dev/zero of=large bs=1M count=32; sleep 300", disk_space_limit: 8MiB, memory_limit: 128MiB}}
max_failed_job_count: 1
EOF
    cat >polite.yaml <<'EOF'
pool: low
tasks: {main: {job_count: 4, cpu_limit: 0.5, memory_limit: 64MiB, interruption_signal: SIGINT, command: "trap 'echo asked to end; exit 130' INT; echo attempt; i=0; while [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done"}}
EOF
    cat >pools.yaml <<'EOF'
pools:
  low: {weight: 1}
  high: {strong_guarantee_resources: {cpu: 1}, fair_share_preemption_timeout: 1s}
EOF
    cat >gang.yaml <<'EOF'
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {weir.dev/group: trio, weir.dev/pool: low}, annotations: {weir.dev/gang-size: "3"}}
spec:
  schedulerName: weir
  automountServiceAccountToken: false
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: weir.test/busybox:1, command: [sleep, "600"], resources: {requests: {cpu: 500m, memory: 32Mi}}}]
EOF
    cat >job.yaml <<'EOF'
apiVersion: batch/v1
kind: Job
metadata: {name: hello}
spec:
  parallelism: 2
  completions: 2
  template:
    spec: {restartPolicy: Never, schedulerName: weir, containers: [{name: main, image: weir.test/busybox:1}]}
EOF
    cat >job-pod.yaml <<'EOF'
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  labels: {weir.dev/pool: low}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: hello, uid: UID, controller: true}]
spec:
  schedulerName: weir
  automountServiceAccountToken: false
  restartPolicy: Never
  containers: [{name: main, image: weir.test/busybox:1, command: [sh, -c, "echo hello; sleep 2"], resources: {requests: {cpu: 500m, memory: 32Mi}}}]
EOF
}

way_a() {
    printf '\n## Way A: jobs of Weir\n'
    say <<<'weir run -- '\''echo hello from $(hostname); id; echo "process 1: $(tr "\0" " " </proc/1/cmdline)"'\'
    say <<<'weir run -- '\''echo out; echo oops >&2; exit 3'\'
    say <<<'job=$(weir op jobs $(last) -q); weir job get $job; weir job stderr $job'
    say <<<'weir run -- '\''kill -SEGV $$'\'
    say <<<'weir run --image weir.test/missing:1 -- true'

    printf '\n### Output, commands beside the job, figures of the kubelet\n'
    say <<<'weir run -d -q -- '\''i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo line $i; sleep 1; done'\''; timeout 5 weir job logs -f $(running $(last)); true'
    say <<<'weir job exec $(running $(last)) -- sh -c '\''id; ps; exit 7'\'
    say <<<'echo '\''echo from the shell; tty; exit 4'\'' | script -qec "weir job shell $(running $(last))" /dev/null'
    say <<<'weir run -d -q -- '\''i=0; while :; do i=$((i+1)); done'\''; job=$(running $(last)); until_true "weir job get $job -o json | jq -e \".brief_statistics.user_job_memory > 0\""; weir job get $job -o json | jq -c .brief_statistics; weir op abort $(last)'

    printf '\n### Files and artifacts\n'
    say <<<'echo small >small; head -c 3000000 /dev/urandom >large; sha256sum small large; weir run --file small --file large --output result -- '\''sha256sum small large; mkdir result; wc -c small large >result/sizes'\''; weir op artifacts $(last)'

    printf '\n### Limits\n'
    say <<<'weir run --memory 64MiB -- '\''a=x; while :; do a=$a$a; sleep 0.2; done'\''   # grows slowly: its first process ends it'
    say <<<'weir run --memory 64MiB -- '\''dd if=/dev/zero of=/dev/null bs=500M count=1'\''   # grows at once: the kernel ends it, unless its first process is faster'
    say <<<'weir run --time-limit 3s -- sleep 600'
    say <<<'weir op start --wait disk.yaml'

    printf '\n### Ends that somebody else wants\n'
    say <<<'weir run -d -q -- sleep 600; running $(last); weir op abort $(last); gone $(last); weir op get $(last) | head -20'
    say <<<'weir run -d -q -- sleep 600; running $(last); kubectl -n weir-jobs delete --wait=false $(pods $(last)); until_true "test \$(weir op jobs $(last) -q | wc -l) = 2"; running $(last); weir op jobs $(last); weir op abort $(last)'
    say <<<'weir run -d -q -- sleep 600; job=$(running $(last)); pid=$(cat ../pids/kubelet); kill $pid; until_true "! kill -0 $pid"; start-kubelet; until_true "kubectl -n weir-jobs exec $(pods $(last)) -- true"; weir op jobs $(last); weir op abort $(last)'

    printf '\n### CPU that an idle job gives back\n'
    say <<<'weir op start reclaim.yaml; job=$(running $(last)); pod=$(pods $(last)); until_true "kubectl -n weir-jobs get $pod -o jsonpath={.status.containerStatuses[0].resources.requests.cpu} | grep -v ^1$"; kubectl -n weir-jobs get $pod -o json | jq -c ".spec.containers[0].resources, .status.containerStatuses[0].resources"; kubectl -n weir-jobs exec $pod -- cat /sys/fs/cgroup/cpu/cpu.shares; weir job get $job; weir op abort $(last)'

    printf '\n### Preemption\n'
    say <<<'weir apply -f pools.yaml; weir op start polite.yaml; low=$(last); until_true "test \$(weir op jobs $low --state running -q | wc -l) = 4"; weir run -p high --cpu 1 -- echo I am in; weir op jobs $low; weir events | tail -5; weir op abort $low'
}

way_b() {
    printf '\n## Way B: pods of others\n'
    # Nothing here runs controllers, so the pods of the Job are made by hand, as its controller would.
    say <<<'kubectl create namespace shop; kubectl -n shop create serviceaccount default; kubectl -n shop create -f job.yaml; uid=$(kubectl -n shop get job hello -o jsonpath={.metadata.uid}); for i in 1 2; do sed "s/NAME/hello-$i/; s/UID/$uid/" job-pod.yaml | kubectl -n shop apply -f -; done; until_true "kubectl -n shop get pods | grep -c Completed | grep 2"; kubectl -n shop get pods -o wide; kubectl -n shop logs hello-1; weir op list | head -3; kubectl -n shop get events'
    say <<<'for name in a b; do sed "s/NAME/$name/" gang.yaml | kubectl -n shop apply -f -; done; until_true "kubectl -n shop get pod a -o yaml | grep WeirGang"; kubectl -n shop get pod a -o json | jq -c ".status.conditions"; kubectl weir explain pod:shop/a'
    say <<<'sed "s/NAME/c/" gang.yaml | kubectl -n shop apply -f -; until_true "kubectl -n shop get pods | grep -c Running | grep 3"; kubectl -n shop get pods -o wide; weir op list | head -3; weir nodes; kubectl -n shop delete pods a b c'
    say <<<'sed "s/NAME/lost/; s/weir.dev.pool: low/weir.dev\/pool: nowhere/" gang.yaml | kubectl -n shop apply -f -; until_true "kubectl -n shop get pod lost -o yaml | grep WeirPoolDenied"; kubectl -n shop get pod lost -o json | jq -c ".status.conditions"; kubectl -n shop get events; kubectl -n shop delete pod lost'
    say <<<'sed "s/NAME/greedy/; s/500m/64/; s/gang-size: .3./gang-size: \"1\"/" gang.yaml | kubectl -n shop apply -f -; until_true "kubectl -n shop get pod greedy -o yaml | grep Unschedulable"; kubectl -n shop get pod greedy -o json | jq -c ".status.conditions"; kubectl -n shop delete pod greedy'
}

case "${1:-all}" in
up) up ;;
down) down ;;
env) cat "$dir/env" ;;
try) try ;;
all)
    trap down EXIT
    up
    try
    ;;
*) fail "want up, try, down, env or nothing" ;;
esac
