package core

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/test/expected"
)

// TestEveryFieldOfACoreIsSaved fails when a field is added that Save cannot write.
// Other fields need nothing: Save finds them by itself.
func TestEveryFieldOfACoreIsSaved(t *testing.T) {
	if _, err := saved(); err != nil {
		t.Fatalf("core.Save does not cover every field: %v", err)
	}
}

// TestWhatIsNotSavedIsNotForked compares the tags `save:"-"` with Fork: what a saved
// core lacks, a fork must lack too, because both must behave alike.
func TestWhatIsNotSavedIsNotForked(t *testing.T) {
	w := newWorld(t, packedPools)
	w.addNode(0, 8)
	w.pass(time.Second)
	if _, err := w.start("anna", "{pool: batch, tasks: {t: {job_count: 6, cpu_limit: 1, memory_limit: 512MiB}}}"); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	w.beat(0)
	w.Picture(w.now)
	fork := w.Fork()
	fork.painter = painter{} // Load makes it as Fork does
	seen := map[unsafe.Pointer]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && !seen[v.UnsafePointer()] {
				seen[v.UnsafePointer()] = true
				walk(v.Elem())
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				walk(v.MapIndex(key))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if f.Tag.Get("save") != "-" {
					walk(v.Field(i))
				} else if !v.Field(i).IsZero() {
					t.Errorf("%v.%s has the tag `save:\"-\"`, but a fork keeps it: clear it in Fork or Clone, or take the tag away", v.Type(), f.Name)
				}
			}
		}
	}
	walk(reflect.ValueOf(fork))
}

// reload saves a core and loads it.
func reload(tb reporter, c *Core) *Core {
	tb.Helper()
	data, err := c.Save()
	if err != nil {
		tb.Fatal(err)
	}
	loaded, err := Load(data)
	if err != nil {
		tb.Fatal(err)
	}
	again, err := loaded.Save()
	if err != nil {
		tb.Fatal(err)
	}
	if !bytes.Equal(data, again) {
		tb.Fatal("a loaded core is saved with other bytes")
	}
	return loaded
}

// TestPropertyALoadedCoreContinuesLikeTheSavedOne saves a core in the middle of a
// random history. The loaded core has the same hash, then and after each of the next
// inputs, and decides the same.
func TestPropertyALoadedCoreContinuesLikeTheSavedOne(t *testing.T) {
	expected.Tenth(t)
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, threePools)
		w.addNode(0, 8)
		w.addNode(1, 5)
		w.pass(time.Second)
		for range rapid.IntRange(0, 25).Draw(r, "before") {
			w.step(r)
		}
		loaded := reload(r, w.Core)
		same := func(when int) {
			want := w.hash()
			if got, err := loaded.Hash(); err != nil || got != want {
				r.Fatalf("after %d inputs a loaded core differs (%v)", when, err)
			}
		}
		same(0)
		var decided []Decisions
		w.onTake = func() { decided = append(decided, copyOf(&w.out)) }
		for range 20 {
			since := len(w.journal)
			decided = nil
			w.step(r)
			var out Decisions
			for _, e := range w.journal[since:] {
				_ = loaded.Apply(e.now, e.input, &out) // an input that was refused is refused again
			}
			same(len(w.journal) - since)
			var want Decisions
			for _, d := range decided {
				want.Started, want.Stopped = append(want.Started, d.Started...), append(want.Stopped, d.Stopped...)
			}
			if !slices.Equal(out.Started, want.Started) || !slices.Equal(out.Stopped, want.Stopped) {
				r.Fatalf("a loaded core decides differently: %v %v, not %v %v", out.Started, out.Stopped, want.Started, want.Stopped)
			}
		}
	})
}

func copyOf(d *Decisions) Decisions {
	return Decisions{Started: slices.Clone(d.Started), Stopped: slices.Clone(d.Stopped)}
}

func TestASavedCoreThatIsCutOrDamagedIsRefused(t *testing.T) {
	w := newWorld(t, threePools)
	w.addNode(0, 8)
	w.pass(time.Second)
	if _, err := w.start("anna", "{pool: production, tasks: {t: {job_count: 6, cpu_limit: 1, memory_limit: 512MiB}}}"); err != nil {
		t.Fatal(err)
	}
	w.beat(0)
	data, err := w.Save()
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{0, 1, 100, len(data) / 2, len(data) - 1} {
		if _, err := Load(data[:length]); err == nil {
			t.Errorf("%d of %d bytes are accepted", length, len(data))
		}
	}
	if _, err := Load(append(slices.Clone(data), 0)); err == nil {
		t.Error("a byte too many is accepted")
	}
}

// TestEveryKindOfInputIsListed compares Inputs with the types that have an apply
// method: journals know only listed kinds.
func TestEveryKindOfInputIsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, input := range Inputs() {
		listed[reflect.TypeOf(input).Elem().Name()] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			f, is := declared.(*ast.FuncDecl)
			if !is || f.Recv == nil || f.Name.Name != "apply" {
				continue
			}
			star, is := f.Recv.List[0].Type.(*ast.StarExpr)
			if !is {
				continue
			}
			if kind := star.X.(*ast.Ident).Name; !listed[kind] {
				t.Errorf("%s: add &%s{} to the end of Inputs in input.go: journals cannot record it", name, kind)
			}
		}
	}
}
