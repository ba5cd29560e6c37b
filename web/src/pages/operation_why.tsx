import {Alert, Button} from '@gravity-ui/uikit';
import {useState} from 'react';

import {useCommand} from '../api/queries';
import {type Advice, type Explanation, resources, type Resource, type ShareLink, type TreeExplanation} from '../api/types';
import {amount, decimal, duration, moment, share} from '../model/format';
import {Anchor} from '../parts/anchor';
import {PartsBar} from '../parts/bars';
import {Copyable, Facts, Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';

/** slow is how often the answer is asked for, in milliseconds: users may ask 30 questions a minute. */
const slow = 5000;

/** WhyTab shows what each pending job waits for, and how the share was computed. */
export function WhyTab({id, ended}: {id: string; ended: boolean}) {
  const {t} = useTexts();
  const explanation = useCommand<Explanation>('explain_operation', {operation_id: id}, {every: slow, enabled: !ended});
  if (ended) return <Empty>{t('The operation has ended')}</Empty>;
  return (
    <Loaded of={explanation}>
      {(data) => (
        <>
          <Verdict data={data} />
          <Blockers data={data} />
          {data.starts_at_next_heartbeat === null && data.blockers.length > 0 && <Fixes id={id} />}
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

/** Blockers lists what keeps jobs waiting, what to fix first at the top. */
function Blockers({data}: {data: Explanation}) {
  const {t} = useTexts();
  const starts = data.starts_at_next_heartbeat;
  const list = starts ? data.then : data.blockers;
  if (list.length === 0) return null;
  return (
    <Section title={t('What blocks it')}>
      <ol className="reasons">
        {list.map((blocker, i) => (
          <li key={i}>
            {blocker.pool && blocker.pool_tree && (
              <>
                <Anchor href={to.pool(blocker.pool_tree, blocker.pool)}>{blocker.pool}</Anchor>:{' '}
              </>
            )}
            {blocker.text}
          </li>
        ))}
      </ol>
    </Section>
  );
}

/** Fixes lists the least changes that start a job now. It asks only when the reader does: an answer costs more than others. */
function Fixes({id}: {id: string}) {
  const {t, word} = useTexts();
  const [asked, setAsked] = useState(false);
  const advice = useCommand<Advice>('advise_operation', {operation_id: id}, {enabled: asked});
  return (
    <Section title={t('What would help')}>
      {!asked ? (
        <div>
          <Button onClick={() => setAsked(true)}>{t('Find the least changes')}</Button>
        </div>
      ) : (
        <Loaded of={advice}>
          {(data) => (
            <>
              <p>{t(outcomes[data.outcome])}</p>
              <ol className="reasons">
                {data.fixes.map((fix, i) => (
                  <li key={i}>
                    {word(fix.who)}: {fix.text}. {fix.effect}
                    {fix.commands?.map((command) => <Copyable key={command} text={command} />)}
                  </li>
                ))}
              </ol>
              {data.fixes.length === 0 && (
                <ul className="reasons">
                  {data.tried.map((attempt, i) => (
                    <li key={i}>
                      {attempt.text}
                      {attempt.refused ? `: ${attempt.refused}` : ''}
                    </li>
                  ))}
                </ul>
              )}
            </>
          )}
        </Loaded>
      )}
    </Section>
  );
}

/** outcomes are the sentences for the kinds of advice. */
const outcomes = {
  starts_now: 'A job starts at the next heartbeats without any change.',
  found: 'Each of these changes alone starts a job now; each was checked on a copy of the cluster.',
  wait: 'No change that was tried starts a job now. It starts by itself.',
  never: 'It can never start as it is, even in an empty cluster.',
  none_within_bounds: 'Nothing that was tried starts a job now.',
} as const;

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
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Tasks')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Task')}</th>
              <th className="numeric">{t('Waiting jobs')}</th>
              <th className="numeric">{t('Nodes that fit')}</th>
              <th>{t('Each job needs')}</th>
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
