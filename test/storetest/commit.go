package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

// everything returns a row of each tracked kind with all its fields set.
func everything() store.Rows {
	doc := func(text string) []byte { return []byte(`{"a":"` + text + `"}`) }
	return store.Rows{
		Settings:  []store.Setting{{Name: "config", Document: doc("ключ")}},
		Counters:  []store.Counter{{Name: "job", Value: 1 << 40}},
		Trees:     []store.Tree{{Name: "main", Config: doc("c"), Attributes: doc("a")}},
		Pools:     []store.Pool{{Tree: "main", Name: "prod", Parent: "root", Attributes: doc("p")}},
		PathNodes: []store.PathNode{{Path: "//home/ann", Type: "map_node", Document: doc("d"), Attributes: doc("a"), Created: at(1), Modified: at(2), Content: "ab", ContentSize: 3, ContentUser: "ann"}},
		Operations: []store.Operation{{
			Number: 7, ID: "1-2-3-4", Alias: "*nightly", Type: "map", User: "ann", State: "running", Suspended: true, Title: "Ночной расчёт",
			Pools: []store.TreePool{{Tree: "gpu", Pool: "x"}, {Tree: "main", Pool: "prod"}}, Filter: "words", HasFailedJobs: true,
			StartTime: at(3), BriefSpec: doc("b"), RuntimeParameters: doc("r"), Events: doc("e"), Alerts: doc("l"), Result: doc("s"), Attributes: doc("t"),
		}},
		OperationSpecs:      []store.OperationSpec{{Operation: 7, Provided: doc("p"), Resulting: doc("r"), Unrecognized: doc("u")}},
		OperationProgress:   []store.OperationProgress{{Operation: 7, Built: at(4), Brief: doc("b"), Progress: doc("p")}},
		ControllerSnapshots: []store.ControllerSnapshot{{Operation: 7, Position: 0, Taken: at(5), Data: []byte{0, 1, 2, 255}}},
		Jobs: []store.Job{{
			Number: 1<<63 + 5, Operation: 7, Sequence: 1, Task: "map", Cookie: 3, Type: "map", Node: "n:1", Tree: "main", State: "failed",
			AbortReason: "none", StartTime: at(6), FinishTime: at(7), StderrSize: 10, Resources: doc("r"), Error: doc("e"), Statistics: doc("s"), Attributes: doc("a"),
		}},
		Volumes:   []store.Volume{{Tree: "main", Pool: "prod", Updated: at(8), Volume: doc("v")}},
		Clocks:    []store.Clock{{Tree: "main", Updated: at(9), Data: []byte("clock")}},
		Nodes:     []store.Node{{Address: "n:1", Document: doc("n"), LastSeen: at(10)}},
		Users:     []store.User{{Name: "ann", Document: doc("u")}},
		Groups:    []store.Group{{Name: "devs", Document: doc("g")}},
		Members:   []store.Member{{Group: "devs", Member: "ann"}},
		Tokens:    []store.Token{{Hash: "abc", User: "ann", Name: "laptop", Created: at(11), LastUsed: at(12), Expires: at(13), Revoked: at(14)}},
		ACLs:      []store.ACL{{Path: "//sys", Document: doc("acl")}},
		Mutations: []store.Mutation{{ID: "m-1", Expires: at(15), Response: doc("ok")}},
	}
}

