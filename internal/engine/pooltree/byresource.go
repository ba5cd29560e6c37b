package pooltree

import (
	"fmt"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/resource"
)

// resourcesSay describes a map by resources in messages.
const resourcesSay = "a map of resources (user_slots, cpu, gpu, memory, network)"

// ByResource returns a type that reads a map from resource names to values that
// read accepts, and stores each with set. It is for documents other than trees;
// these are only read, never written or compared. The kind is that of the type's
// shape.
func ByResource[F, V any](kind string,
	read func(*document.Reader, resource.Kind, document.Value) (V, bool),
	set func(*F, resource.Kind, V),
) document.Type[F] {
	return document.NewType(document.Shape{Kind: kind, Says: resourcesSay},
		func(r *document.Reader, v document.Value) (into F, ok bool) {
			if v.Kind() != document.MapKind {
				r.Refuse(v.Position(), document.RuleWrongType, "must be "+resourcesSay+", not "+document.Shorten(v.String()))
				return into, false
			}
			ok = true
			var seen [resource.KindCount]bool
			for _, e := range v.Entries() {
				r.Enter(e.Key)
				if k, fits := resourceOf(r, e, &seen); !fits {
					ok = false
				} else if value, understood := read(r, k, e.Value); understood {
					set(&into, k, value)
				} else {
					ok = false
				}
				r.Leave()
			}
			return into, ok
		},
		func(F, document.Style) document.Value { return document.Null() },
		func(F, F) bool { return false })
}

// resourceOf returns the resource that a key names, unless it is unknown or has
// been seen under another name.
func resourceOf(r *document.Reader, e document.Entry, seen *[resource.KindCount]bool) (k resource.Kind, ok bool) {
	k, ok = resource.ParseKind(document.Normal(e.Key))
	if !ok {
		message := "unknown resource"
		var names []string
		for _, k := range resource.Kinds {
			names = append(names, k.String())
		}
		if nearest, found := document.Nearest(e.Key, names); found {
			message += fmt.Sprintf("; did you mean %q?", nearest)
		}
		r.Refuse(e.At, document.RuleUnknownKey, message)
		return k, false
	}
	if seen[k] {
		r.Refuse(e.At, document.RuleTwoNames, fmt.Sprintf("%v is given twice", k))
		return k, false
	}
	seen[k] = true
	return k, true
}
