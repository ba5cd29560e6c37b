package notation

import (
	"testing"

	"github.com/weirhq/weir/internal/value/document"
)

// checkStable checks that v is the same after writing and reading it in each notation.
func checkStable(t *testing.T, v document.Value) {
	yaml, err := YAML(v)
	if err != nil {
		t.Fatalf("%v cannot be written as YAML: %v", v, err)
	}
	if back, err := ParseYAML("", yaml); err != nil || !back.Equal(v) {
		t.Fatalf("YAML %q reads as %v, %v; want %v", yaml, back, err, v)
	}
	json, err := v.JSON("")
	if err != nil { // NaN and infinities
		return
	}
	if back, err := ParseJSON("", json); err != nil || !back.Equal(v) {
		t.Fatalf("JSON %q reads as %v, %v; want %v", json, back, err, v)
	}
}

func FuzzParseYAML(f *testing.F) {
	for _, seed := range []string{
		"", "a: 1\nb: [x, 2.5, null]\n", "a: &x {b: 1}\nc: {<<: *x, d: 'q'}\n", "? a\n: b\n", "a: |\n  text\n  more\n",
		"%YAML 1.2\n---\na: .nan\n", "a: !!str 5", "- - - 1", "a: 0x1F\nb: 0o7\nc: 1_0", "\ufeffa: 1", "a: \"\\u0085\"", "[a, b]: c",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseYAML("f", data)
		if err != nil {
			problemOf(t, err)
			return
		}
		checkStable(t, v)
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{
		`null`, `{"a": [1, 2.5, -0, 1e5, true, "x\u00e9\ud83d\ude00"], "b": {}}`, `[[[]]]`, `"\ud800"`, `18446744073709551615`,
		`{"a":1,"a":2}`, `[1,]`, `{"a"}`, `1 2`, ` `, `{"":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseJSON("f", data)
		if err != nil {
			problemOf(t, err)
			return
		}
		checkStable(t, v)
	})
}
