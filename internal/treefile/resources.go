package treefile

import (
	"fmt"
	"math"
	"strconv"

	"github.com/weirhq/weir/internal/document"
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
var amounts = kindMap(func(r *document.Reader, k resource.Kind, v document.Value) (int64, bool) {
	text, ok := v.Text()
	if !ok {
		f, number := v.Float64()
		switch {
		case !number:
			r.Refuse(v.Position(), document.RuleWrongType, fmt.Sprintf("must be an amount of %v", k))
			return 0, false
		case math.IsNaN(f) || math.IsInf(f, 0):
			r.Refuse(v.Position(), document.RuleNotFinite, "must be a finite amount, not "+v.String())
			return 0, false
		}
		text = v.String()
		if v.Kind() == document.FloatKind {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
	amount, err := resource.ParseAmount(k, text)
	if err != nil {
		r.Refuse(v.Position(), document.RuleOutOfRange, err.Error())
	}
	return amount, err == nil
}, func(p *resource.Partial, k resource.Kind, amount int64) { *p = p.With(k, amount) })

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
