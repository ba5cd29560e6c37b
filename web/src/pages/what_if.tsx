import {Alert, Button, Icon, Select, Spin, TextArea} from '@gravity-ui/uikit';
import {PlayFill} from '@gravity-ui/icons';
import {type ReactNode, useState} from 'react';

import {useAnswer, useCommand, useGet} from '../api/queries';
import type {Node, WhatIf, WhatIfOperation, WhatIfOperationFigures, WhatIfPool, WhatIfPoolFigures} from '../api/types';
import {decimal, duration, moment, shellQuote, share} from '../model/format';
import {Anchor} from '../parts/anchor';
import {Meter} from '../parts/bars';
import {Command, Section} from '../parts/small';
import {Empty, Problem} from '../parts/states';
import {to, useQueryValue} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';

/** examples are questions to start from, about a pool and a node of this cluster. */
const examples = (pool: string, node: string): {title: Key; text: string}[] => [
  {title: 'A pool gets more', text: `changes:\n  - {pool: ${pool}, set: {weight: 3}}\n`},
  {title: 'Nodes are lost', text: `changes:\n  - {at: 10m, lose_nodes: [${node}]}\n`},
  {title: 'Nodes are added', text: `changes:\n  - add_nodes: {count: 2, like: ${node}}\n`},
  {
    title: 'Operations are started',
    text: `changes:\n  - start:\n      count: 3\n      spec: {pool: ${pool}, tasks: {main: {job_count: 4, cpu_limit: 1, command: "true"}}}\n`,
  },
];

const horizons = ['30m', '2h', '8h', '24h'];

/** WhatIfPage runs a copy of the cluster ahead, as it is and with changes, and compares. */
export function WhatIfPage() {
  const {t, locale} = useTexts();
  const [given] = useQueryValue('document');
  const [horizon, setHorizon] = useQueryValue('for', '2h');
  const nodes = useCommand<{nodes: Node[]}>('list_nodes', {limit: 1});
  const pools = useGet<Record<string, unknown>>('//sys/pools');
  const ideas = examples(JSON.stringify(Object.keys(pools.data ?? {}).sort()[0] ?? 'research'), JSON.stringify(nodes.data?.nodes[0]?.address ?? 'node-1'));
  const [written, setText] = useState(given);
  const text = written || (ideas[0]?.text ?? '');
  const {run, start, stop} = useAnswer<WhatIf>('what_if');
  return (
    <div className="page">
      <div>
        <h1 className="page__title">{t('What if')}</h1>
        <p className="muted">{t('Two copies of this cluster run ahead on virtual time, one as it is and one with the changes. All differences come from the changes; nothing is changed here.')}</p>
      </div>
      <div className="toolbar">
        <Select
          label={t('Look ahead')} title={t('Look ahead')} width={170} value={[horizon]}
          options={horizons.map((value) => ({value, content: duration(milliseconds(value), locale)}))} onUpdate={([value]) => value && setHorizon(value)}
        />
        {run.state === 'running' ? (
          <Button view="outlined" onClick={stop}>
            {t('Stop')}
          </Button>
        ) : (
          <Button view="action" onClick={() => void start({document: text, for: milliseconds(horizon)})}>
            <Icon data={PlayFill} size={14} /> {t('Compare')}
          </Button>
        )}
        {run.state === 'running' && (
          <span className="simulator__wait" role="status">
            <Spin size="xs" /> {t('Running both copies…')}
          </span>
        )}
        {ideas.map((idea) => (
          <Button key={idea.title} view="flat" onClick={() => setText(idea.text)}>
            {t(idea.title)}
          </Button>
        ))}
      </div>
      <TextArea value={text} minRows={5} maxRows={24} className="raw" controlProps={{'aria-label': t('Changes'), spellCheck: false}} onUpdate={setText} />
      <div>
        <div className="muted">{t('Equivalent command')}</div>
        <Command text={`weir what-if - --for ${horizon} <<< ${shellQuote(text.trim())}`} />
      </div>
      {run.state === 'refused' && <Problem error={run.error} />}
      {run.state === 'done' && <Comparison answer={run.answer} />}
    </div>
  );
}

/** milliseconds reads one of the horizons. */
function milliseconds(horizon: string): number {
  return parseInt(horizon, 10) * (horizon.endsWith('m') ? 60_000 : 3_600_000);
}

