import {Label} from '@gravity-ui/uikit';

import type {Amounts, Element, Pool, Resource} from '../api/types';
import {amount, decimal, duration, share, shortId, volume} from '../model/format';
import {charge, type Row} from '../model/tree';
import {Anchor} from '../parts/anchor';
import {Meter, ShareBar} from '../parts/bars';
import {Favourite} from '../parts/favourite';
import type {Column} from '../parts/grid';
import {State} from '../parts/small';
import {to} from '../shell/routing';
import type {Key, Texts} from '../text/i18n';

export const modes = [
  {key: 'summary', title: 'Summary'},
  {key: 'cpu', title: 'CPU'},
  {key: 'memory', title: 'Memory'},
  {key: 'gpu', title: 'GPU'},
  {key: 'user_slots', title: 'User slots'},
  {key: 'operations', title: 'Operation counts'},
  {key: 'integral', title: 'Integral guarantees'},
] as const satisfies {key: string; title: Key}[];

export type Mode = (typeof modes)[number]['key'];

interface Choice {
  mode: Mode;
  absolute: boolean;
  texts: Texts;
  tree: string;
  toggle: (name: string, open: boolean) => void;
  /** narrow tables begin with what matters most. */
  narrow: boolean;
}

const always = [
  'parent', 'is_ephemeral', 'integral_guarantee_type', 'starvation_status', 'accumulated_resource_ratio_volume', 'integral_pool_capacity_ratio',
];
const ofOperations = ['pool', 'title', 'user', 'fifo_index', 'state', 'suspended', 'waiting_for_pool', 'starvation_status'];

/** fieldsOf returns the fields of pools and operations that the columns of a mode show, and no others: a
 * tree may have ten thousand pools. */
export function fieldsOf(mode: Mode, absolute: boolean): {pools: string[]; operations: string[]} {
  let own: string[];
  let pool: string[] = [];
  if (mode === 'summary') {
    own = ['weight', 'dominant_resource', 'usage_ratio', 'demand_ratio', 'fair_share_ratio', 'min_share_ratio', 'running_job_count'];
    if (absolute) own.push('resource_usage', 'resource_demand', 'fair_resources', 'effective_strong_guarantee_resources');
    pool = ['mode', 'running_operation_count', 'operation_count'];
  } else if (mode === 'operations') {
    own = ['running_job_count', 'pending_job_count'];
    pool = [
      'running_operation_count', 'max_running_operation_count', 'operation_count', 'max_operation_count', 'waiting_operation_count',
    ];
  } else if (mode === 'integral') {
    own = ['usage_ratio'];
    pool = [
      'specified_burst_ratio', 'specified_resource_flow_ratio', 'total_burst_ratio', 'total_resource_flow_ratio',
      'accumulated_resource_volume', 'integral_pool_capacity', 'estimated_burst_usage_duration_seconds',
    ];
    if (absolute) pool.push('specified_burst_guarantee_resources', 'specified_resource_flow');
  } else {
    own = ['weight', 'usage_share', 'fair_share'];
    own.push(
      ...(absolute
        ? ['resource_usage', 'resource_demand', 'fair_resources', 'strong_guarantee_resources', 'effective_strong_guarantee_resources',
          'estimated_guarantee_resources', 'resource_limits']
        : ['demand_share', 'strong_guarantee_share', 'estimated_guarantee_share', 'limits_share']),
    );
  }
  return {pools: [...always, ...own, ...pool], operations: [...ofOperations, ...own]};
}

/** sumOf adds up a number of each row. */
function sumOf(rows: Row[], value: (row: Row) => number | null | undefined): number {
  return rows.reduce((sum, row) => sum + (value(row) ?? 0), 0);
}

const elementOf = (row: Row): Element => (row.kind === 'pool' ? row.pool : row.operation);

/** numberColumn shows a number of a row; undefined is a dash. */
function numberColumn(
  key: string, title: string, width: number, value: (row: Row) => number | null | undefined,
  print: (value: number) => string, hint?: string, summed = false,
): Column<Row> {
  return {
    key, title, width, hint, numeric: true, value,
    total: summed ? (rows) => print(sumOf(rows, value)) : undefined,
    render: (row) => {
      const number = value(row);
      return number === null || number === undefined ? <span className="muted">–</span> : print(number);
    },
  };
}

export function columnsOf(choice: Choice): Column<Row>[] {
  const columns = columnsOfMode(choice);
  const bar = columns.find((column) => column.key === 'satisfaction');
  return [nameColumn(choice), ...(choice.narrow && bar ? [bar, ...columns.filter((column) => column !== bar)] : columns)];
}

