import {Alert} from '@gravity-ui/uikit';

import {escapeKey} from '../api/client';
import {live, orchid, useGet} from '../api/queries';
import {type Cluster, type LiveOperation, type Pool, type Resource, resources, type TreeSummary} from '../api/types';
import {changesOf} from '../model/changes';
import {amount, share, shortId} from '../model/format';
import {Anchor} from '../parts/anchor';
import {PartsBar, ShareBar} from '../parts/bars';
import {Diff} from '../parts/diff';
import {Moment, Section, State} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {alertsOf, useCluster} from '../shell/cluster';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';
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

function Whole({cluster}: {cluster: Cluster}) {
  const {t} = useTexts();
  const alerts = alertsOf(cluster);
  return (
    <>
      {alerts.map((text) => (
        <Alert key={text} theme="warning" message={text} />
      ))}
      <div className="tiles">
        <Tile title={t('Nodes')} value={`${cluster.online_node_count} / ${cluster.node_count}`} note={t('online / all')} href={to.nodes()} />
        <Tile title={t('Operations')} value={String(cluster.operation_count)} note={t('not ended')} href={to.operations({state: 'running'})} />
        <Tile title={t('Running jobs')} value={String(cluster.running_job_count)} note={t('{n} pending', {n: cluster.pending_job_count})} />
        <Tile title={t('Alerts')} value={String(alerts.length)} note={alerts.length === 0 ? t('all is well') : t('see above')} />
      </div>
      {Object.entries(cluster.pool_trees).map(([name, tree]) => (
        <TreeSection key={name} name={name} tree={tree} />
      ))}
      <div className="columns">
        <Preempted />
        <Changed />
      </div>
    </>
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

function TreeSection({name, tree}: {name: string; tree: TreeSummary}) {
  const {t, word, locale} = useTexts();
  const shown = resources.filter((r) => (tree.capacity[r] ?? 0) > 0);
  return (
    <Section title={t('Tree {name}', {name})} actions={<Anchor href={to.scheduling(name)}>{t('{n} {n|pool|pools}', {n: tree.pool_count})}</Anchor>}>
      {shown.length === 0 ? (
        <Empty>{t('This tree has no nodes')}</Empty>
      ) : (
        <div className="scroll" tabIndex={0} role="region" aria-label={t('Resources of tree {name}', {name})}>
          <table className="plain">
            <thead>
              <tr>
                <th>{t('Resource')}</th>
                <th className="numeric">{t('Capacity')}</th>
                <th className="plain__wide">{t('Allocated')}</th>
                <th className="numeric">{t('Allocated')}</th>
                <th className="numeric">{t('Free')}</th>
                <th className="numeric">{t('Demanded')}</th>
                <th className="numeric">{t('Guaranteed')}</th>
                <th className="numeric">{t('Flow')}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((r) => (
                <ResourceRow key={r} resource={r} tree={tree} title={word(r)} locale={locale} label={t('{share} allocated', {share: share((tree.used[r] ?? 0) / (tree.capacity[r] ?? 1), locale)})} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Starving tree={name} />
    </Section>
  );
}

function ResourceRow({resource: r, tree, title, locale, label}: {resource: Resource; tree: TreeSummary; title: string; locale: 'en' | 'ru'; label: string}) {
  const capacity = tree.capacity[r] ?? 0;
  return (
    <tr>
      <th scope="row">{title}</th>
      <td className="numeric">{amount(r, capacity, locale)}</td>
      <td className="plain__wide">
        <PartsBar whole={capacity} label={label} parts={[{kind: 'usage', value: tree.used[r] ?? 0, title: label}]} />
      </td>
      <td className="numeric">{amount(r, tree.used[r], locale)}</td>
      <td className="numeric">{amount(r, tree.free[r], locale)}</td>
      <td className="numeric">{amount(r, tree.demanded[r], locale)}</td>
      <td className="numeric">{amount(r, tree.guaranteed[r], locale)}</td>
      <td className="numeric">{amount(r, tree.resource_flow[r], locale)}</td>
    </tr>
  );
}

/** Starving lists the pools and operations that have been below their fair share for too long. */
function Starving({tree}: {tree: string}) {
  const {t} = useTexts();
  const base = `${orchid}/pool_trees/${escapeKey(tree)}`;
  const fields = ['starvation_status', 'usage_ratio', 'fair_share_ratio', 'title', 'pool'];
  const pools = useGet<Record<string, Pool>>(`${base}/pools`, {fields}, {every: live, large: true});
  const operations = useGet<Record<string, LiveOperation>>(`${base}/operations`, {fields}, {every: live, large: true});
  const hungry = [
    ...Object.entries(pools.data ?? {}).map(([name, e]) => ({key: name, href: to.pool(tree, name), text: name, e})),
    ...Object.entries(operations.data ?? {}).map(([id, e]) => ({key: id, href: to.operation(id, 'why'), text: e.title || shortId(id), e})),
  ].filter(({e}) => e.starvation_status && e.starvation_status !== 'non_starving');
  if (!pools.data) return null;
  return (
    <div className="starving">
      <h3>{t('Starving now')}</h3>
      {hungry.length === 0 ? (
        <p className="muted">{t('Nothing is starving')}</p>
      ) : (
        <ul className="starving__list">
          {hungry.slice(0, 20).map(({key, href, text, e}) => (
            <li key={key}>
              <State name={e.starvation_status} /> <Anchor href={href}>{text}</Anchor>
              <ShareBar usage={e.usage_ratio} fair={e.fair_share_ratio} />
            </li>
          ))}
        </ul>
      )}
    </div>
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
