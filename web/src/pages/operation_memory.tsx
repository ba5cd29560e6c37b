import {useMemo} from 'react';

import {useCommand} from '../api/queries';
import type {JobList, MemoryReserve, OperationDetails} from '../api/types';
import {bytes, decimal, share} from '../model/format';
import {histogram, savingsOf, topOf, type UseOfMemory, usesOf} from '../model/memory';
import {Histogram} from '../parts/histogram';
import {Facts, Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {useTexts} from '../text/i18n';
import {limitsOf} from './operation_statistics';

const counted = 1000;

/** MemoryTab shows how much memory is reserved for jobs, why, and what that saves. */
export function MemoryTab({operation}: {operation: OperationDetails}) {
  const {t} = useTexts();
  const jobs = useCommand<JobList>(
    'list_jobs',
    {
      operation_id: operation.id, job_state: 'completed', limit: counted, sort_field: 'finish_time', sort_order: 'descending',
      attributes: ['id', 'state', 'task_name', 'statistics'],
    },
    {every: 5000},
  );
  const reserves = Object.entries(operation.progress?.memory_reserves ?? {});
  const limits = limitsOf(operation.full_spec);
  return (
    <Loaded of={jobs}>
      {(data) => {
        const uses = usesOf(data.jobs);
        const tasks = reserves.length > 0 ? reserves.map(([task]) => task) : [...new Set(uses.map((use) => use.task))];
        if (tasks.length === 0) return <Empty>{t('No job has ended yet')}</Empty>;
        return (
          <>
            {tasks.map((task) => (
              <Task
                key={task} name={task} uses={uses.filter((use) => use.task === task)} limit={limits[task]}
                reserve={operation.progress?.memory_reserves?.[task]}
              />
            ))}
            {data.continuation_token && <p className="muted">{t('Last jobs counted: {n}', {n: counted})}</p>}
          </>
        );
      }}
    </Loaded>
  );
}

interface TaskProps {
  name: string;
  uses: UseOfMemory[];
  limit: number | undefined;
  reserve: MemoryReserve | undefined;
}

function Task({name, uses, limit, reserve}: TaskProps) {
  const {t, locale} = useTexts();
  const parts = useMemo(() => uses.map((use) => use.used / use.limit), [uses]);
  const top = topOf([...parts, reserve?.user_job_factor ?? 0]);
  const bars = useMemo(() => histogram(parts, top), [parts, top]);
  const savings = useMemo(() => savingsOf(uses), [uses]);
  const size = (value: number | undefined) => (value === undefined ? '–' : bytes(value, locale));
  return (
    <Section title={t('Task {name}', {name})}>
      <Facts
        items={[
          [t('Memory limit'), size(limit ?? savings?.limit)],
          [
            t('Reserve for the next job'),
            reserve ? t('{size} = {factor} of the limit', {size: size(reserve.user_job), factor: decimal(reserve.user_job_factor, locale, 3)}) : '–',
          ],
          [t('Job proxy'), reserve ? `${size(reserve.job_proxy)} + ${size(reserve.footprint)}` : '–'],
          [t('Saved per job'), reserve && limit !== undefined ? `${size(Math.max(0, limit - reserve.user_job))} (${share(Math.max(0, 1 - reserve.user_job / limit), locale)})` : '–'],
          ...(savings
            ? ([
              [t('Jobs counted'), String(savings.jobs)],
              [t('Reserve, mean'), size(savings.reserve)],
              [t('Used, mean'), size(savings.used)],
              [t('Used more than the reserve'), String(savings.above)],
            ] as [string, string][])
            : []),
        ]}
      />
      {uses.length === 0 ? (
        <Empty>{t('No job of this task has completed: the reserve is the initial one')}</Empty>
      ) : (
        <>
          <h3>{t('Completed jobs by fraction of the limit used')}</h3>
          <Histogram
            label={t('Completed jobs by fraction of the limit used')}
            bars={bars}
            top={top}
            mark={reserve && {at: reserve.user_job_factor, name: t('reserve: {share}', {share: share(reserve.user_job_factor, locale)})}}
            print={(part) => share(part, locale)}
            hint={(bar) => t('{from} to {to}: {n} {n|job|jobs}', {from: share(bar.from, locale), to: share(bar.to, locale), n: bar.count})}
          />
        </>
      )}
    </Section>
  );
}
