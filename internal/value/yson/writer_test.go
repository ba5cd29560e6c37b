package yson

import (
	"bytes"
	"errors"
	"io"
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

func TestFragmentsAreWrittenItemByItem(t *testing.T) {
	for _, c := range []struct {
		format     Format
		list, dict string
	}{
		{Text, "{\"a\"=[1;];};\n<\"b\"=#;>2;\n", "\"k\"=1;\n\"l\"={};\n"},
		{Pretty, "{\n    \"a\" = [\n        1;\n    ];\n};\n<\n    \"b\" = #;\n> 2;\n", "\"k\" = 1;\n\"l\" = {};\n"},
		{Binary, "{\x01\x02a=[\x02\x02;];};<\x01\x02b=#;>\x02\x04;", "\x01\x02k=\x02\x02;\x01\x02l={};"},
	} {
		t.Run(c.format.String(), func(t *testing.T) {
			w := NewWriter(nil, c.format, ListFragment)
			w.Node(Map(Pair("a", List(Int64(1)))))
			w.Node(Int64(2).WithAttributes(Pair("b", Entity())))
			if err := w.Close(); err != nil || string(w.Bytes()) != c.list {
				t.Errorf("rows are %q, %v; want %q", w.Bytes(), err, c.list)
			}
			w.Reset(nil, c.format, MapFragment)
			w.Key("k")
			w.Int64(1)
			w.KeyBytes([]byte("l"))
			w.Node(Map())
			if err := w.Close(); err != nil || string(w.Bytes()) != c.dict {
				t.Errorf("entries are %q, %v; want %q", w.Bytes(), err, c.dict)
			}
			w.Reset(nil, c.format, ListFragment)
			if err := w.Close(); err != nil || len(w.Bytes()) != 0 {
				t.Errorf("nothing is %q, %v", w.Bytes(), err)
			}
		})
	}
}

func TestCallsThatDoNotFitAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape Shape
		write func(*Writer)
		want  string
	}{
		{"nothing", Single, func(w *Writer) {}, "not complete"},
		{"an open list", Single, func(w *Writer) { w.BeginList() }, "not complete"},
		{"attributes alone", Single, func(w *Writer) { w.BeginAttributes(); w.EndAttributes() }, "not complete"},
		{"two values", Single, func(w *Writer) { w.Entity(); w.Entity() }, "a second value"},
		{"a value in a map", Single, func(w *Writer) { w.BeginMap(); w.String("a") }, "a value where a key must be"},
		{"a key in a list", Single, func(w *Writer) { w.BeginList(); w.Key("a") }, "a key where none may be"},
		{"two keys", MapFragment, func(w *Writer) { w.Key("a"); w.Key("b") }, "a key where none may be"},
		{"the wrong end", Single, func(w *Writer) { w.BeginList(); w.EndMap() }, `'}' where it closes nothing`},
		{"an end too many", Single, func(w *Writer) { w.BeginList(); w.EndList(); w.EndList() }, `']' where it closes nothing`},
		{"an end behind a key", Single, func(w *Writer) { w.BeginMap(); w.Key("a"); w.EndMap() }, `'}' where it closes nothing`},
		{"attributes twice", Single, func(w *Writer) { w.BeginAttributes(); w.EndAttributes(); w.BeginAttributes() }, "only once"},
		{"too deep", Single, func(w *Writer) {
			for range MaxDepth + 1 {
				w.BeginList()
			}
		}, "deeper than 256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewWriter(nil, Text, c.shape)
			c.write(w)
			if err := w.Close(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
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

func TestAStreamIsCopiedIntoAnotherFormat(t *testing.T) {
	const input = `<a=1>{b=[%true;2u;3.5;#;"x"];<c=d>e={}};`
	text := strings.Replace(input, "<c=d>e={}", "e=<c=d>{}", 1)
	want, err := ParseFragment([]byte(text), ListFragment)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []Format{Text, Pretty, Binary} {
		var out bytes.Buffer
		if err := Copy(NewWriter(&out, format, ListFragment), NewReader(strings.NewReader(text), ListFragment)); err != nil {
			t.Fatal(err)
		}
		if got, err := ParseFragment(out.Bytes(), ListFragment); err != nil || !got.Equal(want) {
			t.Errorf("%v: %q is %v, %v; want %v", format, out.Bytes(), got, err, want)
		}
	}
	if err := Copy(NewWriter(io.Discard, Text, ListFragment), NewReader(strings.NewReader(input), ListFragment)); err == nil {
		t.Error("bad input is copied")
	}
	if err := Copy(NewWriter(io.Discard, Text, Single), NewReader(strings.NewReader("1;2"), ListFragment)); err == nil {
		t.Error("two values are copied into one")
	}
}

func TestABrokenOutputIsReported(t *testing.T) {
	broken := errors.New("the disk is full")
	w := NewWriter(writerFunc(func([]byte) (int, error) { return 0, broken }), Binary, ListFragment)
	for range flushAt {
		w.Int64(1)
	}
	if len(w.Bytes()) > flushAt {
		t.Errorf("the buffer has %d bytes after the output broke", len(w.Bytes()))
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestBuffersThatAreKeptNeedNoMemory(t *testing.T) {
	n, _ := orchid()
	n = Map(n.Entries()[:20]...)
	text, err := Append(nil, n, Text)
	if err != nil {
		t.Fatal(err)
	}
	var r Reader
	var w Writer
	var in bytes.Reader
	buffer := make([]byte, 0, 2*len(text))
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"Append", func() error { _, err := Append(buffer, n, Text); return err }},
		{"AppendJSON", func() error { _, err := AppendJSON(buffer, n, JSONOptions{}); return err }},
		{"Copy", func() error {
			in.Reset(text)
			r.Reset(&in, Single)
			w.Reset(io.Discard, Binary, Single)
			return Copy(&w, &r)
		}},
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
