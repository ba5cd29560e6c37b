package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A table describes how rows of one type are stored.
type table[R any] struct {
	name   string
	keys   int // how many of the fields, from the first on, are the key
	fields []field[R]
	slice  func(*Rows) *[]R

	// loaded rows are part of the state that Load returns.
	loaded bool
	// tracked rows are loaded and carry a revision; Changes returns them. Deleting one leaves a tombstone.
	tracked bool
	// insertOnly rows are numbered by Commit and never put again.
	insertOnly bool
	// live restricts Load to what a starting leader needs; empty means all rows.
	live string
	// order of rows read; empty means by key.
	order string
	// guard is a condition on the existing row, named by the table, and the new one, named excluded.
	// The row is replaced only if it holds.
	guard string
	// keepFirst reports whether the first of two rows with the same key in a batch wins.
	keepFirst func(first *R) bool
	// rule returns what else is wrong with a row to put.
	rule func(*R) string
	// derived columns are computed from a row and never read back into it.
	derived []derived[R]
	// index writes what finds rows that were put.
	index func(ctx context.Context, w *writer, rows []R) error
}

// derived is a column for filters that is a function of the row.
type derived[R any] struct {
	column string
	value  func(*R) string
}

// anyTable is a table without its row type.
type anyTable interface {
	tableName() string
	isLoaded() bool
	isTracked() bool
	isInsertOnly() bool
	count(*Rows) int
	join(into, from *Batch)
	check(rows *Rows, keysOnly bool) []error
	// put writes rows and returns the bound keys of rows that a guard refused.
	put(ctx context.Context, w *writer, rows *Rows) (refused []rowKey, err error)
	remove(ctx context.Context, w *writer, rows *Rows) error
	// read appends the rows that a clause (WHERE …, with its own order) selects.
	read(ctx context.Context, q querier, into *Rows, clause string, args ...any) error
	putStatement(rows int) string
	// putSizes lists with how many rows put calls putStatement for the rows of a batch.
	putSizes(rows *Rows) []int
	liveClause() string
	changedClause() string
	readTombstone(into *Rows, key string) error
	columnNames() []string
	exportRows(ctx context.Context, q querier, each func(values []any) error) error
	importer(columns []string) (*rowImporter, error)
}

// rowKey is a key as bound values: strings and int64s, at most four.
type rowKey [4]any

func (t *table[R]) tableName() string  { return t.name }
func (t *table[R]) isLoaded() bool     { return t.loaded || t.tracked }
func (t *table[R]) isTracked() bool    { return t.tracked }
func (t *table[R]) isInsertOnly() bool { return t.insertOnly }

func (t *table[R]) count(rows *Rows) int { return len(*t.slice(rows)) }

func (t *table[R]) keyOf(row *R) rowKey {
	var key rowKey
	for i := range t.keys {
		key[i] = toColumn(t.fields[i].at(row))
	}
	return key
}

func (t *table[R]) join(into, from *Batch) {
	if gone := *t.slice(&from.Delete); len(gone) > 0 {
		deleted := make(map[rowKey]bool, len(gone))
		for i := range gone {
			deleted[t.keyOf(&gone[i])] = true
		}
		put := t.slice(&into.Put)
		*put = slices.DeleteFunc(*put, func(row R) bool { return deleted[t.keyOf(&row)] })
		all := t.slice(&into.Delete)
		*all = append(*all, gone...)
	}
	put := t.slice(&into.Put)
	*put = append(*put, *t.slice(&from.Put)...)
}

func (t *table[R]) check(rows *Rows, keysOnly bool) []error {
	var problems []error
	all := *t.slice(rows)
	for i := range all {
		row := &all[i]
		for n, f := range t.fields {
			if keysOnly && n >= t.keys {
				break
			}
			pointer := f.at(row)
			fault := faultOf(pointer)
			if text, ok := pointer.(*string); ok {
				switch {
				case n == 0 && *text == "":
					fault = "must not be empty"
				case len(*text) > maxText && !f.long:
					fault = fmt.Sprintf("longer than %d bytes", maxText)
				}
			}
			if fault != "" {
				problems = append(problems, fmt.Errorf("%w row %d of %s: %s: %s", ErrInvalid, i, t.name, f.column, fault))
			}
		}
		if t.rule != nil && !keysOnly {
			if fault := t.rule(row); fault != "" {
				problems = append(problems, fmt.Errorf("%w row %d of %s: %s", ErrInvalid, i, t.name, fault))
			}
		}
	}
	return problems
}

