package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/value/resource"
)

// mustLoad loads sources that must be valid.
func mustLoad(t *testing.T, sources Sources) *Loaded {
	t.Helper()
	loaded, _, err := Load(sources)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// flagsOf parses a command line with the flags of a section.
func flagsOf(t *testing.T, section string, args ...string) *Flags {
	t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags := Bind(set, section)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func TestALaterSourceWins(t *testing.T) {
	file := "scheduler:\n  data-dir: of-file\n  fair_share_update_period: 300ms\n  log: {level: warn, format: json}\n"
	environ := []string{"WEIR_SCHEDULER_DATA_DIR=of-env", "WEIR_SCHEDULER_LOG_LEVEL=error", "WEIR_TOKEN=x", "PATH=/bin", "WEIR_SCHEDULER_LISTEN="}
	flags := flagsOf(t, SchedulerSection, "--data-dir=of-flag", "--pprof")
	loaded := mustLoad(t, Sources{File: "weir.yaml", Data: []byte(file), Environ: environ, Flags: []*Flags{flags}})
	got := map[string]string{}
	for _, e := range loaded.Effective(SchedulerSection) {
		if e.Origin.From != FromDefault || e.Path == "scheduler/listen" {
			got[e.Path] = fmt.Sprintf("%v from %v", e.Value, e.Origin)
		}
	}
	want := map[string]string{
		"scheduler/data_dir":                 "of-flag from --data-dir",
		"scheduler/fair_share_update_period": "300ms from weir.yaml:3",
		"scheduler/log/level":                "error from WEIR_SCHEDULER_LOG_LEVEL",
		"scheduler/log/format":               "json from weir.yaml:4",
		"scheduler/pprof":                    "true from --pprof",
		"scheduler/listen":                   `"127.0.0.1:7070" from default`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c := loaded.Config.Scheduler; c.Periods.FairShareUpdate.Value() != 300*time.Millisecond || c.Log.Level.Value() != "error" ||
		c.DataDir.Value() != "of-flag" || !c.Pprof.Value() {
		t.Errorf("the struct says otherwise: %+v", c)
	}
}

func TestDefaultsAreThoseOfTheReference(t *testing.T) {
	c := mustLoad(t, Sources{}).Config
	s := c.Scheduler
	for _, test := range []struct {
		name      string
		got, want any
	}{
		{"fair_share_update_period", s.Periods.FairShareUpdate.Value(), 200 * time.Millisecond},
		{"node_heartbeat_timeout", s.Nodes.HeartbeatTimeout.Value(), time.Minute},
		{"waiting_for_resources_on_node_timeout", s.Nodes.WaitingTimeout.Value(), 30 * time.Second},
		{"max_node_unseen_period_to_abort_allocations", s.Nodes.UnseenToAbort.Value(), 5 * time.Minute},
		{"snapshot_period", s.Periods.Snapshot.Value(), 300 * time.Second},
		{"operations_update_period", s.Periods.OperationsUpdate.Value(), 3 * time.Second},
		{"operation_stuck_check/safe_timeout", s.Operations.Stuck.SafeTimeout.Value(), time.Hour},
		{"resource_demand_sanity_check_period", s.Periods.DemandSanityCheck.Value(), 15 * time.Second},
		{"max_operation_count", s.Operations.MaxCount.Value(), 5000},
		{"min_spare_allocation_resources_on_node", s.Nodes.MinSpare.Value().OrZero(), resource.Amounts{resource.UserSlots: 1, resource.CPU: 100, resource.Memory: 256 << 20}},
		{"memory_digest_resource_overdraft_factor", s.Memory.OverdraftFactor.Value(), 1.1},
		{"ahead_memory_reserve", c.Node.Memory.Ahead.Value(), int64(100 << 20)},
		{"memory_overdraft_timeout", c.Node.Memory.MemoryOverdraftTimeout.Value(), 5 * time.Minute},
		{"cpu_overdraft_timeout", c.Node.Memory.CPUOverdraftTimeout.Value(), 10 * time.Minute},
		{"heartbeat min_backoff", c.Node.Heartbeat.MinBackoff.Value(), 5 * time.Second},
		{"nodes of weir up", c.Up.NodeCount(), 1},
	} {
		if test.got != test.want {
			t.Errorf("%s is %v, want %v", test.name, test.got, test.want)
		}
	}
	if diff := sections().table.Diff(ptr(Default()), &c); len(diff) > 0 {
		t.Errorf("Default and an empty Load differ: %v", diff)
	}
}

func ptr[T any](v T) *T { return &v }

func TestEverythingThatIsWrongIsSaidAtOnce(t *testing.T) {
	file := strings.Join([]string{
		"scheduler:",
		"  lisen: :80",
		"  listen: localhost",
		"  fair_share_update_period: 5ms",
		"  log: {level: loud}",
		"  waiting_job_timeout: 1s",
		"  waiting_for_resources_on_node_timeout: 2s",
		"  operation_stuck_check: {min_schedule_job_attempts: 0}",
		"  user_job_memory_reserve_quantile: 1.5",
		"  store: 'mysql://root:hunter2@db/weir'",
		"node:",
		"  tags: [a, b, a]",
		"  resources: {cpus: 4, memory: -1}",
		"  schedulers: [a]",
		"  token: 'two words'",
		"up: {nodes: many}",
		"kube: {}",
		"",
	}, "\n")
	environ := []string{"WEIR_SCHEDULER_LISEN=:80", "WEIR_NODE_HEARTBEAT_SPLAY=soon", "WEIR_UP_PORT=70000"}
	_, _, err := Load(Sources{File: "weir.yaml", Data: []byte(file), Environ: environ})
	if err == nil {
		t.Fatal("accepted")
	}
	want := []string{
		`weir.yaml:2:3: scheduler/lisen: unknown option; did you mean "listen"?`,
		`weir.yaml:3:11: scheduler/listen: must be an address to listen on, like 127.0.0.1:7070 or :7070, not "localhost"`,
		`weir.yaml:4:29: scheduler/fair_share_update_period: must be a duration like 30s, 5m, 1d or a number of milliseconds from 10ms to 1m, not "5ms"`,
		`weir.yaml:5:16: scheduler/log/level: must be one of debug, info, warn, error, not "loud"`,
		`weir.yaml:7:3: scheduler/waiting_for_resources_on_node_timeout: "waiting_job_timeout" and "waiting_for_resources_on_node_timeout" are two names of one option; give only one of them (the first is at line 6)`,
		`weir.yaml:8:54: scheduler/operation_stuck_check/min_schedule_job_attempts: must be a whole number of at least 1, not 0`,
		`weir.yaml:9:37: scheduler/user_job_memory_reserve_quantile: must be a number from 0 to 1, not 1.5`,
		`weir.yaml:10:10: scheduler/store: must be sqlite:PATH or postgres://USER@HOST:PORT/DATABASE`,
		`weir.yaml:12:16: node/tags: "a" is in the list twice`,
		`weir.yaml:13:15: node/resources/cpus: unknown resource; did you mean "cpu"?`,
		`weir.yaml:13:32: node/resources/memory: memory "-1": amount must not be negative`,
		`weir.yaml:14:16: node/schedulers/0: must be an address like scheduler.example.com:7070, not "a"`,
		`weir.yaml:15:10: node/token: must be a token, which has no spaces`,
		`weir.yaml:16:13: up/nodes: must be a whole number, not "many"`,
		`weir.yaml:17:1: kube: unknown option`,
		`WEIR_NODE_HEARTBEAT_SPLAY: node/heartbeat/splay: must be a duration like 30s, 5m, 1d or a number of milliseconds, not "soon"`,
		`WEIR_SCHEDULER_LISEN: there is no such setting; did you mean "WEIR_SCHEDULER_LISTEN"?`,
		`WEIR_UP_PORT: up/port: must be a whole number from 0 to 65535, not 70000`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestRulesBetweenSettings(t *testing.T) {
	for _, test := range []struct {
		name, file, says string
	}{
		{"soft above hard", "scheduler: {soft_concurrent_heartbeat_limit: 20000}",
			"f:1:13: scheduler/soft_concurrent_heartbeat_limit: soft_concurrent_heartbeat_limit (20000) must not exceed max_queue_length (10000)"},
		{"the setting that was written is named", "scheduler: {overload: {max_queue_length: 10}}", "f:1:24: scheduler/overload/max_queue_length: "},
		{"a certificate without its key", "scheduler: {tls: {certificate: c.pem}}", "scheduler/tls/certificate: needs scheduler/tls/key"},
		{"a key without its certificate", "scheduler: {tls: {key: k.pem}}", "scheduler/tls/key: needs scheduler/tls/certificate"},
		{"client authorities without TLS", "scheduler: {tls: {client_ca: ca.pem}}", "scheduler/tls/client_ca: needs scheduler/tls/certificate or"},
		{"two certificates", "scheduler: {tls: {certificate: c, key: k, self_signed: true}}", "scheduler/tls/self_signed: excludes"},
		{"a lease renewed too late", "scheduler: {leader: {renew_period: 2s}}", "renew_period (2s) must be at most a third of lease_ttl (3s)"},
		{"heartbeats as rare as their timeout", "scheduler: {node_heartbeat_period: 40s}", "node_heartbeat_timeout (1m) must be at least twice node_heartbeat_period (40s)"},
		{"jobs given up before the node is offline", "scheduler: {max_node_unseen_period_to_abort_jobs: 30s}", "must not exceed max_node_unseen_period_to_abort_allocations (30s)"},
		{"a password file without a store", "scheduler: {store_password_file: p}", "needs a store that has a password"},
		{"a password file for SQLite", "scheduler: {store_password_file: p, store: 'sqlite:x.db'}", "needs a store that has a password"},
		{"two passwords", "scheduler: {store_password_file: p, store: 'postgres://u:p@h/d'}", "has a password already"},
		{"two tokens", "node: {token: weir_x, token_file: t}", "give node/token or node/token_file, not both"},
		{"authorities without TLS", "node: {tls: {ca: ca.pem}}", "node/tls/ca: needs node/tls/enabled"},
		{"a splay of the scheduler's period", "node: {heartbeat: {splay: 1s}}", "node/heartbeat/splay: needs node/heartbeat/period"},
		{"a splay beyond the period", "node: {heartbeat: {splay: 1s, period: 500ms}}", "splay (1s) must not exceed period (500ms)"},
		{"profiles that are served nowhere", "node: {pprof: true}", "node/pprof: needs node/listen"},
		{"back-off that shrinks", "node: {heartbeat: {max_backoff: 1s}}", "must not exceed max_backoff (1s)"},
		{"nodes given twice", "up: {nodes: 2, agents: [{name: a}]}", "give up/nodes or up/agents, not both"},
		{"agents of one name", "up: {agents: [{name: a}, {name: a}]}", `there is another node called "a"`},
		{"history that ends early", "scheduler: {history: {minutes: 1m}}", "must not exceed minutes (1m)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := Load(Sources{File: "f", Data: []byte(test.file)})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("says %v\nwant %s", err, test.says)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for _, test := range []struct {
		name, file, says string
	}{
		{"listening to all without TLS", "scheduler: {listen: ':7070'}", "f:1:13: scheduler/listen: others on the network reach :7070 without TLS"},
		{"listening to all with TLS", "scheduler: {listen: ':7070', tls: {self_signed: true}}", ""},
		{"listening to this machine", "scheduler: {listen: '[::1]:7070'}", ""},
		{"a slow standby", "scheduler: {leader: {lease_ttl: 10s}}", "a standby takes over only after 10.5s"},
		{"an option of YTsaurus without effect", "scheduler: {node_shard_count: 4}", "f:1:13: scheduler/node_shard_count: not supported: has no effect, because it tunes internals of YTsaurus"},
		{"such an option in a section", "scheduler: {operations_cleaner: {clean_delay: 5m}}", "scheduler/operations_cleaner/clean_delay: not supported: has no effect, because operations move"},
		{"such an option by its other name", "scheduler: {accumulated_usage_log_period: 5m}", "scheduler/accumulated_usage_log_period: not supported: has no effect, because the event log"},
		{"such an option of a node", "node: {check_user_jobs_category_limit_on_resource_update: true}", "has no effect, because all memory that a node offers is for jobs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, warnings, err := Load(Sources{File: "f", Data: []byte(test.file)})
			if err != nil || (test.says == "") != (len(warnings) == 0) || !strings.Contains(warnings.Error(), test.says) {
				t.Errorf("%v, warnings %v; want %q", err, warnings, test.says)
			}
		})
	}
}

func TestWhatKubernetesPutsIntoContainersIsPassedOver(t *testing.T) {
	links := []string{
		"WEIR_SCHEDULER_SERVICE_HOST=10.0.0.1", "WEIR_SCHEDULER_SERVICE_PORT=7070", "WEIR_SCHEDULER_SERVICE_PORT_HTTP=7070",
		"WEIR_SCHEDULER_PORT=tcp://10.0.0.1:7070", "WEIR_SCHEDULER_PORT_7070_TCP=tcp://10.0.0.1:7070",
		"WEIR_SCHEDULER_PORT_7070_TCP_PROTO=tcp", "WEIR_SCHEDULER_PORT_7070_TCP_PORT=7070", "WEIR_SCHEDULER_PORT_7070_TCP_ADDR=10.0.0.1",
		"WEIR_UP_PORT=tcp://10.0.0.1:7070",
	}
	loaded := mustLoad(t, Sources{Environ: links})
	for _, e := range loaded.Effective() {
		if e.Origin.From != FromDefault {
			t.Errorf("%s comes from %v", e.Path, e.Origin)
		}
	}
	if got := mustLoad(t, Sources{Environ: []string{"WEIR_UP_PORT=7071"}}).Config.Up.Port.Value(); got != 7071 {
		t.Errorf("the port is %d", got)
	}
	if _, _, err := Load(Sources{Environ: []string{"WEIR_SCHEDULER_PORT=7070"}}); err == nil {
		t.Error("an unknown variable is accepted")
	}
}

func TestTextOfVariablesAndFlags(t *testing.T) {
	for _, test := range []struct{ path, text, want string }{
		{"up/resources", "cpu=8,memory=16GiB,user_slots=8", "{user_slots: 8, cpu: 8, memory: 16GiB}"},
		{"up/resources", "{cpu: 1.5}", "{cpu: 1.5}"},
		{"node/tags", "gpu, rack/12", "[gpu, rack/12]"},
		{"node/tags", `["x", "y"]`, "[x, y]"},
		{"node/schedulers", "a:1,b:2", `["a:1", "b:2"]`},
		{"scheduler/fair_share_update_period", "100", "100ms"},
		{"scheduler/fair_share_update_period", "1.5s", "1.5s"},
		{"scheduler/footprint_memory", "1MiB", "1MiB"},
		{"scheduler/footprint_memory", "1048576", "1MiB"},
		{"scheduler/max_operation_count", "17", "17"},
		{"scheduler/user_job_memory_reserve_quantile", "0.5", "0.5"},
		{"scheduler/self_check/enabled", "no", "false"},
		{"scheduler/self_check/enabled", "1", "true"},
		{"node/name", "17", "17"},
		{"up/agents", "[{name: a, tags: [x]}, {name: b}]", "[{name: a, tags: [x]}, {name: b}]"},
	} {
		s, ok := find(test.path)
		if !ok {
			t.Fatalf("there is no %s", test.path)
		}
		loaded := mustLoad(t, Sources{Environ: []string{s.Variable() + "=" + test.text}})
		list := loaded.Effective(s.Section())
		i := slices.IndexFunc(list, func(e Effective) bool { return e.Path == test.path })
		if got := list[i].Value.String(); got != test.want || list[i].Origin.From != FromVariable {
			t.Errorf("%s=%s is %s from %v, want %s", s.Variable(), test.text, got, list[i].Origin, test.want)
		}
	}
}

func TestANodeNeedsSchedulers(t *testing.T) {
	loaded := mustLoad(t, Sources{})
	err := loaded.Require(NodeSection)
	if err == nil || err.Error() != "node/schedulers: must be given: in the file, by WEIR_NODE_SCHEDULERS or by --schedulers" {
		t.Errorf("says %v", err)
	}
	for _, section := range []string{SchedulerSection, UpSection} {
		if err := loaded.Require(section); err != nil {
			t.Errorf("%s: %v", section, err)
		}
	}
	if err := mustLoad(t, Sources{Environ: []string{"WEIR_NODE_SCHEDULERS=a:1"}}).Require(NodeSection); err != nil {
		t.Error(err)
	}
}
