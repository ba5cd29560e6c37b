package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/command/config"
	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/node/agent"
	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/node/image"
	"github.com/weirhq/weir/internal/node/jobinit"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// opened lists the settings that take effect when something is opened or started,
// which cannot be compared. For them the test checks only that the source reads them.
var opened = map[string]bool{
	"scheduler/listen": true, "scheduler/advertise": true, "scheduler/data_dir": true, "scheduler/store": true,
	"scheduler/store_password_file": true, "scheduler/files/storage": true, "scheduler/pprof": true, "scheduler/open_metrics": true,
	"scheduler/socket": true, "scheduler/trust_loopback": true, // see socket_test.go
	"scheduler/tls/certificate": true, "scheduler/tls/key": true, "scheduler/tls/client_ca": true, "scheduler/tls/self_signed": true,
	"scheduler/log/level": true, "scheduler/log/format": true, "scheduler/journal/keep": true, "scheduler/journal/size": true,
	"node/schedulers": true, "node/name": true, "node/tags": true, "node/data_dir": true, "node/replace": true, "node/token": true, "node/token_file": true,
	"node/listen": true, "node/pprof": true, "node/cgroup/mode": true, "node/cgroup/parent": true,
	"node/tls/enabled": true, "node/tls/ca": true, "node/tls/certificate": true, "node/tls/key": true, "node/tls/server_name": true,
	"scheduler/overload/max_bytes_in_flight": true, "scheduler/overload/max_bytes_in_flight_per_caller": true, // see intake_test.go
	"node/log/level": true, "node/log/format": true, "node/isolation/run_as": true, "node/isolation/uids": true, // only root obeys them
	"scheduler/images/registries": true, "scheduler/images/allowed_registries": true, "scheduler/vault_key_file": true, // see images_test.go
	"node/images/registries": true, "node/images/allowed_registries": true, "node/images/preload": true, "node/oci_runtime": true,
	"node/isolation/share_writable_paths": true,                                                                                                           // see isolation_test.go
	"node/gpus/tool":                      true, "node/gpus/period": true, "node/gpus/command": true, "node/gpus/libraries": true, "node/gpus/fake": true, // see gpus_test.go
	"node/gpus/cdi": true, "node/gpus/cdi_directories": true, // see gpus_test.go
	"scheduler/notifications/targets": true, "scheduler/notifications/rules": true, "scheduler/notifications/allow_commands": true, // see notifications_test.go
	"scheduler/kubernetes/enabled": true, "scheduler/kubernetes/kubeconfig": true, "scheduler/kubernetes/context": true,
	"scheduler/kubernetes/namespace": true, "scheduler/kubernetes/service_account": true, "scheduler/kubernetes/default_image": true,
	"scheduler/kubernetes/init_image": true, "scheduler/kubernetes/tag_labels": true, "scheduler/kubernetes/gpu_resources": true,
	"scheduler/kubernetes/tolerated_taints": true, "scheduler/kubernetes/reserve": true, "scheduler/kubernetes/max_writes_per_second": true,
	"scheduler/kubernetes/review_tokens": true, "scheduler/kubernetes/administrators": true,
	"scheduler/kubernetes/kubelet_insecure_tls": true, "scheduler/kubernetes/shells": true, "scheduler/kubernetes/pods_url": true, "scheduler/kubernetes/pods_ca": true, // see kubernetes_test.go
	"node/shells": true,                                                                                                                       // see test/cluster
	"up/port":     true, "up/port_file": true, "up/data_dir": true, "up/pools": true, "up/demo": true, "up/kubernetes": true, "up/kwok": true, // see up_kubernetes_test.go
}

// obeyed is everything that is made from the other settings.
type obeyed struct {
	Server  server.Settings
	Rules   agent.Rules
	Pace    agent.Pace
	Offered resource.Amounts
	Nodes   []config.Agent

	Isolation  agent.Isolation
	Supervised bool
	Check      agent.Check
	Files      []string
	Images     image.Options
	CacheSize  int64
}

// machineForTests is the machine that the tests assume.
var machineForTests = resource.Amounts{resource.UserSlots: 10, resource.CPU: 1000, resource.Memory: 10 << 30}

