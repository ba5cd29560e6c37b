package client

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestValuesOfGoValues(t *testing.T) {
	type inner struct {
		Count int `json:"count,omitempty"`
		Plain bool
		Skip  int `yson:"-"`
		own   int
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	for _, test := range []struct {
		name string
		from any
		want string
	}{
		{"nothing", nil, `#`},
		{"scalars", []any{true, -1, uint8(2), 1.5, "a", []byte{0xff}, 2 * time.Second, at}, `[%true;-1;2u;1.5;"a";"\xFF";2000;"2026-01-02T02:04:05.000006Z";]`},
		{"keys are sorted", map[string]int{"b": 1, "a": 2}, `{"a"=2;"b"=1;}`},
		{"zero fields are left out", struct {
			A string  `yson:"a"`
			B string  `yson:"b"`
			C *int    `yson:"c"`
			D inner   `yson:"d"`
			E []inner `yson:"e"`
		}{B: "x", C: new(int), E: []inner{{Count: 1, Plain: true, Skip: 1, own: 1}}}, `{"b"="x";"c"=0;"e"=[{"count"=1;"Plain"=%true;};];}`},
		{"values", map[string]any{"v": Value{}, "p": (*int)(nil)}, `{"p"=#;"v"=#;}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := ValueOf(test.from); err != nil || got.String() != test.want {
				t.Errorf("%v, %v, want %s", got, err, test.want)
			}
		})
	}
	circle := []any{nil}
	circle[0] = circle
	for _, wrong := range []any{func() {}, map[int]int{}, map[string]any{"a": []any{make(chan int)}}, circle} {
		if got, err := ValueOf(wrong); err == nil {
			t.Errorf("%T became %v", wrong, got)
		}
	}
	if _, err := ValueOf(map[string]any{"a": []any{func() {}}}); err == nil || !strings.HasPrefix(err.Error(), "a: [0]: ") {
		t.Errorf("the error does not say where: %v", err)
	}
}

func TestValuesAsGoValues(t *testing.T) {
	v, err := ParseValue(`{a=[1;2u;3.5;%true;#;<x=1>text];b={c=d}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": []any{int64(1), uint64(2), 3.5, true, nil, "text"}, "b": map[string]any{"c": "d"}}
	if got := v.Any(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if text, ok := v.Get("b", "c").Text(); !ok || text != "d" || !v.Get("b", "x", "y").IsNull() {
		t.Errorf("%q, %v", text, ok)
	}
	if n, ok := v.Get("a").Items()[5].Attribute("x").Int(); !ok || n != 1 {
		t.Errorf("%d, %v", n, ok)
	}
	if json, err := v.MarshalJSON(); err != nil || string(json) != `{"a":[1,2,3.5,true,null,{"$attributes":{"x":1},"$value":"text"}],"b":{"c":"d"}}` {
		t.Errorf("%s, %v", json, err)
	}
}

func TestAnswersBecomeStructs(t *testing.T) {
	answer, err := ParseValue(`{id="1-2-3-4";state=failed;start_time="2026-01-02T03:04:05.000006Z";brief_spec={title=x};
		runtime_parameters={scheduling_options_per_pool_tree={b={pool=p;weight=2};a={pool=q}}};
		brief_progress={jobs={total=5;completed={total=3;interrupted={}};running=1}};
		alerts={slow={code=1;message=m}};suspended=1;result={error={code=1;message=no;inner_errors=[{code=901;message=deep}]}}}`)
	if err != nil {
		t.Fatal(err)
	}
	o := decode[Operation](answer)
	if want := (JobCounts{Total: 5, Completed: 3, Running: 1}); o.Jobs != want {
		t.Errorf("%+v, want %+v", o.Jobs, want)
	}
	if want := []Place{{"b", "p", 2}, {"a", "q", 0}}; !reflect.DeepEqual(o.Places, want) {
		t.Errorf("%+v, want %+v: maps keep their order", o.Places, want)
	}
	if o.ID != "1-2-3-4" || o.Title != "x" || !o.State.Ended() || !o.Started.Equal(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)) || !o.Finished.IsZero() {
		t.Errorf("%+v", o)
	}
	if o.Suspended || o.Raw.Get("suspended").IsNull() {
		t.Error("a value of another kind is in Raw only")
	}
	if len(o.Alerts) != 1 || o.Alerts[0].Type != "slow" || o.Alerts[0].Error.Message != "m" {
		t.Errorf("%+v", o.Alerts)
	}
	if o.Err() == nil || o.Err().Error() != "no\n  deep (code 901)" {
		t.Errorf("%v", o.Err())
	}
	if p := decode[Pool](answer); p.Weight != 0 {
		t.Errorf("%+v", p)
	}
}

// Decoding any answer into any exported struct must not panic.
func TestEveryAnswerTypeIsRead(t *testing.T) {
	for _, text := range []string{"#", "1", "a", "[#;1]", "{a=#;operations=[#];jobs=[1];chain=[{}];nodes=[a;{tags={a=1}}]}"} {
		v, err := ParseValue(text)
		if err != nil {
			t.Fatal(err)
		}
		decode[OperationPage](v)
		decode[JobPage](v)
		decode[NodeList](v)
		decode[eventPage](v)
		decode[PoolTree](v)
		decode[PoolsPlan](v)
		decode[PoolsExport](v)
		decode[Explanation](v)
		decode[FairShare](v)
		decode[[]MaintenanceCount](v)
	}
}