// keys returns the keys of everything.
func keys() store.Rows {
	return store.Rows{
		Settings: []store.Setting{{Name: "config"}}, Counters: []store.Counter{{Name: "job"}},
		Trees: []store.Tree{{Name: "main"}}, Pools: []store.Pool{{Tree: "main", Name: "prod"}},
		PathNodes: []store.PathNode{{Path: "//home/ann"}}, Operations: []store.Operation{{Number: 7}},
		OperationSpecs: []store.OperationSpec{{Operation: 7}}, OperationProgress: []store.OperationProgress{{Operation: 7}},
		ControllerSnapshots: []store.ControllerSnapshot{{Operation: 7}}, Jobs: []store.Job{{Number: 1<<63 + 5}},
		Volumes: []store.Volume{{Tree: "main", Pool: "prod"}}, Clocks: []store.Clock{{Tree: "main"}}, Nodes: []store.Node{{Address: "n:1"}},
		Users: []store.User{{Name: "ann"}}, Groups: []store.Group{{Name: "devs"}}, Members: []store.Member{{Group: "devs", Member: "ann"}},
		Tokens: []store.Token{{Hash: "abc"}}, ACLs: []store.ACL{{Path: "//sys"}}, Mutations: []store.Mutation{{ID: "m-1"}},
	}
}