func obeyedOf(c *config.Config) obeyed {
	o := obeyed{
		Server: settingsOf(&c.Scheduler), Rules: rulesOf(&c.Node), Pace: paceOf(&c.Node.Heartbeat), Offered: offeredOf(&c.Node, machineForTests),
		Images:     imageOptions(&c.Node.Images, "", nil, nil),
		Supervised: c.Node.Supervisor.Value(), Check: checkOf(&c.Node.Health), Files: c.Node.Files.Allow.Value(), CacheSize: c.Node.Files.CacheSize.Value(),
	}
	c.Node.Isolation.ShareWritable = document.Some(true) // see isolation_test.go
	o.Isolation, _ = isolationOf(&c.Node.Isolation, true, func(jobinit.Level, uint32) error { return nil })
	o.Isolation.UIDs = agent.UIDRange{} // they depend on who runs the test
	for i := range c.Up.NodeCount() {
		o.Nodes = append(o.Nodes, nodeOf(&c.Up, i, c.Up.NodeCount(), machineForTests))
	}
	return o
}

// others returns values of a setting that differ from its default.
func others(s config.Setting) []string {
	switch s.Info.Shape.Kind {
	case "boolean":
		return []string{"true", "false"}
	case "duration":
		return []string{"1ms", "17ms", "700ms", "4s", "90s", "17m", "30d"}
	case "integer", "number":
		return []string{"0.25", "2", "17", "700", "1700", "17000"}
	case "memory":
		return []string{"17MiB"}
	case "resources":
		return []string{"cpu=3,memory=1GiB"}
	case "list":
		return []string{"x,y", "/x,/y", "[{name: x}, {name: y}]", "[{name: x, cpu: 3}]"}
	case "map":
		return []string{"{x: {filter: y}}", "{currency: EUR}"}
	}
	return append(append([]string{}, s.Info.Shape.Values...), "x")
}

// withOther returns configurations in which one setting differs from its default.
func withOther(s config.Setting) (list []*config.Config) {
	environ := []string{}
	if s.Path == "node/heartbeat/splay" {
		environ = append(environ, "WEIR_NODE_HEARTBEAT_PERIOD=5s")
	}
	for _, text := range others(s) {
		loaded, _, err := config.Load(config.Sources{Environ: append([]string{s.Variable() + "=" + text}, environ...)})
		if err == nil { // a value may be out of bounds, or wrong beside other defaults
			list = append(list, &loaded.Config)
		}
	}
	return list
}

// Every setting changes something: the values that processes are made with, or one
// of the things in the list above.
func TestEverySettingHasAnEffect(t *testing.T) {
	for _, s := range config.Settings() {
		if s.Info.NotSupported != "" || opened[s.Path] {
			continue
		}
		changed := withOther(s)
		if len(changed) == 0 {
			t.Errorf("%s: the test knows no other value", s.Path)
		}
		base := config.Default()
		if s.Path == "node/heartbeat/splay" {
			base.Node.Heartbeat.Period = changed[0].Node.Heartbeat.Period
		}
		differs := false
		for _, c := range changed {
			differs = differs || !reflect.DeepEqual(obeyedOf(c), obeyedOf(&base))
		}
		if !differs {
			t.Errorf("%s: nothing obeys it", s.Path)
		}
	}
	for path := range opened {
		if !exists(path) {
			t.Errorf("%s is no setting", path)
		}
	}
}

func exists(path string) bool {
	for _, s := range config.Settings() {
		if s.Path == path && s.Info.NotSupported == "" {
			return true
		}
	}
	return false
}

// The settings marked as changeable at run time are exactly those that a leading server accepts.
func TestSettingsChangeWhenTheySay(t *testing.T) {
	taken := func(c *config.Config) server.Settings {
		s := settingsOf(&c.Scheduler)
		s.LeaseTTL, s.RenewPeriod, s.StandbyPoll = 0, 0, 0
		return s
	}
	base := config.Default()
	running := taken(&base)
	for _, s := range config.Settings() {
		if s.Info.NotSupported != "" || opened[s.Path] || s.Section() != config.SchedulerSection {
			if s.Runtime() {
				t.Errorf("%s does not change %s", s.Path, s.Changes())
			}
			continue
		}
		atRuntime := false
		for _, c := range withOther(s) {
			atRuntime = atRuntime || !reflect.DeepEqual(taken(c), running)
		}
		if s.Runtime() != atRuntime {
			t.Errorf("%s is said to change %s", s.Path, s.Changes())
		}
		if !s.Runtime() && !strings.HasPrefix(s.Path, "scheduler/leader/") {
			t.Errorf("%s could change without a restart", s.Path)
		}
	}
}

