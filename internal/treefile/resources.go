package treefile

import (
	"fmt"

	"github.com/weirhq/weir/internal/document"
	"github.com/weirhq/weir/internal/pooltree"
	"github.com/weirhq/weir/internal/resource"
)

var resourceNames = func() (names []string) {
	for _, k := range resource.Kinds {
		names = append(names, k.String())
	}
	return names
}()

const resourcesSays = "a map of resources (user_slots, cpu, gpu, memory, network)"

// amounts reads a map from the names of resources to amounts as people write
// them.
var amounts = kindMap(pooltree.ReadAmount,
	func(p *resource.Partial, k resource.Kind, amount int64) { *p = p.With(k, amount) })

// partialVolume is a volume some components of which may be absent.
type partialVolume struct {
	volume resource.Volume
	has    [resource.KindCount]bool
}

// volumes reads a map from the names of resources to amounts × seconds.
var volumes = kindMap(func(r *document.Reader, _ resource.Kind, v document.Value) (float64, bool) {
	return document.ReadAs(document.AtLeast(document.Numbers, 0), r, v)
}, func(p *partialVolume, k resource.Kind, v float64) { p.volume[k], p.has[k] = v, true })

// kindMap reads a map from the names of resources to values that read
// understands.
func kindMap[F comparable, V any](
	read func(*document.Reader, resource.Kind, document.Value) (V, bool),
	set func(*F, resource.Kind, V),
) document.Type[F] {
	return document.NewType(document.Shape{Kind: "map", Says: resourcesSays},
		func(r *document.Reader, v document.Value) (into F, ok bool) {
			if v.Kind() != document.MapKind {
				r.Refuse(v.Position(), document.RuleWrongType, "must be "+resourcesSays)
				return into, false
			}
			ok = true
			var seen [resource.KindCount]bool
			for _, e := range v.Entries() {
				r.Enter(e.Key)
				k, known := resource.ParseKind(document.Normal(e.Key))
				switch {
				case !known:
					r.Refuse(e.At, document.RuleUnknownKey, "unknown resource"+didYouMean(e.Key, resourceNames))
					ok = false
				case seen[k]:
					r.Refuse(e.At, document.RuleTwoNames, fmt.Sprintf("%v is given twice", k))
					ok = false
				default:
					seen[k] = true
					value, read := read(r, k, e.Value)
					if ok = ok && read; read {
						set(&into, k, value)
					}
				}
				r.Leave()
			}
			return into, ok
		},
		func(F, document.Style) document.Value { return document.Null() }, // files are not written
		func(a, b F) bool { return a == b })
}