// distinct returns one row for each key, in the order of first appearance, and the keys of rows that
// were dropped because the first one wins.
func (t *table[R]) distinct(rows []R) (kept []*R, refused []rowKey) {
	kept = make([]*R, 0, len(rows))
	if len(rows) == 1 || t.insertOnly { // Commit has numbered them
		for i := range rows {
			kept = append(kept, &rows[i])
		}
		return kept, nil
	}
	at := make(map[rowKey]int, len(rows))
	for i := range rows {
		row := &rows[i]
		key := t.keyOf(row)
		n, twice := at[key]
		switch {
		case !twice:
			at[key] = len(kept)
			kept = append(kept, row)
		case t.keepFirst != nil && t.keepFirst(kept[n]):
			refused = append(refused, key)
		default:
			kept[n] = row
		}
	}
	return kept, refused
}

func (t *table[R]) columnNames() []string {
	names := make([]string, len(t.fields))
	for i, f := range t.fields {
		names[i] = f.column
	}
	return names
}

func (t *table[R]) keyColumns() []string { return t.columnNames()[:t.keys] }

// putColumns are all columns that a put writes, the revision last.
func (t *table[R]) putColumns() []string {
	names := t.columnNames()
	for _, d := range t.derived {
		names = append(names, d.column)
	}
	if t.tracked {
		names = append(names, "revision")
	}
	return names
}

// conflict is the end of an INSERT: what happens if the key exists.
func (t *table[R]) conflict() string {
	if t.insertOnly {
		return ""
	}
	columns := t.putColumns()[t.keys:]
	if len(columns) == 0 {
		return " ON CONFLICT DO NOTHING"
	}
	sets := make([]string, len(columns))
	for i, c := range columns {
		sets[i] = c + " = excluded." + c
	}
	clause := " ON CONFLICT (" + strings.Join(t.keyColumns(), ", ") + ") DO UPDATE SET " + strings.Join(sets, ", ")
	if t.guard != "" {
		clause += " WHERE " + t.guard
	}
	return clause
}

// appendValues appends the values of a row in the order of putColumns.
func (t *table[R]) appendValues(values []any, row *R, revision int64) []any {
	for _, f := range t.fields {
		values = append(values, toColumn(f.at(row)))
	}
	for _, d := range t.derived {
		values = append(values, d.value(row))
	}
	if t.tracked {
		values = append(values, revision)
	}
	return values
}

func (t *table[R]) put(ctx context.Context, w *writer, rows *Rows) ([]rowKey, error) {
	all := *t.slice(rows)
	refused, err := t.putRows(ctx, w, all)
	if err == nil && t.index != nil && len(all) > 0 {
		err = t.index(ctx, w, all)
	}
	return refused, err
}

func (t *table[R]) putRows(ctx context.Context, w *writer, all []R) ([]rowKey, error) {
	if len(all) == 0 {
		return nil, nil
	}
	kept, refused := t.distinct(all)
	var more []rowKey
	var err error
	if w.arrays {
		more, err = t.putArrays(ctx, w, kept)
	} else {
		more, err = t.putEach(ctx, w, kept)
	}
	if err != nil {
		return nil, fmt.Errorf("put %s: %w", t.name, err)
	}
	return append(refused, more...), nil
}

// rowsAtOnce is how many rows a statement puts where there is no network. More do not make it faster.
const rowsAtOnce = 32

func (t *table[R]) putSizes(rows *Rows) []int {
	switch n := t.count(rows); {
	case n == 0:
		return nil
	case n >= rowsAtOnce:
		return []int{1, rowsAtOnce}
	}
	return []int{1}
}

// errRefusedSome is returned if a guard has refused some of many rows. The transaction is then to be repeated
// with one row at a time, to see which.
var errRefusedSome = errors.New("some rows of a statement were refused")