var commitChecks = []check{
	{"an empty store has nothing", func(f *fixture) {
		state := f.load()
		f.same(state.Rows, store.Rows{})
		f.same(state.Revision, int64(0))
	}},
	{"a row of every kind comes back as it was", func(f *fixture) {
		f.put(everything())
		f.same(f.load().Rows, everything())
	}},
	{"rows are there after the store was opened again", func(f *fixture) {
		f.put(everything())
		f.same(f.s.Close(), nil)
		f.s = f.open(f.url)
		f.same(f.load().Rows, everything())
	}},
	{"every commit has the next revision", func(f *fixture) {
		for want := int64(1); want <= 3; want++ {
			receipt := f.put(store.Rows{Users: []store.User{{Name: fmt.Sprint("user", want)}}})
			f.same(receipt.Revision, want)
			revision, err := f.s.Revision(f.ctx)
			f.ok(err)
			f.same(revision, want)
		}
	}},
	{"an empty batch takes no revision", func(f *fixture) {
		f.put(everything())
		f.same(f.commit(&store.Batch{}).Revision, int64(1))
		f.same(f.load().Revision, int64(1))
	}},
	{"putting again replaces", func(f *fixture) {
		f.put(everything())
		f.put(store.Rows{Pools: []store.Pool{{Tree: "main", Name: "prod", Parent: "other"}}})
		f.same(f.load().Rows.Pools, []store.Pool{{Tree: "main", Name: "prod", Parent: "other"}})
	}},
	{"a row of every kind can be deleted", func(f *fixture) {
		f.put(everything())
		f.delete(keys())
		f.same(f.load().Rows, store.Rows{})
	}},
	{"deleting what is not there is no error", func(f *fixture) {
		f.delete(keys())
		f.same(f.load().Rows, store.Rows{})
	}},
	{"a row that is deleted and put in one batch is there", func(f *fixture) {
		f.put(everything())
		f.commit(&store.Batch{Put: everything(), Delete: keys()})
		f.same(f.load().Rows, everything())
	}},
	{"of two rows with one key the last counts", func(f *fixture) {
		f.put(store.Rows{Users: []store.User{{Name: "ann", Document: []byte("1")}, {Name: "bob"}, {Name: "ann", Document: []byte("2")}}})
		f.same(f.load().Rows.Users, []store.User{{Name: "ann", Document: []byte("2")}, {Name: "bob"}})
	}},
	{"empty documents are nil when read", func(f *fixture) {
		f.put(store.Rows{Users: []store.User{{Name: "ann", Document: []byte{}}}})
		if got := f.load().Rows.Users[0].Document; got != nil {
			f.Errorf("it is %#v", got)
		}
	}},
	{"a document of megabytes comes back", func(f *fixture) {
		large := bytes.Repeat([]byte("weir\x00\xff"), 1<<20)
		f.put(store.Rows{Settings: []store.Setting{{Name: "large", Document: large}}})
		if !bytes.Equal(f.load().Rows.Settings[0].Document, large) {
			f.Error("it is different")
		}
	}},
	{"times have microseconds and are in UTC", func(f *fixture) {
		moment := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.FixedZone("here", 7200))
		f.put(store.Rows{Nodes: []store.Node{{Address: "n", LastSeen: moment}, {Address: "old", LastSeen: time.Unix(-5, 0)}}})
		f.same(f.load().Rows.Nodes, []store.Node{
			{Address: "n", LastSeen: moment.Truncate(time.Microsecond).UTC()}, {Address: "old", LastSeen: time.Unix(-5, 0).UTC()},
		})
	}},
	{"thousands of rows go into one commit", func(f *fixture) {
		var rows store.Rows
		for i := range 5000 {
			rows.Pools = append(rows.Pools, store.Pool{Tree: "main", Name: fmt.Sprintf("p%04d", i)})
		}
		f.put(rows)
		f.same(f.load().Rows.Pools, rows.Pools)
	}},
	{"a text with NUL is refused and the batch with it", func(f *fixture) {
		f.refuses(store.Rows{Users: []store.User{{Name: "good"}, {Name: "b\x00d"}}}, store.ErrInvalid)
		f.same(f.load().Revision, int64(0))
		f.same(f.load().Rows, store.Rows{})
	}},
	{"a text that is not UTF-8 is refused", func(f *fixture) {
		f.refuses(store.Rows{Operations: []store.Operation{operation(1, func(o *store.Operation) { o.Title = "\xff" })}}, store.ErrInvalid)
	}},
	{"a text that no index takes is refused", func(f *fixture) {
		f.refuses(store.Rows{PathNodes: []store.PathNode{{Path: strings.Repeat("x", 1001)}}}, store.ErrInvalid)
	}},
	{"keys as long as allowed are taken", func(f *fixture) {
		long := strings.Repeat("ж", 500)
		rows := store.Rows{
			PathNodes: []store.PathNode{{Path: long}}, Members: []store.Member{{Group: long, Member: long}},
			HistoryBlocks: []store.HistoryBlock{{Tree: long, Pool: long, Level: 1, Start: at(0)}},
			Operations:    []store.Operation{operation(1, func(o *store.Operation) { o.Title = strings.Repeat(long, 100) })},
		}
		f.put(rows)
		f.same(f.load().Rows.Members, rows.Members)
		f.delete(store.Rows{PathNodes: rows.PathNodes})
	}},
	{"a row without a key is refused", func(f *fixture) {
		f.refuses(store.Rows{Users: []store.User{{}}}, store.ErrInvalid)
	}},
	{"all problems of a batch are named", func(f *fixture) {
		err := f.refuses(store.Rows{Users: []store.User{{Name: "a\x00"}}, Trees: []store.Tree{{Name: "\xff"}}}, store.ErrInvalid)
		for _, part := range []string{"users", "trees", "NUL", "UTF-8"} {
			if !strings.Contains(err.Error(), part) {
				f.Errorf("%q does not name %q", err, part)
			}
		}
	}},
	{"events and audit records cannot be deleted by a batch", func(f *fixture) {
		_, err := f.s.Commit(f.ctx, f.lease, &store.Batch{Delete: store.Rows{Events: []store.Event{{ID: 1}}}})
		f.wants(err, store.ErrInvalid)
	}},
	{"a batch after a refused one is not affected", func(f *fixture) {
		f.refuses(store.Rows{Users: []store.User{{}}}, store.ErrInvalid)
		f.same(f.put(everything()).Revision, int64(1))
	}},
	{"batches can be joined", func(f *fixture) {
		joined := &store.Batch{}
		joined.Append(&store.Batch{Put: store.Rows{Users: []store.User{{Name: "ann"}, {Name: "bob"}}}})
		joined.Append(&store.Batch{Delete: store.Rows{Users: []store.User{{Name: "ann"}}}})
		joined.Append(&store.Batch{Put: store.Rows{Users: []store.User{{Name: "bob", Document: []byte("2")}}}})
		f.same(joined.Len(), 3)
		f.commit(joined)
		f.same(f.load().Rows.Users, []store.User{{Name: "bob", Document: []byte("2")}})
	}},
}
