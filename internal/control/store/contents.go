package store

import "context"

// Contents returns the sums of all contents that have a use.
func (s *Store) Contents(ctx context.Context) (sums []string, err error) {
	err = scanAll(ctx, reader{s}, "SELECT DISTINCT content FROM content_uses", nil, func(scan func(...any) error) error {
		var sum string
		if err := scan(&sum); err != nil {
			return err
		}
		sums = append(sums, sum)
		return nil
	})
	return sums, s.wrap(err)
}

// ContentUsage returns the size of all contents that a user uses. Each content counts once.
func (s *Store) ContentUsage(ctx context.Context, user string) (size int64, err error) {
	err = s.row(ctx, "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM (SELECT content, MAX(size) AS size FROM content_uses WHERE user_name = $1 GROUP BY content) AS each_once",
		[]any{user}, &size)
	return size, s.wrap(err)
}

// ContentUses returns a user's uses of a content.
func (s *Store) ContentUses(ctx context.Context, user, content string) ([]ContentUse, error) {
	rows, err := contentUsesTable.list(ctx, reader{s}, "WHERE user_name = $1 AND content = $2 ORDER BY holder", user, content)
	return rows, s.wrap(err)
}

// OperationContents returns the uses that belong to an operation, ordered by job and holder. If job is not zero, it returns
// only those of this job.
func (s *Store) OperationContents(ctx context.Context, operation int32, job uint64) ([]ContentUse, error) {
	clause, args := "WHERE operation = $1 AND operation <> 0", []any{int64(operation)}
	if job != 0 {
		clause, args = clause+" AND job = $2", append(args, int64(job))
	}
	rows, err := contentUsesTable.list(ctx, reader{s}, clause+" ORDER BY job, holder", args...)
	return rows, s.wrap(err)
}
