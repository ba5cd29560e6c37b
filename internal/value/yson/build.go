package yson

import "strings"

// A builder makes Nodes with few allocations: it collects the children of open containers in
// stacks, and gives closed containers slices of larger blocks. A block is garbage when all Nodes
// in it are, so blocks are small.
type builder struct {
	nodes   []Node  // items of open lists, outermost first
	entries []Entry // entries of open maps
	offsets []int   // of the keys in entries

	texts      strings.Builder  // a block of string contents
	keys       [keySlots]string // recent keys, by keySlot
	nodeBlock  []Node
	entryBlock []Entry
	moreBlock  []more
	nextBlock  int // how many Nodes or Entries the next block has
	textBlock  int // how many bytes the next block of texts has

	index map[string]int
}

const (
	firstBlock   = 8
	largestBlock = 64
	firstText    = 64
	largestText  = 4 << 10
	keySlots     = 64
)

// expect sets the expected length of the input.
func (b *builder) expect(size int) {
	b.textBlock = min(max(size, firstText), largestText)
	b.nextBlock = min(max(size/16, firstBlock), largestBlock)
}

// copyText returns text as a string that shares a block with others.
func (b *builder) copyText(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if len(text) > largestText/8 {
		return string(text)
	}
	if b.texts.Cap()-b.texts.Len() < len(text) {
		b.texts = strings.Builder{}
		b.texts.Grow(max(b.textBlock, len(text)))
		b.textBlock = min(2*b.textBlock, largestText)
	}
	start := b.texts.Len()
	b.texts.Write(text)
	return b.texts.String()[start:]
}

// copyKey is copyText for keys, which repeat.
func (b *builder) copyKey(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	slot := &b.keys[keySlot(key)]
	if *slot != string(key) {
		*slot = b.copyText(key)
	}
	return *slot
}

func keySlot(key []byte) int {
	last := len(key) - 1
	return (len(key)*7 + int(key[0]) + int(key[last/2])*5 + int(key[last])*11) % keySlots
}

func (b *builder) growBlock() int {
	size := b.nextBlock
	b.nextBlock = min(2*size, largestBlock)
	return size
}

func (b *builder) newMore() *more {
	if len(b.moreBlock) == 0 {
		b.moreBlock = make([]more, max(1, b.growBlock()/4))
	}
	m := &b.moreBlock[0]
	b.moreBlock = b.moreBlock[1:]
	return m
}

func (b *builder) pushNode(n Node) {
	if b.nodes == nil {
		b.nodes = make([]Node, 0, firstBlock)
	}
	b.nodes = append(b.nodes, n)
}

// push pushes an entry onto the stack.
func (b *builder) push(entry Entry, at int) {
	if b.entries == nil {
		b.entries, b.offsets = make([]Entry, 0, firstBlock), make([]int, 0, firstBlock)
	}
	b.entries = append(b.entries, entry)
	b.offsets = append(b.offsets, at)
}

// takeNodes removes the Nodes above mark from the stack and returns them in a separate slice.
func (b *builder) takeNodes(mark int) []Node {
	children := b.nodes[mark:]
	b.nodes = b.nodes[:mark]
	return carve(&b.nodeBlock, children, b)
}

// takeEntries does the same with entries.
func (b *builder) takeEntries(mark int) []Entry {
	children := b.entries[mark:]
	b.entries, b.offsets = b.entries[:mark], b.offsets[:mark]
	return carve(&b.entryBlock, children, b)
}

// carve copies children into a slice that is cut from the block, or allocated when it is long.
func carve[T any](block *[]T, children []T, b *builder) []T {
	size := len(children)
	if size == 0 {
		return nil
	}
	if size > largestBlock/4 {
		return append([]T(nil), children...)
	}
	if len(*block) < size {
		*block = make([]T, max(size, b.growBlock()))
	}
	cut := (*block)[:size:size]
	*block = (*block)[size:]
	copy(cut, children)
	return cut
}

// duplicate finds the first repeated key. It compares few keys with each other; for many it uses a
// map, whose order never matters.
func (b *builder) duplicate(entries []Entry) int {
	const few, many = 32, 1024
	if len(entries) <= few {
		for i := 1; i < len(entries); i++ {
			for j := range i {
				if entries[i].Key == entries[j].Key {
					return i
				}
			}
		}
		return -1
	}
	if b.index == nil || len(entries) > many {
		b.index = make(map[string]int, len(entries))
	}
	clear(b.index)
	for i := range entries {
		b.index[entries[i].Key] = i
		if len(b.index) != i+1 {
			return i
		}
	}
	if len(entries) > many {
		b.index = nil // clearing it costs as much as making it
	}
	return -1
}
