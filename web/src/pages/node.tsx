import {Alert, Button} from '@gravity-ui/uikit';
import {useMemo, useState} from 'react';

import {callWithInput, escapeKey} from '../api/client';
import {live, orchid, useCommand, useGet} from '../api/queries';
import {type Amounts, type Event, type Node, type NodeJobs, resources} from '../api/types';
import {amount, moment} from '../model/format';
import {PartsBar} from '../parts/bars';
import {type Column, Grid} from '../parts/grid';
import {Age, Confirm, Facts, Section, State} from '../parts/small';
import {Loaded, Problem} from '../parts/states';
import {useTexts} from '../text/i18n';
import {EventsTable, resourcesText} from './events_table';
import {classes} from './nodes';

interface NodeState {
  running_job_statistics?: NodeJobs;
  overcommitted_since?: string | null;
}

export function NodePage({address}: {address: string}) {
  const {t} = useTexts();
  const list = useCommand<{nodes: Node[]}>('list_nodes', {filter: address}, {every: live});
  return (
    <div className="page">
      <Loaded of={list}>
        {({nodes}) => {
          const node = nodes.find((one) => one.address === address);
          return node ? <Whole node={node} /> : <Problem title={t('There is no node {name}', {name: address})} />;
        }}
      </Loaded>
    </div>
  );
}

function Whole({node}: {node: Node}) {
  const {t, locale} = useTexts();
  const [banning, setBanning] = useState(false);
  const banned = node.state === 'banned';
  const path = `//sys/cluster_nodes/${escapeKey(node.address)}/@banned`;
  const state = useGet<NodeState>(`${orchid}/nodes/${escapeKey(node.address)}`, {}, {every: live});
  const events = useCommand<{events: Event[]}>('list_events', {node: node.address, limit: 200}, {every: live});
  return (
    <>
      <div className="page__head">
        <h1 className="page__title">{node.address}</h1>
        <State name={node.state} />
        {node.draining && <State name="draining" />}
        <div className="page__actions">
          <Button view={banned ? 'normal' : 'outlined-danger'} onClick={() => setBanning(true)}>
            {banned ? t('Allow again') : t('Ban')}
          </Button>
        </div>
      </div>
      {node.alerts.map((text) => (
        <Alert key={text} theme="warning" message={text} />
      ))}
      <Facts
        items={[
          [t('Tree'), node.pool_tree ?? '–'],
          [t('Tags'), node.tags.join(', ') || '–'],
          [t('Running jobs'), String(node.running_job_count)],
          [t('Version'), node.version || '–'],
          [t('Registered'), moment(node.registered_time, locale)],
          [t('Seen'), moment(node.last_seen_time, locale)],
          ...(state.data?.overcommitted_since ? [[t('Overcommitted since'), moment(state.data.overcommitted_since, locale)] as [string, string]] : []),
        ]}
      />
      <Usage node={node} jobs={state.data?.running_job_statistics} />
      <Jobs address={node.address} />
      <Section title={t('Events')}>
        <Loaded of={events}>{(data) => <EventsTable events={data.events} name={`events-${node.address}`} />}</Loaded>
      </Section>
      {banning && (
        <Confirm
          title={banned ? t('Allow node {name} again', {name: node.address}) : t('Ban node {name}', {name: node.address})}
          action={banned ? t('Allow again') : t('Ban')}
          danger={!banned}
          command={`weir set ${path} '%${banned ? 'false' : 'true'}'`}
          run={() => callWithInput('set', path, !banned)}
          done={banned ? t('The node may run jobs again') : t('The node was banned')}
          onClose={() => setBanning(false)}
        >
          <p>{banned ? t('It gets jobs again.') : t('Its jobs are aborted, and it gets no others.')}</p>
        </Confirm>
      )}
    </>
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
  job_state: string;
  job_phase: string;
  start_time: string;
  task_name: string;
  base_resource_usage: Amounts;
}

function Jobs({address}: {address: string}) {
  const texts = useTexts();
  const {t, word} = texts;
  const path = `//sys/cluster_nodes/${escapeKey(address)}/orchid/exec_node/job_controller/active_jobs`;
  const jobs = useGet<Record<string, Omit<ActiveJob, 'id'>>>(path, {}, {every: live});
  const columns = useMemo<Column<ActiveJob>[]>(
    () => [
      {key: 'id', title: t('Job'), width: 230, grow: true, value: (j) => j.id, render: (j) => <code>{j.id}</code>},
      {key: 'task', title: t('Task'), width: 130, value: (j) => j.task_name, render: (j) => j.task_name},
      {key: 'state', title: t('State'), width: 110, value: (j) => j.job_state, render: (j) => <State name={j.job_state} />},
      {key: 'phase', title: t('Phase'), width: 130, value: (j) => j.job_phase, render: (j) => word(j.job_phase)},
      {key: 'holds', title: t('Holds'), width: 260, grow: true, value: (j) => resourcesText(j.base_resource_usage, texts), render: (j) => resourcesText(j.base_resource_usage, texts)},
      {key: 'age', title: t('Duration'), width: 100, numeric: true, value: (j) => j.start_time, render: (j) => <Age since={j.start_time} />},
    ],
    [texts, t, word],
  );
  return (
    <Section title={t('Running jobs')}>
      <Loaded of={jobs}>
        {(data) => (
          <Grid
            label={t('Running jobs')} columns={columns} rows={Object.entries(data).map(([id, job]) => ({...job, id}))} rowKey={(j) => j.id}
            empty={t('No job runs here')}
          />
        )}
      </Loaded>
    </Section>
  );
}
