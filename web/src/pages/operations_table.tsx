import {type ReactNode, useMemo} from 'react';

import type {Counter, OperationRow} from '../api/types';
import {shortId} from '../model/format';
import {next} from '../model/forecast';
import {waits} from '../model/operation';
import {Anchor} from '../parts/anchor';
import {PartsBar} from '../parts/bars';
import {Eta} from '../parts/eta';
import {Export} from '../parts/export';
import {type Column, Grid, useSorted} from '../parts/grid';
import {Age, Moment, State} from '../parts/small';
import {to} from '../shell/routing';
import {type Texts, useTexts} from '../text/i18n';

/** placesOf returns the trees and pools of an operation. */
export function placesOf(row: OperationRow): [string, string][] {
  return Object.entries(row.runtime_parameters?.scheduling_options_per_pool_tree ?? {}).map(([tree, options]) => [tree, options.pool]);
}

export function JobsBar({jobs}: {jobs: Counter | undefined}) {
  const {t} = useTexts();
  if (!jobs || jobs.total === 0) return <span className="muted">–</span>;
  const label = t('{done} of {all} {all|job|jobs} completed, {running} running, {failed} failed, {aborted} aborted', {
    done: jobs.completed.total, all: jobs.total, running: jobs.running, failed: jobs.failed, aborted: jobs.aborted.total,
  });
  return (
    <span className="sharebar">
      <PartsBar
        whole={jobs.total}
        label={label}
        parts={[
          {kind: 'done', value: jobs.completed.total, title: label},
          {kind: 'usage', value: jobs.running, title: label},
        ]}
      />
      <span className="sharebar__number sharebar__number_wide">
        {jobs.completed.total} / {jobs.total}
      </span>
    </span>
  );
}

function columnsOf({t}: Texts, forecasts: boolean): Column<OperationRow>[] {
  return [
    {
      key: 'title', title: t('Operation'), width: 250, grow: true, value: (row) => row.brief_spec.title ?? row.id,
      render: (row) => (
        <span className="twolines">
          <Anchor href={to.operation(row.id)} title={row.brief_spec.title}>
            {row.brief_spec.title ?? shortId(row.id)}
          </Anchor>
          <span className="muted mono">{row.id}</span>
        </span>
      ),
    },
    {
      key: 'state', title: t('State'), width: 128, value: (row) => row.state,
      render: (row) => (
        <span className="labels">
          <State name={row.state} />
          {row.suspended && <State name="suspended" />}
          {waits(row) && <Anchor href={to.operation(row.id, 'why')}>{t('why?')}</Anchor>}
        </span>
      ),
    },
    {key: 'user', title: t('User'), width: 124, value: (row) => row.authenticated_user, render: (row) => row.authenticated_user},
    {
      key: 'pool', title: t('Pool'), width: 124, value: (row) => placesOf(row).map(([, pool]) => pool).join(' '),
      render: (row) => (
        <span className="twolines">
          {placesOf(row).map(([tree, pool]) => (
            <Anchor key={tree} href={to.pool(tree, pool)} title={`${pool} [${tree}]`}>
              {pool}
            </Anchor>
          ))}
        </span>
      ),
    },
    {
      key: 'jobs', title: t('Jobs'), width: 176, value: (row) => row.brief_progress?.jobs?.total,
      render: (row) => <JobsBar jobs={row.brief_progress?.jobs} />,
    },
    {
      key: 'failed', title: t('Failed'), width: 68, numeric: true, value: (row) => row.brief_progress?.jobs?.failed,
      render: (row) => {
        const failed = row.brief_progress?.jobs?.failed ?? 0;
        return failed > 0 ? <span className="danger">{failed}</span> : <span className="muted">0</span>;
      },
    },
    {
      key: 'start', title: t('Started'), width: 118, value: (row) => row.start_time,
      render: (row) => <Moment at={row.start_time} />,
    },
    {
      key: 'duration', title: t('Duration'), width: 96, numeric: true,
      value: (row) => (row.finish_time ? new Date(row.finish_time).getTime() : Date.now()) - new Date(row.start_time).getTime(),
      render: (row) => <Age since={row.start_time} until={row.finish_time} />,
    },
    ...(forecasts
      ? [{key: 'eta', title: t('ETA'), width: 168, value: (row: OperationRow) => next(row.forecast)?.times.median ?? undefined, render: (row: OperationRow) => <Eta forecast={row.forecast} />}]
      : []),
  ];
}

/** OperationsTable lists operations. */
export function OperationsTable({rows, name, tall, tools}: {rows: OperationRow[]; name: string; tall?: boolean; tools?: ReactNode}) {
  const texts = useTexts();
  const {t} = texts;
  const forecasts = rows.some((row) => row.forecast);
  const columns = useMemo(() => columnsOf(texts, forecasts), [texts, forecasts]);
  const sorted = useSorted(rows, columns, 'sort');
  return (
    <>
      <div className="grid__tools">
        {tools}
        <Export name={name} columns={columns} rows={sorted} />
      </div>
      <Grid
        label={t('Operations')}
        columns={columns}
        rows={sorted}
        rowKey={(row) => row.id}
        rowHeight={48}
        sort="sort"
        tall={tall}
        empty={t('No operations')}
      />
    </>
  );
}
