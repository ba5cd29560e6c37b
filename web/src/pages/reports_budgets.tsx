import {useMemo} from 'react';

import {useCommand} from '../api/queries';
import type {Report, ReportLine} from '../api/types';
import {csv, decimal, moment, share} from '../model/format';
import {numberOf, tableOf} from '../model/reports';
import {Meter} from '../parts/bars';
import {type Column, Grid, useSorted} from '../parts/grid';
import {Loaded} from '../parts/states';
import {useTexts} from '../text/i18n';
import {often} from './promises';
import {commandOf, ReportFoot, type ReportProps} from './reports';

/** BudgetReport shows how much of each budget is spent in the month in which the period starts. */
export function BudgetReport(props: ReportProps) {
  const {t, locale} = useTexts();
  const {tree, period} = props;
  const answer = useCommand<Report>('get_report', {report: 'budgets', pool_tree: tree, from_time: period.from, to_time: period.to}, {every: often});
  return (
    <Loaded of={answer}>
      {(data) => (
        <>
          <p className="muted">
            {t('A budget is for a month of UTC: {month}. It limits nothing; the event log and notifications tell when it is low and when it is spent.', {
              month: new Date(data.from_time).toLocaleDateString(locale, {month: 'long', year: 'numeric', timeZone: 'UTC'}),
            })}
          </p>
          <Budgets lines={data.lines} />
          <ReportFoot
            command={commandOf('budgets', props)} name={`budgets-${data.from_time.slice(0, 7)}`}
            table={() => csv(...tableOf(data.from_time, data.to_time, data.columns, data.lines))}
          />
        </>
      )}
    </Loaded>
  );
}

function Budgets({lines}: {lines: ReportLine[]}) {
  const {t, word, locale} = useTexts();
  const columns = useMemo<Column<ReportLine>[]>(() => {
    const text = (line: ReportLine, column: string) => String(line[column] ?? '');
    const of = (line: ReportLine) =>
      ['tree', 'pool', 'user', 'label'].filter((key) => text(line, key) !== '').map((key) => (key === 'label' ? text(line, key) : `${word(key)} ${text(line, key)}`)).join(', ');
    const sum = (column: string) => (line: ReportLine) => `${decimal(numberOf(line, column), locale, 2)} ${text(line, 'unit')}`;
    return [
      {key: 'budget', title: t('Budget'), width: 150, grow: true, value: (line) => text(line, 'budget'), render: (line) => text(line, 'budget')},
      {key: 'of', title: t('Of'), width: 200, grow: true, value: of, render: (line) => of(line) || t('everything')},
      {key: 'spent', title: t('Spent'), width: 130, numeric: true, value: (line) => numberOf(line, 'spent'), render: sum('spent')},
      {key: 'limit', title: t('Budgeted'), width: 130, numeric: true, value: (line) => numberOf(line, 'limit'), render: sum('limit')},
      {
        key: 'part', title: t('Part'), width: 190, value: (line) => numberOf(line, 'part'),
        render: (line) => {
          const part = numberOf(line, 'part');
          return (
            <span className="sharebar">
              <Meter value={Math.min(part, 1)} of={1} label={share(part, locale)} kind={part >= 1 ? 'full' : line['level'] === 'low' ? 'bucket' : 'usage'} />
              <span className="sharebar__number sharebar__number_wide">{share(part, locale)}</span>
            </span>
          );
        },
      },
      {key: 'level', title: t('Level'), width: 110, value: (line) => text(line, 'level'), render: (line) => word(text(line, 'level'))},
      {
        key: 'lasts_until', title: t('Lasts until'), hint: t('If the month goes on as until now'), width: 170, value: (line) => text(line, 'lasts_until'),
        render: (line) => (line['lasts_until'] ? moment(text(line, 'lasts_until'), locale) : '–'),
      },
    ];
  }, [t, word, locale]);
  const rows = useSorted(lines, columns, 'sort');
  return (
    <Grid
      label={t('Budgets')} columns={columns} rows={rows} rowKey={(line) => String(line['budget'])} sort="sort"
      empty={t('There are no budgets; the setting scheduler/accounting/budgets has them.')}
    />
  );
}
