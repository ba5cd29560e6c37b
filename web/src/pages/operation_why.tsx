import {Alert} from '@gravity-ui/uikit';

import {live, useCommand} from '../api/queries';
import {type Explanation, type Obstacle, resources, type Resource, type ShareLink, type TreeExplanation} from '../api/types';
import {amount, decimal, duration, moment, share} from '../model/format';
import {Anchor} from '../parts/anchor';
import {PartsBar} from '../parts/bars';
import {Facts, Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {to} from '../shell/routing';
import {type Texts, useTexts} from '../text/i18n';

/** WhyTab shows what each pending job waits for, and how the share was computed. */
export function WhyTab({id, ended}: {id: string; ended: boolean}) {
  const {t} = useTexts();
  const explanation = useCommand<Explanation>('explain_operation', {operation_id: id}, {every: live, enabled: !ended});
  if (ended) return <Empty>{t('The operation has ended')}</Empty>;
  return (
    <Loaded of={explanation}>
      {(data) => (
        <>
          <Verdict data={data} />
          {data.pool_trees.map((tree) => (
            <Tree key={tree.pool_tree} tree={tree} />
          ))}
        </>
      )}
    </Loaded>
  );
}

function Verdict({data}: {data: Explanation}) {
  const {t, word} = useTexts();
  const waiting = data.pool_trees.reduce((sum, tree) => sum + tree.waiting_job_count, 0);
  const running = data.pool_trees.reduce((sum, tree) => sum + tree.running_job_count, 0);
  if (data.suspended) return <Alert theme="warning" title={t('The operation is suspended')} message={t('The operation gets no new jobs until it is resumed.')} />;
  if (waiting === 0) return <Alert theme="success" title={t('No jobs are waiting')} message={t('{n} running', {n: running})} />;
  return (
    <Alert
      theme="info"
      title={t('{n} {n|job waits|jobs wait}', {n: waiting})}
      message={data.blocked_by ? word(data.blocked_by) : t('{n} running', {n: running})}
    />
  );
}

/** sentence describes an obstacle in words, with its amounts. */
function sentence(o: Obstacle, {t, word, locale}: Texts): string {
  let text = word(o.reason);
  if (o.needed !== undefined && o.available !== undefined) {
    const print = (value: number) => (o.resource ? amount(o.resource, value, locale) : String(value));
    text += `: ${t('needs {needed}, there is {available}', {needed: print(o.needed), available: print(o.available)})}`;
    if (o.resource) text += ` ${word(o.resource)}`;
  }
  if (o.node_count) text += `; ${t('on {n} {n|node|nodes}', {n: o.node_count})}`;
  if (o.too_small_node_count) text += `, ${t('{n} of them too small even when empty', {n: o.too_small_node_count})}`;
  return text;
}

function Obstacles({list, tree}: {list: Obstacle[]; tree: string}) {
  const texts = useTexts();
  if (list.length === 0) return <span className="muted">{texts.t('nothing blocks it')}</span>;
  return (
    <ul className="reasons">
      {list.map((o, i) => (
        <li key={i}>
          {o.pool && (
            <>
              <Anchor href={to.pool(tree, o.pool)}>{o.pool}</Anchor>:{' '}
            </>
          )}
          {sentence(o, texts)}
        </li>
      ))}
    </ul>
  );
}

function Tree({tree}: {tree: TreeExplanation}) {
  const {t, word, locale} = useTexts();
  const {starvation, preemption, waits_for: waits} = tree;
  return (
    <Section title={t('In tree {name}', {name: tree.pool_tree})}>
      {waits && (
        <Alert
          theme="warning"
          title={t('Waits for a place in pool {pool}', {pool: waits.pool})}
          message={t('{running} of {most} operations run there, {ahead} ahead in the queue', {
            running: waits.running, most: waits.max_running_operation_count, ahead: waits.ahead,
          })}
        />
      )}
      {(tree.obstacles.length > 0 || tree.tasks.every((task) => task.obstacles.length === 0)) && (
        <>
          <h3>{t('What blocks it')}</h3>
          <Obstacles list={tree.obstacles} tree={tree.pool_tree} />
        </>
      )}
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Tasks')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Task')}</th>
              <th className="numeric">{t('Waiting jobs')}</th>
              <th className="numeric">{t('Nodes that fit')}</th>
              <th>{t('Each job needs')}</th>
              <th>{t('What blocks it')}</th>
            </tr>
          </thead>
          <tbody>
            {tree.tasks.map((task) => (
              <tr key={task.task_name}>
                <th scope="row">{task.task_name}</th>
                <td className="numeric">{task.waiting_job_count}</td>
                <td className="numeric">{task.fitting_node_count}</td>
                <td>
                  {resources
                    .filter((r) => (task.job_resources[r] ?? 0) > 0)
                    .map((r) => `${word(r)} ${amount(r, task.job_resources[r], locale)}`)
                    .join(', ')}
                </td>
                <td>{task.waiting_job_count > 0 ? <Obstacles list={task.obstacles} tree={tree.pool_tree} /> : <span className="muted">–</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Facts
        items={[
          [t('Scheduling'), word(starvation.scheduling_status)],
          [t('Starvation'), word(starvation.starvation_status)],
          [t('Below its fair share since'), moment(starvation.below_fair_share_since, locale)],
          [t('Starving since'), moment(starvation.starving_since, locale)],
          [t('Starves after'), duration(starvation.timeout, locale)],
          [t('Preemption'), word(preemption.priority)],
          [t('Nodes that fit with preemption'), String(preemption.fitting_node_count)],
        ]}
      />
      {tree.fair_share && <Derivation share={tree.fair_share} tree={tree.pool_tree} />}
    </Section>
  );
}

function Derivation({share: derived, tree}: {share: NonNullable<TreeExplanation['fair_share']>; tree: string}) {
  const {t, word, locale} = useTexts();
  const split = derived.detailed_dominant_fair_share;
  const dominant = derived.scarce_resource ?? dominantOf(derived.chain[0]);
  return (
    <>
      <h3>{t('Where the fair share comes from')}</h3>
      <p>
        {t('{total} = {strong} strong + {integral} integral + {weight} by weight', {
          total: share(split.total, locale), strong: share(split.strong_guarantee, locale),
          integral: share(split.integral_guarantee, locale), weight: share(split.weight_proportional, locale),
        })}
        {'; '}
        {t('bound by {bound}', {bound: word(derived.bound)})}
        {derived.bound_by_pool && (
          <>
            {' '}
            <Anchor href={to.pool(tree, derived.bound_by_pool)}>{derived.bound_by_pool}</Anchor>
          </>
        )}
        {derived.scarce_resource && ` (${word(derived.scarce_resource)})`}
      </p>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Where the fair share comes from')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('From the operation up to the root')}</th>
              <th className="numeric">{t('Fair share')}</th>
              <th>{word(dominant)}</th>
              <th className="numeric">{t('Guarantee')}</th>
              <th className="numeric">{t('Demand')}</th>
              <th className="numeric">{t('Limit')}</th>
              <th className="numeric">{t('Weight')}</th>
            </tr>
          </thead>
          <tbody>
            {derived.chain.map((link, i) => (
              <tr key={i}>
                <th scope="row">{link.pool === null ? t('this operation') : <Anchor href={to.pool(tree, link.pool)}>{link.pool}</Anchor>}</th>
                <td className="numeric">{share(link.fair_share[dominant], locale)}</td>
                <td className="plain__bar">
                  <PartsBar
                    whole={1}
                    label={share(link.fair_share[dominant], locale)}
                    parts={[{kind: 'usage', value: link.fair_share[dominant] ?? 0, title: ''}]}
                  />
                </td>
                <td className="numeric">{share(link.guarantee[dominant], locale)}</td>
                <td className="numeric">{share(link.demand[dominant], locale)}</td>
                <td className="numeric">{share(link.limits[dominant], locale)}</td>
                <td className="numeric">{decimal(link.weight, locale)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** dominantOf returns the resource with the largest share. */
function dominantOf(link: ShareLink | undefined): Resource {
  let best: Resource = 'cpu';
  for (const r of resources) if ((link?.fair_share[r] ?? 0) > (link?.fair_share[best] ?? 0)) best = r;
  return best;
}
