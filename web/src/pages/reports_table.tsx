import {useMemo} from 'react';

import type {Report, ReportLine} from '../api/types';
import {decimal, duration, share} from '../model/format';
import {type Measure, measureOf, numberOf, scaleOf} from '../model/reports';
import {Anchor} from '../parts/anchor';
import {type Column, Grid, useSorted} from '../parts/grid';
import {to} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';

/** Figure is a column of a report that the page shows. */
export interface Figure {
  column: string;
  title: Key;
  hint?: Key;
  /** summed figures have a sum in the last line. */
  summed?: boolean;
  /** always shows a column even if it is zero in all lines. */
  always?: boolean;
}

interface ReportTableProps {
  label: string;
  report: Report;
  keys: Column<ReportLine>[];
  figures: Figure[];
  empty: string;
}

/** ReportTable shows lines of a report. Columns of GPUs and of money, if they are empty, are left out. */
export function ReportTable({label, report, keys, figures, empty}: ReportTableProps) {
  const {t, locale} = useTexts();
  const columns = useMemo<Column<ReportLine>[]>(() => {
    const print = (measure: Measure, value: number | string | null | undefined) => {
      if (typeof value !== 'number') return '–';
      if (measure === 'seconds') return duration(value * 1000, locale);
      if (measure === 'part') return share(value, locale);
      if (measure === 'money') return decimal(value / scaleOf(measure), locale, 2);
      return decimal(value / scaleOf(measure), locale);
    };
    const shown = figures.filter((figure) => figure.always || report.lines.some((line) => numberOf(line, figure.column) !== 0));
    return [
      ...keys,
      ...shown.map(({column, title, hint, summed}): Column<ReportLine> => {
        const measure = measureOf(column);
        return {
          key: column, title: t(title), hint: hint && t(hint), width: 118, numeric: true, value: (line) => line[column], render: (line) => print(measure, line[column]),
          total: summed ? (rows) => print(measure, rows.reduce((sum, line) => sum + numberOf(line, column), 0)) : undefined,
        };
      }),
    ];
  }, [keys, figures, report, t, locale]);
  const rows = useSorted(report.lines, columns, 'sort');
  return (
    <Grid
      label={label} columns={columns} rows={rows} rowKey={(line) => [...keys.map((key) => line[key.key]), line['line']].map(String).join('\n')} sort="sort" empty={empty}
      totals={{title: t('Total'), rows}}
    />
  );
}

/** keyColumn is a column that names what a line is about; pools lead to their pages. */
export function keyColumn(key: string, title: string, tree: string): Column<ReportLine> {
  const name = (line: ReportLine) => String(line[key] ?? '');
  return {
    key, title, width: 130, grow: true, value: name,
    render: (line) => {
      if (name(line) === '') return <span className="muted">–</span>;
      return ['pool', 'victim', 'winner'].includes(key) ? <Anchor href={to.pool(tree, name(line))}>{name(line)}</Anchor> : name(line);
    },
  };
}