function Comparison({answer}: {answer: WhatIf}) {
  const {t, locale} = useTexts();
  const {before, after} = answer.cluster;
  const rows: [string, number, number, number?][] = [
    // Nodes that are lost on the way count as well.
    ...(before.node_count === after.node_count ? [] : [[t('Nodes'), before.node_count, after.node_count] as [string, number, number]]),
    [t('Jobs started'), before.started_job_count, after.started_job_count],
    [t('Jobs completed'), before.completed_job_count, after.completed_job_count],
    [t('Operations completed'), before.completed_operation_count, after.completed_operation_count],
    [t('Preemptions'), before.preempted_job_count, after.preempted_job_count],
    [t('Core-hours lost'), before.lost_core_seconds / 3600, after.lost_core_seconds / 3600, 1],
  ];
  return (
    <>
      {answer.feasibility.map((verdict) =>
        verdict.is_feasible ? (
          <Alert key={verdict.pool_tree} theme="success" message={t('All promises can be kept')} />
        ) : (
          <Alert key={verdict.pool_tree} theme="danger" title={t('Not all promises can be kept')} message={verdict.findings.join('; ')} />
        ),
      )}
      <Section title={t('The cluster, {span} ahead of {time}', {span: duration(answer.for, locale), time: moment(answer.as_of, locale)})}>
        <div className="tiles">
          {rows.map(([title, was, is, digits]) => (
            <div key={title} className="tile">
              <span className="tile__title">{title}</span>
              <span className="tile__value">{decimal(is, locale, digits ?? 0)}</span>
              <span className="tile__note">{is === was ? t('unchanged') : t('was {value}', {value: decimal(was, locale, digits ?? 0)})}</span>
            </div>
          ))}
        </div>
      </Section>
      <Pools answer={answer} />
      <Operations answer={answer} />
      <p className="muted">
        {t('Model')}: {answer.model.join('; ')}
      </p>
    </>
  );
}

/** Change shows a figure without and with the changes. */
function Change({was, is}: {was: string; is: string}) {
  if (was === is) return <span className="muted">{is}</span>;
  return (
    <>
      <span className="muted">{was} →</span> {is}
    </>
  );
}

/** Rows is a table whose first column names the row. The server orders rows by the size of the difference. */
function Rows<Row>({label, rows, name, columns}: {label: string; rows: Row[]; name: (row: Row) => ReactNode; columns: [string, (row: Row) => ReactNode][]}) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table className="plain">
        <thead>
          <tr>
            <th />
            {columns.map(([title]) => (
              <th key={title}>{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              <th scope="row">{name(row)}</th>
              {columns.map(([title, cell]) => (
                <td key={title}>{cell(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Pools({answer}: {answer: WhatIf}) {
  const {t, locale} = useTexts();
  const figure = (pick: (f: WhatIfPoolFigures) => string) => (row: WhatIfPool) => (
    <Change was={row.before ? pick(row.before) : '–'} is={row.after ? pick(row.after) : '–'} />
  );
  const most = Math.max(1e-9, ...answer.pools.flatMap((row) => [row.before?.usage ?? 0, row.after?.usage ?? 0]));
  const bar = (usage = 0, kind: string) => <Meter value={usage} of={most} kind={kind} label={t('usage {usage}', {usage: share(usage, locale)})} />;
  const title = t('Pools that differ');
  return (
    <Section title={title} actions={<span className="muted">{t('{n} unchanged', {n: answer.unchanged_pool_count})}</span>}>
      {answer.pools.length === 0 ? (
        <Empty>{t('No pool differs')}</Empty>
      ) : (
        <Rows
          label={title} rows={answer.pools} name={(row) => <Anchor href={to.pool(row.pool_tree, row.pool)}>{row.pool}</Anchor>}
          columns={[
            [
              t('Usage without and with'),
              (row) => (
                <span className="twobars">
                  {bar(row.before?.usage, 'weight')}
                  {bar(row.after?.usage, 'usage')}
                </span>
              ),
            ],
            [t('Usage'), figure((f) => share(f.usage, locale))],
            [t('Fair share'), figure((f) => share(f.fair_share, locale))],
            [t('Jobs started'), figure((f) => decimal(f.started_job_count, locale, 0))],
            [t('Wait (median)'), figure((f) => duration(f.job_wait_p50 * 1000, locale))],
            [t('Wait (90 %)'), figure((f) => duration(f.job_wait_p90 * 1000, locale))],
            [t('Preempted'), figure((f) => decimal(f.preempted_job_count, locale, 0))],
            [t('Guarantee kept'), figure((f) => (f.guarantee_kept === null ? '–' : share(f.guarantee_kept, locale)))],
          ]}
        />
      )}
    </Section>
  );
}

function Operations({answer}: {answer: WhatIf}) {
  const {t, word, locale} = useTexts();
  const figure = (pick: (f: WhatIfOperationFigures) => string) => (row: WhatIfOperation) => (
    <Change was={row.before ? pick(row.before) : '–'} is={row.after ? pick(row.after) : '–'} />
  );
  const title = t('Operations that differ');
  return (
    <Section title={title} actions={<span className="muted">{t('{n} unchanged', {n: answer.unchanged_operation_count})}</span>}>
      {answer.operations.length === 0 ? (
        <Empty>{t('No operation differs')}</Empty>
      ) : (
        <Rows
          label={title} rows={answer.operations}
          name={(row) => (row.before ? <Anchor href={to.operation(row.operation)}>{row.operation}</Anchor> : row.operation)}
          columns={[
            [t('Pool'), figure((f) => f.pool)],
            [t('State'), figure((f) => word(f.state))],
            [t('First start'), figure((f) => moment(f.first_start, locale))],
            [t('Finish'), figure((f) => moment(f.finish, locale))],
            [t('Jobs completed'), figure((f) => decimal(f.completed_job_count, locale, 0))],
            [t('Preempted'), figure((f) => decimal(f.preempted_job_count, locale, 0))],
          ]}
        />
      )}
    </Section>
  );
}
