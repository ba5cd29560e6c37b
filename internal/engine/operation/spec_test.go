package operation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/resource"
	"github.com/weirhq/weir/test/expected"
)

func mustParse(t testing.TB, text string) *Specification {
	t.Helper()
	s, err := parseSpec([]byte(text), ReadOptions{File: "spec.yaml"})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

func mustSpec(t testing.TB, text string) *Spec {
	t.Helper()
	return mustParse(t, text).Spec
}

const smallest = "tasks: {main: {job_count: 1, command: 'true'}}\n"

func yamlOf(t testing.TB, v document.Value) string {
	t.Helper()
	text, err := notation.YAML(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheResultingSpecificationHasEveryDefault(t *testing.T) {
	s := mustSpec(t, smallest)
	want := `tasks:
  main:
    job_count: 1
    command: "true"
    copy_files: false
    cpu_limit: 1
    gpu_limit: 0
    memory_limit: 512MiB
    network_limit: 0
    network: host
    artifacts_on: finished
    max_artifact_size: 1GiB
    max_artifact_count: 10000
    restore_artifacts: false
    user_job_memory_digest_default_value: 0.5
    user_job_memory_digest_lower_bound: 0.05
    ignore_memory_reserve_factor_less_than_one: false
    job_proxy_memory_digest:
      lower_bound: 0.5
      upper_bound: 2
      default_value: 1
      relative_precision: 0.01
    prepare_time_limit: 45m
    signal_root_process_only: false
    restart_completed_jobs: false
    fail_on_job_restart: false
    make_rootfs_writable: false
    set_container_cpu_limit: false
    include_memory_mapped_files: true
    max_stderr_size: 5MiB
    redirect_stdout_to_stderr: false
schedule_in_single_tree: false
consider_guarantees_for_single_tree: false
erase_trees_with_pool_limit_violations: false
apply_specified_resource_limits_to_demand: false
is_gang: false
preemption_mode: normal
enable_limiting_ancestor_check: true
max_failed_job_count: 10
fail_on_job_restart: false
suspend_on_job_failure: false
ban_nodes_with_failed_jobs: false
ignore_job_failures_at_banned_nodes: false
fail_on_all_nodes_banned: true
time_limit_job_fail_timeout: 2m
suspend_operation_after_materialization: false
require_specified_pools_existence: false
max_stderr_count: 10
job_cpu_monitor:
  enable_cpu_reclaim: false
  check_period: 1s
  start_delay: 0s
  smoothing_factor: 0.1
  relative_upper_bound: 0.9
  relative_lower_bound: 0.6
  increase_coefficient: 1.45
  decrease_coefficient: 0.97
  vote_window_size: 5
  vote_decision_threshold: 3
  min_cpu_limit: 1
user_job_memory_digest_default_value: 0.5
user_job_memory_digest_lower_bound: 0.05
ignore_memory_reserve_factor_less_than_one: false
job_proxy_memory_digest:
  lower_bound: 0.5
  upper_bound: 2
  default_value: 1
  relative_precision: 0.01
`
	if diff := cmp.Diff(want, yamlOf(t, s.Document(document.ForPeople))); diff != "" {
		t.Errorf("resulting specification (-want +got):\n%s", diff)
	}
}

func TestProvidedResultingAndUnrecognizedAreKeptApart(t *testing.T) {
	const text = `weigth: 2
tasks:
  a: {job_count: 1, command: x, cpu-limit: 2, colour: red, system_layer_path: //base}
  b: {job_count: 1, command: x}
job-cpu-monitor: {check_period: 500, votes: 7}
experiment_overrides: [x]
`
	s := mustParse(t, text)
	provided, err := notation.ParseYAML("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Provided.Equal(provided) {
		t.Errorf("provided: %v", s.Provided)
	}
	const unrecognized = "weigth: 2\njob_cpu_monitor:\n  votes: 7\ntasks:\n  a:\n    colour: red\n"
	if got := yamlOf(t, s.Unrecognized); got != unrecognized {
		t.Errorf("unrecognized:\n%s\nwant\n%s", got, unrecognized)
	}
	result := yamlOf(t, s.Spec.Document(document.ForPrograms))
	for _, part := range []string{"cpu_limit: 2\n", "check_period: 500\n", "system_layer_path:", "experiment_overrides:"} {
		if !strings.Contains(result, part) {
			t.Errorf("the resulting specification lacks %q:\n%s", part, result)
		}
	}
	for _, part := range []string{"weigth", "colour", "votes: 7", "cpu-limit"} {
		if strings.Contains(result, part) {
			t.Errorf("the resulting specification has %q:\n%s", part, result)
		}
	}
	const warnings = `spec.yaml:1:1: weigth: unknown option; it is kept but has no effect; did you mean "weight"?
spec.yaml:3:47: tasks/a/colour: unknown option; it is kept but has no effect
spec.yaml:3:60: tasks/a/system_layer_path: not supported: images come from docker_image
spec.yaml:5:38: job-cpu-monitor/votes: unknown option; it is kept but has no effect
spec.yaml:6:1: experiment_overrides: not supported: there are no experiments`
	if diff := cmp.Diff(warnings, s.Warnings.Error()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestOptionsOutOfScopeAreKeptWithAWarning(t *testing.T) {
	for _, text := range []string{
		"tentative_pool_trees: [a]", "probing_ratio: 0.1", "probing_pool_tree: x", "scheduling_segment: large_gpu", "scheduling_modules: [a]",
		"allow_offloading: true", "max_speculative_job_count_per_task: 3", "job_speculation_timeout: 5", "try_avoid_duplicating_jobs: true",
		"experiment_overrides: []", "controller_agent_tag: x", "max_probing_job_count_per_task: 1", "use_default_tentative_pool_trees: true",
		"tentative_tree_eligibility: {}", "suspend_operation_if_account_limit_exceeded: true", "job_fails_tolerance: {}",
	} {
		s := mustParse(t, smallest+text)
		name, _, _ := strings.Cut(text, ":")
		if len(s.Warnings) != 1 || s.Warnings[0].Rule != document.RuleNotSupported || s.Warnings[0].Path != name {
			t.Errorf("%s: warnings %v", text, s.Warnings)
		}
		if _, kept := s.Spec.Document(document.ForPrograms).Get(name); !kept {
			t.Errorf("%s: not kept", text)
		}
		if len(s.Unrecognized.Entries()) > 0 {
			t.Errorf("%s: unrecognized", text)
		}
	}
}

func TestSecretsAreNotStored(t *testing.T) {
	s := mustParse(t, smallest+"secure-vault: {token: hunter2}")
	for _, v := range []document.Value{s.Provided, s.Spec.Document(document.ForPrograms), s.Unrecognized} {
		if strings.Contains(v.String(), "hunter2") {
			t.Errorf("the secret is in %v", v)
		}
	}
	if len(s.Warnings) != 1 || strings.Contains(s.Warnings.Error(), "hunter2") {
		t.Errorf("warnings: %v", s.Warnings)
	}
}

func TestTheAccountForRegistriesIsReadAndShownNowhere(t *testing.T) {
	s := mustParse(t, smallest+"secure_vault: {docker_auth: {username: ann-of-x, password: hunter2}}")
	if s.Account != (Account{"ann-of-x", "hunter2"}) || len(s.Warnings) != 0 {
		t.Errorf("warnings: %v", s.Warnings)
	}
	for _, text := range []string{s.Provided.String(), s.Spec.Document(document.ForPrograms).String(), fmt.Sprintf("%v %+v %#v %s", s.Account, s.Account, s.Account, s.Account)} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "ann-of-x") {
			t.Errorf("the account is in %s", text)
		}
	}
	for _, bad := range []string{
		"hunter2", "{docker_auth: hunter2}", "{docker_auth: {username: ann}}", "{docker_auth: {password: hunter2}}", "{docker_auth: {username: ann, password: 7}}",
		"{docker_auth: {username: '', password: hunter2}}", "{docker_auth: {username: ann, password: ''}}", "{docker_auth: {username: ann, password: hunter2, more: hunter2}}",
	} {
		_, err := Read(expected.Document(t, smallest+"secure_vault: "+bad), ReadOptions{})
		if err == nil || !strings.Contains(err.Error(), "secure_vault") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestSettingsOfPoolsMayStandAtTheRootOfASpecification(t *testing.T) {
	s := mustSpec(t, smallest+`
weight: 2
max_share_ratio: 0.25
resource_limits: {user_slots: 200}
fair-share_preemption_timeout: 40s
min_share_preemption_timeout: 20s
fair-share_starvation_tolerance: 0.7
max_unpreemptible_allocation_count: 0
`)
	if s.Weight.Value() != 2 || s.MaxShareRatio.Value() != 0.25 || s.FairSharePreemptionTimeout.Value() != 40*time.Second ||
		s.MinSharePreemptionTimeout.Value() != 20*time.Second || s.FairShareStarvationTolerance.Value() != 0.7 ||
		s.MaxUnpreemptableRunningJobCount != document.Some(0) {
		t.Errorf("%+v", s.SchedulingOptions)
	}
	if slots, ok := s.ResourceLimits.Value().Get(resource.UserSlots); !ok || slots != 200 {
		t.Errorf("resource_limits: %v", s.ResourceLimits.Value())
	}
}

func TestLimitsMayDifferFromTreeToTree(t *testing.T) {
	s := mustSpec(t, smallest+`
pool_trees: [a, b]
max_share_ratio: 0.5
pool: research
scheduling_options_per_pool_tree:
  b: {max_share_ratio: 0.1, resource_limits: {cpu: 5}}
`)
	if a := s.For("a"); a.MaxShareRatio.Value() != 0.5 || a.ResourceLimits.IsSet() || a.Pool.Value() != "research" {
		t.Errorf("tree a: %+v", a)
	}
	if b := s.For("b"); b.MaxShareRatio.Value() != 0.1 || b.ResourceLimits.Value().OrZero()[resource.CPU] != 500 || b.Pool.Value() != "research" {
		t.Errorf("tree b: %+v", b)
	}
}

func TestMemoryReserveFactorSetsBothDigestOptions(t *testing.T) {
	cases := []struct {
		name, root, task string
		value, lower     float64
		reserve          int64 // of a limit of 1000 bytes
	}{
		{"nothing given", "", "", 0.5, 0.05, 500},
		{"first guess", "", "user_job_memory_digest_default_value: 0.8", 0.8, 0.05, 800},
		{"lower bound above the guess", "", "user_job_memory_digest_lower_bound: 0.9", 0.9, 0.9, 900},
		{"factor", "", "memory_reserve_factor: 0.3", 0.3, 0.3, 300},
		{"factor beside a guess", "", "memory_reserve_factor: 0.3, user_job_memory_digest_default_value: 0.8", 0.3, 0.3, 300},
		{"factor that is ignored", "", "memory_reserve_factor: 0.3, ignore_memory_reserve_factor_less_than_one: true", 0.5, 0.05, 500},
		{"factor of one is not ignored", "", "memory_reserve_factor: 1, ignore_memory_reserve_factor_less_than_one: true", 1, 1, 1000},
		{"given for all tasks", "user_job_memory_digest_default_value: 0.7", "", 0.7, 0.05, 700},
		{"task wins", "user_job_memory_digest_default_value: 0.7", "user_job_memory_digest_default_value: 0.2", 0.2, 0.05, 200},
		{"factor of the task wins", "user_job_memory_digest_default_value: 0.7", "memory_reserve_factor: 0.3", 0.3, 0.3, 300},
		{"factor for all tasks", "memory_reserve_factor: 0.4", "", 0.4, 0.4, 400},
		{"guess of the task over the factor for all", "memory_reserve_factor: 0.4", "user_job_memory_digest_default_value: 0.9", 0.9, 0.4, 900},
		{"ignored for all tasks", "ignore_memory_reserve_factor_less_than_one: true", "memory_reserve_factor: 0.3", 0.5, 0.05, 500},
		{"tmpfs raises both", "", "tmpfs_path: tmp, tmpfs_size: 700", 0.7, 0.7, 700},
		{"tmpfs without a size is all memory", "", "tmpfs_path: tmp", 1, 1, 1000},
		{"tmpfs below the guess", "", "tmpfs_volumes: [{path: a, size: 100}, {path: b, size: 200}]", 0.5, 0.3, 500},
		{"tmpfs above the factor", "", "tmpfs_path: tmp, tmpfs_size: 333, memory_reserve_factor: 0.1", 0.333, 0.333, 333},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := mustSpec(t, c.root+"\ntasks: {a: {job_count: 1, command: x, memory_limit: 1000, "+c.task+"}}")
			task := &s.Tasks[0].Value
			if task.Memory.DigestDefaultValue.Value() != c.value || task.Memory.DigestLowerBound.Value() != c.lower {
				t.Errorf("default %v, lower bound %v; want %v, %v", task.Memory.DigestDefaultValue.Value(), task.Memory.DigestLowerBound.Value(), c.value, c.lower)
			}
			if got := New(s, clock).NextReserve(0).User; got != c.reserve {
				t.Errorf("reserve %d, want %d", got, c.reserve)
			}
			checkReadsBack(t, s, document.ForPeople)
			if got := task.JobResources(7)[resource.Memory]; got != 7 {
				t.Errorf("a job with 7 bytes takes %d", got)
			}
		})
	}
}

func TestTasksKeepTheOrderOfTheDocument(t *testing.T) {
	s := mustSpec(t, `tasks:
  zebra: {job_count: 1, command: x}
  ant: {job_count: 2, command: x}
  mule: {job_count: 3, command: x}
`)
	var names []string
	for _, task := range s.Tasks {
		names = append(names, task.Name)
	}
	if got := strings.Join(names, " "); got != "zebra ant mule" || s.JobCount() != 6 {
		t.Errorf("%s, %d jobs", got, s.JobCount())
	}
}

func TestStrictReadingRefusesUnknownOptions(t *testing.T) {
	_, err := parseSpec([]byte("tasks: {a: {job_count: 1, cmmand: x}}\npoll: x"), ReadOptions{Strict: true, CommandOptional: true})
	want := `1:27: tasks/a/cmmand: unknown option; did you mean "command"?` + "\n" + `2:1: poll: unknown option; did you mean "pool"?`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestASimulationNeedsNoCommand(t *testing.T) {
	if _, err := parseSpec([]byte("tasks: {a: {job_count: 5}}"), ReadOptions{CommandOptional: true}); err != nil {
		t.Error(err)
	}
}

func TestReadingTheResultingSpecificationGivesTheSame(t *testing.T) {
	for _, file := range goodFiles(t) {
		s := mustParse(t, expected.Read(t, file))
		for _, style := range []document.Style{document.ForPeople, document.ForPrograms} {
			checkReadsBack(t, s.Spec, style)
		}
	}
}

func checkReadsBack(t testing.TB, s *Spec, style document.Style) {
	t.Helper()
	written := s.Document(style)
	back, err := Read(written, ReadOptions{Strict: true, CommandOptional: true})
	if err != nil {
		t.Fatalf("the resulting specification is refused: %v\n%v", err, written)
	}
	if changes := Changes(s, back.Spec); len(changes) > 0 {
		t.Fatalf("the resulting specification reads with changes %v\n%v", changes, written)
	}
}

func TestParametersThatMayChange(t *testing.T) {
	base := mustSpec(t, smallest+`
pool: research
weight: 1
annotations: {a: 1, b: 2}
scheduling_options_per_pool_tree: {x: {pool: px, weight: 5, max_share_ratio: 0.3}, y: {pool: py}}
`)
	cases := []struct{ name, update, want string }{
		{"nothing", "{}", ""},
		{"weight for all trees wins over that of a tree", "weight: 2",
			"weight: 1 → 2\nscheduling_options_per_pool_tree: {x: {pool: px, weight: 5, max_share_ratio: 0.3}, y: {pool: py}} → {x: {pool: px, max_share_ratio: 0.3}, y: {pool: py}}"},
		{"and over one that comes with it", "weight: 2\nscheduling_options_per_pool_tree: {z: {weight: 9}}",
			"weight: 1 → 2\nscheduling_options_per_pool_tree: {x: {pool: px, weight: 5, max_share_ratio: 0.3}, y: {pool: py}} → {x: {pool: px, max_share_ratio: 0.3}, y: {pool: py}, z: {}}"},
		{"pool of a tree wins over that for all", "pool: p\nscheduling_options_per_pool_tree: {y: {pool: other}}",
			"pool: research → p\nscheduling_options_per_pool_tree: {x: {pool: px, weight: 5, max_share_ratio: 0.3}, y: {pool: py}} → {x: {weight: 5, max_share_ratio: 0.3}, y: {pool: other}}"},
		{"limits of a tree", "scheduling_options_per_pool_tree: {y: {resource_limits: {cpu: 3}}}",
			"scheduling_options_per_pool_tree: {x: {pool: px, weight: 5, max_share_ratio: 0.3}, y: {pool: py}} → {x: {pool: px, weight: 5, max_share_ratio: 0.3}, y: {pool: py, resource_limits: {cpu: 3}}}"},
		{"filter", "scheduling_tag: a & b", "scheduling_tag_filter: unset → \"a & b\"\n" +
			"scheduling_options_per_pool_tree: {x: {pool: px, weight: 5, max_share_ratio: 0.3}, y: {pool: py}} → {x: {pool: px, weight: 5, max_share_ratio: 0.3, scheduling_tag_filter: \"a & b\"}, y: {pool: py, scheduling_tag_filter: \"a & b\"}}"},
		{"annotations are patched", "annotations: {a: null, c: 3}", "annotations: {a: 1, b: 2} → {b: 2, c: 3}"},
		{"annotations are taken away", "annotations: null", "annotations: {a: 1, b: 2} → unset"},
		{"failures and access", "max_failed_job_count: 3\nacl: [{action: allow}]", "acl: unset → [{action: allow}]\nmax_failed_job_count: 10 → 3"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v, err := notation.ParseYAML("", []byte(c.update))
			if err != nil {
				t.Fatal(err)
			}
			before := base.Document(document.ForPrograms)
			u, _, err := ReadUpdate(v, "")
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, change := range Changes(base, base.With(u)) {
				lines = append(lines, change.String())
			}
			if diff := cmp.Diff(c.want, strings.Join(lines, "\n")); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if !before.Equal(base.Document(document.ForPrograms)) {
				t.Error("the specification itself was changed")
			}
		})
	}
}

func TestParametersThatMayNotChange(t *testing.T) {
	v, err := notation.ParseYAML("u", []byte(`tasks: {}
time-limit: 5
wieght: 2
weight: -1
scheduling_options_per_pool_tree: {x: {max_share_ratio: 0.5, pol: 1}}
`))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = ReadUpdate(v, "u")
	want := `u:1:1: tasks: cannot be changed while the operation runs
u:2:1: time-limit: cannot be changed while the operation runs
u:3:1: wieght: unknown option; did you mean "weight"?
u:4:9: weight: must be a number from 0 to 67108864, not -1
u:5:40: scheduling_options_per_pool_tree/x/max_share_ratio: cannot be changed while the operation runs
u:5:62: scheduling_options_per_pool_tree/x/pol: unknown option; did you mean "pool"?`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestASpecificationThatNoProcessCanStartWithIsRefused(t *testing.T) {
	long := strings.Repeat("x", 128<<10)
	for _, c := range []struct{ name, task, path, message string }{
		{"a zero byte in the command", `command: "a\0b"`, "tasks/a/command", "zero byte"},
		{"a command that is too long", "command: " + long, "tasks/a/command", "131072 bytes"},
		{"a zero byte in a variable", `command: x, environment: {A: "a\0b"}`, "tasks/a/environment", `"A" has a zero byte`},
		{"a variable that is too long", "command: x, environment: {A: " + long + "}", "tasks/a/environment", `"A" has 131074 bytes`},
		{"variables that are too long together", "command: x, environment: {" + func() string {
			var list []string
			for i := range 10 {
				list = append(list, fmt.Sprintf("V%d: %s", i, long[:110<<10]))
			}
			return strings.Join(list, ", ")
		}() + "}", "tasks/a/environment", "together"},
		{"a zero byte in a tmpfs path", `command: x, tmpfs_path: "a\0b"`, "tasks/a/tmpfs_path", "inside the sandbox"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseSpec([]byte("tasks: {a: {job_count: 1, "+c.task+"}}"), ReadOptions{})
			var problems document.Problems
			if !errors.As(err, &problems) || len(problems) != 1 {
				t.Fatalf("got %v, want one problem", err)
			}
			if p := problems[0]; p.Path != c.path || !strings.Contains(p.Message, c.message) {
				t.Errorf("got %s: %s, want %s: …%s…", p.Path, p.Message, c.path, c.message)
			}
		})
	}
	mustSpec(t, "tasks: {a: {job_count: 1, command: "+long[:128<<10-1]+"}}") // the longest allowed
}
