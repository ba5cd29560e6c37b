import {useVirtualizer} from '@tanstack/react-virtual';
import {type KeyboardEvent, memo, type ReactNode, useMemo, useRef, useState} from 'react';

import {useQueryValue} from '../shell/routing';

export interface Column<Row> {
  key: string;
  title: string;
  /** hint explains the column. */
  hint?: string;
  width: number;
  grow?: boolean;
  numeric?: boolean;
  render: (row: Row) => ReactNode;
  /** value is what the column is sorted by and exported as. */
  value?: (row: Row) => string | number | null | undefined;
  /** total is what the last line says about several rows together. */
  total?: (rows: Row[]) => ReactNode;
}

interface GridProps<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** tall grids fill the remaining height; others are as high as their rows. */
  tall?: boolean;
  rowHeight?: number;
  /** sort is the query parameter with the order; if it is set, the rows are already sorted. */
  sort?: string;
  tree?: {
    level: (row: Row) => number;
    expanded: (row: Row) => boolean | undefined;
    toggle: (row: Row, open: boolean) => void;
    open: (row: Row) => void;
  };
  empty?: ReactNode;
  /** totals adds a last line that stays visible, about these rows. */
  totals?: {title: string; rows: Row[]};
}

/** Grid is a table of any length: only the visible rows are in the document. */
export function Grid<Row>({label, columns, rows, rowKey, tall, rowHeight = 36, sort, tree, empty, totals}: GridProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(-1);
  const virtual = useVirtualizer({
    count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 10,
  });
  const template = columns.map((c) => (c.grow ? `minmax(${c.width}px, 1fr)` : `${c.width}px`)).join(' ');
  const width = columns.reduce((sum, c) => sum + c.width, 0);
  const role = tree ? 'treegrid' : 'table';
  const cell = tree ? 'gridcell' : 'cell';
  const onKeyDown = (event: KeyboardEvent) => {
    if (!tree || event.target !== scroller.current) return;
    const row = rows[active];
    const move = (next: number) => {
      const at = Math.max(0, Math.min(rows.length - 1, next));
      setActive(at);
      virtual.scrollToIndex(at);
    };
    if (event.key === 'ArrowDown') move(active + 1);
    else if (event.key === 'ArrowUp') move(active - 1);
    else if (event.key === 'Home') move(0);
    else if (event.key === 'End') move(rows.length - 1);
    else if (event.key === 'ArrowRight' && row && tree.expanded(row) === false) tree.toggle(row, true);
    else if (event.key === 'ArrowLeft' && row && tree.expanded(row)) tree.toggle(row, false);
    else if (event.key === 'Enter' && row) tree.open(row);
    else return;
    event.preventDefault();
  };
  return (
    <div
      className={`grid${tall ? ' grid_tall' : ''}`}
      ref={scroller}
      role={role}
      aria-label={label}
      aria-rowcount={rows.length + (totals ? 2 : 1)}
      aria-colcount={columns.length}
      tabIndex={0}
      onKeyDown={onKeyDown}
      aria-activedescendant={tree && rows[active] ? `row-${active}` : undefined}
    >
      <div className="grid__head" role="rowgroup" style={{minWidth: width}}>
        <div className="grid__row grid__row_head" role="row" aria-rowindex={1} style={{gridTemplateColumns: template}}>
          {columns.map((c) => (
            <Head key={c.key} column={c} sort={sort} />
          ))}
        </div>
      </div>
      {rows.length === 0 ? (
        <div role="rowgroup">
          <div role="row" className="grid__empty">
            <div role={cell} aria-colspan={columns.length}>
              {empty}
            </div>
          </div>
        </div>
      ) : (
        <div className="grid__body" role="rowgroup" style={{height: virtual.getTotalSize(), minWidth: width}}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index]!;
            return (
              <GridRow
                key={rowKey(row)} row={row} columns={columns} template={template} index={item.index} start={item.start} height={rowHeight}
                active={item.index === active} cell={cell} level={tree?.level(row)} expanded={tree?.expanded(row)}
              />
            );
          })}
        </div>
      )}
      {totals && totals.rows.length > 0 && (
        <div className="grid__foot" role="rowgroup" style={{minWidth: width}}>
          <div className="grid__row" role="row" aria-rowindex={rows.length + 2} style={{gridTemplateColumns: template, height: rowHeight}}>
            {columns.map((c, i) => (
              <div key={c.key} role={cell} className={`grid__cell${c.numeric ? ' grid__cell_numeric' : ''}`}>
                {i === 0 ? totals.title : c.total?.(totals.rows)}
              </div>
            ))}
          </div>
        </div>
      )}
    </div>
  );
}

interface RowProps<Row> {
  row: Row;
  columns: Column<Row>[];
  template: string;
  index: number;
  start: number;
  height: number;
  active: boolean;
  cell: string;
  /** level and expanded are set only in trees. */
  level?: number;
  expanded?: boolean;
}

function PlainRow<Row>({row, columns, template, index, start, height, active, cell, level, expanded}: RowProps<Row>) {
  return (
    <div
      id={level === undefined ? undefined : `row-${index}`}
      className={`grid__row${active ? ' grid__row_active' : ''}`}
      role="row"
      aria-rowindex={index + 2}
      aria-level={level === undefined ? undefined : level + 1}
      aria-expanded={expanded}
      style={{gridTemplateColumns: template, height, transform: `translateY(${start}px)`}}
    >
      {columns.map((c) => (
        <div key={c.key} role={cell} className={`grid__cell${c.numeric ? ' grid__cell_numeric' : ''}`}>
          {c.render(row)}
        </div>
      ))}
    </div>
  );
}

// Rows that stay visible while a table scrolls are not rendered again.
const GridRow = memo(PlainRow) as typeof PlainRow;

function Head<Row>({column, sort}: {column: Column<Row>; sort?: string}) {
  const [order, setOrder] = useQueryValue(sort ?? 'sort');
  const up = order === column.key;
  const down = order === `-${column.key}`;
  const className = `grid__cell grid__cell_head${column.numeric ? ' grid__cell_numeric' : ''}`;
  if (!sort || !column.value) {
    return (
      <div role="columnheader" className={className} title={column.hint}>
        {column.title}
      </div>
    );
  }
  return (
    <div role="columnheader" className={className} title={column.hint ?? column.title} aria-sort={up ? 'ascending' : down ? 'descending' : 'none'}>
      <button type="button" className="grid__sort" onClick={() => setOrder(down ? column.key : up ? '' : `-${column.key}`)}>
        {column.title}
        <span aria-hidden="true">{up ? ' ↑' : down ? ' ↓' : ''}</span>
      </button>
    </div>
  );
}

/** comparison turns an order such as "-usage" into a function that compares rows. */
export function comparison<Row>(columns: Column<Row>[], order: string): ((a: Row, b: Row) => number) | undefined {
  const descending = order.startsWith('-');
  const value = columns.find((c) => c.key === (descending ? order.slice(1) : order))?.value;
  if (!value) return undefined;
  return (a, b) => {
    const [x, y] = [value(a), value(b)];
    // Rows without a value come last in either order.
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    const before = typeof x === 'number' && typeof y === 'number' ? x - y : String(x) < String(y) ? -1 : 1;
    return descending ? -before : before;
  };
}

/** useSorted sorts rows by the order in the address. */
export function useSorted<Row>(rows: Row[], columns: Column<Row>[], sort: string): Row[] {
  const [order] = useQueryValue(sort);
  return useMemo(() => {
    const compare = comparison(columns, order);
    return compare ? [...rows].sort(compare) : rows;
  }, [rows, columns, order]);
}
