package yson

import (
	"fmt"
	"io"
	"strings"

	"github.com/weirhq/weir/internal/value/jsontext"
)

// Parse reads one value. Text and binary may be mixed.
func Parse(data []byte) (Node, error) { return ParseFragment(data, Single) }

// ParseFragment reads a whole input of any shape: a list fragment becomes a list, a map fragment a
// map.
func ParseFragment(data []byte, shape Shape) (Node, error) {
	var r Reader
	r.ResetBytes(data, shape)
	r.build.expect(len(data))
	var n Node
	switch shape {
	case ListFragment:
		r.listUntil(&n, NoToken)
	case MapFragment:
		n.kind = MapKind
		if entries := r.entriesUntil(NoToken); len(entries) > 0 {
			n.more = r.build.newMore()
			n.more.entries = entries
		}
	default:
		if token, err := r.Next(); err == nil && r.node(&n, token) {
			_, _ = r.Next() // sets io.EOF, or the error after the value
		}
	}
	if r.err != io.EOF {
		return Node{}, r.err
	}
	return n, nil
}

// CutAttributes reads attributes at the start of data, as rich paths have them:
// <append=%true>//tmp/t. It returns the rest, which need not be YSON. Without attributes rest is
// data.
func CutAttributes(data []byte) (attributes []Entry, rest []byte, err error) {
	if len(data) == 0 || data[0] != '<' {
		return nil, data, nil
	}
	var r Reader
	r.ResetBytes(data, Single)
	if _, err := r.Next(); err != nil {
		return nil, data, err
	}
	attributes = r.entriesUntil(EndAttributes)
	if r.err != nil {
		return nil, data, r.err
	}
	return attributes, data[r.pos:], nil
}

// ReadNode reads the value that starts with the next token, attributes included. At the top of an
// input without further values it returns io.EOF: a loop of ReadNode reads a list fragment. In a
// map, and in a map fragment, the caller first reads the KeyToken with Next.
//
// Nodes that are read in a row share blocks of memory of a few KiB.
func (r *Reader) ReadNode() (Node, error) {
	token, err := r.Next()
	if err != nil {
		return Node{}, err
	}
	return r.Complete(token)
}

// Complete reads the rest of the value that starts with the token that Next has just returned. It
// is for callers that walk through a list and detect its end themselves.
func (r *Reader) Complete(token Token) (Node, error) {
	var n Node
	if !r.node(&n, token) {
		return Node{}, r.err
	}
	return n, nil
}

// node completes the value that starts with token. It returns false on an error, which is then in
// r.err; so do the functions it calls.
func (r *Reader) node(n *Node, token Token) bool {
	var attributes []Entry
	if token == BeginAttributes {
		attributes = r.entriesUntil(EndAttributes)
		if r.err != nil {
			return false
		}
		var err error
		if token, err = r.Next(); err != nil {
			return false
		}
	}
	switch token {
	case EntityToken:
		n.kind = EntityKind
	case BooleanToken:
		n.kind, n.number = BooleanKind, r.number
	case Int64Token:
		n.kind, n.number = Int64Kind, r.number
	case Uint64Token:
		n.kind, n.number = Uint64Kind, r.number
	case DoubleToken:
		n.kind, n.number = DoubleKind, r.number
	case StringToken:
		n.kind, n.text = StringKind, r.build.copyText(r.text)
	case BeginList:
		if !r.listUntil(n, EndList) {
			return false
		}
	case BeginMap:
		n.kind = MapKind
		if entries := r.entriesUntil(EndMap); r.err != nil {
			return false
		} else if len(entries) > 0 {
			n.more = r.build.newMore()
			n.more.entries = entries
		}
	default:
		_ = r.misuse(token)
		return false
	}
	if len(attributes) > 0 {
		if n.more == nil {
			n.more = r.build.newMore()
		}
		n.more.attributes = attributes
	}
	return true
}

// listUntil reads items up to the token end; NoToken is the end of the input.
func (r *Reader) listUntil(n *Node, end Token) bool {
	b := &r.build
	n.kind = ListKind
	mark := len(b.nodes)
	for {
		token, err := r.Next()
		if err != nil {
			if err != io.EOF || end != NoToken {
				return false
			}
			break
		}
		if token == end {
			break
		}
		var item Node
		if !r.node(&item, token) {
			return false
		}
		b.pushNode(item)
	}
	if items := b.takeNodes(mark); len(items) > 0 {
		n.more = b.newMore()
		n.more.items = items
	}
	return true
}

// entriesUntil reads keys and values up to the token end; NoToken is the end of the input.
func (r *Reader) entriesUntil(end Token) []Entry {
	b := &r.build
	mark := len(b.entries)
	for {
		token, err := r.Next()
		if err != nil {
			if err != io.EOF || end != NoToken {
				return nil
			}
			break
		}
		if token == end {
			break
		}
		at := r.keyAt
		entry := Entry{Key: b.copyKey(r.text)}
		if token, err = r.Next(); err != nil || !r.node(&entry.Value, token) {
			return nil
		}
		b.push(entry, at)
	}
	twice := b.duplicate(b.entries[mark:])
	if twice >= 0 {
		r.err = nil // io.EOF, in a fragment
		r.failDuplicate(b.entries[mark+twice].Key, b.offsets[mark+twice])
		return nil
	}
	return b.takeEntries(mark)
}

// failDuplicate points at the second of two equal keys. A Reader of a stream may have dropped its
// place; the error is then at the end of the map.
func (r *Reader) failDuplicate(key string, at int64) {
	ahead := int(at - r.Offset())
	if r.pos+ahead < 0 {
		ahead = 0
	}
	r.fail(ahead, false, duplicateMessage(key))
}

func duplicateMessage(key string) string {
	return fmt.Sprintf("key %s is here for the second time", jsontext.Excerpt([]byte(key)))
}

// A builder makes Nodes with few allocations: it collects the children of open containers in
// stacks, and gives closed containers slices of larger blocks. A block is garbage when all Nodes
// in it are, so blocks are small.
type builder struct {
	nodes   []Node  // items of open lists, outermost first
	entries []Entry // entries of open maps
	offsets []int64 // of the keys in entries

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
	largestStack = 4 << 10 // Nodes and Entries; after a larger input the stacks are not kept
)

// reset drops everything of an earlier input, so that a Reader that waits in a pool holds no
// Nodes.
func (b *builder) reset() {
	if cap(b.nodes)+cap(b.entries) > largestStack {
		b.nodes, b.entries, b.offsets = nil, nil, nil
	}
	clear(b.nodes[:cap(b.nodes)])
	clear(b.entries[:cap(b.entries)])
	*b = builder{nodes: b.nodes[:0], entries: b.entries[:0], offsets: b.offsets[:0],
		nextBlock: firstBlock, textBlock: firstText}
}

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
func (b *builder) push(entry Entry, at int64) {
	if b.entries == nil {
		b.entries, b.offsets = make([]Entry, 0, firstBlock), make([]int64, 0, firstBlock)
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
