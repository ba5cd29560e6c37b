package jobproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/node/cgroup"
	"github.com/weirhq/weir/internal/value/cpumonitor"
)

// monitorOptions are the documented ones, fifty times as fast.
func monitorOptions() cpumonitor.Options {
	o := cpumonitor.DefaultOptions()
	o.EnableReclaim, o.CheckPeriod, o.MinCPULimit = true, 20*time.Millisecond, 0.1
	return o
}

func TestAKeptStreamIsItsHeadAndItsTail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	rapid.Check(t, func(t *rapid.T) {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		limit := rapid.Int64Range(0, 100_000).Draw(t, "limit")
		k := newKeeper(dir, "stderr", limit)
		var all []byte
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			piece := make([]byte, rapid.IntRange(0, 40_000).Draw(t, "size"))
			for i := range piece {
				piece[i] = byte((len(all) + i) * 7919 >> 3)
			}
			if n, err := k.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
			all = append(all, piece...)
			out, err := ReadOutput(dir, "stderr", limit)
			if err != nil {
				t.Fatal(err)
			}
			kept := int64(len(out.Head) + len(out.Tail))
			switch {
			case out.Size != int64(len(all)) || out.Skipped != out.Size-kept:
				t.Fatalf("size %d, skipped %d, kept %d of %d", out.Size, out.Skipped, kept, len(all))
			case !bytes.HasPrefix(all, out.Head) || !bytes.HasSuffix(all, out.Tail):
				t.Fatalf("head %d or tail %d is not of what was written", len(out.Head), len(out.Tail))
			case kept > limit || kept < min(int64(len(all)), limit*3/4):
				t.Fatalf("%d bytes are kept of %d, the limit is %d", kept, len(all), limit)
			case int64(len(all)) <= limit/2 && !bytes.Equal(out.Text(), all):
				t.Fatalf("a short stream is not kept whole")
			}
		}
		k.Close()
	})
}

func TestRequestedMemoryFollowsTheRule(t *testing.T) {
	start := time.Unix(1000, 0)
	w := newMemoryWatch(Memory{Limit: 1000, Allocation: 500, Ahead: 100, UserReserve: 300}, 1, start)
	for i, step := range []struct {
		sample    memorySample
		requested int64
		verdict   memoryVerdict
	}{
		{memorySample{user: 100, volumes: []int64{50}, proxy: 50}, 500, memoryVerdict{}},
		{memorySample{user: 350, volumes: []int64{0}, proxy: 50}, 500, memoryVerdict{}}, // 400 and 100 ahead are just what was requested
		{memorySample{user: 351, volumes: []int64{0}, proxy: 50}, 501, memoryVerdict{grown: true}},
		{memorySample{user: 10, volumes: []int64{0}, proxy: 50}, 501, memoryVerdict{}},
		{memorySample{user: 500, volumes: []int64{500}, proxy: 50}, 1150, memoryVerdict{grown: true}}, // at the limit, not above it
		{memorySample{user: 501, volumes: []int64{500}, proxy: 50}, 1151, memoryVerdict{grown: true, limitExceeded: true}},
	} {
		verdict := w.observe(start.Add(time.Duration(i+1)*time.Second), step.sample)
		if verdict != step.verdict || w.requested != step.requested {
			t.Errorf("step %d: %+v, requested %d; want %+v, %d", i, verdict, w.requested, step.verdict, step.requested)
		}
	}
	if w.maxUser != 501 || w.maxTmpfs != 500 || w.maxProxy != 50 || w.userTime != 1812 || w.proxyTime != 300 {
		t.Errorf("%+v", w)
	}
}

