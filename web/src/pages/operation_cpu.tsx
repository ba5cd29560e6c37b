import {Button, Select} from '@gravity-ui/uikit';
import {useEffect, useMemo, useState} from 'react';

import {live, useCommand} from '../api/queries';
import type {Job, JobList} from '../api/types';
import {CpuRecord, type CpuTrack, sumOf, trackOf} from '../model/cpu';
import {decimal, duration} from '../model/format';
import {statisticsOf, wholeOf} from '../model/statistics';
import {Anchor} from '../parts/anchor';
import {Chart, colors, type Line} from '../parts/chart';
import {type Column, Grid, useSorted} from '../parts/grid';
import {Section, State} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {to, useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';

const watched = 100;
const drawn = 12;

// Records are kept while the browser tab is open, so that visiting another page does not lose them.
const records = new Map<string, CpuRecord>();
const mostRecords = 5;

function recordOf(id: string): CpuRecord {
  let record = records.get(id);
  if (!record) {
    record = new CpuRecord();
    records.set(id, record);
    for (const old of records.keys()) {
      if (records.size <= mostRecords) break;
      records.delete(old);
    }
  }
  return record;
}

/** useCpuRecord watches the running jobs of an operation. */
export function useCpuRecord(id: string, ended: boolean): {record: CpuRecord; version: number} {
  const jobs = useCommand<JobList>(
    'list_jobs',
    {
      operation_id: id, job_state: 'running', limit: watched, sort_field: 'start_time', sort_order: 'ascending',
      attributes: ['id', 'state', 'task_name', 'address', 'start_time', 'resources', 'resource_usage', 'brief_statistics', 'cpu_history'],
    },
    {every: live, enabled: !ended, large: true},
  );
  const record = recordOf(id);
  const at = jobs.dataUpdatedAt;
  useEffect(() => {
    if (jobs.data && !jobs.isPlaceholderData) record.add(jobs.data.jobs, at / 1000);
  }, [record, at]);
  const [version, setVersion] = useState(0);
  useEffect(() => setVersion(at), [at]);
  return {record, version};
}

/** CpuTab shows the CPU limit and usage of each job over time. */
export function CpuTab({id, cpu}: {id: string; cpu: {record: CpuRecord; version: number}}) {
  const {t} = useTexts();
  const tracks = useMemo(() => cpu.record.list(), [cpu.record, cpu.version]);
  const [chosen, setChosen] = useQueryValue('job');
  const shown = chosen ? tracks.filter((track) => track.job === chosen) : tracks.slice(0, drawn);
  const ended = chosen !== '' && shown.length === 0;
  return (
    <>
      {ended ? (
        <EndedTrack id={id} job={chosen} onClose={() => setChosen('')} />
      ) : tracks.length === 0 ? (
        <Empty>{t('No job is running now; ended jobs are listed below')}</Empty>
      ) : (
        <>
          <p className="muted">{t('When the limit is below the request, the monitor has given the difference to other jobs.')}</p>
          <Section title={t('All observed jobs together')}>
            <TrackChart label={t('CPU of all observed jobs')} samples={sumOf(tracks)} height={200} />
          </Section>
          <Section
            title={t('Each job')}
            actions={
              <Select
                label={t('Job')} title={t('Job')} filterable hasClear placeholder={t('the first {n}', {n: Math.min(drawn, tracks.length)})}
                value={chosen ? [chosen] : []} onUpdate={([value]) => setChosen(value ?? '')}
                options={tracks.map((track) => ({value: track.job, content: track.job}))}
              />
            }
          >
            <div className="smallcharts">
              {shown.map((track) => (
                <Track key={track.job} track={track} />
              ))}
            </div>
          </Section>
        </>
      )}
      <Ended id={id} choose={setChosen} />
    </>
  );
}

/** EndedTrack shows a job that was not watched, from the server's history. */
function EndedTrack({id, job, onClose}: {id: string; job: string; onClose: () => void}) {
  const {t} = useTexts();
  const found = useCommand<Job>('get_job', {
    operation_id: id, job_id: job, attributes: ['id', 'state', 'task_name', 'address', 'start_time', 'resources', 'cpu_history'],
  });
  return (
    <Section title={t('Job {id}', {id: job})} actions={<Button onClick={onClose}>{t('All observed jobs together')}</Button>}>
      <Loaded of={found}>
        {(data) => {
          const track = trackOf(data);
          return track.samples.length > 0 ? <Track track={track} /> : <Empty>{t('The job was too short: its CPU was not recorded')}</Empty>;
        }}
      </Loaded>
    </Section>
  );
}

function Track({track}: {track: CpuTrack}) {
  const {t, locale} = useTexts();
  const last = track.samples[track.samples.length - 1];
  return (
    <div className="smallchart">
      <div className="smallchart__head">
        <code>{track.job}</code>
        {track.running ? null : <State name="completed" />}
      </div>
      <div className="muted">
        {track.task}, {track.node};{' '}
        {t('requested {asked}, limit {limit}, usage {usage}', {
          asked: decimal(track.asked, locale, 2), limit: decimal(last?.limit ?? 0, locale, 2), usage: decimal(last?.usage ?? 0, locale, 2),
        })}
      </div>
      <TrackChart label={t('CPU of job {id}', {id: track.job})} samples={track.samples} height={140} />
    </div>
  );
}

function TrackChart({label, samples, height}: {label: string; samples: {at: number; limit: number; usage: number}[]; height: number}) {
  const {t, locale} = useTexts();
  const times = useMemo(() => samples.map((sample) => sample.at), [samples, samples.length]);
  const lines = useMemo<Line[]>(
    () => [
      {label: t('Limit'), color: colors.limit, values: samples.map((sample) => sample.limit), dashed: true},
      {label: t('Usage'), color: colors.usage, values: samples.map((sample) => sample.usage)},
    ],
    [samples, samples.length, t],
  );
  return <Chart label={label} times={times} lines={lines} print={(v) => decimal(v, locale, 2)} height={height} />;
}

/** Ended lists ended jobs with their limits and the cores that they used on average. */
function Ended({id, choose}: {id: string; choose: (job: string) => void}) {
  const {t, locale} = useTexts();
  const jobs = useCommand<JobList>(
    'list_jobs',
    {
      operation_id: id, job_state: 'completed', limit: 200, sort_field: 'finish_time', sort_order: 'descending',
      attributes: ['id', 'state', 'task_name', 'address', 'resources', 'statistics', 'start_time', 'finish_time'],
    },
    {every: 5000},
  );
  const columns = useMemo<Column<Job>[]>(() => {
    const used = (job: Job) => {
      const list = statisticsOf(job.statistics);
      const time = wholeOf(list, 'time/exec')?.sum ?? 0;
      const busy = (wholeOf(list, 'user_job/cpu/user')?.sum ?? 0) + (wholeOf(list, 'user_job/cpu/system')?.sum ?? 0);
      return time > 0 ? busy / time : undefined;
    };
    const print = (value: number | undefined) => (value === undefined ? '–' : decimal(value, locale, 2));
    return [
      {
        key: 'id', title: t('Job'), width: 220, grow: true, value: (job) => job.id,
        render: (job) => (
          <button type="button" className="link mono" onClick={() => choose(job.id)}>
            {job.id}
          </button>
        ),
      },
      {key: 'task', title: t('Task'), width: 140, value: (job) => job.task_name, render: (job) => job.task_name},
      {
        key: 'node', title: t('Node'), width: 140, value: (job) => job.address,
        render: (job) => (job.address ? <Anchor href={to.node(job.address)}>{job.address}</Anchor> : '–'),
      },
      {key: 'limit', title: t('Limit'), width: 110, numeric: true, value: (job) => job.resources?.cpu, render: (job) => print(job.resources?.cpu)},
      {key: 'used', title: t('Used, mean'), width: 110, numeric: true, hint: t('CPU time / run time'), value: used, render: (job) => print(used(job))},
      {
        key: 'ran', title: t('Ran for'), width: 110, numeric: true,
        value: (job) => new Date(job.finish_time ?? job.start_time).getTime() - new Date(job.start_time).getTime(),
        render: (job) => duration(new Date(job.finish_time ?? job.start_time).getTime() - new Date(job.start_time).getTime(), locale),
      },
    ];
  }, [t, locale, choose]);
  const rows = useSorted(jobs.data?.jobs ?? [], columns, 'sort');
  return (
    <Section title={t('Completed jobs')}>
      <Loaded of={jobs}>
        {() => <Grid label={t('Completed jobs')} columns={columns} rows={rows} rowKey={(job) => job.id} sort="sort" empty={t('No job has ended yet')} />}
      </Loaded>
    </Section>
  );
}