function columnsOfMode(choice: Choice): Column<Row>[] {
  switch (choice.mode) {
    case 'summary':
      return summaryColumns(choice);
    case 'operations':
      return countColumns(choice);
    case 'integral':
      return integralColumns(choice);
    default:
      return resourceColumns(choice, choice.mode);
  }
}

/** satisfactionColumn compares usage with the fair share. */
function satisfactionColumn({t}: Texts, usage: (e: Element) => number, fair: (e: Element) => number): Column<Row> {
  return {
    key: 'satisfaction', title: t('Usage / fair share'), width: 142,
    value: (row) => {
      const [used, entitled] = [usage(elementOf(row)), fair(elementOf(row))];
      return entitled > 0 ? used / entitled : used > 0 ? 1e9 : 0;
    },
    render: (row) => <ShareBar usage={usage(elementOf(row))} fair={fair(elementOf(row))} />,
    total: (rows) => <ShareBar usage={sumOf(rows, (row) => usage(elementOf(row)))} fair={sumOf(rows, (row) => fair(elementOf(row)))} />,
  };
}

function nameColumn({texts, tree, toggle, narrow}: Choice): Column<Row> {
  const {t} = texts;
  return {
    key: 'name', title: t('Name'), width: 204, grow: true,
    value: (row) => row.name,
    render: (row) => (
      <span className="name" style={{paddingInlineStart: row.depth * (narrow ? 8 : 18)}}>
        {row.hasChildren ? (
          <button
            type="button" className="name__fold" tabIndex={-1}
            aria-label={row.open ? t('Collapse {name}', {name: row.name}) : t('Expand {name}', {name: row.name})}
            onClick={() => toggle(row.name, !row.open)}
          >
            {row.open ? '▾' : '▸'}
          </button>
        ) : (
          <span className="name__fold" />
        )}
        {row.kind === 'pool' ? <PoolName row={row} tree={tree} texts={texts} /> : <OperationName row={row} texts={texts} />}
      </span>
    ),
  };
}

function PoolName({row, tree, texts}: {row: Extract<Row, {kind: 'pool'}>; tree: string; texts: Texts}) {
  const {t, word, locale} = texts;
  const full = charge(row.pool);
  return (
    <>
      <Anchor href={to.pool(tree, row.name)} className="link name__text" title={row.name}>
        {row.name}
      </Anchor>
      {!row.pool.is_ephemeral && <Favourite tree={tree} pool={row.name} inTable />}
      {row.pool.is_ephemeral && <span className="muted" title={t('created for an operation, removed with the last one')}>{t('ephemeral')}</span>}
      {full !== undefined && (
        <Label
          size="xs" theme={row.pool.integral_guarantee_type === 'burst' ? 'utility' : 'info'}
          title={t('{type} guarantee, accumulated {charge} of capacity', {type: word(row.pool.integral_guarantee_type), charge: share(full, locale)})}
        >
          {word(row.pool.integral_guarantee_type)} {share(full, locale)}
        </Label>
      )}
      <Starvation name={row.pool.starvation_status} />
    </>
  );
}

function OperationName({row, texts}: {row: Extract<Row, {kind: 'operation'}>; texts: Texts}) {
  const {t} = texts;
  const {operation} = row;
  return (
    <>
      {operation.fifo_index !== undefined && operation.fifo_index !== null && (
        <span className="name__index" title={t('place in the FIFO order')}>#{operation.fifo_index}</span>
      )}
      <Anchor href={to.operation(row.name)} className="link name__text name__operation" title={`${operation.title} ${row.name}`}>
        {operation.title || shortId(row.name)}
      </Anchor>
      <span className="muted">{operation.user}</span>
      {operation.waiting_for_pool && (
        <Label size="xs" theme="unknown" title={t('waits for a place in {pool}', {pool: operation.waiting_for_pool})}>{t('waits')}</Label>
      )}
      {operation.suspended && <State name="suspended" />}
      <Starvation name={operation.starvation_status} />
    </>
  );
}

function Starvation({name}: {name: string}) {
  return name && name !== 'non_starving' ? <State name={name} /> : null;
}

