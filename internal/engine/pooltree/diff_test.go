package pooltree

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/internal/value/document"
)

func TestDiffTellsEveryChange(t *testing.T) {
	from := mustParse(t, `
main_resource: cpu
fair_share_starvation_tolerance: 0.8
pools:
  production: {weight: 1, min_share_resources: {cpu: 100}, integral_guarantees: {resource_flow: {cpu: 1}, guarantee_type: relaxed}}
  research:
    pools: {batch: , daily: , weekly: }
  adhoc: {weight: 2}
`)
	to := mustParse(t, `
fair_share_starvation_tolerance: 0.7
pools:
  research:
    pools: {weekly: , daily: }
  production:
    weight: 2
    min_share_resources: {cpu: 100}
    integral_guarantees: {resource_flow: {cpu: 2.5}, guarantee_type: relaxed}
    fair-share_preemption_timeout: 1m
    pools: {batch: , etl: {weight: 2, mode: fifo}}
`)
	want := `~ tree: main_resource: cpu → unset
~ tree: fair_share_starvation_tolerance: 0.8 → 0.7
- pool adhoc (in <Root>)
+ pool etl (in production): weight: 2, mode: fifo
> pool batch: research → production
~ pool production: weight: 1 → 2
~ pool production: integral_guarantees/resource_flow: {cpu: 1} → {cpu: 2.5}
~ pool production: fair_share_preemption_timeout: unset → 1m
# pools in <Root>: order changed
# pools in research: order changed
`
	changes := Diff(from, to)
	if diff := cmp.Diff(want, changes.String()); diff != "" {
		t.Error(diff)
	}
	if changes.IsEmpty() || Equal(from, to) || !Equal(from, from) || !Diff(to, to).IsEmpty() {
		t.Error("equality is wrong")
	}
}

func TestDiffDoesNotSeeSpelling(t *testing.T) {
	a := mustParse(t, "pools: {a: {strong_guarantee_resources: {cpu: 1, user_memory: 1024}, fair_share_starvation_timeout: 60000, scheduling_tag: 'x&y', mode: fair-share}}")
	b := mustParse(t, "pools: [{name: a, min_share_resources: {cpu: 1.0, memory: 1KiB}, fair-share_preemption_timeout: 1m, scheduling_tag_filter: '(x & y)', mode: fair_share}]")
	if changes := Diff(a, b); !changes.IsEmpty() {
		t.Errorf("differences:\n%v", changes)
	}
}

func TestUnsetIsNotTheDefault(t *testing.T) {
	a := mustParse(t, "pools: {a: {weight: 1, resource_limits: {}, integral_guarantees: {guarantee_type: none}}}")
	b := mustParse(t, "pools: {a: {}}")
	if got, want := Diff(a, b).String(), "~ pool a: weight: 1 → unset\n~ pool a: resource_limits: {} → unset\n~ pool a: integral_guarantees/guarantee_type: none → unset\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestDocumentsForPeopleAndForPrograms(t *testing.T) {
	tree := mustParse(t, "fair_share_preemption_timeout: 60000\npools: {a: {resource_limits: {cpu: 1.50, memory: 68719476736, user_slots: 5, gpu: unlimited}, weight: 2.0, config_preset: []}}")
	for style, want := range map[document.Style]string{
		document.ForPeople:   "{fair_share_preemption_timeout: 1m, pools: {a: {weight: 2, resource_limits: {user_slots: 5, cpu: 1.5, gpu: unlimited, memory: 64GiB}, config_presets: []}}}",
		document.ForPrograms: "{fair_share_preemption_timeout: 60000, pools: {a: {weight: 2, resource_limits: {user_slots: 5, cpu: 1.5, gpu: unlimited, memory: 68719476736}, config_presets: []}}}",
	} {
		if got := tree.Document(style).String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
