package api

import (
	"fmt"
	"testing"
)

// The server answers lists from memory, except for those with a text filter, which the store
// answers by reading all operations. Every operation contains the text used here, so both answers
// must be identical byte for byte.
func TestListsFromMemoryAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	c := withPools(t, "a", "b")
	for _, user := range []string{"anna", "boris"} {
		c.must("create", fmt.Sprintf("{type=user;attributes={name=%s}}", user), "")
	}
	var middle string
	for i := range 24 {
		id := c.actingAs([]string{"anna", "boris"}[i%2]).start(job([]string{"a", "b"}[i/2%2], "sleep", 1))
		if i%4 == 0 {
			c.must("abort_operation", fmt.Sprintf("{operation_id=%q}", id), "")
			c.reaches(id, "aborted")
		}
		if i == 12 {
			middle = text(c.operation(id, "start_time"), "start_time")
		}
	}
	c.eventually("lists come from memory", c.Catalogued)
	id := c.start(job("a", "sleep", 1)) // after the list was loaded into memory
	c.must("abort_operation", fmt.Sprintf("{operation_id=%q}", id), "")
	c.start(job("b", "sleep", 1))
	filters := []string{""}
	for _, more := range [][]string{
		{"", "user=anna;"}, {"", "pool=a;", "pool=b;pool_tree=default;", "pool_tree=default;", "pool=moon;"},
		{"", "state=aborted;", "state=running;"}, {"", "limit=3;", "with_failed_jobs=%false;"},
		{"", fmt.Sprintf("cursor_time=%q;cursor_direction=future;", middle), fmt.Sprintf("from_time=%q;", middle)},
	} {
		var longer []string
		for _, filter := range filters {
			for _, part := range more {
				longer = append(longer, filter+part)
			}
		}
		filters = longer
	}
	answers := map[string]bool{}
	for _, filter := range filters {
		var fromMemory, stored string
		c.eventually("nothing changes between two answers", func() bool {
			before := c.must("list_operations", "{"+filter+"}", "")
			stored = c.must("list_operations", "{"+filter+"filter=VANILLA}", "")
			fromMemory = c.must("list_operations", "{"+filter+"}", "")
			return before == fromMemory
		})
		if fromMemory != stored {
			t.Fatalf("{%s}\nfrom memory:    %s\nfrom the store: %s", filter, fromMemory, stored)
		}
		answers[stored] = true
	}
	if len(answers) < 50 {
		t.Errorf("%d filters have only %d answers", len(filters), len(answers))
	}
}
