package fairshare

import "github.com/weirhq/weir/internal/value/resource"

// Bound is what keeps an element's fair share from being larger.
type Bound uint8

const (
	// BoundDemand: the element gets all it demands.
	BoundDemand Bound = iota
	// BoundLimit: its own limit on a resource is reached.
	BoundLimit
	// BoundAncestorLimit: the limit of a pool above it is reached.
	BoundAncestorLimit
	// BoundCluster: a resource of the whole tree is exhausted.
	BoundCluster
	// BoundFIFO: operations before it in a FIFO pool take what the pool has.
	BoundFIFO
	// BoundGang: a gang takes all or nothing, and all does not fit.
	BoundGang
	// BoundStep: the next step of some element on the way does not fit, so
	// that a rest stays idle.
	BoundStep

	// boundParent: the share of the parent is exhausted; the parent's own
	// bound explains why.
	boundParent
)

var boundNames = [...]string{
	"demand", "limit", "ancestor_limit", "cluster", "fifo", "gang", "step", "parent",
}

// String returns the name of the bound in outputs.
func (b Bound) String() string { return boundNames[b] }

// Derivation explains where a fair share comes from and what bounds it.
type Derivation struct {
	Slot  int32
	Share Split
	// Bound is what binds the share; By is the element concerned (the pool
	// whose limit is reached, the root for the cluster), and Resource the
	// resource that is scarce there.
	Bound    Bound
	By       int32
	Resource resource.Kind
	// Chain has the element and all pools above it, up to the root.
	Chain []Link
}

// Link is one level of a derivation.
type Link struct {
	Slot  int32
	Share resource.Shares
	// Suggestion is what the parent offered above the guarantee: the element
	// may use that much of every resource. 1 means that only its own demand
	// and limits bind it.
	Suggestion float64
	// Guarantee is the strong and integral guarantee that comes first.
	Guarantee resource.Shares
	Demand    resource.Shares
	Limits    resource.Shares
	Weight    float64
	FIFOIndex int32
}

// Explain derives the fair share of an element of the tree that the result was
// computed from.
func Explain(tree *Tree, result *Result, slot int32) Derivation {
	d := Derivation{Slot: slot, Share: result.Split(slot), By: slot}
	for at := slot; ; at = tree.Elements[at].Parent {
		d.Chain = append(d.Chain, linkOf(tree, result, at))
		if at == 0 || result.Pool(tree.Elements[at].Parent) == nil {
			break
		}
	}
	for i := range d.Chain {
		bound, kind := bindingOf(tree, &d.Chain[i])
		switch {
		case bound == boundParent:
			continue
		case i == 0:
			d.Bound, d.Resource = bound, kind
		case bound == BoundLimit:
			d.Bound, d.By, d.Resource = BoundAncestorLimit, d.Chain[i].Slot, kind
		case bound == BoundCluster || bound == BoundFIFO && i == 1:
			d.Bound, d.By, d.Resource = bound, d.Chain[i].Slot, kind
		default:
			d.Bound, d.By = BoundStep, d.Chain[i].Slot
		}
		return d
	}
	d.Bound, d.By = BoundStep, 0
	return d
}

func linkOf(tree *Tree, result *Result, slot int32) Link {
	element, a := &result.Elements[slot], result.Attributes(tree, slot)
	link := Link{
		Slot: slot, Share: element.FairShare, Suggestion: result.Suggestion(tree, slot),
		Demand: a.Demand, Limits: a.Limits, Weight: element.Weight, FIFOIndex: element.FIFOIndex,
	}
	if p := result.Pool(slot); p != nil {
		link.Guarantee = p.Guarantee
	}
	return link
}

// bindingOf finds what binds an element as far as its level shows.
func bindingOf(tree *Tree, link *Link) (Bound, resource.Kind) {
	tolerance := resource.Uniform(Epsilon)
	share := link.Share.Add(tolerance)
	if share.Dominates(link.Demand) {
		return BoundDemand, 0
	}
	for k := range share {
		if link.Limits[k] >= link.Demand[k] || share[k] < link.Limits[k] {
			continue
		}
		if link.Slot == 0 {
			return BoundCluster, resource.Kind(k)
		}
		if link.Limits[k] < 1 { // else it is the whole tree, which is no limit of its own
			return BoundLimit, resource.Kind(k)
		}
	}
	element := &tree.Elements[link.Slot]
	switch {
	case link.Slot == 0:
		return BoundStep, 0
	case tree.stepsAsGang(element):
		return BoundGang, 0
	case link.FIFOIndex > 0 && link.Suggestion == 0:
		return BoundFIFO, 0
	}
	return boundParent, 0
}

// stepsAsGang reports whether an operation gets all of its demand or nothing.
func (t *Tree) stepsAsGang(element *Element) bool {
	if element.Kind != KindOperation || !element.Gang || !t.Options.GangSteps {
		return false
	}
	return !settingsOf(&t.Elements[element.Parent]).GangStepsOff
}
