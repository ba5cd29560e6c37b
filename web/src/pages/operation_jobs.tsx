import {Button, Dialog, Select, Tab, TabList, TabPanel, TabProvider, TextInput} from '@gravity-ui/uikit';
import {useQuery} from '@tanstack/react-query';
import {useLayoutEffect, useMemo, useRef, useState} from 'react';

import {ApiError, call, readText} from '../api/client';
import {useLog} from '../api/log';
import {live, useCommand} from '../api/queries';
import type {Counter, Job, JobList} from '../api/types';
import {bytes, decimal} from '../model/format';
import {statisticsOf, wholeOf} from '../model/statistics';
import {Anchor} from '../parts/anchor';
import {Export} from '../parts/export';
import {type Column, Grid, useSorted} from '../parts/grid';
import {GuardedButton, useRefusal} from '../parts/guarded';
import {Age, Confirm, Facts, Moment, State} from '../parts/small';
import {Empty, Loaded, Problem, Waiting} from '../parts/states';
import {to, useQueryValue} from '../shell/routing';
import {type Texts, useTexts} from '../text/i18n';
import {operationPath} from './operation_actions';
import {StatisticsTree} from './operation_statistics';

export function JobsTab({id, counts}: {id: string; counts: Counter | undefined}) {
  const texts = useTexts();
  const {t, word} = texts;
  const [state, setState] = useQueryValue('state');
  const [address, setAddress] = useQueryValue('node');
  const [stderr, setStderr] = useQueryValue('stderr');
  const [limit, setLimit] = useState(200);
  const [shown, setShown] = useQueryValue('shown');
  const list = useCommand<JobList>(
    'list_jobs',
    {
      operation_id: id, limit, sort_field: 'start_time', sort_order: 'descending', job_state: state || undefined, address: address || undefined,
      with_stderr: stderr ? stderr === 'yes' : undefined,
    },
    {every: live},
  );
  const columns = useMemo(() => columnsOf(texts, (job) => setShown(job.id)), [texts, setShown]);
  const rows = useSorted(list.data?.jobs ?? [], columns, 'sort');
  const states = list.data?.state_counts ?? {};
  return (
    <>
      <div className="toolbar">
        <Select
          label={t('State')} title={t('State')} value={state ? [state] : []} placeholder={t('any')} hasClear
          options={Object.keys(states).map((key) => ({
            value: key, content: <span className="option">{word(key)} <span className="muted">{states[key]}</span></span>,
          }))}
          renderSelectedOption={(option) => <span>{word(option.value)}</span>}
          onUpdate={([value]) => setState(value ?? '')}
        />
        <Select
          label={t('Error output')} title={t('Error output')} value={stderr ? [stderr] : []} placeholder={t('any')} hasClear
          options={[{value: 'yes', content: t('present')}, {value: 'no', content: t('missing')}]}
          onUpdate={([value]) => setStderr(value ?? '')}
        />
        <TextInput
          className="toolbar__filter" value={address} onUpdate={setAddress} hasClear placeholder={t('Node')} controlProps={{'aria-label': t('Node')}}
        />
        <Export name={`jobs-${id}`} columns={columns} rows={rows} />
        {counts && <span className="muted toolbar__count">{t('{n} pending', {n: counts.pending})}</span>}
      </div>
      <Loaded of={list}>
        {(data) => (
          <>
            <Grid label={t('Jobs')} columns={columns} rows={rows} rowKey={(job) => job.id} sort="sort" empty={t('No jobs')} />
            {data.continuation_token && (
              <Button view="outlined" onClick={() => setLimit(limit + 200)}>
                {t('Show more')}
              </Button>
            )}
          </>
        )}
      </Loaded>
      {shown && <JobDialog key={shown} operation={id} id={shown} onClose={() => setShown('')} />}
    </>
  );
}

function columnsOf({t, locale}: Texts, open: (job: Job) => void): Column<Job>[] {
  const statistic = (job: Job, path: string) => wholeOf(statisticsOf(job.statistics), path)?.max;
  return [
    {
      key: 'id', title: t('Job'), width: 196, grow: true, value: (job) => job.id,
      render: (job) => (
        <button type="button" className="link mono" onClick={() => open(job)}>
          {job.id}
        </button>
      ),
    },
    {key: 'state', title: t('State'), width: 104, value: (job) => job.state, render: (job) => <State name={job.state} />},
    {key: 'task', title: t('Task'), width: 120, value: (job) => job.task_name, render: (job) => job.task_name},
    {
      key: 'node', title: t('Node'), width: 130, value: (job) => job.address,
      render: (job) => (job.address ? <Anchor href={to.node(job.address)}>{job.address}</Anchor> : '–'),
    },
    {key: 'start', title: t('Started'), width: 120, value: (job) => job.start_time, render: (job) => <Moment at={job.start_time} />},
    {
      key: 'duration', title: t('Duration'), width: 100, numeric: true,
      value: (job) => (job.finish_time ? new Date(job.finish_time).getTime() : Date.now()) - new Date(job.start_time).getTime(),
      render: (job) => <Age since={job.start_time} until={job.finish_time} />,
    },
    {
      key: 'memory', title: t('Memory'), width: 110, numeric: true, hint: t("the job's peak usage"),
      value: (job) => statistic(job, 'user_job/max_memory'),
      render: (job) => {
        const most = statistic(job, 'user_job/max_memory');
        return most === undefined ? '–' : bytes(most, locale);
      },
    },
    {
      key: 'cpu', title: 'CPU', width: 70, numeric: true, hint: t('smoothed usage, cores'),
      value: (job) => statistic(job, 'job_proxy/smoothed_cpu_usage_x100'),
      render: (job) => {
        const use = statistic(job, 'job_proxy/smoothed_cpu_usage_x100');
        return use === undefined ? '–' : decimal(use / 100, locale, 2);
      },
    },
    {
      key: 'stderr', title: t('Error output'), width: 116, numeric: true, value: (job) => job.stderr_size,
      render: (job) =>
        job.stderr_size ? (
          <button type="button" className="link" onClick={() => open(job)}>
            {bytes(job.stderr_size, locale)}
          </button>
        ) : (
          <span className="muted">–</span>
        ),
    },
  ];
}

