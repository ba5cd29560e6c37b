package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

func TestRuntimeTellsWhatChanges(t *testing.T) {
	before := mustLoad(t, Sources{})
	after := mustLoad(t, Sources{Data: []byte("scheduler: {fair_share_update_period: 1s, self_check: {enabled: false}, node_shard_count: 2, max_operation_count: 7}")})
	changes, err := Runtime(&before.Config, &after.Config)
	if err != nil {
		t.Fatal(err)
	}
	want := "[scheduler/self_check/enabled: true → false scheduler/fair_share_update_period: 200ms → 1s scheduler/max_operation_count: 5000 → 7 scheduler/node_shard_count: unset → 2]"
	if got := fmt.Sprint(changes); got != want {
		t.Errorf("changes %s\nwant    %s", got, want)
	}
	if changes, err := Runtime(&before.Config, &before.Config); err != nil || len(changes) != 0 {
		t.Errorf("nothing changed, but: %v, %v", changes, err)
	}
}

func TestRuntimeRefusesWhatNeedsARestart(t *testing.T) {
	before := mustLoad(t, Sources{Data: []byte("scheduler: {store: 'postgres://u:old@h/d'}")})
	after := mustLoad(t, Sources{Data: []byte("scheduler: {store: 'postgres://u:new@h/d', listen: '127.0.0.1:1', fair_share_update_period: 1s}\nup: {demo: true}")})
	changes, err := Runtime(&before.Config, &after.Config)
	want := `scheduler/listen: cannot change while the scheduler runs; restart it to change it ("127.0.0.1:7070" → "127.0.0.1:1")
scheduler/store: cannot change while the scheduler runs; restart it to change it ("postgres://u:hidden@h/d" → "postgres://u:hidden@h/d")
up/demo: cannot change while the cluster runs; restart it to change it (false → true)`
	if err == nil || !sameAddresses(err.Error(), want) || changes != nil {
		t.Errorf("says %v\nwant %s", err, want)
	}
}

