package journal

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/value/resource"
)

// TestGatesArePlayedAndRenamed writes gates, plays them, and exports them without names.
func TestGatesArePlayedAndRenamed(t *testing.T) {
	types := typesOf(t)
	e, framer := NewEncoder(types, noon), NewFramer(types)
	gates := &Gates{
		Cluster: []Gate{{Code: "scheduler_reviving", Since: noon, Until: noon.Add(time.Minute), Nodes: []string{"node-b"}}},
		Nodes:   []NodeGate{{Node: 1, Name: "node-a", Code: "banned", Resources: resource.Amounts{resource.CPU: 100}, Tags: []string{"ssd"}}},
	}
	records := e.Input(nil, noon, &core.SettingsInput{Settings: core.DefaultSettings()}, false, Outcome{})
	records = e.Gates(records, noon.Add(time.Second), gates)
	records = e.End(records, noon.Add(2*time.Second), EndTerm)
	file := framer.AppendRecords(framer.AppendStart(nil, &Header{Build: "test", Start: noon}, nil), records)

	p := NewPlayer(bytes.NewReader(file))
	if err := p.Until(noon); err != nil || p.Gates != nil {
		t.Errorf("before they close: %+v, %v", p.Gates, err)
	}
	if err := p.Until(time.Time{}); err != nil || !reflect.DeepEqual(p.Gates, gates) || !gates.Same(p.Gates) || gates.Same(&Gates{}) {
		t.Errorf("played: %+v, %v", p.Gates, err)
	}
	var anonymous bytes.Buffer
	names, err := Anonymise(types, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }, func(frame []byte) error {
		anonymous.Write(frame)
		return nil
	})
	if err != nil || len(names.Entries()) != 3 {
		t.Fatalf("%+v %v", names, err)
	}
	p = NewPlayer(&anonymous)
	if err := p.Until(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if g := p.Gates; g.Nodes[0].Name != "node-0001" || g.Cluster[0].Nodes[0] != "node-0002" || g.Nodes[0].Tags[0] != "tag-0001" || g.Nodes[0].Code != "banned" {
		t.Errorf("anonymous: %+v", g)
	}
	cut := framer.AppendRecords(framer.AppendStart(nil, &Header{Start: noon}, nil), []byte{0, gatesTag, 9, '{'})
	if err := NewPlayer(bytes.NewReader(cut)).Until(time.Time{}); err == nil || !strings.Contains(err.Error(), "gates of a moment are incomplete") {
		t.Errorf("cut: %v", err)
	}
}
