import {useMemo} from 'react';

import {live, useCommand} from '../api/queries';
import type {Event, Job, JobList} from '../api/types';
import {duration, moment} from '../model/format';
import {layOut} from '../model/timeline';
import {Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {useTexts} from '../text/i18n';
import {EventsTable} from './events_table';
import {PreemptionsTable} from './preemptions';

export function EventsTab({id}: {id: string}) {
  const events = useCommand<{events: Event[]}>('list_events', {operation_id: id, limit: 1000}, {every: live});
  return <Loaded of={events}>{(data) => <EventsTable events={data.events} name={`events-${id}`} />}</Loaded>;
}

const shown = 500;

/** TimelineTab shows when each job ran and how it ended, which jobs were preempted, and which were
 * preempted for this operation. */
export function TimelineTab({id}: {id: string}) {
  const {t} = useTexts();
  const jobs = useCommand<JobList>(
    'list_jobs',
    {
      operation_id: id, limit: shown, sort_field: 'start_time', sort_order: 'descending',
      attributes: ['id', 'state', 'task_name', 'address', 'start_time', 'finish_time', 'abort_reason'],
    },
    {every: live},
  );
  const events = useCommand<{events: Event[]}>('list_events', {types: ['job_preempted'], limit: 1000}, {every: live});
  const lost = useMemo(() => (events.data?.events ?? []).filter((event) => event.operation_id === id), [events.data, id]);
  const taken = useMemo(() => (events.data?.events ?? []).filter((event) => event['preempted_for'] === id), [events.data, id]);
  return (
    <Loaded of={jobs}>
      {(data) =>
        data.jobs.length === 0 ? (
          <Empty>{t('No job has started yet')}</Empty>
        ) : (
          <>
            <Timeline jobs={data.jobs} taken={taken} />
            {data.continuation_token && <p className="muted">{t('Last jobs shown: {n}', {n: shown})}</p>}
            <Section title={t('Lost to others: {n}', {n: lost.length})}>
              {lost.length > 0 ? <PreemptionsTable events={lost} /> : <p className="muted">{t('No job of this operation was preempted recently')}</p>}
            </Section>
            <Section title={t('Preempted from others: {n}', {n: taken.length})}>
              {taken.length > 0 ? <PreemptionsTable events={taken} /> : <p className="muted">{t('This operation has preempted no jobs recently')}</p>}
            </Section>
          </>
        )
      }
    </Loaded>
  );
}

const line = 14;
const kinds = ['completed', 'running', 'failed', 'aborted', 'preempted'];

/** kindOf returns the colour of a job: its state, with preemption separate from other ends. */
function kindOf(job: Job): string {
  return job.abort_reason === 'preemption' ? 'preempted' : job.state;
}

/** Timeline draws jobs as bars from start to end, and ticks above them when others were preempted for the
 * operation. */
function Timeline({jobs, taken}: {jobs: Job[]; taken: Event[]}) {
  const {t, word, locale} = useTexts();
  const {from, until, lanes} = useMemo(() => layOut(jobs, Date.now()), [jobs]);
  const span = Math.max(1, until - from);
  const x = (time: number) => ((time - from) / span) * 1000;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => from + span * part);
  const marks = taken.map((event) => ({event, at: new Date(event.timestamp).getTime()})).filter(({at}) => at >= from && at <= until);
  const top = marks.length > 0 ? line : 0;
  const height = lanes.length * line + 4 + top;
  return (
    <>
      <p className="legend">
        {kinds.map((kind) => (
          <span key={kind}>
            <i className={`dot dot_${kind}`} /> {word(kind)}{' '}
          </span>
        ))}
        <i className="dot dot_taken" /> {t('preempted others')}
      </p>
      <div className="timeline" tabIndex={0} role="region" aria-label={t('Timeline of jobs')}>
        <div className="timeline__axis" aria-hidden="true">
          {ticks.map((at) => (
            <span key={at}>{moment(new Date(at).toISOString(), locale)}</span>
          ))}
        </div>
        <svg
          viewBox={`0 0 1000 ${height}`} preserveAspectRatio="none" width="100%" height={height}
          role="img" aria-label={t('{n} {n|job|jobs} over {time}', {n: jobs.length, time: duration(span, locale)})}
        >
          {marks.map(({event, at}) => (
            <rect key={event.id} className="timeline__mark" x={x(at) - 1} y={1} width={2} height={line - 4}>
              <title>{`${t('preempted from {pool}', {pool: event.pool ?? ''})}, ${event.node ?? ''}\n${moment(event.timestamp, locale)}`}</title>
            </rect>
          ))}
          {lanes.map((lane, row) =>
            lane.map(({job, start, end}) => (
              <rect
                key={job.id} className={`timeline__job timeline__job_${kindOf(job)}`} x={x(start)} y={row * line + 2 + top}
                width={Math.max(1.5, x(end) - x(start))} height={line - 4}
              >
                <title>{`${job.id}\n${job.task_name}, ${job.address ?? ''}\n${word(kindOf(job))}, ${duration(end - start, locale)}`}</title>
              </rect>
            )),
          )}
        </svg>
      </div>
    </>
  );
}
