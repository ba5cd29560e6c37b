package api

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// What is written in pieces is what the value would be written as.
func TestAllPoolsAreWrittenAsTheirValueIs(t *testing.T) {
	c := newCluster(t)
	var pools []document.Entry
	for i := range 2*poolsAtOnce + 100 {
		pools = append(pools, document.Pair(fmt.Sprintf("p%d", i), document.Map(document.Pair("weight", document.Int(2)))))
	}
	config, _, err := pooltree.FromValue(document.Map(document.Pair("pools", document.Map(pools...))), pooltree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.EditTrees(t.Context(), server.Caller{User: "root", Command: "test"}, func(trees *server.Trees) (*server.Trees, error) {
		return trees.Put("default", config), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.eventually("an update has the tree", func() bool { _, there := c.View().Tree("default"); return there })
	state, err := orchidOf(t.Context(), c.Server)
	if err != nil {
		t.Fatal(err)
	}
	tree, there := state.tree("default")
	if !there {
		t.Fatal("there is no tree")
	}
	for name, as := range map[string]format{
		"text": {}, "binary": {flavour: yson.Binary}, "json": {json: true},
		"json in UTF-8":    {json: true, options: yson.JSONOptions{UTF8: true}},
		"json with types":  {json: true, options: yson.JSONOptions{AnnotateWithTypes: true, Stringify: true}},
		"json, plain":      {json: true, options: yson.JSONOptions{Plain: true}},
		"json, cut":        {json: true, options: yson.JSONOptions{StringLimit: 3}},
		"json, attributes": {json: true, options: yson.JSONOptions{Attributes: yson.AttributesNever}},
	} {
		for _, fields := range [][]string{{"weight", "parent", "fair_share", "nonsense", "weight"}, {}} {
			if !as.joins() {
				t.Fatalf("%s is not written in pieces", name)
			}
			want, err := as.write(tree.allPools(poolFields.choose(fields)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := tree.writtenPools(as, fields)
			if err != nil || !bytes.Equal(bytes.Join(got, nil), want) {
				t.Errorf("%s with fields %q: %d bytes, not %d; %v", name, fields, length(got), len(want), err)
			}
		}
	}
	if (format{json: true, options: yson.JSONOptions{Pretty: true}}).joins() || (format{flavour: yson.Pretty}).joins() ||
		(format{json: true, options: yson.JSONOptions{Attributes: yson.AttributesAlways}}).joins() {
		t.Error("what has more than entries is written in pieces")
	}
}

// What is written once is written for all, is not kept if it is too long, and is
// forgotten after a while.
func TestWrittenMapsAreSharedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var maps writtenMaps
		written := 0
		get := func(fields string, size int) {
			t.Helper()
			text, err := maps.get(writtenKey{fields: fields}, func() ([][]byte, error) {
				written++
				return [][]byte{make([]byte, size)}, nil
			})
			if err != nil || length(text) != size {
				t.Fatal(length(text), err)
			}
		}
		kept := func() int {
			maps.mutex.Lock()
			defer maps.mutex.Unlock()
			return maps.bytes + len(maps.texts)
		}
		for range 3 {
			get("a", 10)
		}
		if written != 1 {
			t.Errorf("it is written %d times", written)
		}
		get("b", writtenKept)
		get("b", writtenKept)
		if written != 3 || kept() != 10+1 {
			t.Errorf("what is too long is kept: %d bytes", kept())
		}
		<-time.After(writtenFor)
		synctest.Wait()
		if kept() != 0 {
			t.Error("something is kept for too long")
		}
		get("a", 10)
		if written != 4 {
			t.Errorf("it is written %d times", written)
		}
		<-time.After(writtenFor)
	})
}

// However the pools are asked for, the answer has the same value.
func TestTheWholeTreeIsTheSameInEveryDress(t *testing.T) {
	c := newCluster(t)
	c.must("create", "{type=scheduler_pool_tree;attributes={name=default}}", "")
	c.must("set", `{path="//sys/pool_trees/@default_tree"}`, "default")
	for _, pool := range []string{"a", "b"} {
		c.must("create", "{type=scheduler_pool;attributes={pool_tree=default;weight=3.;name="+pool+"}}", "")
	}
	const path = `path="//sys/scheduler/orchid/scheduler/pool_trees/default/pools";fields=[weight;parent]`
	want := `{"<Root>"={"weight"=1.;};"a"={"parent"="<Root>";"weight"=3.;};"b"={"parent"="<Root>";"weight"=3.;};}`
	c.eventually("an update has both pools", func() bool { return c.must("get", `{`+path+`}`, "") == `{"value"=`+want+`;}` })
	if got := c.must("get", `{return_only_value=%true;`+path+`}`, ""); got != want {
		t.Error(got)
	}
	if got := c.must("execute_batch", `{requests=[{command=get;parameters={`+path+`}}]}`, ""); got != `{"results"=[{"output"={"value"=`+want+`;};};];}` {
		t.Error(got)
	}
	for _, header := range []http.Header{
		{"X-Yt-Output-Format": {"<format=pretty>yson"}}, {"X-Yt-Output-Format": {"yson"}}, {"Accept": {"application/json"}},
		{"X-Yt-Output-Format": {"<attributes_mode=always>json"}}, {"X-Yt-Output-Format": {"<format=pretty>json"}},
	} {
		header["X-Yt-Header-Format"], header["X-Yt-Parameters"] = []string{"<format=text>yson"}, []string{`{` + path + `}`}
		for _, version := range []string{"v3", "v4"} {
			a := c.send(http.MethodGet, "/api/"+version+"/get", header, nil)
			n, err := yson.Parse([]byte(a.body))
			if a.header.Get("Content-Type") == "application/json" {
				n, err = yson.ParseJSON([]byte(a.body), yson.JSONOptions{})
			}
			if version == "v4" {
				n, _ = n.Get("value")
			}
			if err != nil || n.String() != want {
				t.Errorf("%v of %s: %v %s", header, version, err, a.body)
			}
		}
	}
}
