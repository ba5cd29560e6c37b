package yson

import (
	"math"
	"strings"
	"testing"
)

func TestWritingGivesTheNotation(t *testing.T) {
	pool := Map(
		Pair("weight", Double(2)),
		Pair("resource_limits", Map(Pair("cpu", Int64(100)), Pair("memory", Uint64(1)))),
		Pair("tags", List(String("a"), Map(), List())),
		Pair("empty", Entity()),
	).WithAttributes(Pair("type", String("scheduler_pool")), Pair("x", Boolean(true).WithAttributes(Pair("y", Boolean(false)))))
	for _, c := range []struct {
		name   string
		node   Node
		format Format
		want   string
	}{
		{"the entity", Entity(), Text, `#`},
		{"a double that is whole", Double(1000000), Text, `1000000.`},
		{"a small double", Double(1e-7), Text, `1e-07`},
		{"a large double", Double(1e21), Text, `1e+21`},
		{"a double with all its digits", Double(0.1), Text, `0.1`},
		{"no number", Double(math.NaN()), Text, `%nan`},
		{"negative infinity", Double(math.Inf(-1)), Text, `%-inf`},
		{"a string that needs escapes", String("a\"b\\c\n\r\t\x00\x7f\x80п"), Text, `"a\"b\\c\n\r\t\x00\x7F\x80\xD0\xBF"`},
		{"a pool as text", pool, Text,
			`<"type"="scheduler_pool";"x"=<"y"=%false;>%true;>{"weight"=2.;"resource_limits"={"cpu"=100;"memory"=1u;};"tags"=["a";{};[];];"empty"=#;}`},
		{"a pool as people like it", pool, Pretty, `<
    "type" = "scheduler_pool";
    "x" = <
        "y" = %false;
    > %true;
> {
    "weight" = 2.;
    "resource_limits" = {
        "cpu" = 100;
        "memory" = 1u;
    };
    "tags" = [
        "a";
        {};
        [];
    ];
    "empty" = #;
}`},
		{"binary", List(String("ab"), Int64(-3), Uint64(300), Double(1.5), Boolean(true), Boolean(false), Entity(), Map(Pair("k", Int64(1)))), Binary,
			"[\x01\x04ab;\x02\x05;\x06\xac\x02;\x03\x00\x00\x00\x00\x00\x00\xf8\x3f;\x05;\x04;#;{\x01\x02k=\x02\x02;};]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Append([]byte("before "), c.node, c.format)
			if err != nil || string(got) != "before "+c.want {
				t.Errorf("got %s, %v\nwant before %s", got, err, c.want)
			}
		})
	}
}

func TestNodesTooDeepToReadAreNotWritten(t *testing.T) {
	n := List()
	for range MaxDepth {
		n = List(n)
	}
	for _, format := range []Format{Text, Pretty, Binary} {
		if _, err := Append(nil, n, format); err == nil {
			t.Errorf("%v writes %d levels", format, MaxDepth+1)
		}
	}
	if _, err := AppendJSON(nil, n, JSONOptions{}); err == nil || !strings.Contains(err.Error(), "deeper than 256") {
		t.Errorf("JSON: %v", err)
	}
	if got := n.String(); !strings.Contains(got, "deeper than 256") {
		t.Errorf("as a string it is %.50s", got)
	}
}

func TestBuffersThatAreKeptNeedNoMemory(t *testing.T) {
	n, _ := orchid()
	n = Map(n.Entries()[:20]...)
	text, err := Append(nil, n, Text)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 0, 2*len(text))
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"Append", func() error { _, err := Append(buffer, n, Text); return err }},
		{"AppendJSON", func() error { _, err := AppendJSON(buffer, n, JSONOptions{}); return err }},
	} {
		allocations := testing.AllocsPerRun(20, func() {
			if err := c.run(); err != nil {
				t.Fatal(c.name, err)
			}
		})
		if allocations != 0 {
			t.Errorf("%s allocates %v times", c.name, allocations)
		}
	}
}
