package store

import (
	"strconv"
	"strings"
	"time"
)

// conditions collects parts of a WHERE clause with their arguments.
type conditions struct {
	parts []string
	args  []any
}

// arg adds an argument and returns its placeholder.
func (c *conditions) arg(value any) string {
	c.args = append(c.args, value)
	return "$" + strconv.Itoa(len(c.args))
}

// add adds a condition; each ? in it is replaced by the placeholder of the next
// value.
func (c *conditions) add(text string, values ...any) {
	for _, value := range values {
		text = strings.Replace(text, "?", c.arg(value), 1)
	}
	c.parts = append(c.parts, text)
}

// equal adds column = value unless the value is empty.
func (c *conditions) equal(column, value string) {
	if value != "" {
		c.add(column+" = ?", value)
	}
}

// between adds from <= column < to; zero times do not limit.
func (c *conditions) between(column string, from, to time.Time) {
	if !from.IsZero() {
		c.add(column+" >= ?", microseconds(from))
	}
	if !to.IsZero() {
		c.add(column+" < ?", microseconds(to))
	}
}

// where returns the clause, empty without conditions.
func (c *conditions) where() string {
	if len(c.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.parts, " AND ")
}

// flag returns a bool as it is stored.
func flag(value bool) int64 {
	if value {
		return 1
	}
	return 0
}

// Direction is the side of a cursor on which a list continues.
type Direction int

// Past continues with rows older than the cursor, Future with newer ones.
const (
	Past Direction = iota
	Future
)