// putEach executes prepared statements for one row or many: best where there is no network.
func (t *table[R]) putEach(ctx context.Context, w *writer, rows []*R) (refused []rowKey, err error) {
	if len(rows) >= rowsAtOnce && !(w.oneByOne && t.guard != "") {
		statement, err := w.prepare(ctx, t.putStatement(rowsAtOnce))
		if err != nil {
			return nil, err
		}
		var values []any
		for ; len(rows) >= rowsAtOnce; rows = rows[rowsAtOnce:] {
			values = values[:0]
			for _, row := range rows[:rowsAtOnce] {
				values = t.appendValues(values, row, w.revision)
			}
			result, err := statement.ExecContext(ctx, values...)
			if err != nil {
				return nil, err
			}
			if t.guard == "" {
				continue
			}
			if n, err := result.RowsAffected(); err != nil {
				return nil, err
			} else if n < rowsAtOnce {
				return nil, errRefusedSome
			}
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	statement, err := w.prepare(ctx, t.putStatement(1))
	if err != nil {
		return nil, err
	}
	var values []any
	for _, row := range rows {
		values = t.appendValues(values[:0], row, w.revision)
		result, err := statement.ExecContext(ctx, values...)
		if err != nil {
			return nil, err
		}
		if t.guard == "" {
			continue
		}
		if n, err := result.RowsAffected(); err != nil {
			return nil, err
		} else if n == 0 {
			refused = append(refused, t.keyOf(row))
		}
	}
	return refused, nil
}

// putStatement puts a number of rows with different keys.
func (t *table[R]) putStatement(rows int) string {
	columns := t.putColumns()
	row := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	return "INSERT INTO " + t.name + " (" + strings.Join(columns, ", ") + ") VALUES " + row +
		strings.Repeat(", "+row, rows-1) + t.conflict()
}

// putArrays sends all rows in one statement with an array for each column.
func (t *table[R]) putArrays(ctx context.Context, w *writer, rows []*R) (refused []rowKey, err error) {
	columns := t.putColumns()
	var zero R
	types := make([]string, len(columns))
	for i := range columns {
		switch {
		case i < len(t.fields):
			types[i] = columnType(t.fields[i].at(&zero))
		case i < len(t.fields)+len(t.derived):
			types[i] = "text"
		default:
			types[i] = "bigint"
		}
	}
	query := "INSERT INTO " + t.name + " (" + strings.Join(columns, ", ") + ") SELECT * FROM " + unnest(types) + t.conflict()
	bound := make([][]any, len(rows))
	for i, row := range rows {
		bound[i] = t.appendValues(nil, row, w.revision)
	}
	arguments := arrays(types, bound)
	if t.guard == "" {
		_, err := w.tx.ExecContext(ctx, query, arguments...)
		return nil, err
	}
	written := make(map[rowKey]bool, len(rows))
	err = scanAll(ctx, w.tx, query+" RETURNING "+strings.Join(t.keyColumns(), ", "), arguments, func(scan func(...any) error) error {
		var row R
		if err := scan(t.targets(&row, t.keys)...); err != nil {
			return err
		}
		written[t.keyOf(&row)] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if key := t.keyOf(row); !written[key] {
			refused = append(refused, key)
		}
	}
	return refused, nil
}

// unnest is a table of arrays given as parameters $1, $2, ….
func unnest(types []string) string {
	arguments := make([]string, len(types))
	for i, typ := range types {
		arguments[i] = "$" + strconv.Itoa(i+1) + "::" + typ + "[]"
	}
	return "unnest(" + strings.Join(arguments, ", ") + ")"
}

// arrays turns rows of values into one array for each column.
func arrays(types []string, rows [][]any) []any {
	columns := make([]any, len(types))
	for i, typ := range types {
		switch typ {
		case "text":
			columns[i] = column[string](rows, i)
		case "bigint":
			columns[i] = column[int64](rows, i)
		case "bytea":
			columns[i] = column[[]byte](rows, i)
		}
	}
	return columns
}

func column[V any](rows [][]any, i int) []V {
	values := make([]V, len(rows))
	for n, row := range rows {
		values[n] = row[i].(V)
	}
	return values
}

func (t *table[R]) remove(ctx context.Context, w *writer, rows *Rows) error {
	all := *t.slice(rows)
	for i := range all {
		key := t.keyOf(&all[i])
		values := key[:t.keys]
		conditions := make([]string, t.keys)
		for n, c := range t.keyColumns() {
			conditions[n] = c + " = $" + strconv.Itoa(n+1)
		}
		result, err := w.exec(ctx, "DELETE FROM "+t.name+" WHERE "+strings.Join(conditions, " AND "), values...)
		if err != nil {
			return fmt.Errorf("delete from %s: %w", t.name, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return fmt.Errorf("delete from %s: %w", t.name, err)
		}
		if n == 0 || !t.tracked {
			continue
		}
		text, err := json.Marshal(values)
		if err != nil {
			return fmt.Errorf("delete from %s: %w", t.name, err)
		}
		if err := w.tombstone(ctx, t.name, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// targets are what the first n columns of a row are scanned into.
func (t *table[R]) targets(row *R, n int) []any {
	targets := make([]any, n)
	for i := range n {
		targets[i] = cell{t.fields[i].at(row)}
	}
	return targets
}

func (t *table[R]) selection() string {
	return t.selectionFrom(t.name)
}

// selectionFrom selects the table's columns from a join.
func (t *table[R]) selectionFrom(join string) string {
	return "SELECT " + t.name + "." + strings.Join(t.columnNames(), ", "+t.name+".") + " FROM " + join + " "
}

// orderClause makes the order of rows that are read a total one.
func (t *table[R]) orderClause() string {
	if t.order != "" {
		return " ORDER BY " + t.order
	}
	return " ORDER BY " + strings.Join(t.keyColumns(), ", ")
}

func (t *table[R]) liveClause() string {
	if t.live == "" {
		return t.orderClause()
	}
	return "WHERE " + t.live + t.orderClause()
}

// changedClause orders by revision first: an order by key alone makes SQLite scan the whole table by
// key instead of using the index on revisions.
func (t *table[R]) changedClause() string {
	revision := t.name + ".revision"
	return "WHERE " + revision + " > $1" + strings.Replace(t.orderClause(), "ORDER BY ", "ORDER BY "+revision+", ", 1)
}

func (t *table[R]) read(ctx context.Context, q querier, into *Rows, clause string, args ...any) error {
	rows, err := t.list(ctx, q, clause, args...)
	*t.slice(into) = append(*t.slice(into), rows...)
	return err
}

// list returns the rows that a clause selects.
func (t *table[R]) list(ctx context.Context, q querier, clause string, args ...any) ([]R, error) {
	return t.listFrom(ctx, q, t.name, clause, args...)
}

// listFrom returns the rows that a clause selects from a join.
func (t *table[R]) listFrom(ctx context.Context, q querier, join, clause string, args ...any) ([]R, error) {
	var rows []R
	var row R
	targets := t.targets(&row, len(t.fields))
	err := scanAll(ctx, q, t.selectionFrom(join)+clause, args, func(scan func(...any) error) error {
		if err := scan(targets...); err != nil {
			return err
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.name, err)
	}
	return rows, nil
}

func (t *table[R]) readTombstone(into *Rows, key string) error {
	var values []json.RawMessage
	if err := json.Unmarshal([]byte(key), &values); err != nil || len(values) != t.keys {
		return fmt.Errorf("tombstone %q of %s: not a key", key, t.name)
	}
	var row R
	for i, value := range values {
		if err := fromJSON(t.fields[i].at(&row), value); err != nil {
			return fmt.Errorf("tombstone %q of %s: %w", key, t.name, err)
		}
	}
	*t.slice(into) = append(*t.slice(into), row)
	return nil
}

// querier is a source of rows: a connection pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// scanAll runs a query and calls each for every row with a function that scans it.
func scanAll(ctx context.Context, q querier, query string, args []any, each func(scan func(...any) error) error) error {
	if r, outside := q.(reader); outside {
		return within(ctx, r.patience.read, func(ctx context.Context) error { return scanRows(ctx, q, query, args, each) })
	}
	return scanRows(ctx, q, query, args, each) // its transaction has a deadline
}

func scanRows(ctx context.Context, q querier, query string, args []any, each func(scan func(...any) error) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
