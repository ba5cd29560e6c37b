package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/journal"
)

func TestAJournalIsExportedReplayedAndAsked(t *testing.T) {
	b := newTestbed(t, 1)
	b.pool("research", "", "")
	code, stdout, stderr := b.withInput("{pool: research, alias: '*nightly', tasks: {map: {command: 'sleep 1000', job_count: 40, cpu_limit: 1, memory_limit: 100000000}}}", "op", "start", "-f", "-")
	if code != ExitOK {
		t.Fatal(stdout, stderr)
	}
	id := strings.TrimSpace(stdout)
	directory := t.TempDir()
	file := filepath.Join(directory, "a.journal")
	b.until(func() bool {
		b.ok("journal", "export", file)
		code, stdout, _ = b.call("replay", file, "explain", "*nightly")
		return code == ExitOK && strings.Contains(stdout, "node_resources")
	}, "the journal has the operation, and it waits")
	if list := b.ok("journal", "list"); !strings.Contains(list, "is being written") {
		t.Error(list)
	}
	if _, _, stderr := b.call("replay", file); !strings.Contains(stderr, "as recorded") {
		t.Error(stderr)
	}
	for question, want := range map[string]string{"pools": "research", "shares": "BY WEIGHT", "explain pool:research": "lacked", "explain cluster": "tree default"} {
		if out := b.ok(append([]string{"replay", file}, strings.Fields(question)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", question, out)
		}
	}
	if code, stdout, stderr = b.withInput("changes: [{pool: research, set: {weight: 3}}]", "replay", file, "what-if", "-"); code != ExitOK || !strings.Contains(stdout, "Nothing was changed") {
		t.Error(stdout, stderr)
	}
	early := b.refused("replay", file, "--until", "2020-01-01", "pools")
	if !strings.Contains(early, ", after 2020-01-01T00:00:00.000000Z") {
		t.Error(early)
	}
	if text := b.refused("replay", file, "explain", "*nobody"); !strings.Contains(text, "knows no operation *nobody") {
		t.Error(text)
	}

	// The same time again, with other pools.
	b.until(func() bool {
		b.ok("journal", "export", file)
		pools := filepath.Join(directory, "pools.yaml")
		if err := os.WriteFile(pools, []byte("pools: {research: {resource_limits: {cpu: 2}}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr = b.call("replay", file, "--with", pools)
		if code != ExitOK && !strings.Contains(stderr, "after its first update") {
			t.Fatal(stderr)
		}
		return code == ExitOK
	}, "the journal has more than a second")
	if !regexp.MustCompile(`Jobs started 8 / 8 / \d`).MatchString(stdout) || !strings.Contains(stdout, "research") {
		t.Error(stdout, stderr)
	}

	// A past moment of the live scheduler.
	now := time.Now().UTC().Format(time.RFC3339Nano)
	b.until(func() bool {
		code, stdout, stderr = b.call("explain", "*nightly", "--at", now)
		return code == ExitOK && strings.Contains(stdout, "node_resources")
	}, "the moment is in the journal")
	if text := b.refused("explain", "*nightly", "--at", "2020-01-01"); !strings.Contains(text, "nothing about this time") {
		t.Error(text)
	}

	// Without names the decisions are the same.
	anonymous, names := filepath.Join(directory, "b.journal"), filepath.Join(directory, "names.txt")
	b.ok("journal", "export", anonymous, "--anonymous", names)
	out := b.ok("replay", anonymous, "pools")
	mapped, err := os.ReadFile(names)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "research") || !strings.Contains(string(mapped), "\tresearch\n") || !strings.Contains(string(mapped), id) {
		t.Errorf("%s\n%s", out, mapped)
	}

	// Files that are no journals, cut or damaged ones are named as such.
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(name string, data []byte) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if text := b.refused("replay", wrong("text", []byte("pools: {}"))); !strings.Contains(text, "does not start like a journal") {
		t.Error(text)
	}
	damaged := append([]byte{}, whole...)
	damaged[len(damaged)/2] ^= 1
	if text := b.refused("replay", wrong("damaged", damaged)); !strings.Contains(text, "damaged") {
		t.Error(text)
	}
	if code, _, stderr := b.call("replay", wrong("cut", whole[:len(whole)-3])); code != ExitOK || !strings.Contains(stderr, "ends inside a frame") {
		t.Error(code, stderr)
	}
	old := append([]byte{}, whole...)
	old[7] = 9
	if text := b.refused("replay", wrong("old", old)); !strings.Contains(text, "version 9") {
		t.Error(text)
	}
	if text := b.refused("replay", wrong("back", clockSetBack(t))); !strings.Contains(text, "before the end of the one in front of it") {
		t.Error(text)
	}
}

// clockSetBack is a journal whose second segment starts before the first one ends.
func clockSetBack(t *testing.T) []byte {
	t.Helper()
	types, err := journal.NewTypes()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	framer, encoder := journal.NewFramer(types), journal.NewEncoder(types, now)
	file := framer.AppendStart(nil, &journal.Header{Build: "test", Start: now}, nil)
	file = framer.AppendRecords(file, encoder.End(nil, now.Add(time.Hour), journal.EndGap))
	return framer.AppendStart(file, &journal.Header{Number: 1, Start: now.Add(time.Minute)}, nil)
}
