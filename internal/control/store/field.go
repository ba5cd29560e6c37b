package store

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A field maps a column to a field of a row type. All row operations (put, load, export, import,
// check) are derived from the fields of a table, so a column is named once.
type field[R any] struct {
	column string
	at     func(*R) any // a pointer to one of the types that columnType knows
	long   bool         // a text of any length: it is in no index
}

// columnType is the SQL type with which values of a field are sent to PostgreSQL.
func columnType(pointer any) string {
	switch pointer.(type) {
	case *string, *[]TreePool:
		return "text"
	case *int32, *int64, *uint64, *bool, *time.Time:
		return "bigint"
	case *[]byte:
		return "bytea"
	}
	panic(fmt.Sprintf("store: no column type for %T", pointer))
}

// toColumn returns the value of a field as the engines store it: string, int64 or []byte.
func toColumn(pointer any) any {
	switch p := pointer.(type) {
	case *string:
		return *p
	case *[]TreePool:
		return poolsText(*p)
	case *int32:
		return int64(*p)
	case *int64:
		return *p
	case *uint64:
		return int64(*p) // the same 64 bits
	case *bool:
		if *p {
			return int64(1)
		}
		return int64(0)
	case *time.Time:
		return microseconds(*p)
	case *[]byte:
		if *p == nil {
			return []byte{} // columns are never NULL
		}
		return *p
	}
	panic(fmt.Sprintf("store: no column value for %T", pointer))
}

// microseconds returns a time as it is stored. The zero time is 0.
func microseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timeOf is the inverse of microseconds.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// cell scans a column into a field.
type cell struct{ pointer any }

// Scan implements sql.Scanner.
func (c cell) Scan(value any) error {
	switch p := c.pointer.(type) {
	case *string, *[]TreePool:
		return scanText(p, value)
	case *[]byte:
		switch v := value.(type) {
		case nil:
			*p = nil
		case []byte:
			*p = nil
			if len(v) > 0 {
				*p = slices.Clone(v) // the driver reuses its buffer
			}
		case string:
			*p = nil
			if v != "" {
				*p = []byte(v)
			}
		default:
			return fmt.Errorf("a document stored as %T", value)
		}
		return nil
	}
	v, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a number stored as %T", value)
	}
	switch p := c.pointer.(type) {
	case *int32:
		if int64(int32(v)) != v {
			return fmt.Errorf("the number %d is out of range", v)
		}
		*p = int32(v)
	case *int64:
		*p = v
	case *uint64:
		*p = uint64(v)
	case *bool:
		*p = v != 0
	case *time.Time:
		*p = timeOf(v)
	}
	return nil
}

func scanText(pointer, value any) error {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return fmt.Errorf("a text stored as %T", value)
	}
	switch p := pointer.(type) {
	case *string:
		*p = text
	case *[]TreePool:
		*p = poolsOf(text)
	}
	return nil
}

// An operation's pools are one text, with a line for each: "\ntree\tpool\n…\n". It is read quickly
// with the row, and a filter can search for a substring that cannot match anything else.

func poolsText(pools []TreePool) string {
	if len(pools) == 0 {
		return ""
	}
	pools = slices.Clone(pools)
	slices.SortFunc(pools, func(a, b TreePool) int {
		if c := strings.Compare(a.Tree, b.Tree); c != 0 {
			return c
		}
		return strings.Compare(a.Pool, b.Pool)
	})
	var text strings.Builder
	text.WriteByte('\n')
	for _, p := range pools {
		text.WriteString(p.Tree + "\t" + p.Pool + "\n")
	}
	return text.String()
}

func poolsOf(text string) []TreePool {
	var pools []TreePool
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		if tree, pool, ok := strings.Cut(line, "\t"); ok {
			pools = append(pools, TreePool{Tree: tree, Pool: pool})
		}
	}
	return pools
}

// faultOf returns what is wrong with the value of a field, empty if nothing is.
func faultOf(pointer any) string {
	switch p := pointer.(type) {
	case *string:
		return faultOfText(*p)
	case *[]TreePool:
		for _, tp := range *p {
			if strings.ContainsAny(tp.Tree+tp.Pool, "\n\t") {
				return fmt.Sprintf("the pool %q of tree %q has a tab or a line break in its name", tp.Pool, tp.Tree)
			}
			if fault := faultOfText(tp.Tree + tp.Pool); fault != "" {
				return fault
			}
		}
	case *time.Time:
		if !p.IsZero() && (p.Year() < 1 || p.Year() > 200000) {
			return "the time is out of range"
		}
	}
	return ""
}

// maxText is the maximum length of a text in bytes: PostgreSQL cannot index much more than two of
// them.
const maxText = 1000

func faultOfText(text string) string {
	if strings.IndexByte(text, 0) >= 0 {
		return "a text with a NUL character"
	}
	if !utf8.ValidString(text) {
		return "a text that is not UTF-8"
	}
	return ""
}
