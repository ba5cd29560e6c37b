import {useCommand} from '../api/queries';
import type {PoolExplanation, Resource} from '../api/types';
import {amount} from '../model/format';
import {stepsOf} from '../model/waterfall';
import {Anchor} from '../parts/anchor';
import {Section} from '../parts/small';
import {Empty, Loaded} from '../parts/states';
import {to} from '../shell/routing';
import {useTexts} from '../text/i18n';

/** slow is how often the answer is asked for, in milliseconds: users may ask 30 questions a minute. */
const slow = 10_000;

/** PoolWhyTab shows what a pool demands and does not have, by what its jobs wait for first. */
export function PoolWhyTab({tree, name}: {tree: string; name: string}) {
  const {t} = useTexts();
  const answer = useCommand<PoolExplanation>('explain_pool', {pool: name, pool_tree: tree}, {every: slow});
  return (
    <Loaded of={answer}>
      {(data) =>
        data.waterfall.length === 0 ? (
          <Empty>{t('The pool has all that it demands')}</Empty>
        ) : (
          <>
            <Waterfall data={data} />
            <Waiting data={data} />
            {data.children.length > 0 && <Children data={data} />}
          </>
        )
      }
    </Loaded>
  );
}

/** useUnits prints amounts of the resource that the answer is about. */
function useUnits(data: PoolExplanation) {
  const {word, locale} = useTexts();
  const resource = data.resource as Resource;
  return (value: number) => `${amount(resource, value, locale)} ${word(resource)}`;
}

/** Waterfall draws how much waits for what. The parts sum to what the pool lacks. */
function Waterfall({data}: {data: PoolExplanation}) {
  const {t, word} = useTexts();
  const units = useUnits(data);
  const resource = data.resource as Resource;
  return (
    <Section title={t('What it waits for')}>
      <p>
        {t('It demands {demand}, uses {usage} and lacks {gap}.', {
          demand: units(data.demand[resource] ?? 0), usage: units(data.usage[resource] ?? 0), gap: units(data.gap),
        })}
        {data.guarantee && data.guarantee.short > 0 && ' '}
        {data.guarantee && data.guarantee.short > 0 && t('Of its guarantee, {short} is due and missing.', {short: units(data.guarantee.short)})}
      </p>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('What it waits for')}>
        <table className="plain plain_top">
          <thead>
            <tr>
              <th>{t('First blocker')}</th>
              <th className="plain__bar">{t('Part')}</th>
              <th className="numeric">{t('Amount')}</th>
              <th className="numeric">{t('Waiting jobs')}</th>
              <th className="numeric">{t('Operations')}</th>
              <th>{t('Why')}</th>
            </tr>
          </thead>
          <tbody>
            {stepsOf(data.waterfall, data.gap).map(({row, from, to: end}, i) => (
              <tr key={i}>
                <th scope="row">{word(row.code)}</th>
                <td className="plain__bar">
                  <span className="partsbar" role="img" aria-label={units(row.amount)} title={units(row.amount)}>
                    <span style={{width: `${from * 100}%`}} />
                    <span className={`partsbar__part partsbar__part_${row.code === 'starts_now' ? 'done' : 'bucket'}`} style={{width: `${(end - from) * 100}%`}} />
                  </span>
                </td>
                <td className="numeric">{units(row.amount)}</td>
                <td className="numeric">{row.waiting_job_count}</td>
                <td className="numeric">{row.operation_count}</td>
                <td>{row.blocker ? row.blocker.text : t('starts at the next heartbeats')}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** Waiting lists the operations that wait for most. */
function Waiting({data}: {data: PoolExplanation}) {
  const {t, word} = useTexts();
  const units = useUnits(data);
  return (
    <Section title={t('Who waits for most')}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Who waits for most')}>
        <table className="plain plain_top">
          <thead>
            <tr>
              <th>{t('Operation')}</th>
              <th>{t('Pool')}</th>
              <th className="numeric">{t('Amount')}</th>
              <th className="numeric">{t('Waiting jobs')}</th>
              <th>{t('First blocker')}</th>
            </tr>
          </thead>
          <tbody>
            {data.waiting_operations.map((waiting, i) => (
              <tr key={i}>
                <th scope="row">
                  <Anchor href={to.operation(waiting.operation)}>{waiting.operation}</Anchor>
                </th>
                <td>
                  <Anchor href={to.pool(data.pool_tree, waiting.pool)}>{waiting.pool}</Anchor>
                </td>
                <td className="numeric">{units(waiting.amount)}</td>
                <td className="numeric">{waiting.waiting_job_count}</td>
                <td>{waiting.text ?? word(waiting.code)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** Children lists what the pools directly below lack. */
function Children({data}: {data: PoolExplanation}) {
  const {t} = useTexts();
  const units = useUnits(data);
  return (
    <Section title={t('Pools below')}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('Pools below')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Pool')}</th>
              <th className="numeric">{t('Usage')}</th>
              <th className="numeric">{t('Lacks')}</th>
            </tr>
          </thead>
          <tbody>
            {data.children.map((child) => (
              <tr key={child.pool}>
                <th scope="row">
                  <Anchor href={to.pool(data.pool_tree, child.pool)}>{child.pool}</Anchor>
                </th>
                <td className="numeric">{units(child.usage)}</td>
                <td className="numeric">{units(child.gap)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
