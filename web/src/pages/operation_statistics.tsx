import {TextInput} from '@gravity-ui/uikit';
import {useMemo, useState} from 'react';

import type {OperationDetails} from '../api/types';
import {bytes, decimal, duration, type Locale, share} from '../model/format';
import {type StatisticRow, statisticRows, statisticsOf, type Summary, unitOf, wholeOf} from '../model/statistics';
import {PartsBar} from '../parts/bars';
import {type Column, Grid} from '../parts/grid';
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
      <Section title={t('Statistics of ended jobs')}>
        <StatisticsTree tree={tree} />
      </Section>
    </>
  );
}

/** Reserves compares the memory reserved for jobs with their usage. */
function Reserves({operation}: {operation: OperationDetails}) {
  const {t, locale} = useTexts();
  const reserves = Object.entries(operation.progress?.memory_reserves ?? {});
  const list = useMemo(() => statisticsOf(operation.progress?.job_statistics), [operation.progress?.job_statistics]);
  const used = wholeOf(list, 'user_job/max_memory');
  if (reserves.length === 0) return null;
  const limits = limitsOf(operation.full_spec);
  return (
    <Section title={t('Memory: reserved and used')}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Memory: reserved and used')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Task')}</th>
              <th className="numeric">{t('Memory limit')}</th>
              <th className="numeric">{t('Reserve per job')}</th>
              <th className="numeric">{t('Factor')}</th>
              <th>{t('Of the limit')}</th>
              <th className="numeric">{t('Freed for others')}</th>
              <th className="numeric">{t('Used, mean')}</th>
              <th className="numeric">{t('Used, maximum')}</th>
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
                        label={t('{share} of the limit is reserved', {share: share(reserve.user_job / limit, locale)})}
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

/** limitsOf returns the memory limits of the tasks of a specification. */
export function limitsOf(spec: Record<string, unknown> | undefined): Record<string, number> {
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

/** StatisticsTree shows statistics as a tree with collapsible branches. */
export function StatisticsTree({tree}: {tree: unknown}) {
  const {t, word, locale} = useTexts();
  const [filter, setFilter] = useState('');
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const list = useMemo(() => statisticsOf(tree), [tree]);
  const toggle = (path: string, open: boolean) => {
    const next = new Set(folded);
    if (open) next.delete(path);
    else next.add(path);
    setFolded(next);
  };
  const columns = useMemo<Column<StatisticRow>[]>(() => {
    const figure = (key: string, title: string, width: number, of: (s: Summary) => number): Column<StatisticRow> => ({
      key, title, width, numeric: true, value: (row) => row.leaf && of(row.leaf.summary),
      render: (row) => row.leaf && print(row.path, of(row.leaf.summary), locale),
    });
    return [
      {
        key: 'path', title: t('Statistic'), width: 260, grow: true, value: (row) => row.path,
        render: (row) => (
          <span className="name" style={{paddingInlineStart: row.depth * 18}}>
            {row.open === undefined ? (
              <span className="name__fold" />
            ) : (
              <button
                type="button" className="name__fold" tabIndex={-1} onClick={() => toggle(row.path, !row.open)}
                aria-label={row.open ? t('Collapse {name}', {name: row.name}) : t('Expand {name}', {name: row.name})}
              >
                {row.open ? '▾' : '▸'}
              </button>
            )}
            <code className="name__text" title={row.path}>{row.name}</code>
          </span>
        ),
      },
      {key: 'state', title: t('Job state'), width: 110, value: (row) => row.leaf?.state, render: (row) => (row.leaf?.state ? word(row.leaf.state) : '')},
      {key: 'count', title: t('Count'), width: 80, numeric: true, value: (row) => row.leaf?.summary.count, render: (row) => row.leaf?.summary.count},
      figure('sum', t('Sum'), 130, (s) => s.sum),
      figure('mean', t('Mean'), 120, (s) => s.sum / Math.max(1, s.count)),
      figure('min', t('Minimum'), 120, (s) => s.min),
      figure('max', t('Maximum'), 120, (s) => s.max),
    ];
  }, [t, word, locale, folded]);
  const rows = useMemo(
    () => statisticRows(list.filter((s) => s.path.includes(filter.trim())), (path) => folded.has(path)), [list, filter, folded],
  );
  if (list.length === 0) return <Empty>{t('No job has ended yet')}</Empty>;
  return (
    <>
      <div className="toolbar">
        <TextInput
          className="toolbar__filter" value={filter} onUpdate={setFilter} hasClear placeholder={t('Filter by name')}
          controlProps={{'aria-label': t('Filter by name')}}
        />
        <Export name="statistics" columns={columns} rows={rows.filter((row) => row.leaf)} />
      </div>
      <Grid
        label={t('Statistics')} columns={columns} rows={rows} rowKey={(row) => row.key} empty={t('No name matches')}
        tree={{
          level: (row) => row.depth, expanded: (row) => row.open, toggle: (row, open) => toggle(row.path, open),
          open: (row) => row.open !== undefined && toggle(row.path, !row.open),
        }}
      />
    </>
  );
}
