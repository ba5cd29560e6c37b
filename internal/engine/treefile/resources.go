package treefile

import (
	"github.com/weirhq/weir/internal/engine/pooltree"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// amounts reads a map from resource names to amounts as users write them.
var amounts = pooltree.ByResource("map", pooltree.ReadAmount,
	func(p *resource.Partial, k resource.Kind, amount int64) { *p = p.With(k, amount) })

// partialVolume is a volume some components of which may be absent.
type partialVolume struct {
	volume resource.Volume
	has    [resource.KindCount]bool
}

// volumes reads a map from the names of resources to amounts × seconds.
var volumes = pooltree.ByResource("map", func(r *document.Reader, _ resource.Kind, v document.Value) (float64, bool) {
	return document.ReadAs(document.AtLeast(document.Numbers, 0), r, v)
}, func(p *partialVolume, k resource.Kind, v float64) { p.volume[k], p.has[k] = v, true })
