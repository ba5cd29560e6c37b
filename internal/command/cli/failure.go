package cli

import (
	"errors"
	"fmt"

	"github.com/weirhq/weir/client"
)

// codeMemoryLimit is the code of jobs that used more memory than they may.
const codeMemoryLimit client.Code = 1200

// withFigures adds the figures to an error about memory. The message has none: clients of YTsaurus
// match on it and find the figures in the attributes.
func withFigures(err error) error {
	var outer *client.Error
	if !errors.As(err, &outer) {
		return err
	}
	e := innerError(outer, codeMemoryLimit)
	if e == nil {
		return err
	}
	usage, known := e.Attributes["usage"].(int64)
	limit, limited := e.Attributes["limit"].(int64)
	if !known || !limited {
		return err
	}
	return &advised{err, []string{fmt.Sprintf("A job used %s; its memory limit is %s (memory_limit of the task, --memory of weir run).",
		amountText("memory", float64(usage)), amountText("memory", float64(limit)))}}
}

// innerError finds the first error with a code, in the error itself and those that caused it.
func innerError(e *client.Error, code client.Code) *client.Error {
	if e.Code == code {
		return e
	}
	for _, inner := range e.Inner {
		if found := innerError(inner, code); found != nil {
			return found
		}
	}
	return nil
}
