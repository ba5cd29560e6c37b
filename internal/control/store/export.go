package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"
)

// An export is gzipped lines of JSON: a header, then for each table a line that names its columns and a line
// with an array for each row, and finally the number of rows and the SHA-256 of all lines before. Columns are
// named, so an older export fits newer tables.
const (
	exportFormat  = "weir store"
	exportVersion = 1
	// maxExportLine is the maximum length of a line.
	maxExportLine = 512 << 20
)

// exportHeader is the first line.
type exportHeader struct {
	Format        string `json:"format"`
	Version       int    `json:"version"`
	Schema        int    `json:"schema"`
	Engine        string `json:"engine"`
	Epoch         int64  `json:"epoch"`
	Revision      int64  `json:"revision"`
	LastOperation int64  `json:"last_operation"`
	LastEvent     int64  `json:"last_event"`
	LastAudit     int64  `json:"last_audit"`
}

// exportMark is a line between rows: the start of a table, or the end of the export.
type exportMark struct {
	Table   string   `json:"table,omitempty"`
	Columns []string `json:"columns,omitempty"`
	Rows    *int64   `json:"rows,omitempty"`
	SHA256  string   `json:"sha256,omitempty"`
}

// Export writes everything in a form that any engine can import. It reads one consistent state while commits
// continue. Leases are not exported.
func (s *Store) Export(ctx context.Context, w io.Writer) error {
	packed := gzip.NewWriter(w)
	e := &exporter{sum: sha256.New(), out: bufio.NewWriterSize(packed, 1<<16)}
	err := s.snapshot(ctx, func(ctx context.Context, tx *sql.Tx) error {
		header := exportHeader{Format: exportFormat, Version: exportVersion, Engine: s.engine.name}
		if err := tx.QueryRowContext(ctx, "SELECT version FROM schema_version").Scan(&header.Schema); err != nil {
			return err
		}
		err := tx.QueryRowContext(ctx, "SELECT epoch, revision, last_operation, last_event, last_audit FROM leadership").
			Scan(&header.Epoch, &header.Revision, &header.LastOperation, &header.LastEvent, &header.LastAudit)
		if err != nil {
			return err
		}
		e.line(header)
		for _, t := range tables {
			e.line(exportMark{Table: t.tableName(), Columns: t.columnNames()})
			err := t.exportRows(ctx, tx, func(values []any) error {
				e.rows++
				e.line(values)
				return e.err
			})
			if err != nil {
				return err
			}
		}
		e.line(exportMark{Rows: &e.rows, SHA256: hex.EncodeToString(e.sum.Sum(nil))})
		return e.err
	})
	if err == nil {
		err = errors.Join(e.out.Flush(), packed.Close())
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// exporter writes lines and computes their checksum. It keeps the first error.
type exporter struct {
	sum  hash.Hash
	out  *bufio.Writer
	rows int64
	err  error
}

func (e *exporter) line(value any) {
	if e.err != nil {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		e.err = err
		return
	}
	text = append(text, '\n')
	e.sum.Write(text)
	_, e.err = e.out.Write(text)
}

func (t *table[R]) exportRows(ctx context.Context, q querier, each func(values []any) error) error {
	var row R
	targets := t.targets(&row, len(t.fields))
	values := make([]any, len(t.fields))
	query := t.selection() + t.orderClause()
	err := scanAll(ctx, q, query, nil, func(scan func(...any) error) error {
		if err := scan(targets...); err != nil {
			return err
		}
		for i, f := range t.fields {
			values[i] = toColumn(f.at(&row))
		}
		return each(values)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// Import fills an empty store from an export, all or nothing. It returns ErrNotEmpty if the store has ever
// been written to, ErrHeld while a leader holds the lease, and ErrCorrupt if the export is truncated or
// altered. Afterwards the revision is that of the export. Epochs continue above the export's epoch and above
// the clock's epoch: nodes may have seen epochs that started after the export was made.
func (s *Store) Import(ctx context.Context, r io.Reader) error {
	packed, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("import: %w: %w", ErrCorrupt, err)
	}
	in := &importReader{in: bufio.NewReaderSize(packed, 1<<16), sum: sha256.New()}
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer s.unlock()
	err = s.writing(ctx, func(inner context.Context, w *writer) error {
		if s.engine.patient != "" {
			if _, err := w.exec(inner, s.engine.patient); err != nil {
				return err
			}
		}
		if err := w.lockEmpty(inner); err != nil {
			return err
		}
		header, err := in.header()
		if err != nil {
			return err
		}
		w.revision = header.Revision
		if err := in.tables(ctx, inner, w); err != nil {
			return err
		}
		_, err = w.exec(inner, `UPDATE leadership SET epoch = CASE WHEN epoch + $1 < $6 THEN $6 ELSE epoch + $1 END, revision = $2, oldest_revision = $2,
			last_operation = $3, last_event = $4, last_audit = $5`,
			header.Epoch, header.Revision, header.LastOperation, header.LastEvent, header.LastAudit, ClockEpoch(time.Now()))
		return err
	})
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// lockEmpty locks the leadership row and checks that the store was never written to and has no leader.
func (w *writer) lockEmpty(ctx context.Context) error {
	var revision, alive int64
	err := w.tx.QueryRowContext(ctx, "UPDATE leadership SET epoch = epoch RETURNING revision, CASE WHEN holder <> '' AND expires > "+w.engine.now+
		" THEN 1 ELSE 0 END").Scan(&revision, &alive)
	switch {
	case err != nil:
		return err
	case revision != 0:
		return fmt.Errorf("%w: it has revision %d", ErrNotEmpty, revision)
	case alive != 0:
		return ErrHeld
	}
	return nil
}

// importReader reads the lines of an export.
type importReader struct {
	in   *bufio.Reader
	sum  hash.Hash
	rows int64
}

// next returns a line, which is valid until the next call, and the checksum of all lines before it.
func (r *importReader) next() (line, before []byte, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, nil, fmt.Errorf("%w: it ends after %d rows: %w", ErrCorrupt, r.rows, err)
		}
		if len(line) > maxExportLine {
			return nil, nil, fmt.Errorf("%w: a line of more than %d bytes", ErrCorrupt, maxExportLine)
		}
	}
	before = r.sum.Sum(nil)
	r.sum.Write(line)
	return line, before, nil
}

func (r *importReader) header() (exportHeader, error) {
	var header exportHeader
	line, _, err := r.next()
	if err != nil {
		return header, err
	}
	if err := json.Unmarshal(line, &header); err != nil || header.Format != exportFormat {
		return header, fmt.Errorf("%w: this is no export of a store", ErrCorrupt)
	}
	known, err := schemaVersion()
	if err != nil {
		return header, err
	}
	if header.Version > exportVersion || header.Schema > known {
		return header, fmt.Errorf("%w: the export has format %d and tables of version %d, this program knows %d and %d",
			ErrTooNew, header.Version, header.Schema, exportVersion, known)
	}
	return header, nil
}

// importRows is the number of rows per put.
const importRows = 500

// tables puts all rows. It stops when outer is cancelled; ctx, the transaction's, might not be cancelled
// then.
func (r *importReader) tables(outer, ctx context.Context, w *writer) error {
	var rows Rows
	var table anyTable
	var read *rowImporter
	pending := 0
	flush := func() error {
		if pending == 0 {
			return nil
		}
		if problems := table.check(&rows, false); len(problems) > 0 {
			return fmt.Errorf("%w: %w", ErrCorrupt, errors.Join(problems...))
		}
		_, err := table.put(ctx, w, &rows)
		rows, pending = Rows{}, 0
		return err
	}
	for {
		if err := outer.Err(); err != nil {
			return err
		}
		line, before, err := r.next()
		if err != nil {
			return err
		}
		if line[0] == '[' {
			if read == nil {
				return fmt.Errorf("%w: a row without a table", ErrCorrupt)
			}
			if err := read.row(line, &rows); err != nil {
				return fmt.Errorf("%w: %s: %w", ErrCorrupt, table.tableName(), err)
			}
			r.rows++
			if pending++; pending == importRows {
				if err := flush(); err != nil {
					return err
				}
			}
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		var mark exportMark
		if err := json.Unmarshal(line, &mark); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if mark.Rows != nil {
			return r.end(mark, before)
		}
		i := slices.IndexFunc(tables, func(t anyTable) bool { return t.tableName() == mark.Table })
		if i < 0 {
			return fmt.Errorf("%w: unknown table %q", ErrCorrupt, mark.Table)
		}
		table = tables[i]
		if read, err = table.importer(mark.Columns); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrCorrupt, mark.Table, err)
		}
	}
}

// end compares the last line with what was read and checks that nothing follows, which also makes gzip verify
// its own checksum.
func (r *importReader) end(mark exportMark, sum []byte) error {
	if *mark.Rows != r.rows || mark.SHA256 != hex.EncodeToString(sum) {
		return fmt.Errorf("%w: its sum or its number of rows is wrong", ErrCorrupt)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", ErrCorrupt)
	}
	return nil
}

// rowImporter decodes rows of one table with the columns that an export has.
type rowImporter struct {
	columns int
	add     func(values []json.RawMessage, into *Rows) error
}

func (i *rowImporter) row(line []byte, into *Rows) error {
	var values []json.RawMessage
	if err := json.Unmarshal(bytes.TrimSpace(line), &values); err != nil {
		return err
	}
	if len(values) != i.columns {
		return fmt.Errorf("a row of %d values, columns are %d", len(values), i.columns)
	}
	return i.add(values, into)
}

func (t *table[R]) importer(columns []string) (*rowImporter, error) {
	places := make([]int, len(columns))
	for i, name := range columns {
		places[i] = slices.IndexFunc(t.fields, func(f field[R]) bool { return f.column == name })
		if places[i] < 0 {
			return nil, fmt.Errorf("unknown column %q", name)
		}
	}
	return &rowImporter{columns: len(columns), add: func(values []json.RawMessage, into *Rows) error {
		var row R
		for i, place := range places {
			if err := fromJSON(t.fields[place].at(&row), values[i]); err != nil {
				return fmt.Errorf("%s: %w", columns[i], err)
			}
		}
		*t.slice(into) = append(*t.slice(into), row)
		return nil
	}}, nil
}

// fromJSON sets a field from a value in the form that toColumn returns.
func fromJSON(pointer any, raw json.RawMessage) error {
	var err error
	switch columnType(pointer) {
	case "text":
		var v string
		if err = json.Unmarshal(raw, &v); err == nil {
			err = cell{pointer}.Scan(v)
		}
	case "bigint":
		var v int64
		if err = json.Unmarshal(raw, &v); err == nil {
			err = cell{pointer}.Scan(v)
		}
	default:
		var v []byte
		if err = json.Unmarshal(raw, &v); err == nil {
			err = cell{pointer}.Scan(v)
		}
	}
	return err
}