function summaryColumns({absolute, texts}: Choice): Column<Row>[] {
  const {t, word, locale} = texts;
  const number = (
    key: string, title: string, ratioOf: (e: Element) => number, amounts: (e: Element) => Amounts | undefined,
    width = 88,
  ): Column<Row> => {
    const own = (row: Row) => amounts(elementOf(row))?.[elementOf(row).dominant_resource];
    const print = (resource: Resource, value: number | undefined) => amount(resource, value, locale);
    const column: Column<Row> = absolute
      ? {key, title, width: Math.max(width, 96), numeric: true, value: own, render: (row) => print(elementOf(row).dominant_resource, own(row))}
      : numberColumn(key, title, width, (row) => ratioOf(elementOf(row)), (value) => share(value, locale));
    // Amounts of different resources have no sum.
    column.total = (rows) => {
      const resource = rows[0] && elementOf(rows[0]).dominant_resource;
      if (!resource || rows.some((row) => elementOf(row).dominant_resource !== resource)) return <span className="muted">–</span>;
      return absolute ? print(resource, sumOf(rows, own)) : share(sumOf(rows, (row) => ratioOf(elementOf(row))), locale);
    };
    return column;
  };
  return [
    numberColumn('weight', t('Weight'), 66, (row) => elementOf(row).weight, (value) => decimal(value, locale)),
    {
      key: 'mode', title: t('Mode'), width: 84, value: (row) => (row.kind === 'pool' ? row.pool.mode : undefined),
      render: (row) => (row.kind === 'pool' ? word(row.pool.mode) : <span className="muted">{word(row.operation.state)}</span>),
    },
    {
      key: 'dominant', title: t('Dominant'), hint: t('the resource with the largest share of the cluster'), width: 90,
      value: (row) => elementOf(row).dominant_resource, render: (row) => word(elementOf(row).dominant_resource),
    },
    satisfactionColumn(texts, (e) => e.usage_ratio, (e) => e.fair_share_ratio),
    number('fair_share', t('Fair share'), (e) => e.fair_share_ratio, (e) => e.fair_resources),
    number('usage', t('Usage'), (e) => e.usage_ratio, (e) => e.resource_usage, 74),
    number('demand', t('Demand'), (e) => e.demand_ratio, (e) => e.resource_demand, 78),
    number('guarantee', t('Guarantee'), (e) => e.min_share_ratio, (e) => e.effective_strong_guarantee_resources),
    numberColumn('jobs', t('Jobs'), 62, (row) => elementOf(row).running_job_count, String, undefined, true),
    {
      key: 'operations', title: t('Operations'), width: 92, numeric: true, hint: t('running / all'),
      value: (row) => (row.kind === 'pool' ? row.pool.operation_count : undefined),
      render: (row) => (row.kind === 'pool' ? `${row.pool.running_operation_count} / ${row.pool.operation_count}` : ''),
      total: (rows) => {
        const sum = (value: (pool: Pool) => number) => sumOf(rows, (row) => (row.kind === 'pool' ? value(row.pool) : 0));
        return `${sum((pool) => pool.running_operation_count)} / ${sum((pool) => pool.operation_count)}`;
      },
    },
  ];
}

function resourceColumns({absolute, texts}: Choice, resource: Resource): Column<Row>[] {
  const {t, locale} = texts;
  const column = (
    key: string, title: string, shares: (e: Element) => Amounts | undefined, amounts: (e: Element) => Amounts | undefined, hint?: string, summed = true,
  ) =>
    absolute
      ? numberColumn(key, title, 92, (row) => amounts(elementOf(row))?.[resource], (value) => amount(resource, value, locale), hint, summed)
      : numberColumn(key, title, 94, (row) => shares(elementOf(row))?.[resource], (value) => share(value, locale), hint, summed);
  return [
    numberColumn('weight', t('Weight'), 66, (row) => elementOf(row).weight, (value) => decimal(value, locale)),
    satisfactionColumn(texts, (e) => e.usage_share?.[resource] ?? 0, (e) => e.fair_share?.[resource] ?? 0),
    column('usage', t('Usage'), (e) => e.usage_share, (e) => e.resource_usage),
    column('demand', t('Demand'), (e) => e.demand_share, (e) => e.resource_demand),
    column('fair_share', t('Fair share'), (e) => e.fair_share, (e) => e.fair_resources),
    column('guarantee', t('Guarantee'), (e) => e.strong_guarantee_share, (e) => e.strong_guarantee_resources, t('as configured')),
    ...(absolute
      ? [column('effective', t('Effective'), (e) => e.strong_guarantee_share, (e) => e.effective_strong_guarantee_resources,
        t('the guarantee with inferred resources, scaled to the cluster'))]
      : []),
    column('estimated', t('Estimated'), (e) => e.estimated_guarantee_share, (e) => e.estimated_guarantee_resources,
      t('what the pool would get under full load')),
    column('limit', t('Limit'), (e) => e.limits_share, (e) => e.resource_limits, undefined, false),
  ];
}

