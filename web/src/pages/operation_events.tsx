import {useMemo} from 'react';

import {live, useCommand} from '../api/queries';
import type {Event, Job, JobList} from '../api/types';
import {duration, moment} from '../model/format';
import {Loaded, Empty} from '../parts/states';
import {useTexts} from '../text/i18n';
import {EventsTable} from './events_table';

export function EventsTab({id}: {id: string; states: {time: string; state: string}[]}) {
  const events = useCommand<{events: Event[]}>('list_events', {operation_id: id, limit: 1000}, {every: live});
  return <Loaded of={events}>{(data) => <EventsTable events={data.events} name={`events-${id}`} />}</Loaded>;
}

const shown = 500;

/** TimelineTab is when each job ran, and how it ended: one line for each job. */
export function TimelineTab({id}: {id: string}) {
  const {t} = useTexts();
  const jobs = useCommand<JobList>(
    'list_jobs', {operation_id: id, limit: shown, sort_field: 'start_time', sort_order: 'ascending'}, {every: live},
  );
  return (
    <Loaded of={jobs}>
      {(data) =>
        data.jobs.length === 0 ? (
          <Empty>{t('No job has started yet')}</Empty>
        ) : (
          <>
            <Timeline jobs={data.jobs} />
            {data.continuation_token && <p className="muted">{t('The first {n} jobs are shown', {n: shown})}</p>}
          </>
        )
      }
    </Loaded>
  );
}

const line = 14;

/** Timeline draws jobs as bars from start to end, coloured by state, one lane for each node's slot. */
function Timeline({jobs}: {jobs: Job[]}) {
  const {t, word, locale} = useTexts();
  const now = Date.now();
  const {from, until, lanes} = useMemo(() => layOut(jobs, now), [jobs]);
  const span = Math.max(1, until - from);
  const x = (time: number) => ((time - from) / span) * 1000;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => from + span * part);
  return (
    <>
      <p className="legend">
        {['completed', 'running', 'failed', 'aborted'].map((state) => (
          <span key={state}>
            <i className={`dot dot_${state}`} /> {word(state)}{' '}
          </span>
        ))}
      </p>
      <div className="timeline" tabIndex={0} role="region" aria-label={t('Timeline of jobs')}>
        <div className="timeline__axis" aria-hidden="true">
          {ticks.map((at) => (
            <span key={at}>{moment(new Date(at).toISOString(), locale)}</span>
          ))}
        </div>
        <svg
          viewBox={`0 0 1000 ${lanes.length * line + 4}`} preserveAspectRatio="none" width="100%" height={lanes.length * line + 4}
          role="img" aria-label={t('{n} jobs over {time}', {n: jobs.length, time: duration(span, locale)})}
        >
          {lanes.map((lane, row) =>
            lane.map(({job, start, end}) => (
              <rect
                key={job.id} className={`timeline__job timeline__job_${job.state}`} x={x(start)} y={row * line + 2}
                width={Math.max(1.5, x(end) - x(start))} height={line - 4}
              >
                <title>{`${job.id}\n${job.task_name}, ${job.address ?? ''}\n${word(job.state)}, ${duration(end - start, locale)}`}</title>
              </rect>
            )),
          )}
        </svg>
      </div>
    </>
  );
}

interface Bar {
  job: Job;
  start: number;
  end: number;
}

/** layOut puts jobs into as few lanes as they need. */
function layOut(jobs: Job[], now: number): {from: number; until: number; lanes: Bar[][]} {
  const lanes: Bar[][] = [];
  let [from, until] = [Infinity, -Infinity];
  const bars = jobs.map((job) => {
    const start = new Date(job.start_time).getTime();
    const end = Math.max(start, job.finish_time ? new Date(job.finish_time).getTime() : now);
    return {job, start, end};
  });
  bars.sort((a, b) => a.start - b.start || (a.job.id < b.job.id ? -1 : 1));
  for (const bar of bars) {
    from = Math.min(from, bar.start);
    until = Math.max(until, bar.end);
    const free = lanes.find((lane) => lane[lane.length - 1]!.end <= bar.start);
    if (free) free.push(bar);
    else lanes.push([bar]);
  }
  return {from, until, lanes};
}
