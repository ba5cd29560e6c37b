package image

import (
	"cmp"
	"slices"
	"time"
)

// stored is an image in the cache, as far as its deletion is concerned.
type stored struct {
	digest  string
	layers  []string
	lastUse time.Time
	held    bool // a job uses it
}

// collect decides what to delete if the layers in the cache take more than limit: images that nobody holds, the least
// recently used first and then by digest, until the layers of the others take at most target. Layers go with the last
// image that has them. Layers that belong to no image go in any case, but for those in pinned.
func collect(images []stored, sizes map[string]int64, pinned map[string]bool, limit, target int64) (dropImages, dropLayers []string) {
	users := map[string]int{}
	for i := range images {
		for _, l := range unique(images[i].layers) {
			users[l]++
		}
	}
	total := int64(0)
	for id, size := range sizes {
		if users[id] == 0 && !pinned[id] {
			dropLayers = append(dropLayers, id)
		} else {
			total += size
		}
	}
	if total > limit {
		order := slices.Clone(images)
		slices.SortFunc(order, func(a, b stored) int {
			return cmp.Or(a.lastUse.Compare(b.lastUse), cmp.Compare(a.digest, b.digest))
		})
		for i := range order {
			if total <= target {
				break
			}
			if order[i].held {
				continue
			}
			dropImages = append(dropImages, order[i].digest)
			for _, l := range unique(order[i].layers) {
				if users[l]--; users[l] == 0 && !pinned[l] {
					dropLayers = append(dropLayers, l)
					total -= sizes[l]
				}
			}
		}
	}
	slices.Sort(dropLayers)
	return dropImages, dropLayers
}

// unique returns the different layers of an image: empty layers are often repeated.
func unique(layers []string) []string {
	sorted := slices.Clone(layers)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