function countColumns({texts}: Choice): Column<Row>[] {
  const {t} = texts;
  const pool = (key: string, title: string, width: number, value: (pool: Pool) => number, summed = true) =>
    numberColumn(key, title, width, (row) => (row.kind === 'pool' ? value(row.pool) : undefined), String, undefined, summed);
  const bar = (key: string, title: string, count: (pool: Pool) => [number, number]): Column<Row> => ({
    key, title, width: 130,
    value: (row) => (row.kind === 'pool' ? count(row.pool)[0] / Math.max(1, count(row.pool)[1]) : undefined),
    render: (row) => {
      if (row.kind !== 'pool') return null;
      const [now, most] = count(row.pool);
      return <Meter value={now} of={most} label={t('{n} of {m}', {n: now, m: most})} kind={now >= most ? 'full' : 'usage'} />;
    },
  });
  return [
    pool('running', t('Running'), 80, (p) => p.running_operation_count),
    pool('max_running', t('Max. running'), 110, (p) => p.max_running_operation_count, false),
    bar('running_bar', t('Running of max.'), (p) => [p.running_operation_count, p.max_running_operation_count]),
    pool('waiting', t('Waiting'), 80, (p) => p.waiting_operation_count),
    pool('count', t('All'), 60, (p) => p.operation_count),
    pool('max', t('Max. all'), 88, (p) => p.max_operation_count, false),
    bar('bar', t('All of max.'), (p) => [p.operation_count, p.max_operation_count]),
    numberColumn('jobs', t('Jobs'), 56, (row) => elementOf(row).running_job_count, String, undefined, true),
    numberColumn('pending', t('Pending jobs'), 112, (row) => elementOf(row).pending_job_count, String, undefined, true),
  ];
}

function integralColumns({absolute, texts}: Choice): Column<Row>[] {
  const {t, word, locale} = texts;
  const ofPool = (
    key: string, title: string, width: number, value: (p: Pool) => number | undefined, print: (v: number) => string, hint?: string, summed = false,
  ) => numberColumn(key, title, width, (row) => (row.kind === 'pool' ? value(row.pool) : undefined), print, hint, summed);
  const percent = (value: number) => share(value, locale);
  return [
    {
      key: 'type', title: t('Type'), width: 72,
      value: (row) => (row.kind === 'pool' ? row.pool.integral_guarantee_type : undefined),
      render: (row) => row.kind === 'pool' && (row.pool.integral_guarantee_type === 'none' ? <span className="muted">–</span> : word(row.pool.integral_guarantee_type)),
    },
    absolute
      ? ofPool('burst', t('Burst'), 72, (p) => p.specified_burst_guarantee_resources?.cpu, (v) => amount('cpu', v, locale), t('CPU guaranteed in a burst'))
      : ofPool('burst', t('Burst'), 72, (p) => p.specified_burst_ratio, percent, t('share of the cluster guaranteed in a burst')),
    ofPool('child_burst', t('With subpools'), 104, (p) => p.total_burst_ratio, percent, t('burst of the pool and all pools below it'), true),
    absolute
      ? ofPool('flow', t('Flow'), 68, (p) => p.specified_resource_flow?.cpu, (v) => amount('cpu', v, locale), t('CPU that the pool accumulates'))
      : ofPool('flow', t('Flow'), 68, (p) => p.specified_resource_flow_ratio, percent, t('share of the cluster that the pool accumulates')),
    ofPool('child_flow', t('With subpools'), 104, (p) => p.total_resource_flow_ratio, percent, t('flow of the pool and all pools below it'), true),
    {
      key: 'charge', title: t('Volume / capacity'), width: 128, value: (row) => (row.kind === 'pool' ? charge(row.pool) : undefined),
      render: (row) => {
        const full = row.kind === 'pool' ? charge(row.pool) : undefined;
        if (full === undefined) return null;
        return (
          <span className="sharebar">
            <Meter value={full} of={1} label={t('accumulated {charge} of capacity', {charge: share(full, locale)})} kind="bucket" />
            <span className="sharebar__number">{share(full, locale)}</span>
          </span>
        );
      },
    },
    ofPool('volume', t('Accumulated'), 116, (p) => p.accumulated_resource_volume?.cpu, (v) => volume('cpu', v, locale), t('CPU × hours')),
    ofPool('capacity', t('Volume capacity'), 108, (p) => p.integral_pool_capacity?.cpu, (v) => volume('cpu', v, locale), t('CPU × hours')),
    ofPool('lasts', t('Burst lasts'), 94, (p) => p.estimated_burst_usage_duration_seconds, (v) => duration(v * 1000, locale),
      t('how long the pool could use its full burst from now on')),
  ];
}