func TestRequestedMemoryNeverFallsAndCoversUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, 1<<40)
		m := Memory{Allocation: amount.Draw(t, "allocation"), Ahead: amount.Draw(t, "ahead"), Limit: amount.Draw(t, "limit")}
		now := time.Unix(0, 0)
		w := newMemoryWatch(m, 1, now)
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "passed")) * time.Second)
			before := w.requested
			s := memorySample{user: amount.Draw(t, "user"), volumes: []int64{amount.Draw(t, "tmpfs")}, proxy: amount.Draw(t, "proxy")}
			verdict := w.observe(now, s)
			if w.requested < before || w.requested < m.Allocation || w.requested < s.user+s.tmpfs()+s.proxy+m.Ahead ||
				verdict.grown != (w.requested > before) || verdict.limitExceeded != (m.Limit > 0 && s.user+s.tmpfs() > m.Limit) {
				t.Fatalf("%+v: %+v, requested %d after %d", s, verdict, w.requested, before)
			}
		}
	})
}

func TestUserMemoryLeavesMappedTmpfsOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		usage   cgroup.Usage
		tmpfs   int64
		exclude bool
		want    int64
	}{
		{"anonymous and a mapped file", cgroup.Usage{Anonymous: 100, Mapped: 50, Cache: 70}, 0, false, 150},
		{"mapped files are not wanted", cgroup.Usage{Anonymous: 100, Mapped: 50, Cache: 70}, 0, true, 100},
		{"a mapped file of tmpfs", cgroup.Usage{Anonymous: 100, Mapped: 50, Cache: 50, Shared: 50}, 50, false, 100},
		{"shared memory is not tmpfs", cgroup.Usage{Anonymous: 100, Mapped: 50, Cache: 50, Shared: 50}, 0, false, 150},
		{"some of each", cgroup.Usage{Anonymous: 100, Mapped: 90, Cache: 80, Shared: 60}, 50, false, 130},
	} {
		if got := userMemory(c.usage, c.tmpfs, c.exclude); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestProxyOverdraft(t *testing.T) {
	now := time.Unix(0, 0)
	for _, c := range []struct {
		memory Memory
		want   string
	}{
		{Memory{ProxyReserve: 10, Footprint: 20}, ""},
		{Memory{ProxyReserve: 10, Footprint: 20, ProxyOvercommit: 70}, ""},
		{Memory{ProxyReserve: 10, Footprint: 20, ProxyOvercommit: 69}, "job_proxy"},
		{Memory{ProxyReserve: 10, Footprint: 20, UserReserve: 5, AbortOnOverdraft: true}, "job_proxy"},
		{Memory{ProxyReserve: 10, Footprint: 90, UserReserve: 5, AbortOnOverdraft: true}, ""},
		{Memory{ProxyReserve: 10, Footprint: 90, UserReserve: 4, AbortOnOverdraft: true}, "user_job"},
	} {
		if got := newMemoryWatch(c.memory, 0, now).observe(now, memorySample{user: 5, proxy: 100}).overdraft; got != c.want {
			t.Errorf("%+v: %q, want %q", c.memory, got, c.want)
		}
	}
}

func validDescription() *Description {
	return &Description{Version: DescriptionVersion, JobID: "1-2-3-4", Command: "true"}
}

func TestDescriptionsSurviveWritingAndReading(t *testing.T) {
	options := monitorOptions()
	code := 7
	d := validDescription()
	d.Files = []File{{Path: "a", Content: []byte{0, 255}, Executable: true}}
	d.Tmpfs = []Tmpfs{{Path: "t", Size: 5}}
	d.Credential, d.CPUMonitor, d.RestartExitCode = &Credential{1, 2}, &options, &code
	d.TimeLimit, d.AcceptedAt = Duration(1500*time.Millisecond), time.Unix(1e9, 5).UTC()
	d.Container = Container{Parent: "weir", Mode: cgroup.Hybrid}
	d.Memory.OOMScoreAdj = cgroup.MaxOOMScore
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeDescription(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back); diff != "" {
		t.Error(diff)
	}
}

func TestBadDescriptionsAreRefusedWithEveryProblem(t *testing.T) {
	d := &Description{
		Version: 2, JobID: "../x", Environment: []Variable{{"A=B", ""}}, CPULimit: -1, Stdin: []byte("x"), StdinPath: "y",
		Files: []File{{Path: "../out"}, {Path: "/abs"}, {Path: "."}, {Path: "a", Content: []byte("x"), Source: "y"}},
		Tmpfs: []Tmpfs{{"a", 1}, {"a/b", 1}, {"../c", 0}}, Interruption: Interruption{Signal: "NOPE"},
		Memory: Memory{Limit: -1, OOMScoreAdj: cgroup.StartOOMScore}, CPUMonitor: &cpumonitor.Options{},
	}
	err := d.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{
		"version:", "job_id:", "command:", "environment/0:", "cpu_limit:", "stdin:", "files/0/path:", "files/1/path:", "files/2/path:", "files/3:",
		"tmpfs_volumes/1/path:", "tmpfs_volumes/2/path:", "tmpfs_volumes/2/size:", "interruption/signal:", "memory/memory_limit:", "job_cpu_monitor:",
		"memory/oom_score_adj_on_exceeded_memory_reserve: is 300, must be above 300",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("nothing about %s in\n%v", part, err)
		}
	}
	for _, text := range []string{``, `{}`, `{"version":2}`, `{"version":1,"job_id":"a","command":"b","surprise":1}`, `[]`} {
		if _, err := DecodeDescription([]byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

func TestPathsOfMountsAreRead(t *testing.T) {
	for text, want := range map[string]string{`/a\040b\134c`: `/a b\c`, `/plain`: `/plain`, `\9`: `\9`, `end\`: `end\`} {
		if got := unescape(text); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func FuzzDecodeDescription(f *testing.F) {
	text, _ := json.Marshal(validDescription())
	f.Add(text)
	f.Add([]byte(`{"version":1,"job_id":"a","command":"b","tmpfs_volumes":[{"path":".","size":1}],"job_time_limit":"1h"}`))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := DecodeDescription(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeDescription(again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if third, err := json.Marshal(back); err != nil || !bytes.Equal(third, again) {
			t.Fatalf("%s\n%s, %v", again, third, err)
		}
	})
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte(`{"command":"interrupt","timeout":"30s","reason":"preemption"}`))
	f.Add([]byte(`{"command":"abort"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var order Order
		if json.Unmarshal(line, &order) == nil && order.check() == nil && (order.Timeout < 0 || order.Command == Abort && order.Reason == "") {
			t.Errorf("%+v was taken", order)
		}
	})
}

func TestMappingsAreRead(t *testing.T) {
	for line, want := range map[string]mapping{
		"00400000-01668000 r-xp 00000000 fe:00 9994611   /usr/bin/weir": {from: 0x400000, to: 0x1668000, fromFile: true},
		"02a53000-02fe5000 rw-p 02653000 fe:00 9994611   /usr/bin/weir": {from: 0x2a53000, to: 0x2fe5000, writable: true, fromFile: true},
		"7ffd1c3f5000-7ffd1c416000 rw-p 00000000 00:00 0  [stack]":      {from: 0x7ffd1c3f5000, to: 0x7ffd1c416000, writable: true},
		"c000000000-c000400000 rw-p 00000000 00:00 0":                   {from: 0xc000000000, to: 0xc000400000, writable: true},
	} {
		if got, ok := parseMapping(line); !ok || got != want {
			t.Errorf("%s: %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"", "Rss:                 120 kB", "VmFlags: rd ex mr mw me sd a b", "9-1 r-xp 0 0 0 /x"} {
		if got, ok := parseMapping(line); ok {
			t.Errorf("%q is %+v", line, got)
		}
	}
}

// A program that has freed everything can allocate it again.
func TestAProgramGoesOnAfterShrinking(t *testing.T) {
	for range 20 {
		if err := shrink(); err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(validDescription()); err != nil || len(text) == 0 {
			t.Fatal(err)
		}
	}
}
