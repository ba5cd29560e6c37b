package yson

import (
	"math"
	"testing"
)

func TestNumbersAreAcceptedWhereTheyFit(t *testing.T) {
	type answer struct {
		int64, uint64, double bool
	}
	for _, c := range []struct {
		name string
		node Node
		want answer
	}{
		{"an int64", Int64(5), answer{true, true, true}},
		{"a negative int64", Int64(-5), answer{true, false, true}},
		{"a uint64", Uint64(5), answer{true, true, true}},
		{"a uint64 beyond int64", Uint64(math.MaxUint64), answer{false, true, true}},
		{"a double without a fraction", Double(5), answer{false, false, true}},
		{"a string of digits", String("5"), answer{}},
		{"an entity", Entity(), answer{}},
		{"a boolean", Boolean(true), answer{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got answer
			_, got.int64 = c.node.Int64()
			_, got.uint64 = c.node.Uint64()
			_, got.double = c.node.Double()
			if got != c.want {
				t.Errorf("%v is accepted as %+v, want %+v", c.node, got, c.want)
			}
		})
	}
	if i, _ := Uint64(7).Int64(); i != 7 {
		t.Errorf("7u as int64 is %d", i)
	}
	if f, _ := Int64(-7).Double(); f != -7 {
		t.Errorf("-7 as double is %v", f)
	}
}

func TestMapsAreEditedByCopying(t *testing.T) {
	attribute := Pair("x", Boolean(true))
	n := Map(Pair("a", Int64(1)), Pair("b", Int64(2))).WithAttributes(attribute)
	for _, c := range []struct {
		name      string
		got, want Node
	}{
		{"a known key keeps its place", n.With("a", Int64(3)),
			Map(Pair("a", Int64(3)), Pair("b", Int64(2))).WithAttributes(attribute)},
		{"a new key goes last", n.With("c", Int64(3)),
			Map(Pair("a", Int64(1)), Pair("b", Int64(2)), Pair("c", Int64(3))).WithAttributes(attribute)},
		{"a key is removed", n.Without("a"), Map(Pair("b", Int64(2))).WithAttributes(attribute)},
		{"an absent key is not missed", n.Without("z"), n},
		{"an entity becomes a map", Entity().With("a", Int64(1)), Map(Pair("a", Int64(1)))},
		{"attributes are taken off", n.WithAttributes(), Map(Pair("a", Int64(1)), Pair("b", Int64(2)))},
		{"attributes of a scalar are taken off", Int64(1).WithAttributes(attribute).WithAttributes(), Int64(1)},
		{"the original is as it was", n,
			Map(Pair("a", Int64(1)), Pair("b", Int64(2))).WithAttributes(attribute)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.got.Equal(c.want) {
				t.Errorf("got %v, want %v", c.got, c.want)
			}
		})
	}
	if got, ok := n.Get("b"); !ok || !got.Equal(Int64(2)) {
		t.Errorf("b is %v, %v", got, ok)
	}
	if got, ok := n.Attribute("x"); !ok || !got.Equal(Boolean(true)) {
		t.Errorf("@x is %v, %v", got, ok)
	}
	if _, ok := n.Get("x"); ok {
		t.Error("an attribute is found as a key")
	}
}

func TestEqualTellsNodesApart(t *testing.T) {
	different := []Node{
		Entity(), Boolean(false), Boolean(true), Int64(0), Int64(1), Uint64(0), Uint64(1), Double(0), Double(1), Double(math.NaN()),
		String(""), String("0"), List(), List(Entity()), List(Entity(), Entity()), Map(), Map(Pair("a", Entity())),
		Map(Pair("b", Entity())), Map(Pair("a", Entity()), Pair("b", Entity())), Map(Pair("b", Entity()), Pair("a", Entity())),
		Entity().WithAttributes(Pair("a", Entity())), Map().WithAttributes(Pair("a", Entity())),
	}
	for i, a := range different {
		for j, b := range different {
			if a.Equal(b) != (i == j) {
				t.Errorf("%v equals %v: %v", a, b, a.Equal(b))
			}
		}
	}
}
