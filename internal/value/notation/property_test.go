package notation

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/document"
)

// anyValue draws a value that can be written as text.
func anyValue(depth int) *rapid.Generator[document.Value] {
	return rapid.Custom(func(t *rapid.T) document.Value {
		kinds := 6
		if depth > 0 {
			kinds = 8
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return document.Null()
		case 1:
			return document.Bool(rapid.Bool().Draw(t, "bool"))
		case 2:
			return document.Int(rapid.Int64().Draw(t, "int"))
		case 3:
			return document.Uint(rapid.Uint64Min(1<<63).Draw(t, "uint"))
		case 4:
			return document.Float(rapid.Float64().Draw(t, "float"))
		case 5:
			return document.Text(rapid.String().Draw(t, "text"))
		case 6:
			return document.List(rapid.SliceOfN(anyValue(depth-1), 0, 4).Draw(t, "items")...)
		}
		keys := rapid.SliceOfNDistinct(rapid.String(), 0, 4, rapid.ID).Draw(t, "keys")
		var entries []document.Entry
		for _, key := range keys {
			entries = append(entries, document.Pair(key, anyValue(depth-1).Draw(t, "value")))
		}
		return document.Map(entries...)
	})
}

func TestWhatIsWrittenReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(3).Draw(t, "value")
		yaml, err := YAML(v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseYAML("", yaml)
		if err != nil || !back.Equal(v) {
			t.Fatalf("YAML %q reads as %v, %v; want %v", yaml, back, err, v)
		}
		text, err := v.JSON("")
		if err != nil {
			t.Fatal(err)
		}
		back, err = ParseJSON("", text)
		if err != nil || !back.Equal(v) {
			t.Fatalf("JSON %q reads as %v, %v; want %v", text, back, err, v)
		}
	})
}
