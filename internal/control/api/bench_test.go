package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weirhq/weir/internal/control/server"
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
)

// manyPools returns a cluster with ten thousand pools: a hundred parents with a hundred children
// each.
func manyPools(t testing.TB) *cluster {
	t.Helper()
	c := newCluster(t)
	var pools []document.Entry
	for i := range 100 {
		var below []document.Entry
		for j := range 100 {
			below = append(below, document.Pair(fmt.Sprintf("p%d-%d", i, j), document.Map(document.Pair("weight", document.Int(2)))))
		}
		pools = append(pools, document.Pair(fmt.Sprintf("p%d", i), document.Map(document.Pair("pools", document.Map(below...)))))
	}
	tree, _, err := pooltree.FromValue(document.Map(document.Pair("pools", document.Map(pools...))), pooltree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.EditTrees(t.Context(), server.Caller{User: "root", Command: "test"}, func(trees *server.Trees) (*server.Trees, error) {
		next := trees.Put("default", tree)
		next.Default = "default"
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func BenchmarkRequests(b *testing.B) {
	h := handlerOf(manyPools(b))
	for name, parameters := range map[string]string{
		"get/an attribute":   `{path="//sys/pools/p50/p50-50/@weight"}`,
		"get/10000 pools":    `{path="//sys/pools"}`,
		"get/with weights":   `{path="//sys/pools";attributes=[weight]}`,
		"set/a weight":       `{path="//sys/pools/p50/p50-50/@weight"}`,
		"list/a hundred":     `{path="//sys/pools/p50"}`,
		"exists/not there":   `{path="//sys/pools/p50/nope"}`,
		"get_version/simple": `{}`,
	} {
		command, what, _ := strings.Cut(name, "/")
		b.Run(command+" "+what, func(b *testing.B) {
			header := http.Header{"X-Yt-Header-Format": {"<format=text>yson"}, "X-Yt-Parameters": {parameters}}
			for i := 0; b.Loop(); i++ {
				if a := ask(h, http.MethodPut, "/api/v4/"+command, header, fmt.Sprint(i%100+1)); a.status != http.StatusOK {
					b.Fatal(a.body)
				}
			}
		})
	}
}
