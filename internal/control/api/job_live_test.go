package api

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/wire"
	"github.com/weirhq/weir/internal/value/yson"
)

func TestBadShellsAreRefusedWithAReason(t *testing.T) {
	for parameters, want := range map[string]string{
		`{command=5}`:                           "command",
		`{arguments=[a;5]}`:                     "arguments",
		`{command=a;arguments=[b]}`:             "exclude each other",
		`{environment=[secret-without-a-sign]}`: "NAME=VALUE",
		`{environment=["=x"]}`:                  "NAME=VALUE",
		`{environment=["A=\x00"]}`:              "NAME=VALUE",
		`{command="a\x00b"}`:                    "zero byte",
		`{height=-1}`:                           "height must be between",
		`{width=1000000}`:                       "width must be between",
		`{inactivity_timeout=-5}`:               "inactivity_timeout",
		`{terminal=maybe}`:                      "terminal",
		`{command="` + strings.Repeat("x", maxShellRequest+1) + `"}`: "more than",
	} {
		node, err := yson.Parse([]byte(parameters))
		if err != nil {
			t.Fatal(err)
		}
		_, err = readShellRequest(wire.Parameters{Node: node})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60s: %v", parameters, err)
		}
	}
	node, err := yson.Parse([]byte(`{term=xterm;height=24;width=80;environment=["A=b=c"];inactivity_timeout=60000}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := readShellRequest(wire.Parameters{Node: node})
	if err != nil || !r.Terminal || len(r.Environment) != 2 || r.Environment[0].GetValue() != "b=c" || r.Environment[1].GetName() != "TERM" || r.Idle.Minutes() != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
