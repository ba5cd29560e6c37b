package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type answer struct {
	Name   string            `json:"name"`
	Share  float64           `json:"share"`
	Vector []float64         `json:"vector"`
	Tags   map[string]string `json:"tags"`
	Inner  []inner           `json:"inner"`
}

type inner struct {
	ID string `json:"id"`
}

// tricky holds values that a careless YAML writer gets wrong.
var tricky = answer{
	Name:   "true",
	Share:  1e-9,
	Vector: []float64{0, 0.5, 1},
	Tags:   map[string]string{},
	Inner:  []inner{{ID: "<Root>"}, {ID: "12"}, {ID: "a: b\nc"}},
}

func TestPrintFollowsTheFormat(t *testing.T) {
	for _, test := range []struct {
		format outputFormat
		want   string
	}{
		{outputTable, "for people\n"},
		{outputJSON, `{
  "name": "true",
  "share": 1e-9,
  "vector": [
    0,
    0.5,
    1
  ],
  "tags": {},
  "inner": [
    {
      "id": "<Root>"
    },
    {
      "id": "12"
    },
    {
      "id": "a: b\nc"
    }
  ]
}
`},
		{outputYAML, `name: "true"
share: 1e-9
vector: [0, 0.5, 1]
tags: {}
inner:
  - id: <Root>
  - id: "12"
  - id: |-
      a: b
      c
`},
	} {
		t.Run(string(test.format), func(t *testing.T) {
			var out bytes.Buffer
			opts := options{output: test.format}
			err := opts.print(&out, tricky, func(w io.Writer) error {
				_, err := io.WriteString(w, "for people\n")
				return err
			})
			if err != nil || out.String() != test.want {
				t.Errorf("error %v, got:\n%s\nwant:\n%s", err, out.String(), test.want)
			}
		})
	}
}

func TestYAMLCarriesTheSameValuesAsJSON(t *testing.T) {
	var asJSON, asYAML bytes.Buffer
	if err := writeJSON(&asJSON, tricky); err != nil {
		t.Fatal(err)
	}
	if err := writeYAML(&asYAML, tricky); err != nil {
		t.Fatal(err)
	}
	var fromYAML any
	if err := yaml.Unmarshal(asYAML.Bytes(), &fromYAML); err != nil {
		t.Fatal(err)
	}
	var again, original any
	back, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(back, &again); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(asJSON.Bytes(), &original); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(again)
	b, _ := json.Marshal(original)
	if !bytes.Equal(a, b) {
		t.Errorf("through YAML: %s\nfrom JSON:    %s", a, b)
	}
}

func TestTableAlignsWhatIsVisible(t *testing.T) {
	var out bytes.Buffer
	table := newTable(&out)
	table.alignRight(1)
	table.row("pool", "share", "note")
	table.row(colour(styleBold, "продакшен"), "1.5", "")
	table.row("b", colour(styleRed, "10.25"), "x")
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	want := "pool       share  note\n" +
		colour(styleBold, "продакшен") + "    1.5\n" +
		"b          " + colour(styleRed, "10.25") + "  x\n"
	if out.String() != want {
		t.Errorf("got:\n%q\nwant:\n%q", out.String(), want)
	}
}

func TestColoursOnlyOnATerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for _, test := range []struct {
		name     string
		w        io.Writer
		noColor  string
		term     string
		coloured bool
	}{
		{"a buffer", &bytes.Buffer{}, "", "xterm", false},
		{"a file", file, "", "xterm", false},
		{"a terminal", device, "", "xterm", true},
		{"a terminal with NO_COLOR", device, "1", "xterm", false},
		{"a dumb terminal", device, "", "dumb", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", test.noColor)
			t.Setenv("TERM", test.term)
			painted := painter(test.w)(styleGreen, "ok")
			if got := strings.Contains(painted, "\x1b["); got != test.coloured {
				t.Errorf("coloured = %v, want %v (%q)", got, test.coloured, painted)
			}
		})
	}
}

func TestVersionInJSON(t *testing.T) {
	code, out, _ := call("version", "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); code != ExitOK || err != nil {
		t.Fatalf("exit code %d, %v: %q", code, err, out)
	}
	for _, key := range []string{"version", "go", "platform"} {
		if value, _ := got[key].(string); value == "" {
			t.Errorf("no %q in %s", key, out)
		}
	}
}
