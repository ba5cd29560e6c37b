import {TextInput} from '@gravity-ui/uikit';
import {useMemo, useState} from 'react';

import type {OperationDetails} from '../api/types';
import {bytes, decimal, duration, type Locale, share} from '../model/format';
import {type Statistic, statisticsOf, unitOf, wholeOf} from '../model/statistics';
import {PartsBar} from '../parts/bars';
import {type Column, Grid, useSorted} from '../parts/grid';
import {Section} from '../parts/small';
import {Empty} from '../parts/states';
import {Export} from '../parts/export';
import {useTexts} from '../text/i18n';

export function StatisticsTab({operation}: {operation: OperationDetails}) {
  const {t} = useTexts();
  const tree = operation.progress?.job_statistics;
  return (
    <>
      <Reserves operation={operation} />
      <Section title={t('Statistics of jobs that have ended')}>
        <StatisticsTree tree={tree} />
      </Section>
    </>
  );
}

/** Reserves compares the memory that is kept for jobs with what they use. */
function Reserves({operation}: {operation: OperationDetails}) {
  const {t, locale} = useTexts();
  const reserves = Object.entries(operation.progress?.memory_reserves ?? {});
  const list = useMemo(() => statisticsOf(operation.progress?.job_statistics), [operation.progress?.job_statistics]);
  const used = wholeOf(list, 'user_job/max_memory');
  if (reserves.length === 0) return null;
  const limits = limitsOf(operation.full_spec);
  return (
    <Section title={t('Memory: kept and used')}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Memory: kept and used')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Task')}</th>
              <th className="numeric">{t('Limit')}</th>
              <th className="numeric">{t('Kept for a job')}</th>
              <th className="numeric">{t('Factor')}</th>
              <th>{t('Of the limit')}</th>
              <th className="numeric">{t('Saved for others')}</th>
              <th className="numeric">{t('Used, mean')}</th>
              <th className="numeric">{t('Used, most')}</th>
            </tr>
          </thead>
          <tbody>
            {reserves.map(([task, reserve]) => {
              const limit = limits[task];
              return (
                <tr key={task}>
                  <th scope="row">{task}</th>
                  <td className="numeric">{limit === undefined ? '–' : bytes(limit, locale)}</td>
                  <td className="numeric">{bytes(reserve.user_job, locale)}</td>
                  <td className="numeric">{decimal(reserve.user_job_factor, locale)}</td>
                  <td className="plain__bar">
                    {limit !== undefined && (
                      <PartsBar
                        whole={limit}
                        label={t('{share} of the limit is kept', {share: share(reserve.user_job / limit, locale)})}
                        parts={[{kind: 'usage', value: reserve.user_job, title: ''}]}
                      />
                    )}
                  </td>
                  <td className="numeric">{limit === undefined ? '–' : bytes(Math.max(0, limit - reserve.user_job), locale)}</td>
                  <td className="numeric">{used ? bytes(used.sum / used.count, locale) : '–'}</td>
                  <td className="numeric">{used ? bytes(used.max, locale) : '–'}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** limitsOf are the memory limits of the tasks of a specification. */
function limitsOf(spec: Record<string, unknown> | undefined): Record<string, number> {
  const limits: Record<string, number> = {};
  const tasks = spec?.['tasks'];
  if (typeof tasks !== 'object' || tasks === null) return limits;
  for (const [name, task] of Object.entries(tasks as Record<string, unknown>)) {
    const limit = (task as {memory_limit?: unknown} | null)?.memory_limit;
    if (typeof limit === 'number') limits[name] = limit;
  }
  return limits;
}

function print(path: string, value: number, locale: Locale): string {
  switch (unitOf(path)) {
    case 'bytes':
      return bytes(value, locale);
    case 'milliseconds':
      return duration(value, locale);
    case 'hundredths':
      return decimal(value / 100, locale, 2);
  }
  return decimal(value, locale, 1);
}

export function StatisticsTree({tree}: {tree: unknown}) {
  const {t, word, locale} = useTexts();
  const [filter, setFilter] = useState('');
  const list = useMemo(() => statisticsOf(tree), [tree]);
  const columns = useMemo<Column<Statistic>[]>(
    () => [
      {key: 'path', title: t('Statistic'), width: 320, grow: true, value: (s) => s.path, render: (s) => <code title={s.path}>{s.path}</code>},
      {key: 'state', title: t('Jobs that'), width: 110, value: (s) => s.state, render: (s) => (s.state ? word(s.state) : '')},
      {key: 'count', title: t('Count'), width: 80, numeric: true, value: (s) => s.summary.count, render: (s) => s.summary.count},
      {key: 'sum', title: t('Sum'), width: 130, numeric: true, value: (s) => s.summary.sum, render: (s) => print(s.path, s.summary.sum, locale)},
      {
        key: 'mean', title: t('Mean'), width: 120, numeric: true, value: (s) => s.summary.sum / Math.max(1, s.summary.count),
        render: (s) => print(s.path, s.summary.sum / Math.max(1, s.summary.count), locale),
      },
      {key: 'min', title: t('Least'), width: 120, numeric: true, value: (s) => s.summary.min, render: (s) => print(s.path, s.summary.min, locale)},
      {key: 'max', title: t('Most'), width: 120, numeric: true, value: (s) => s.summary.max, render: (s) => print(s.path, s.summary.max, locale)},
    ],
    [t, word, locale],
  );
  const rows = useSorted(list.filter((s) => s.path.includes(filter.trim())), columns, 'sort');
  if (list.length === 0) return <Empty>{t('No job has ended yet')}</Empty>;
  return (
    <>
      <div className="toolbar">
        <TextInput
          className="toolbar__filter" value={filter} onUpdate={setFilter} hasClear placeholder={t('Filter by name')}
          controlProps={{'aria-label': t('Filter by name')}}
        />
        <Export name="statistics" columns={columns} rows={rows} />
      </div>
      <Grid label={t('Statistics')} columns={columns} rows={rows} rowKey={(s) => `${s.path} ${s.state}`} sort="sort" empty={t('Nothing has this in its name')} />
    </>
  );
}