func TestAPatchHoldsOnlyWhatMayChange(t *testing.T) {
	base := mustLoad(t, Sources{Data: []byte("scheduler: {node_heartbeat_period: 7s, snapshot_period: 1m}")}).Config.Scheduler
	patched := func(text string) (*Scheduler, document.Problems, error) {
		t.Helper()
		v, err := notation.Parse("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return base.Patched(v)
	}
	for _, test := range []struct{ name, patch, says string }{
		{"what is read at the start", "{listen: ':1', fair_share_update_period: 1s}", "scheduler/listen: cannot change while the scheduler runs; restart it"},
		{"what is wrong", "{fair_share_update_period: 1ms}", "scheduler/fair_share_update_period: must be a duration"},
		{"what does not fit the rest", "{node_heartbeat_timeout: 8s}", "node_heartbeat_timeout (8s) must be at least twice node_heartbeat_period (7s)"},
	} {
		if _, _, err := patched(test.patch); err == nil || !strings.HasPrefix(err.Error()[strings.Index(err.Error(), "scheduler/"):], "scheduler/") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	got, warnings, err := patched("{crash_on_tuesdays: true, node_shard_count: 2, max_operation_count: 7, snapshot_period: 120000, commit: {window: 1}}")
	if err != nil {
		t.Fatal(err)
	}
	if got.Operations.MaxCount.Value() != 7 || got.Periods.Snapshot.Value().Minutes() != 2 || got.Nodes.HeartbeatPeriod.Value().Seconds() != 7 || got.Commit.Window.Value().Milliseconds() != 1 {
		t.Errorf("%+v", got)
	}
	if base.Operations.MaxCount.Value() != 5000 || base.Periods.Snapshot.Value().Minutes() != 1 {
		t.Error("the configuration below the patch has changed")
	}
	text := warnings.Error()
	for _, want := range []string{"crash_on_tuesdays", "scheduler/node_shard_count: not supported: has no effect"} {
		if !strings.Contains(text, want) || len(warnings) != 2 {
			t.Errorf("warnings %s; want %s", text, want)
		}
	}
	if v, ok := got.Extras.Get("crash_on_tuesdays"); !ok || v.String() != "true" {
		t.Error("an unknown key of a patch is lost")
	}
	if _, _, err := Load(Sources{Data: []byte("scheduler: {crash_on_tuesdays: true}")}); err == nil {
		t.Error("an unknown key of a file is accepted")
	}
}

// sameAddresses compares messages and ignores the quotes around values.
func sameAddresses(a, b string) bool {
	strip := strings.NewReplacer(`"`, "")
	return strip.Replace(a) == strip.Replace(b)
}

// Every form in which a configuration is printed hides passwords and tokens.
func TestSecretsAreNotPrinted(t *testing.T) {
	const secret = "hunter2"
	for _, store := range []string{
		"postgres://u:" + secret + "@h:5432/d?sslmode=disable", "postgresql://u@h/d?password=" + secret,
		"postgres://h/d?sslpassword=" + secret + "&user=u", "postgres://u:" + secret + "@h/d?password=" + secret,
		"postgres://u:a%20" + secret + "@h/d",
	} {
		loaded := mustLoad(t, Sources{Data: []byte("scheduler: {store: '" + store + "'}\nnode: {token: weir_" + secret + "}")})
		if loaded.Config.Scheduler.Store.Value() != store || loaded.Config.Node.Token.Value() != "weir_"+secret {
			t.Fatal("the process itself must get the secret")
		}
		settings := loaded.Effective()
		var printed strings.Builder
		printed.Write(YAML(settings))
		for _, e := range settings {
			text, err := e.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&printed, string(text), e.Value)
		}
		changes, _ := Runtime(ptr(Default()), &Config{Node: Node{Token: loaded.Config.Node.Token}})
		_, err := Runtime(ptr(Default()), &loaded.Config)
		fmt.Fprintln(&printed, changes, err)
		if strings.Contains(printed.String(), secret) {
			t.Errorf("a secret of %s is printed:\n%s", store, printed.String())
		}
		if !strings.Contains(printed.String(), "postgres") || !strings.Contains(printed.String(), Redacted) {
			t.Error("nothing is printed in place of a secret")
		}
	}
	// Error messages must not contain it either.
	for _, file := range []string{
		"scheduler: {store: 'mysql://u:hunter2@h/d'}", "scheduler: {store: ['hunter2']}", "scheduler: {store: 'postgres://u:hunter2@h/%zz'}",
		"node: {token: 'hunter2 and more'}", "node: {token: [hunter2]}",
	} {
		if _, _, err := Load(Sources{Data: []byte(file)}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestPasswordsAreRefusedOnCommandLines(t *testing.T) {
	for _, store := range []string{"postgres://u:hunter2@h/d", "postgres://h/d?password=hunter2", "mysql://u:hunter2@h"} {
		flags := flagsOf(t, SchedulerSection, "--store", store)
		_, _, err := Load(Sources{Flags: []*Flags{flags}})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "--store: scheduler/store: a password on the command line") {
			t.Errorf("says %v", err)
		}
	}
	_, _, err := Load(Sources{Flags: []*Flags{flagsOf(t, SchedulerSection, "--store", "oracle:x")}})
	if err == nil || !strings.Contains(err.Error(), "--store: scheduler/store: must be sqlite:PATH or") {
		t.Errorf("says %v", err)
	}
	loaded := mustLoad(t, Sources{Flags: []*Flags{flagsOf(t, SchedulerSection, "--store", "postgres://u@h/d")}})
	if loaded.Config.Scheduler.Store.Value() != "postgres://u@h/d" {
		t.Error("an address without a password is not taken")
	}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Bind(set, NodeSection)
	if set.Lookup("token") != nil || set.Lookup("token-file") == nil {
		t.Error("a token can be given on the command line")
	}
}

func TestFlags(t *testing.T) {
	loaded := mustLoad(t, Sources{Flags: []*Flags{
		flagsOf(t, UpSection, "--nodes", "5", "--resources", "cpu=8,memory=16GiB,user_slots=8", "--port-file=p", "--tags", "a", "--tags", "b,c", "--demo"),
		flagsOf(t, NodeSection, "--heartbeat-period", "1s", "--cgroup-mode=off", "--schedulers", "a:1", "--schedulers", "b:1"),
	}})
	up, node := loaded.Config.Up, loaded.Config.Node
	if up.Nodes.Value() != 5 || up.Resources.Value().String() == "" || strings.Join(up.Tags.Value(), " ") != "a b c" || !up.Demo.Value() ||
		strings.Join(node.Schedulers.Value(), " ") != "a:1 b:1" || node.Cgroup.Mode.Value() != "off" {
		t.Errorf("%+v %+v", up, node)
	}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Bind(set, SchedulerSection)
	err := set.Parse([]string{"--fair-share-update-period", "5ms"})
	if err == nil || !strings.Contains(err.Error(), `"--fair-share-update-period" flag: must be a duration`) {
		t.Errorf("says %v", err)
	}
	usages := set.FlagUsages()
	if !strings.Contains(usages, "--listen string") || !strings.Contains(usages, "(default 127.0.0.1:7070)") && !strings.Contains(usages, `(default "127.0.0.1:7070")`) {
		t.Errorf("--help shows\n%s", usages)
	}
	if lines := strings.Count(usages, "\n"); lines > 25 {
		t.Errorf("--help shows %d settings:\n%s", lines, usages)
	}
}

func TestNamesOfSettingsAreDistinct(t *testing.T) {
	variables, flags := map[string]string{}, map[string]string{}
	for _, s := range Settings() {
		if s.Info.NotSupported != "" {
			continue
		}
		if other, taken := variables[s.Variable()]; taken {
			t.Errorf("%s and %s have one variable", other, s.Path)
		}
		variables[s.Variable()] = s.Path
		if flag := s.Flag(); flag != "" {
			if other, taken := flags[s.Section()+flag]; taken {
				t.Errorf("%s and %s have one flag", other, s.Path)
			}
			flags[s.Section()+flag] = s.Path
		}
		if s.Info.Doc == "" || !strings.HasSuffix(s.Info.Doc, ".") || strings.Contains(s.Info.Doc, "\n") {
			t.Errorf("%s: explained by %q", s.Path, s.Info.Doc)
		}
		if isServiceLink(s.Variable(), "tcp://x") && s.Path != "up/port" {
			t.Errorf("%s looks like a service of Kubernetes", s.Variable())
		}
	}
	if len(variables) < 100 {
		t.Errorf("only %d settings", len(variables))
	}
}

// The printed configuration, read as a file, gives the same configuration.
func TestThePrintedConfigurationReadsBack(t *testing.T) {
	for _, file := range []string{
		"",
		"scheduler: {data_dir: 'on', store: 'sqlite:a b.db', min_spare_allocation_resources_on_node: {cpu: 0.25, memory: 3}}\nnode: {name: '1', data_dir: \"a#b: 'c'\", tags: ['true', x], schedulers: ['[::1]:1']}\nup: {agents: [{name: a, resources: {cpu: 1}}], data_dir: 'C:\\x'}",
	} {
		loaded := mustLoad(t, Sources{Data: []byte(file)})
		text := YAML(loaded.Effective())
		again, _, err := Load(Sources{File: "printed", Data: text})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := sections().table.Diff(&loaded.Config, &again.Config); len(diff) > 0 {
			t.Errorf("%v\n%s", diff, text)
		}
	}
	part := string(YAML(mustLoad(t, Sources{File: "f", Data: []byte("node: {name: n}")}).Effective(NodeSection)))
	if !strings.HasPrefix(part, "node:\n  # schedulers is unset\n  name: n  # f:1\n") || strings.Contains(part, "scheduler:") {
		t.Errorf("printed\n%s", part)
	}
}

func TestOriginsHaveWords(t *testing.T) {
	for _, test := range []struct {
		origin Origin
		want   string
	}{
		{Origin{}, "default"},
		{Origin{From: FromFile, Name: "f", At: document.Position{Line: 3}}, "f:3"},
		{Origin{From: FromFile, Name: "f"}, "f"},
		{Origin{From: FromVariable, Name: "WEIR_X"}, "WEIR_X"},
		{Origin{From: FromFlag, Name: "--x"}, "--x"},
		{Origin{From: FromPatch}, "runtime"},
	} {
		if got := test.origin.String(); got != test.want {
			t.Errorf("%+v is %q, want %q", test.origin, got, test.want)
		}
	}
}

func TestASettingWhoseValueHasKeysIsOneSetting(t *testing.T) {
	count := 0
	for _, s := range Settings() {
		if len(s.Info.Shape.Options) == 0 {
			continue
		}
		count++
		v := document.Map(document.Pair(s.Info.Shape.Options[0].Name, document.Int(1)))
		names := strings.Split(s.Path, "/")
		slices.Reverse(names)
		for _, name := range names {
			v = document.Map(document.Pair(name, v))
		}
		var found []string
		locate(v, sections().table.Options(), "", func(path string, _ document.Position) { found = append(found, path) })
		if !slices.Equal(found, []string{s.Path}) {
			t.Errorf("%s: found %q", s.Path, found)
		}
	}
	if count == 0 {
		t.Error("no setting has such a value")
	}
	const text = "{accounting: {prices: {currency: EUR, prices: [{surplus: {cpu: 1}}]}, budgets: [{name: a, cost: 5}]}}"
	v, err := notation.Parse("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	base := mustLoad(t, Sources{}).Config.Scheduler
	got, _, err := base.Patched(v)
	if err != nil {
		t.Fatal(err)
	}
	if prices := got.Accounting.Prices.Value(); prices.Currency.Value() != "EUR" {
		t.Errorf("the patch gives the prices %+v", prices)
	}
}

// No value of any setting ends the process: it is accepted or refused.
func TestAPatchMayHoldAnything(t *testing.T) {
	base := mustLoad(t, Sources{}).Config.Scheduler
	inner := document.Map(document.Pair("name", document.Text("a")), document.Pair("prices", document.List(document.Map())))
	for _, s := range Settings() {
		names := strings.Split(s.Path, "/")
		if names[0] != SchedulerSection {
			continue
		}
		for _, v := range []document.Value{{}, document.Int(-1), document.Text("x"), document.Bool(true), document.List(), document.List(inner), document.Map(), inner} {
			for i := len(names) - 1; i > 0; i-- {
				v = document.Map(document.Pair(names[i], v))
				if _, _, err := base.Patched(v); err != nil && len(err.(document.Problems)) == 0 {
					t.Errorf("%s: refused without a problem", s.Path)
				}
			}
		}
	}
}
