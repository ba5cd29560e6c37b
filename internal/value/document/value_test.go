package document

import (
	"math"
	"strings"
	"testing"
)

func TestWholeNumbersAreExactOrRefused(t *testing.T) {
	for _, c := range []struct {
		v  Value
		i  int64
		ok bool
	}{
		{Int(-5), -5, true},
		{Uint(5), 5, true},
		{Uint(1 << 63), 0, false},
		{Float(3), 3, true},
		{Float(3.5), 0, false},
		{Float(1e17), 0, false},
		{Float(math.NaN()), 0, false},
		{Text("5"), 0, false},
	} {
		if i, ok := c.v.Int64(); ok != c.ok || ok && i != c.i {
			t.Errorf("Int64 of %v is %d, %v", c.v, i, ok)
		}
	}
	if _, ok := Int(-1).Uint64(); ok {
		t.Error("-1 is an unsigned number")
	}
	if u, ok := Uint(math.MaxUint64).Uint64(); !ok || u != math.MaxUint64 {
		t.Error("the largest number is lost")
	}
	if Number(2).Kind() != IntKind || Number(2.5).Kind() != FloatKind || Number(1e300).Kind() != FloatKind {
		t.Error("Number chose the wrong kind")
	}
}

func TestMapsAreChangedByCopying(t *testing.T) {
	v := Map(Pair("a", Int(1)), Pair("b", Int(2)))
	with, without := v.With("a", Int(5)).With("c", Int(3)), v.Without("a")
	if v.String() != "{a: 1, b: 2}" || with.String() != "{a: 5, b: 2, c: 3}" || without.String() != "{b: 2}" {
		t.Errorf("got %v, %v, %v", v, with, without)
	}
	if got := Null().With("x", Int(1)).String(); got != "{x: 1}" {
		t.Errorf("null with a key is %s", got)
	}
}

func TestSignedAndUnsignedNumbersAreEqual(t *testing.T) {
	for _, c := range []struct {
		a, b Value
		want bool
	}{
		{Int(5), Uint(5), true},
		{Int(-1), Uint(math.MaxUint64), false},
		{Int(5), Float(5), false},
		{Float(math.NaN()), Float(math.NaN()), true},
		{Null(), Bool(false), false},
		{Map(Pair("a", Int(1))), Map(Pair("b", Int(1))), false},
	} {
		if c.a.Equal(c.b) != c.want || c.b.Equal(c.a) != c.want {
			t.Errorf("%v equal to %v is not %v", c.a, c.b, c.want)
		}
	}
}

func TestProblemsPrintOneALineInTheOrderOfTheText(t *testing.T) {
	ps := Problems{
		{File: "p.yaml", Position: Position{12, 5}, Path: "pools/a/weight", Message: "must be a number"},
		{File: "p.yaml", Position: Position{3, 1}, Path: "x", Message: "first"},
		{File: "p.yaml", Message: "no place"},
		{Path: "y", Message: "no file"},
		{Position: Position{1, 2}, Message: "only a place"},
	}
	want := "y: no file\n1:2: only a place\np.yaml: no place\np.yaml:3:1: x: first\np.yaml:12:5: pools/a/weight: must be a number"
	if got := ps.Sorted().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if Problems(nil).Err() != nil || ps.Err() == nil {
		t.Error("Err is wrong")
	}
}

func TestNearestNames(t *testing.T) {
	names := []string{"weight", "mode", "min_share_resources", "max_operation_count"}
	for name, want := range map[string]string{
		"wieght": "weight", "weights": "weight", "Weight": "weight", "mod": "mode",
		"min-share-resource": "min_share_resources", "max_operations_count": "max_operation_count",
		"color": "", "x": "", strings.Repeat("w", 500): "",
	} {
		if got, _ := Nearest(name, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}
