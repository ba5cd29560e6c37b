package core

import "iter"

// pageSize is the number of entries that are copied when one of them changes.
const pageSize = 32

// pages is an immutable list of entries. A list derived from it by changing
// some entries shares all other pages with it.
type pages[T any] struct{ list []*[pageSize]*T }

// at returns an entry, or nil.
func (p pages[T]) at(i int32) *T {
	page := int(i) / pageSize
	if i < 0 || page >= len(p.list) || p.list[page] == nil {
		return nil
	}
	return p.list[page][i%pageSize]
}

// differences yields the entries that are not the same in an older list, with
// their predecessors.
func (p pages[T]) differences(old pages[T]) iter.Seq2[*T, *T] {
	var empty [pageSize]*T
	at := func(list []*[pageSize]*T, page int) *[pageSize]*T {
		if page < len(list) && list[page] != nil {
			return list[page]
		}
		return &empty
	}
	return func(yield func(was, is *T) bool) {
		for page := range max(len(p.list), len(old.list)) {
			was, is := at(old.list, page), at(p.list, page)
			if was == is {
				continue
			}
			for i := range is {
				if was[i] != is[i] && !yield(was[i], is[i]) {
					return
				}
			}
		}
	}
}

// draft makes successive lists. Its zero value starts with an empty list.
type draft[T any] struct {
	pages[T]
	fresh  []bool // pages that are in no finished list
	copied int    // entries that were set since the last finish
}

// set changes an entry of the next list. The caller must not modify the entry
// afterwards.
func (d *draft[T]) set(i int32, entry *T) {
	page := int(i) / pageSize
	if len(d.fresh) == 0 {
		d.list = append([]*[pageSize]*T(nil), d.list...)
		d.fresh = make([]bool, len(d.list))
	}
	for page >= len(d.list) {
		d.list, d.fresh = append(d.list, nil), append(d.fresh, false)
	}
	if !d.fresh[page] {
		own := new([pageSize]*T)
		if old := d.list[page]; old != nil {
			*own = *old
		}
		d.list[page], d.fresh[page] = own, true
	}
	d.list[page][i%pageSize] = entry
	d.copied++
}

// finish returns the current list. Later calls of set affect the next one.
func (d *draft[T]) finish() (list pages[T], copied int) {
	copied = d.copied
	d.fresh, d.copied = d.fresh[:0], 0
	return d.pages, copied
}
