package cli

import (
	"errors"
	"fmt"

	"github.com/weirhq/weir/client"
)

// codeMemoryLimit is the code of jobs that used more memory than they may.
const codeMemoryLimit client.Code = 1200

// failureOf returns why an operation failed. The errors of operations have no figures, so those of
// memory come from the first job that failed.
func (s *session) failureOf(o *client.Operation) error {
	err := o.Err()
	if !errors.Is(err, codeMemoryLimit) {
		return err
	}
	page, failed := s.ListJobs(s.ctx, o.ID, client.JobFilter{State: client.Failed, Limit: 1})
	if failed != nil || len(page.Jobs) == 0 || page.Jobs[0].Error == nil {
		return err // what is known is still right
	}
	if figures := memoryFigures(page.Jobs[0].Error); figures != "" {
		return &advised{err, []string{figures}}
	}
	return err
}

// withFigures adds the figures to a job's error about memory. The message has none: clients of
// YTsaurus match on it and find the figures in the attributes.
func withFigures(e *client.Error) error {
	if figures := memoryFigures(e); figures != "" {
		return &advised{e, []string{figures}}
	}
	return e
}

// memoryFigures states how much memory a job used and might use; empty if the error is another one.
func memoryFigures(e *client.Error) string {
	if e.Code == codeMemoryLimit {
		usage, known := wholeNumber(e.Attributes["usage"])
		limit, limited := wholeNumber(e.Attributes["limit"])
		if known && limited {
			return fmt.Sprintf("A job used %s; its memory limit is %s (memory_limit of the task, --memory of weir run).",
				amountText("memory", usage), amountText("memory", limit))
		}
	}
	for _, inner := range e.Inner {
		if figures := memoryFigures(inner); figures != "" {
			return figures
		}
	}
	return ""
}

// wholeNumber reads an attribute that is an integer.
func wholeNumber(attribute any) (float64, bool) {
	switch n := attribute.(type) {
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	}
	return 0, false
}
