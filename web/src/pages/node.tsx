import {Alert} from '@gravity-ui/uikit';
import {type ReactNode, useMemo} from 'react';

import {escapeKey} from '../api/client';
import {live, orchid, useCommand, useGet} from '../api/queries';
import {type Amounts, type Event, type Isolation, type Node, type NodeJobs, resources} from '../api/types';
import {amount, shortId} from '../model/format';
import {Anchor} from '../parts/anchor';
import {PartsBar} from '../parts/bars';
import {type Column, Grid} from '../parts/grid';
import {Age, Facts, Moment, Section, State} from '../parts/small';
import {Loaded} from '../parts/states';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {EventsTable} from './events_table';
import {GPUs} from './node_gpus';
import {Maintenance, NodeActions} from './node_maintenance';
import {MissingNode} from './missing';
import {classes} from './nodes';

interface NodeState {
  running_job_statistics?: NodeJobs;
  overcommitted_since?: string | null;
}

export function NodePage({address}: {address: string}) {
  const list = useCommand<{nodes: Node[]}>('list_nodes', {filter: address}, {every: live});
  return (
    <div className="page">
      <Loaded of={list}>
        {({nodes}) => {
          const node = nodes.find((one) => one.address === address);
          return node ? <Whole node={node} /> : <MissingNode address={address} />;
        }}
      </Loaded>
    </div>
  );
}

function Whole({node}: {node: Node}) {
  const {t} = useTexts();
  const state = useGet<NodeState>(`${orchid}/nodes/${escapeKey(node.address)}`, {}, {every: live});
  const events = useCommand<{events: Event[]}>('list_events', {node: node.address, limit: 200}, {every: live});
  return (
    <>
      <div className="page__head">
        <h1 className="page__title">{node.address}</h1>
        <State name={node.state} />
        {node.draining && <State name="draining" />}
        {node.jobs_disabled && node.state !== 'banned' && <State name="jobs_disabled" />}
        <NodeActions node={node} />
      </div>
      {node.alerts.map((text) => (
        <Alert key={text} theme="warning" message={text} />
      ))}
      <Facts
        items={[
          [t('Tree'), node.pool_tree ?? '–'],
          [t('Tags'), node.tags.join(', ') || '–'],
          [t('Running jobs'), String(node.running_job_count)],
          [t('Isolation of jobs'), <IsolationLevel key="isolation" of={node.isolation} />],
          [t('Version'), node.version || '–'],
          [t('Registered'), <Moment key="registered" at={node.registered_time} />],
          [t('Last seen'), <Moment key="seen" at={node.last_seen_time} />],
          ...(state.data?.overcommitted_since ? [[t('Overcommitted since'), <Moment key="over" at={state.data.overcommitted_since} />] as [string, ReactNode]] : []),
        ]}
      />
      <Maintenance node={node} />
      <Usage node={node} jobs={state.data?.running_job_statistics} />
      <GPUs gpus={node.gpus} />
      <Jobs address={node.address} />
      <Section title={t('Events')}>
        <Loaded of={events}>{(data) => <EventsTable events={data.events} name={`events-${node.address}`} />}</Loaded>
      </Section>
    </>
  );
}

/** IsolationLevel shows how well jobs are kept apart, and why if it is less than they could be. */
function IsolationLevel({of}: {of: Isolation | null}) {
  const {t, word} = useTexts();
  if (!of) return <>–</>;
  const level = of.level === 'none' ? t('none: control groups only') : word(of.level);
  const text = of.run_as === 'agent' ? t("{level}, as the agent's user", {level}) : level;
  return of.cause ? (
    <span className="warning" title={of.detail ?? undefined}>
      {text} ({word(of.cause)})
    </span>
  ) : (
    <>{text}</>
  );
}

