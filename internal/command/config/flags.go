package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/value/document"
)

// Flags are the settings of one section that a command line gave.
type Flags struct {
	layer    layer
	problems document.Problems // about secrets, for Load
}

// Bind adds a flag for every setting of a section to a command. --help shows the common ones; the
// others are hidden but work. Bad values are refused when the command line is parsed. Only Load
// refuses bad values that may hold a password, because command line parsers repeat what they
// refuse. Bind panics if there is no such section.
func Bind(set *pflag.FlagSet, section string) *Flags {
	flags := &Flags{}
	bound := false
	for _, s := range sections().settings {
		if s.Section() != section || s.Flag() == "" {
			continue
		}
		bound = true
		flag := set.VarPF(&flagValue{flags: flags, setting: s}, s.Flag(), "", usage(s))
		flag.Hidden = !s.marks.common
		if s.Info.Shape.Kind == "boolean" {
			flag.NoOptDefVal = "true"
		}
	}
	if !bound {
		panic(fmt.Sprintf("config: there is no section %q", section))
	}
	return flags
}

// usage is the line of a flag in --help.
func usage(s Setting) string {
	text, _, _ := strings.Cut(s.Info.Doc, ". ")
	text = strings.TrimSuffix(text, ".")
	if text != "" {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	if !s.Info.Default.IsNull() && s.Info.Shape.Kind != "boolean" {
		text += fmt.Sprintf(" (default %v)", s.Info.Default)
	}
	return text
}

// flagValue is one flag.
type flagValue struct {
	flags   *Flags
	setting Setting
	text    string
}

// String is empty for flags that were not given; usage shows their defaults.
func (v *flagValue) String() string {
	return v.text
}

// Type is the kind of the flag's value in help.
func (v *flagValue) Type() string {
	shape := v.setting.Info.Shape
	switch {
	case len(shape.Values) > 0:
		return strings.Join(shape.Values, "|")
	case shape.Kind == "boolean":
		return "bool"
	case shape.Kind == "resources":
		return "cpu=8,memory=16GiB"
	case shape.Kind == "list":
		return "a,b"
	}
	return shape.Kind
}

// Set reads the flag. If a flag is repeated, the last value wins; values of a list accumulate.
func (v *flagValue) Set(text string) error {
	s := v.setting
	origin := Origin{From: FromFlag, Name: "--" + s.Flag()}
	if s.Secret() {
		if hasPassword(text) {
			v.flags.problems = append(v.flags.problems, document.Problem{File: origin.Name, Path: s.Path, Rule: RuleExposed, Message: fmt.Sprintf(
				"a password on the command line can be read by everybody on the machine; use %s, the file or store_password_file", s.Variable())})
			return nil
		}
		v.flags.problems = append(v.flags.problems, v.flags.layer.set(s, text, origin)...)
		return nil
	}
	if s.Info.Shape.Kind == "list" && v.text != "" {
		text = v.text + "," + text
	}
	if problems := v.flags.layer.set(s, text, origin); len(problems) > 0 {
		return flagError(problems)
	}
	v.text = text
	return nil
}

// flagError describes problems without their place, because the command line parser names it.
func flagError(problems document.Problems) error {
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.Message)
	}
	return errors.New(strings.Join(messages, "; "))
}
