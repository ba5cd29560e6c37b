package wire

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/yson"
)

// FromDocument turns a document into YSON. Documents have no attributes.
func FromDocument(v document.Value) yson.Node {
	switch v.Kind() {
	case document.BoolKind:
		b, _ := v.Bool()
		return yson.Boolean(b)
	case document.IntKind:
		i, _ := v.Int64()
		return yson.Int64(i)
	case document.UintKind:
		u, _ := v.Uint64()
		return yson.Uint64(u)
	case document.FloatKind:
		f, _ := v.Float64()
		return yson.Double(f)
	case document.StringKind:
		s, _ := v.Text()
		return yson.String(s)
	case document.ListKind:
		items := make([]yson.Node, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = FromDocument(item)
		}
		return yson.List(items...)
	case document.MapKind:
		entries := make([]yson.Entry, len(v.Entries()))
		for i, e := range v.Entries() {
			entries[i] = yson.Pair(e.Key, FromDocument(e.Value))
		}
		return yson.Map(entries...)
	}
	return yson.Entity()
}

// ToDocument turns YSON into a document. It drops attributes, which documents do not have. It
// refuses nesting deeper than documents allow, and bytes that are not text: a stored document must
// be readable as one.
func ToDocument(n yson.Node) (document.Value, error) { return documentAt(n, 0) }

func documentAt(n yson.Node, depth int) (document.Value, error) {
	if depth > document.MaxDepth {
		return document.Null(), Errorf(CodeGeneric, "The value is nested deeper than %d levels", document.MaxDepth)
	}
	switch n.Kind() {
	case yson.BooleanKind:
		b, _ := n.Boolean()
		return document.Bool(b), nil
	case yson.Int64Kind:
		i, _ := n.Int64()
		return document.Int(i), nil
	case yson.Uint64Kind:
		if i, fits := n.Int64(); fits {
			return document.Int(i), nil
		}
		u, _ := n.Uint64()
		return document.Uint(u), nil
	case yson.DoubleKind:
		f, _ := n.Double()
		return document.Float(f), nil
	case yson.StringKind:
		s, _ := n.Text()
		return document.Text(s), MustBeText(s)
	case yson.ListKind:
		items := make([]document.Value, len(n.Items()))
		for i, item := range n.Items() {
			var err error
			if items[i], err = documentAt(item, depth+1); err != nil {
				return document.Null(), err
			}
		}
		return document.List(items...), nil
	case yson.MapKind:
		entries := make([]document.Entry, len(n.Entries()))
		for i, e := range n.Entries() {
			value, err := documentAt(e.Value, depth+1)
			if err == nil {
				err = MustBeText(e.Key)
			}
			if err != nil {
				return document.Null(), err
			}
			entries[i] = document.Pair(e.Key, value)
		}
		return document.Map(entries...), nil
	}
	return document.Null(), nil
}

// MustBeText refuses bytes that are not text.
func MustBeText(s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return Errorf(CodeGeneric, "%s is not UTF-8 text", CutText(yson.String(s).String(), 100))
}

// TimeLayout is the layout of instants.
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// Instant writes a time; the zero time is the entity.
func Instant(t time.Time) yson.Node {
	if t.IsZero() {
		return yson.Entity()
	}
	return yson.String(t.UTC().Format(TimeLayout))
}

// Texts writes a list of strings.
func Texts(list []string) yson.Node {
	items := make([]yson.Node, len(list))
	for i, text := range list {
		items[i] = yson.String(text)
	}
	return yson.List(items...)
}

// Stored encodes a value for the store: binary YSON keeps attributes and the kinds of numbers.
func Stored(n yson.Node) ([]byte, error) { return yson.Append(nil, n, yson.Binary) }

// Unstored decodes what Stored wrote.
func Unstored(data []byte) (yson.Node, error) {
	if len(data) == 0 {
		return yson.Entity(), nil
	}
	n, err := yson.Parse(data)
	if err != nil {
		return n, fmt.Errorf("a stored value: %w", err)
	}
	return n, nil
}
