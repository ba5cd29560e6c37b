package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/weirhq/weir/test/expected"
)

// typed splits a command line into arguments as a shell does.
func typed(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-c", `weir() { printf '%s\0' "$@"; }; `+line).Output()
	if err != nil {
		t.Fatalf("bash does not take %s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// documentsCommands are all command lines of the five documents, with weir instead
// of yt. <pool-tree> and <pool> are placeholders.
var documentsCommands = []struct {
	line string
	// looks lists paths and parts of their values afterwards.
	looks [][2]string
}{
	{`weir set //sys/pools/root-pool/burst/@integral-guarantees/resource_flow "{cpu=100}"`, [][2]string{
		{"//sys/pools/root-pool/burst/@integral_guarantees/resource_flow/cpu", "100"},
		{"//sys/pools/root-pool/burst/@integral-guarantees/resource_flow", `"cpu" = 100;`},
	}},
	{`   weir set //sys/pools/root-pool/burst/@integral-guarantees "
   {
     guarantee_type=burst;
     resource_flow={cpu=1000};
     burst_guarantee_resources={cpu=2000}
   }"`, [][2]string{
		{"//sys/pools/root-pool/burst/@integral_guarantees/guarantee_type", `"burst"`},
		{"//sys/scheduler/orchid/scheduler/pool_trees/default/pools/burst/integral_guarantee_type", `"burst"`},
		{"//sys/scheduler/orchid/scheduler/pool_trees/default/pools/burst/specified_resource_flow/cpu", "1000"},
		{"//sys/scheduler/orchid/scheduler/pool_trees/default/pools/burst/specified_burst_guarantee_resources/cpu", "2000"},
	}},
	{`    weir set //sys/pools/root-pool/relaxed/@integral-guarantees "
    {
      guarantee_type=relaxed;
      resource_flow={cpu=1000}
    }"`, [][2]string{
		{"//sys/scheduler/orchid/scheduler/pool_trees/default/pools/relaxed/integral_guarantee_type", `"relaxed"`},
		{"//sys/scheduler/orchid/scheduler/pool_trees/default/pools/relaxed/specified_resource_flow/cpu", "1000"},
	}},
	// The pool can save one day of a flow of 1000 cores: 86,400,000 cpu·s.
	{`weir get //sys/scheduler/orchid/scheduler/pool_trees/<pool-tree>/pools/<pool>/integral_pool_capacity`, [][2]string{
		{"//sys/scheduler/orchid/scheduler/pool_trees/default/pools/burst/integral_pool_capacity/cpu", "86400000"},
	}},
}

func TestTheDocumentsCommandsWorkAsTyped(t *testing.T) {
	b := newTestbed(t, 2)
	// The documents leave the parent's guarantee open. It must cover those of its children.
	b.ok("create", "scheduler_pool", "--attributes", "{name=root-pool; integral_guarantees={resource_flow={cpu=2000}; burst_guarantee_resources={cpu=2000}}}")
	b.ok("create", "scheduler_pool", "--attributes", "{name=burst; parent_name=root-pool}")
	b.ok("create", "scheduler_pool", "--attributes", "{name=relaxed; parent_name=root-pool}")
	names := strings.NewReplacer("<pool-tree>", "default", "<pool>", "burst")
	for _, command := range documentsCommands {
		line := names.Replace(command.line)
		b.ok(typed(t, line)...)
		for _, look := range command.looks {
			b.until(func() bool {
				code, out, _ := b.call("get", look[0])
				return code == ExitOK && strings.Contains(out, look[1])
			}, "after %s: %s is not %s", line, look[0], look[1])
		}
	}
}

// until repeats a check until it holds. The scheduler publishes its state every few
// milliseconds, later on a busy machine or with a slow disk.
func (b *testbed) until(holds func() bool, format string, args ...any) {
	b.t.Helper()
	if !expected.Soon(holds) {
		b.t.Fatalf(format, args...)
	}
}

func TestValuesOfTheCommandLine(t *testing.T) {
	b := newTestbed(t, 0)
	b.ok("create", "map_node", "//home/a", "-r")
	for _, test := range []struct {
		name  string
		value []string
		input string
		want  string
	}{
		{"YSON", []string{"{x=[1;2u;%true;#;\"s\"]}"}, "", `{"x":[1,2,true,null,"s"]}`},
		{"JSON", []string{`{"x": [1, 2.5, true, null, "s"]}`}, "", `{"x":[1,2.5,true,null,"s"]}`},
		{"a word is a string", []string{"hello"}, "", `"hello"`},
		{"true is a string, as for yt", []string{"true"}, "", `"true"`},
		{"true in JSON", []string{"true", "--format", "json"}, "", `true`},
		{"text", []string{`"пул"`}, "", `"пул"`},
		{"a dash is the standard input", []string{"-"}, "{y=1}\n", `{"y":1}`},
		{"nothing is the standard input", nil, `{"y": 2}`, `{"y":2}`},
		{"an empty string", []string{`""`}, "", `""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := b.withInput(test.input, append([]string{"set", "//home/a/@custom"}, test.value...)...)
			if code != ExitOK || out != "" || errs != "" {
				t.Fatalf("exit code %d, stdout %q, stderr %q", code, out, errs)
			}
			got := strings.Join(strings.Fields(b.ok("get", "//home/a/@custom", "--format", "json")), "")
			if got != test.want {
				t.Errorf("is %s, want %s", got, test.want)
			}
		})
	}
	for _, test := range []struct{ value, want string }{
		{"{a=", "neither YSON nor JSON"},
		{`{"a": 1, }`, "JSON at line 1, column 10"},
		{" ", "the value is empty"},
	} {
		if said := b.refused("set", "//home/a/@custom", test.value); !strings.Contains(said, test.want) {
			t.Errorf("%q: said %q, want %q in it", test.value, said, test.want)
		}
	}
}

func TestPathCommands(t *testing.T) {
	b := newTestbed(t, 0)
	if id := b.ok("create", "map_node", "//home/a/b", "-r"); !scrubbers[0].what.MatchString(id) {
		t.Errorf("create printed %q, want an id", id)
	}
	b.ok("create", "map_node", "//home/a/b", "-i")
	b.ok("set", "//home/a/b/x", "{k=1}")
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"get", []string{"get", "//home/a/b/x"}, ExitOK, "{\n    \"k\" = 1;\n}\n"},
		{"get in the server's words", []string{"get", "//home/a/b/x", "--format", "<format=text>yson"}, ExitOK, "{\"k\"=1;}\n"},
		{"get as JSON", []string{"get", "//home/a/b/x", "-o", "json"}, ExitOK, "{\n  \"k\": 1\n}\n"},
		{"get as YAML", []string{"get", "//home/a/b/x", "-o", "yaml"}, ExitOK, "k: 1\n"},
		{"get with an attribute", []string{"get", "//home/a/b", "--attribute", "type", "--format", "<format=text>yson"}, ExitOK,
			`<"type"="map_node";>{"x"=<"type"="map_node";>{"k"=<"type"="int64_node";>1;};}` + "\n"},
		{"list", []string{"list", "//home/a"}, ExitOK, "b\n"},
		{"list whole paths", []string{"ls", "//home/a", "--absolute"}, ExitOK, "//home/a/b\n"},
		{"list with attributes", []string{"list", "//home/a", "--attribute", "type,count"}, ExitOK, "NAME  TYPE      COUNT\nb     map_node  1\n"},
		{"list as YSON", []string{"list", "//home/a", "-o", "yson"}, ExitOK, "[\n    \"b\";\n]\n"},
		{"what is there", []string{"exists", "//home/a/b"}, ExitOK, "true\n"},
		{"what is not", []string{"exists", "//home/a/c"}, ExitFailed, "false\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if code, out, errs := b.call(test.args...); code != test.code || out != test.want || errs != "" {
				t.Errorf("exit code %d, stderr %q, stdout %q; want %q", code, errs, out, test.want)
			}
		})
	}
	b.ok("copy", "//home/a", "//home/c")
	b.ok("mv", "//home/c", "//home/d")
	b.ok("link", "//home/d", "//home/e")
	if out := b.ok("list", "//home/e/b"); out != "x\n" {
		t.Errorf("after copy, move and link: %q", out)
	}
	if said := b.refused("remove", "//home/d"); !strings.Contains(said, "//home/d") {
		t.Errorf("a node with children: %q", said)
	}
	b.ok("rm", "//home/d", "-r")
	b.ok("rm", "//home/d", "-f")
}

func TestRefusalsOfPathsAreUseful(t *testing.T) {
	b := newTestbed(t, 0)
	b.pool("a", "<Root>", "")
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"nothing there", []string{"get", "//sys/nope"}, []string{"weir: Error resolving path //sys/nope (code 500)\n", "\n  Node //sys has no child with key \"nope\" (code 500)\n"}},
		{"a value of another kind", []string{"set", "//sys/pools/a/@weight", "heavy"}, []string{"weight"}},
		{"a boolean as JSON has it", []string{"set", "//sys/pools/a/@forbid_immediate_operations", "true"}, []string{"In YSON true is a string; the boolean is %true."}},
		{"a pool twice", []string{"create", "scheduler_pool", "--attributes", "{name=a}"}, []string{"already has a child \"a\" (code 501)"}},
		{"a guarantee without one above", []string{"create", "scheduler_pool", "--attributes", "{name=b; parent_name=a; strong_guarantee_resources={cpu=1}}"},
			[]string{"is explicitly configured at child pool", "but is not configured at parent"}},
		{"a parent that is not there", []string{"create", "scheduler_pool", "--attributes", "{name=b; parent_name=nobody}"}, []string{"nobody", "does not exist"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			said := b.refused(test.args...)
			for _, want := range test.want {
				if !strings.Contains(said, want) {
					t.Errorf("said:\n%s\nwant in it %q", said, want)
				}
			}
		})
	}
	t.Run("what is taken with a warning", func(t *testing.T) {
		code, out, errs := b.call("set", "//sys/pools/a/@weigth", "2")
		if code != ExitOK || out != "" || !strings.HasPrefix(errs, "weir: warning: pools/a/weigth: unknown option") {
			t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
		}
	})
}

func TestWrongCallsOfPathCommands(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"get"}, "get takes one path, got 0 arguments"},
		{[]string{"get", "sys/pools"}, `"sys/pools" is not a path: paths start with //`},
		{[]string{"get", "//sys", "--format", "xml"}, "--format must be json, yson"},
		{[]string{"set"}, "set takes a path and a value"},
		{[]string{"create", "user", "--attributes", "name"}, "--attributes must be a map"},
		{[]string{"create", "user", "--attributes", "{"}, "--attributes: the value is neither YSON nor JSON"},
		{[]string{"move", "//a"}, "move takes two paths"},
		{[]string{"op", "get"}, "get takes one operation"},
		{[]string{"run"}, "run needs a command"},
		{[]string{"run", "--memory", "much", "--", "true"}, "--memory:"},
		{[]string{"run", "--jobs", "0", "--", "true"}, "--jobs must be at least 1"},
		{[]string{"pools", "--resource", "time"}, "--resource must be cpu"},
		{[]string{"apply"}, `apply needs a file: -f pools.yaml`},
		{[]string{"apply", "pools.yaml"}, `name the file with -f: weir apply -f pools.yaml`},
		{[]string{"diff", "-f", "a", "b"}, `diff takes no arguments, got "b"`},
		{[]string{"export", "default", "--tree", "default"}, `takes one tree name`},
		{[]string{"completion", "csh"}, `completion takes one shell: bash, zsh, fish or powershell`},
		{[]string{"context", "set", "x", "--addr", "http://"}, `is not the address of a scheduler`},
		{[]string{"run", "--env", "NOT_SET_ANYWHERE", "--", "true"}, `give NOT_SET_ANYWHERE=VALUE`},
		{[]string{"restore", "x"}, "give either --data-dir or --store"},
		{[]string{"events", "--follow", "--interval", "1ms"}, "--interval must be at least 100ms"},
		{[]string{"context", "set", "x"}, "needs an address"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, out, errs := call(test.args...)
			if code != ExitWrongCall || out != "" || !strings.Contains(errs, test.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, out, errs, test.want)
			}
		})
	}
}
