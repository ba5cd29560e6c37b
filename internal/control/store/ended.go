package store

import (
	"context"
	"fmt"
	"strings"
)

// maxAsked limits the numbers in one query, because engines limit arguments.
const maxAsked = 500

// EndedJobs returns which of the given jobs are finished in the store. A new
// leader calls it for jobs that nodes report and earlier leaders started.
func (s *Store) EndedJobs(ctx context.Context, numbers []uint64) (map[uint64]bool, error) {
	ended := map[uint64]bool{}
	for len(numbers) > 0 {
		part := numbers[:min(len(numbers), maxAsked)]
		numbers = numbers[len(part):]
		places, args := make([]string, len(part)), make([]any, len(part))
		for i, number := range part {
			places[i], args[i] = fmt.Sprintf("$%d", i+1), int64(number)
		}
		query := "SELECT number FROM jobs WHERE finish_time <> 0 AND number IN (" + strings.Join(places, ", ") + ")"
		err := scanAll(ctx, reader{s}, query, args, func(scan func(...any) error) error {
			var number int64
			err := scan(&number)
			ended[uint64(number)] = true
			return err
		})
		if err != nil {
			return nil, s.wrap(err)
		}
	}
	return ended, nil
}
