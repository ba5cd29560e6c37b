package operation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/test/expected"
)

const docsFile = "../../../docs/operations.md"

// The reference in docs/operations.md is generated from the tables, so the two
// cannot differ.
func TestTheReferenceOfOptionsIsUpToDate(t *testing.T) {
	expected.Page(t, docsFile, reference())
}

// TestTheExampleOfTheReferenceIsRight reads the specification at the top of the
// page.
func TestTheExampleOfTheReferenceIsRight(t *testing.T) {
	s, err := parseSpec([]byte(expected.Example(t, docsFile, "")), ReadOptions{Strict: true})
	if err != nil || len(s.Warnings) > 0 {
		t.Errorf("%v, %v", err, s.Warnings)
	}
}

// ofPools returns the options that docs/pools.md describes.
func ofPools() (names []string) {
	for _, row := range pooltree.OperationOptionList() {
		names = append(names, row.Name())
	}
	return names
}

func reference() string {
	var b strings.Builder
	inPools := ofPools()
	inMemory := map[string]bool{}
	for _, o := range memoryTable.Options() {
		inMemory[o.Name] = true
	}
	section := func(title, text string, options []*document.Info, skip func(*document.Info) bool) {
		fmt.Fprintf(&b, "\n%s\n\n%s%s", title, text, expected.OptionsHead)
		for _, o := range options {
			if o.NotSupported == "" && !skip(o) {
				b.WriteString(expected.OptionRow(o, expected.Value(o.Shape)))
			}
		}
	}
	none := func(*document.Info) bool { return false }
	spec, task := Options()
	section("## Options of an operation", "All [options that concern pools](pools.md) apply as well: "+
		expected.Codes(supported(pooltree.OperationTable.Options()))+".\n\n", spec,
		func(o *document.Info) bool { return slices.Contains(inPools, o.Name) || inMemory[o.Name] })
	section("## Options of a task", "", task, func(o *document.Info) bool { return inMemory[o.Name] })
	section("## Memory reserves", "On a task, or at the root of the specification for all tasks that do not set them.\n\n", memoryTable.Options(), none)
	section("### `job_proxy_memory_digest`", "", digestTable.Options(), none)
	section("### `disk_request`", "", diskTable.Options(), none)
	section("### `tmpfs_volumes`, each", "", tmpfsTable.Options(), none)
	section("## `job_cpu_monitor`", "", cpuMonitorTable.Options(), none)
	section("## `external`", "", externalTable.Options(), none)
	section("## What can be changed while an operation runs", "In one tree, "+expected.Codes(treeMutable)+
		". A weight for all trees overrides that of a single tree; the pool of a single tree overrides that for all.\n\n", UpdateOptions(), none)
	lifeCycle(&b)
	abortReasons(&b)
	b.WriteString("\n## Accepted without effect\n\nWeir stores and returns these options of YTsaurus, and warns that they have no effect.\n\n| options | of | why |\n|---|---|---|\n")
	for _, group := range unsupportedSpecOptions {
		fmt.Fprintf(&b, "| %s | operation | %s |\n", expected.Codes(group.names), group.reason)
	}
	for _, group := range unsupportedTaskOptions {
		fmt.Fprintf(&b, "| %s | task | %s |\n", expected.Codes(group.names), group.reason)
	}
	return b.String()
}

func supported(options []*document.Info) (names []string) {
	for _, o := range options {
		if o.NotSupported == "" {
			names = append(names, o.Name)
		}
	}
	return names
}

// lifeCycle writes the table of transitions, one row for each step and target.
func lifeCycle(b *strings.Builder) {
	b.WriteString("\n## Transitions of the life cycle\n\n| step | from | to |\n|---|---|---|\n")
	type arrow struct {
		step Step
		to   State
	}
	var order []arrow
	from := map[arrow][]string{}
	for _, row := range Transitions() {
		a := arrow{row.Step, row.To}
		if from[a] == nil {
			order = append(order, a)
		}
		name := "`" + row.From.String() + "`"
		if row.From == row.To {
			name += " (ignored)"
		}
		for i, way := range row.When {
			name += []string{" (if ", " or "}[min(i, 1)] + strings.ReplaceAll(way.String(), "_", " ")
		}
		if len(row.When) > 0 {
			name += ")"
		}
		from[a] = append(from[a], name)
	}
	for _, a := range order {
		fmt.Fprintf(b, "| %v | %s | `%v` |\n", a.step, strings.Join(from[a], ", "), a.to)
	}
	b.WriteString("| abort | `orphaned` | stays, and becomes `aborting` when it is revived |\n")
}

func abortReasons(b *strings.Builder) {
	b.WriteString("\n## Abort reasons of jobs\n\n")
	var started, before []string
	for r := AbortReason(1); r < AbortReasonCount; r++ {
		if r.BeforeStart() {
			before = append(before, r.String())
		} else {
			started = append(started, r.String())
		}
	}
	fmt.Fprintf(b, "%s.\n\nBefore the job reached its node: %s.\n", expected.Codes(started), expected.Codes(before))
}
