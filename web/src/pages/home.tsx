import {Alert} from '@gravity-ui/uikit';

import type {Cluster, HeldNode} from '../api/types';
import {changesOf} from '../model/changes';
import {type Trouble, troublesOf} from '../model/health';
import {Anchor} from '../parts/anchor';
import {Diff} from '../parts/diff';
import {Moment, Section} from '../parts/small';
import {Loaded} from '../parts/states';
import {alertsOf, useCluster} from '../shell/cluster';
import {to} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';
import {resourcesText} from './events_table';
import {TreeSection} from './home_tree';
import {useAudit} from './pool_changes';
import {PreemptionsTable, usePreemptions} from './preemptions';

export function HomePage() {
  const {t} = useTexts();
  const cluster = useCluster();
  return (
    <div className="page">
      <h1 className="page__title">{t('Cluster')}</h1>
      <Loaded of={cluster}>{(data) => <Whole cluster={data} />}</Loaded>
    </div>
  );
}

const troubles: Record<Exclude<Trouble, 'alerts' | 'held_back'>, Key> = {
  reviving: 'The scheduler has just taken over: it starts no jobs until it has read its state',
  offline: '{n} {n|node is|nodes are} not online',
  no_nodes: 'No node is online, so no job can start',
};

function Whole({cluster}: {cluster: Cluster}) {
  const {t} = useTexts();
  const alerts = alertsOf(cluster);
  const lost = cluster.node_count - cluster.online_node_count;
  return (
    <>
      {troublesOf(cluster, alerts.length).map(
        (trouble) =>
          trouble !== 'alerts' &&
          trouble !== 'held_back' && (
            <Alert
              key={trouble} theme="warning" message={t(troubles[trouble], {n: lost})}
              actions={trouble === 'reviving' ? undefined : <Anchor href={`${to.nodes()}?state=offline`}>{t('Which nodes')}</Anchor>}
            />
          ),
      )}
      <HeldBack nodes={cluster.held_back ?? []} />
      {alertsOf(cluster, 'nodes_awaited').map((text) => (
        <Alert key={text} theme="warning" message={text} />
      ))}
      <div className="tiles">
        <Tile title={t('Nodes')} value={`${cluster.online_node_count} / ${cluster.node_count}`} note={t('online / all')} href={to.nodes()} />
        <Tile title={t('Operations')} value={String(cluster.operation_count)} note={t('not ended')} href={to.operations()} />
        <Tile title={t('Running jobs')} value={String(cluster.running_job_count)} note={t('{n} pending', {n: cluster.pending_job_count})} />
        <Tile title={t('Alerts')} value={String(alerts.length)} note={alerts.length === 0 ? t('none now') : t('see above')} />
      </div>
      {Object.entries(cluster.pool_trees).map(([name, tree]) => (
        <TreeSection key={name} name={name} tree={tree} cluster={cluster} />
      ))}
      <div className="columns">
        <Preempted />
        <Changed />
      </div>
    </>
  );
}

/** HeldBack lists the nodes of the last leader that have not reported to this one. What they may still run is not
 * started elsewhere. */
function HeldBack({nodes}: {nodes: HeldNode[]}) {
  const texts = useTexts();
  const {t} = texts;
  if (nodes.length === 0) return null;
  const everything = nodes.some((node) => node.everything);
  return (
    <Alert
      theme="warning"
      title={t('After a takeover the scheduler waits for {n} {n|node|nodes} of the last leader', {n: nodes.length})}
      message={
        <>
          <p>{everything ? t('Nothing is scheduled until they report.') : t('What they may still run is not started elsewhere, and their resources are held back, until they report.')}</p>
          <div className="scroll" tabIndex={0} role="region" aria-label={t('Held back')}>
            <table className="plain plain_tight">
              <thead>
                <tr>
                  <th>{t('Node')}</th>
                  <th className="numeric">{t('Jobs')}</th>
                  <th>{t('Held back')}</th>
                  <th>{t('At the latest until')}</th>
                </tr>
              </thead>
              <tbody>
                {nodes.slice(0, 50).map((node) => (
                  <tr key={node.address}>
                    <th scope="row">
                      <Anchor href={to.node(node.address)}>{node.address}</Anchor>
                    </th>
                    <td className="numeric">{node.everything ? '?' : node.job_count}</td>
                    <td>{node.everything ? t('everything') : resourcesText(node.resource_usage, texts) || '–'}</td>
                    <td>{node.until ? <Moment at={node.until} /> : t('it reports')}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      }
    />
  );
}

function Tile({title, value, note, href}: {title: string; value: string; note: string; href?: string}) {
  const body = (
    <>
      <span className="tile__title">{title}</span>
      <span className="tile__value">{value}</span>
      <span className="tile__note">{note}</span>
    </>
  );
  return href ? (
    <Anchor href={href} className="tile tile_link">
      {body}
    </Anchor>
  ) : (
    <div className="tile">{body}</div>
  );
}

function Preempted() {
  const {t} = useTexts();
  const events = usePreemptions(20);
  return (
    <Section title={t('Recent preemptions')} actions={<Anchor href={to.preemptions()}>{t('All')}</Anchor>}>
      <Loaded of={events}>
        {(data) => (data.events.length === 0 ? <p className="muted">{t('No preemptions')}</p> : <PreemptionsTable events={data.events} brief />)}
      </Loaded>
    </Section>
  );
}

function Changed() {
  const {t} = useTexts();
  const {audit, refused} = useAudit(20);
  return (
    <Section title={t('Recent changes')}>
      {refused ? (
        <p className="muted">{t('Only administrators see who changed what')}</p>
      ) : (
        <Loaded of={audit}>
          {({records}) =>
            records.length === 0 ? (
              <p className="muted">{t('No pool has been changed')}</p>
            ) : (
              <ul className="changes">
                {records.map((record) => (
                  <li key={record.id}>
                    <span className="muted nowrap">
                      <Moment at={record.timestamp} /> {record.user}
                    </span>
                    <Diff changes={changesOf(record)} />
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
      )}
    </Section>
  );
}