/** JobDialog shows one job: its output, its usage and how it ended. */
function JobDialog({operation, id, onClose}: {operation: string; id: string; onClose: () => void}) {
  const {t} = useTexts();
  const job = useCommand<Omit<Job, 'id'>>('get_job', {operation_id: operation, job_id: id}, {every: live});
  return (
    <Dialog open onClose={onClose} maxWidth="l" fullWidth aria-label={t('Job {id}', {id})} disableTransition>
      <Dialog.Header caption={t('Job {id}', {id})} />
      <Dialog.Body>
        <div className="dialog__body">
          <Loaded of={job}>{(data) => <JobTabs operation={operation} job={{...data, id}} />}</Loaded>
        </div>
      </Dialog.Body>
    </Dialog>
  );
}

function JobTabs({operation, job}: {operation: string; job: Job}) {
  const {t} = useTexts();
  const [tab, setTab] = useState(job.stderr_size ? 'stderr' : 'details');
  const [aborting, setAborting] = useState(false);
  const refusal = useRefusal([[['manage', operationPath(operation)]]]);
  return (
    <>
      <TabProvider value={tab} onUpdate={setTab}>
        <TabList>
          <Tab value="details">{t('Details')}</Tab>
          <Tab value="stderr">{t('Error output')}</Tab>
          <Tab value="statistics">{t('Statistics')}</Tab>
        </TabList>
        <div className="tabbody">
          <TabPanel value="details">
            {tab === 'details' && (
              <>
                <Facts
                  items={[
                    [t('State'), <State key="state" name={job.state} />],
                    [t('Task'), job.task_name],
                    [t('Node'), job.address ? <Anchor key="node" href={to.node(job.address)}>{job.address}</Anchor> : '–'],
                    [t('Started'), <Moment key="start" at={job.start_time} />],
                    [t('Duration'), <Age key="age" since={job.start_time} until={job.finish_time} />],
                  ]}
                />
                {job.error && <Problem title={t('Why it ended')} error={new ApiError(job.error)} />}
                {!job.finish_time && job.state === 'running' && (
                  <GuardedButton refusal={refusal} view="outlined-danger" onClick={() => setAborting(true)}>
                    {t('Abort the job')}
                  </GuardedButton>
                )}
              </>
            )}
          </TabPanel>
          <TabPanel value="stderr">{tab === 'stderr' && <Stderr operation={operation} job={job} />}</TabPanel>
          <TabPanel value="statistics">{tab === 'statistics' && <StatisticsTree tree={job.statistics} />}</TabPanel>
        </div>
      </TabProvider>
      {aborting && (
        <Confirm
          title={t('Abort the job')}
          action={t('Abort')}
          danger
          command={`weir job abort ${job.id}`}
          run={() => call('abort_job', {job_id: job.id})}
          done={t('The job was aborted')}
          onClose={() => setAborting(false)}
        >
          <p>{t('The operation restarts the job, possibly on another node.')}</p>
        </Confirm>
      )}
    </>
  );
}

/** useStderr reads the error output of a job that has ended. */
export function useStderr(operation: string, job: string) {
  return useQuery({
    queryKey: ['stderr', operation, job],
    queryFn: ({signal}) => readText('get_job_stderr', {operation_id: operation, job_id: job}, signal),
  });
}

/** Stderr shows the error output of a job. While the job runs, it follows it and stays at the end if the reader is there. */
function Stderr({operation, job}: {operation: string; job: Job}) {
  const {t, locale} = useTexts();
  const running = !job.finish_time;
  const {text, skipped, error} = useLog(operation, job.id, running);
  const area = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (running && atEnd.current && area.current) area.current.scrollTop = area.current.scrollHeight;
  }, [text, running]);
  if (text === undefined) return error === undefined ? <Waiting /> : <Problem error={error} />;
  return (
    <>
      <p className="muted">
        {running ? t('The job is running; its output is shown as it grows.') : t('The job has ended.')}{' '}
        {skipped > 0 && t('{size} are not kept.', {size: bytes(skipped, locale)})}
      </p>
      {error !== undefined && <Problem error={error} />}
      {text === '' ? (
        <Empty>{running ? t('The job has written nothing yet; lines appear here as it writes them') : t('The job wrote nothing')}</Empty>
      ) : (
        <pre
          ref={area} className="code code_log" tabIndex={0} role="log" aria-live="off" aria-label={t('Error output')}
          onScroll={({currentTarget: at}) => (atEnd.current = at.scrollTop + at.clientHeight > at.scrollHeight - 20)}
        >
          {text}
        </pre>
      )}
    </>
  );
}