// The packages that start processes read every field of the configuration.
func TestEveryFieldOfTheConfigurationIsRead(t *testing.T) {
	read := map[string]bool{}
	for _, directory := range []string{".", "../cli"} {
		files, err := filepath.Glob(filepath.Join(directory, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok {
					read[selector.Sel.Name] = true
				}
				return true
			})
		}
	}
	fields := 0
	var visit func(path string, of reflect.Type)
	visit = func(path string, of reflect.Type) {
		for field := range of.Fields() {
			at := path + "." + field.Name
			switch {
			case field.Type == reflect.TypeFor[document.Extras]():
			case field.Type.PkgPath() == of.PkgPath() && field.Type.Kind() == reflect.Struct:
				visit(at, field.Type)
			default:
				fields++
				if !read[field.Name] && at != "Up.Nodes" && at != "Up.Agents" {
					t.Errorf("%s is read nowhere", at)
				}
			}
		}
	}
	visit("Scheduler", reflect.TypeFor[config.Scheduler]())
	visit("Node", reflect.TypeFor[config.Node]())
	visit("Up", reflect.TypeFor[config.Up]())
	visit("Agent", reflect.TypeFor[config.Agent]())
	if fields < 90 {
		t.Errorf("only %d fields", fields)
	}
}

// Package config must not import cgroup, so it repeats some of its numbers. They must agree.
func TestTheFiguresOfProcessesAreThoseOfControlGroups(t *testing.T) {
	base := config.Default()
	if got := rulesOf(&base.Node); got != agent.DefaultRules() {
		t.Errorf("by default the rules are %+v, want %+v", got, agent.DefaultRules())
	}
	for _, s := range config.Settings() {
		if s.Path != "node/oom_score_adj_on_exceeded_memory_reserve" {
			continue
		}
		least, _ := s.Info.Shape.Minimum.Int64()
		most, _ := s.Info.Shape.Maximum.Int64()
		if least != cgroup.StartOOMScore+1 || most != cgroup.MaxOOMScore {
			t.Errorf("from %d to %d, but jobs begin with %d and the kernel knows up to %d", least, most, cgroup.StartOOMScore, cgroup.MaxOOMScore)
		}
	}
}

func TestANodeOffersWhatIsNotKeptFree(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		name, environ string
		want          int64
	}{
		{"nothing is kept", "", 10 * gib},
		{"a watermark", "FREE_MEMORY_WATERMARK=2GiB", 8 * gib},
		{"a part", "FREE_USER_JOB_MEMORY_WATERMARK_MULTIPLIER=0.25", 7.5 * gib},
		{"both", "FREE_MEMORY_WATERMARK=2GiB FREE_USER_JOB_MEMORY_WATERMARK_MULTIPLIER=0.25", 6 * gib},
		{"an amount that the machine has", "RESOURCES=memory=4GiB FREE_MEMORY_WATERMARK=2GiB", 4 * gib},
		{"a part of an amount", "RESOURCES=memory=4GiB FREE_USER_JOB_MEMORY_WATERMARK_MULTIPLIER=0.5", 2 * gib},
		{"an amount that the machine has not", "RESOURCES=memory=20GiB FREE_MEMORY_WATERMARK=2GiB", 18 * gib},
		{"more than there is", "FREE_MEMORY_WATERMARK=20GiB", 0},
	} {
		var environ []string
		for word := range strings.FieldsSeq(test.environ) {
			environ = append(environ, "WEIR_NODE_"+word)
		}
		loaded, _, err := config.Load(config.Sources{Environ: environ})
		if err != nil {
			t.Fatal(err)
		}
		if got := offeredOf(&loaded.Config.Node, machineForTests)[resource.Memory]; got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
