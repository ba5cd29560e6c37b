package config

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
)

// checkLoad loads sources that may be invalid: they are refused with problems, or
// the configuration is the same after printing and reading it.
func checkLoad(t interface{ Fatalf(string, ...any) }, sources Sources) {
	loaded, _, err := Load(sources)
	if err != nil {
		var problems document.Problems
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Fatalf("refused with %T: %v", err, err)
		}
		for _, p := range problems {
			if p.Rule == "" || p.Message == "" {
				t.Fatalf("a problem without a rule or a sentence: %+v", p)
			}
		}
		return
	}
	text := YAML(loaded.Effective())
	again, _, err := Load(Sources{Data: text})
	if err != nil {
		t.Fatalf("the printed configuration is refused: %v\n%s", err, text)
	}
	for _, change := range sections().table.Diff(&loaded.Config, &again.Config) {
		s, known := find(change.Option)
		if known && !s.Secret() && s.Info.NotSupported == "" {
			t.Fatalf("printing loses %v\n%s", change, text)
		}
	}
	if changes, err := Runtime(&loaded.Config, &loaded.Config); err != nil || len(changes) > 0 {
		t.Fatalf("a configuration differs from itself: %v, %v", changes, err)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""},
		{"scheduler: {listen: ':7070', log: {level: debug}}", "WEIR_NODE_TAGS=a,b"},
		{"node: {schedulers: a:1, resources: {cpu: 1.5, memory: 1GiB}}", "WEIR_UP_RESOURCES=cpu=8,memory=16GiB"},
		{"up: {agents: [{name: a, tags: [x]}]}", "WEIR_SCHEDULER_STORE=postgres://u:p@h/d"},
		{"scheduler: {watchers_update_period: 1s, retention: {stderr: 1ms}}", "WEIR_UP_AGENTS=[{name: a}]"},
		{`{"scheduler": {"store": "sqlite:x#y"}}`, "WEIR_SCHEDULER_DATA_DIR=a: #b"},
		{"scheduler: [1]", "WEIR_UP_PORT=1e3"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, file, variables string) {
		checkLoad(t, Sources{File: "f", Data: []byte(file), Environ: strings.Split(variables, "\x00")})
	})
}

// A value has the same meaning in a file, in an environment variable and in a flag.
func TestSourcesAgree(t *testing.T) {
	var settings []Setting
	for _, s := range Settings() {
		if s.Info.NotSupported == "" && s.Flag() != "" && !s.Secret() {
			settings = append(settings, s)
		}
	}
	words := rapid.SampledFrom([]string{
		"1", "0", "17", "0.5", "1.5", "-1", "true", "off", "200ms", "30s", "1d", "5", "1MiB", "64KiB", "info", "text", "json", "auto",
		"v2", "127.0.0.1:7070", ":80", "a:1", "a", "a,b", "cpu=1,memory=2GiB", "{cpu: 3}", "[x, y]", "documented", "", "x y", "1e3", "nan",
	})
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(settings).Draw(t, "setting")
		text := words.Draw(t, "text")
		if text == "" {
			return // a variable that is empty is unset
		}
		var variable, flag layer
		ofVariable := variable.set(s, text, Origin{From: FromVariable, Name: "V"})
		ofFlag := (&flagValue{flags: &Flags{}, setting: s}).Set(text)
		if (len(ofVariable) == 0) != (ofFlag == nil) {
			t.Fatalf("%s = %q: variable %v, flag %v", s.Path, text, ofVariable, ofFlag)
		}
		if len(ofVariable) > 0 {
			return
		}
		printed := sections().table.Write(&variable.config, document.ForPeople)
		yaml, err := notation.YAML(printed)
		if err != nil {
			t.Fatal(err)
		}
		l, _, problems := readFile("f", yaml)
		if len(problems) > 0 {
			t.Fatalf("%s: %v", yaml, problems)
		}
		flag.config = l.config
		if diff := sections().table.Diff(&variable.config, &flag.config); len(diff) > 0 {
			t.Fatalf("%s = %q: %v", s.Path, text, diff)
		}
		checkLoad(t, Sources{Environ: []string{s.Variable() + "=" + text}})
	})
}
