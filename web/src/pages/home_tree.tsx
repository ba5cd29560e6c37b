import {escapeKey} from '../api/client';
import {live, orchid, useGet} from '../api/queries';
import {type Cluster, type LiveOperation, type Pool, type Resource, resources, type TreeSummary} from '../api/types';
import {amount, share, shortId} from '../model/format';
import {type IntegralShortfall, integralShortfalls, type Shortfall, shortfalls, shrunkOf} from '../model/health';
import {Anchor} from '../parts/anchor';
import {PartsBar, ShareBar} from '../parts/bars';
import {Section, State} from '../parts/small';
import {Empty} from '../parts/states';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';

/** TreeSection shows a tree on the home page: its resources, whether its guarantees are kept, and what starves. */
export function TreeSection({name, tree, cluster}: {name: string; tree: TreeSummary; cluster: Cluster}) {
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
      <Promises tree={name} cluster={cluster} />
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

const ofPools = [
  'starvation_status', 'usage_ratio', 'fair_share_ratio', 'strong_guarantee_resources', 'effective_strong_guarantee_resources', 'resource_usage', 'resource_demand',
  'integral_guarantee_type', 'specified_burst_ratio', 'specified_resource_flow_ratio', 'accumulated_resource_ratio_volume', 'integral_pool_capacity_ratio',
  'integral_smooth_period', 'dominant_limited_demand_share', 'detailed_dominant_fair_share',
];
const ofOperations = ['starvation_status', 'usage_ratio', 'fair_share_ratio', 'title'];
const listed = 20;

/** Promises shows which guarantees are not kept and why, and what has been below its fair share for too long. */
function Promises({tree, cluster}: {tree: string; cluster: Cluster}) {
  const {t} = useTexts();
  const base = `${orchid}/pool_trees/${escapeKey(tree)}`;
  const pools = useGet<Record<string, Pool>>(`${base}/pools`, {fields: ofPools}, {every: 2 * live, large: true}).data;
  const operations = useGet<Record<string, LiveOperation>>(`${base}/operations`, {fields: ofOperations}, {every: 2 * live, large: true}).data;
  if (!pools || !operations) return null;
  const short = shortfalls(pools);
  const shrunk = shrunkOf(pools).filter((name) => !short.some((one) => one.pool === name));
  const owed = integralShortfalls(pools);
  const integral = Object.values(pools).some((pool) => (pool.integral_guarantee_type ?? 'none') !== 'none');
  const hungry = [
    ...Object.entries(pools).map(([name, e]) => ({key: name, href: to.pool(tree, name), text: name, e})),
    ...Object.entries(operations).map(([id, e]) => ({key: id, href: to.operation(id, 'why'), text: e.title || shortId(id), e})),
  ].filter(({e}) => e.starvation_status && e.starvation_status !== 'non_starving');
  const promised = Object.values(pools).some((pool) => resources.some((r) => (pool.strong_guarantee_resources?.[r] ?? 0) > 0));
  return (
    <div className="promises">
      <div>
        <h3>{t('Strong guarantees now')}</h3>
        {!promised ? (
          <p className="muted">{t('No pool has a strong guarantee')}</p>
        ) : short.length + shrunk.length === 0 ? (
          <p className="muted">{t('Every pool has what it asks for of its guarantee')}</p>
        ) : (
          <ul className="promises__list">
            {short.slice(0, listed).map((one) => (
              <li key={one.pool}>
                <Broken one={one} tree={tree} cluster={cluster} />
              </li>
            ))}
            {shrunk.slice(0, listed).map((name) => (
              <li key={name}>
                <Anchor href={to.pool(tree, name)}>{name}</Anchor>: {t('the nodes have too little for its guarantee, which it does not ask for now')}
              </li>
            ))}
          </ul>
        )}
      </div>
      {integral && (
        <div>
          <h3>{t('Integral guarantees now')}</h3>
          {owed.length === 0 ? (
            <p className="muted">{t('Every pool has what it asks for of its guarantee, or saves it')}</p>
          ) : (
            <ul className="promises__list">
              {owed.slice(0, listed).map((one) => (
                <li key={one.pool}>
                  <Owed one={one} tree={tree} />
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
      <div>
        <h3>{t('Starving now')}</h3>
        {hungry.length === 0 ? (
          <p className="muted">{t('Nothing is starving')}</p>
        ) : (
          <ul className="promises__list">
            {hungry.slice(0, listed).map(({key, href, text, e}) => (
              <li key={key}>
                <State name={e.starvation_status} /> <Anchor href={href}>{text}</Anchor>
                <ShareBar usage={e.usage_ratio} fair={e.fair_share_ratio} />
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}

/** Broken says which guarantee is not kept, and what broke it. */
function Broken({one, tree, cluster}: {one: Shortfall; tree: string; cluster: Cluster}) {
  const {t, word, locale} = useTexts();
  const lost = cluster.node_count - cluster.online_node_count;
  const print = (value: number) => amount(one.resource, value, locale);
  return (
    <>
      <Anchor href={to.pool(tree, one.pool)}>{one.pool}</Anchor>{' '}
      {t('has {got} of {asked} {resource} that it asks for and is guaranteed', {got: print(one.got), asked: print(one.asked), resource: word(one.resource)})}:{' '}
      {one.cause === 'capacity' && t('the nodes have too little for all guarantees')}
      {one.cause === 'capacity' && lost > 0 && (
        <>
          {', '}
          <Anchor href={`${to.nodes()}?state=offline`}>{t('{n} {n|node is|nodes are} not online', {n: lost})}</Anchor>
        </>
      )}
      {one.cause === 'starving' && t('its jobs find no room, and it preempts others')}
      {one.cause === 'waiting' && t('its jobs have not started yet')}
    </>
  );
}

/** Owed says which integral guarantee is not kept, and what broke it. */
function Owed({one, tree}: {one: IntegralShortfall; tree: string}) {
  const {t, locale} = useTexts();
  const causes = {
    spent: t('its savings are spent'),
    full: t('guarantees of other pools leave it too little, and its savings can grow no further'),
    capacity: t('the nodes have too little for all guarantees'),
    starving: t('its jobs find no room, and it preempts others'),
    waiting: t('its jobs have not started yet'),
  };
  const figures = {got: share(one.got, locale), asked: share(one.asked, locale)};
  return (
    <>
      <Anchor href={to.pool(tree, one.pool)}>{one.pool}</Anchor>{' '}
      {one.kind === 'burst' ? t('uses {got} of the tree; its burst guarantee covers {asked} that it asks for', figures) : t('uses {got} of the tree; its flow covers {asked} that it asks for', figures)}:{' '}
      {causes[one.cause]}
    </>
  );
}