function Usage({node, jobs}: {node: Node; jobs: NodeJobs | undefined}) {
  const {t, word, locale} = useTexts();
  return (
    <Section title={t('Resources')}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Resources')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Resource')}</th>
              <th className="plain__wide">{t('Allocated by class')}</th>
              <th className="numeric">{t('Allocated')}</th>
              <th className="numeric">{t('Capacity')}</th>
            </tr>
          </thead>
          <tbody>
            {resources
              .filter((r) => (node.resource_limits[r] ?? 0) > 0)
              .map((r) => {
                const parts = classes.map((name) => ({
                  kind: name, value: jobs?.[`${name}_resource_usage`]?.[r] ?? 0,
                  title: `${word(name)}: ${amount(r, jobs?.[`${name}_resource_usage`]?.[r], locale)}`,
                }));
                return (
                  <tr key={r}>
                    <th scope="row">{word(r)}</th>
                    <td className="plain__wide">
                      <PartsBar parts={parts} whole={node.resource_limits[r] ?? 0} label={parts.map((p) => p.title).join(', ')} />
                    </td>
                    <td className="numeric">{amount(r, node.resource_usage[r], locale)}</td>
                    <td className="numeric">{amount(r, node.resource_limits[r], locale)}</td>
                  </tr>
                );
              })}
          </tbody>
        </table>
      </div>
      <p className="legend">
        {classes.map((name) => (
          <span key={name}>
            <i className={`dot dot_${name}`} /> {word(name)}{' '}
          </span>
        ))}
      </p>
    </Section>
  );
}

interface ActiveJob {
  id: string;
  operation_id?: string;
  job_state: string;
  start_time: string;
  task_name: string;
  initial_resource_demand: Amounts;
  base_resource_usage: Amounts;
  brief_statistics: {user_job_memory: number; job_proxy_memory: number; tmpfs: number; smoothed_cpu: number};
}

const memoryInUse = ({brief_statistics: now}: ActiveJob) => now.user_job_memory + now.job_proxy_memory + now.tmpfs;

/** overdraftOf returns how far the memory usage of a job exceeds its reserve. */
const overdraftOf = (job: ActiveJob) => Math.max(0, memoryInUse(job) - (job.initial_resource_demand.memory ?? 0));

/** Jobs lists the running jobs of the node with their reserves and usage, and marks those above their
 * reserve. */
function Jobs({address}: {address: string}) {
  const {t, locale} = useTexts();
  const path = `//sys/cluster_nodes/${escapeKey(address)}/orchid/exec_node/job_controller/active_jobs`;
  const jobs = useGet<Record<string, Omit<ActiveJob, 'id'>>>(path, {}, {every: live});
  const columns = useMemo<Column<ActiveJob>[]>(
    () => [
      {key: 'id', title: t('Job'), width: 200, grow: true, value: (j) => j.id, render: (j) => <code>{j.id}</code>},
      {
        key: 'operation', title: t('Operation'), width: 150, value: (j) => j.operation_id,
        render: (j) => j.operation_id && <Anchor href={`${to.operation(j.operation_id)}?tab=jobs`}>{shortId(j.operation_id)}</Anchor>,
      },
      {key: 'task', title: t('Task'), width: 90, value: (j) => j.task_name, render: (j) => j.task_name},
      {key: 'state', title: t('State'), width: 90, value: (j) => j.job_state, render: (j) => <State name={j.job_state} />},
      {
        key: 'cpu', title: t('CPU: usage / limit'), width: 130, numeric: true, value: (j) => j.brief_statistics.smoothed_cpu,
        render: (j) => `${amount('cpu', j.brief_statistics.smoothed_cpu, locale)} / ${amount('cpu', j.base_resource_usage.cpu, locale)}`,
      },
      {
        key: 'memory', title: t('Memory: usage / reserve'), width: 190, numeric: true, value: memoryInUse,
        render: (j) => `${amount('memory', memoryInUse(j), locale)} / ${amount('memory', j.initial_resource_demand.memory, locale)}`,
      },
      {
        key: 'overdraft', title: t('Overdraft'), width: 96, numeric: true, value: overdraftOf,
        render: (j) => (overdraftOf(j) > 0 ? <span className="warning">{amount('memory', overdraftOf(j), locale)}</span> : '–'),
      },
      {key: 'age', title: t('Duration'), width: 90, numeric: true, value: (j) => j.start_time, render: (j) => <Age since={j.start_time} />},
    ],
    [t, locale],
  );
  return (
    <Section title={t('Running jobs')}>
      <Loaded of={jobs}>
        {(data) => (
          <Grid
            label={t('Running jobs')} columns={columns} rows={Object.entries(data).map(([id, job]) => ({...job, id}))} rowKey={(j) => j.id}
            empty={t('No jobs are running here')}
          />
        )}
      </Loaded>
    </Section>
  );
}
