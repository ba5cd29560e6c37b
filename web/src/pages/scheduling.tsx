import {Button, Checkbox, Icon, SegmentedRadioGroup, Select, TextInput} from '@gravity-ui/uikit';
import {StarFill} from '@gravity-ui/icons';
import {useCallback, useMemo, useState} from 'react';

import {escapeKey} from '../api/client';
import {live, orchid, useGet, useSignal} from '../api/queries';
import type {Cluster, LiveOperation, Pool} from '../api/types';
import {forestOf, rootName, type Row, rowsOf, topRows} from '../model/tree';
import {Anchor} from '../parts/anchor';
import {ColumnChoice, useChosen} from '../parts/columns';
import {Export} from '../parts/export';
import {comparison, Grid} from '../parts/grid';
import {GuardedButton, useRefusal} from '../parts/guarded';
import {useNarrow} from '../parts/narrow';
import {Empty, Loaded, Problem} from '../parts/states';
import {useCluster} from '../shell/cluster';
import {favourites} from '../shell/settings';
import {navigate, setQuery, to, useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {columnsOf, fieldsOf, type Mode, modes} from './scheduling_columns';
import {CreatePool} from './pool_actions';
import {TreeBars} from './tree_bars';

// A tree with more pools starts collapsed, one with more operations starts without them.
const manyPools = 300;
const manyOperations = 3000;

export function SchedulingPage() {
  const cluster = useCluster();
  const {t} = useTexts();
  return (
    <div className="page page_full">
      <h1 className="page__title">{t('Scheduling')}</h1>
      <Loaded of={cluster}>{(data) => <Trees cluster={data} />}</Loaded>
    </div>
  );
}

function Trees({cluster}: {cluster: Cluster}) {
  const {t} = useTexts();
  const names = Object.keys(cluster.pool_trees);
  const [tree, setTree] = useQueryValue('tree', cluster.default_pool_tree ?? names[0] ?? '');
  const summary = cluster.pool_trees[tree];
  if (names.length === 0) return <Empty>{t('No pool trees yet')}</Empty>;
  return (
    <>
      <div className="toolbar">
        <Select
          label={t('Tree')} title={t('Tree')}
          value={[tree]}
          options={names.map((name) => ({value: name, content: name}))}
          onUpdate={([name]) => name && setTree(name)}
        />
        {summary && <TreeBars summary={summary} />}
      </div>
      <Favourites />
      {summary ? (
        <PoolTable tree={tree} manyPools={summary.pool_count > manyPools} manyOperations={summary.operation_count > manyOperations} />
      ) : (
        <Problem title={t('There is no tree {name}', {name: tree})} />
      )}
    </>
  );
}

/** Favourites links to the pools that the reader marked. */
function Favourites() {
  const {t} = useTexts();
  const list = useSignal(favourites);
  if (list.length === 0) return null;
  return (
    <nav className="favourites" aria-label={t('Favourites')}>
      <Icon data={StarFill} size={14} className="star_marked" />
      {list.map((key) => {
        const [tree = '', pool = ''] = key.split('/');
        return (
          <Anchor key={key} href={to.pool(tree, pool)}>
            {pool} <span className="muted">[{tree}]</span>
          </Anchor>
        );
      })}
    </nav>
  );
}

/** useExpansion keeps the expanded pools in the address: a rule for all, and the exceptions. */
function useExpansion(folded: boolean) {
  const [rule, setRule] = useQueryValue('expand', folded ? 'none' : 'all');
  const [toggled] = useQueryValue('toggled');
  const exceptions = useMemo(() => new Set(toggled ? toggled.split(',').map(decodeURIComponent) : []), [toggled]);
  const isOpen = useCallback((name: string) => (rule === 'all') !== exceptions.has(name), [rule, exceptions]);
  const toggle = useCallback(
    (name: string, open: boolean) => {
      const next = new Set(exceptions);
      if ((rule === 'all') === open) next.delete(name);
      else next.add(name);
      setQuery({toggled: [...next].map(encodeURIComponent).join(',')});
    },
    [rule, exceptions],
  );
  const all = (open: boolean) => {
    setQuery({toggled: ''});
    setRule(open ? 'all' : 'none');
  };
  return {isOpen, toggle, all, allOpen: rule === 'all' && exceptions.size === 0};
}

function PoolTable({tree, manyPools, manyOperations}: {tree: string; manyPools: boolean; manyOperations: boolean}) {
  const texts = useTexts();
  const {t} = texts;
  const [mode, setMode] = useQueryValue('mode', 'summary');
  const [numbers, setNumbers] = useQueryValue('numbers', 'relative');
  const [filter, setFilter] = useQueryValue('filter');
  const [order] = useQueryValue('sort');
  const [shown, setShown] = useQueryValue('operations', manyOperations ? 'no' : 'yes');
  const [creating, setCreating] = useState(false);
  const refusal = useRefusal([[['modify_children', `//sys/pool_trees/${escapeKey(tree)}`], ['write', `//sys/pool_trees/${escapeKey(tree)}`]]]);
  const expansion = useExpansion(manyPools);
  const current = modes.some((m) => m.key === mode) ? (mode as Mode) : 'summary';
  const absolute = numbers === 'absolute';
  const base = `${orchid}/pool_trees/${escapeKey(tree)}`;
  const fields = useMemo(() => fieldsOf(current, absolute), [current, absolute]);
  const pools = useGet<Record<string, Pool>>(`${base}/pools`, {fields: fields.pools}, {every: live, large: true});
  const operations = useGet<Record<string, LiveOperation>>(
    `${base}/operations`, {fields: fields.operations}, {every: live, large: true, enabled: shown === 'yes'},
  );
  const narrow = useNarrow();
  const all = useMemo(
    () => columnsOf({mode: current, absolute, texts, tree, toggle: expansion.toggle, narrow}),
    [current, absolute, texts, tree, expansion.toggle, narrow],
  );
  const columns = useChosen(current, all);
  const rows = useMemo(() => {
    if (!pools.data) return [];
    const forest = forestOf(pools.data, shown === 'yes' ? operations.data : {});
    return rowsOf(forest, {filter, isOpen: expansion.isOpen, compare: comparison(all, order)});
  }, [pools.data, operations.data, shown, filter, expansion.isOpen, all, order]);
  const top = useMemo(() => topRows(rows, filter), [rows, filter]);
  // The root has the sums of all pools, even if their dominant resources differ.
  const root = current === 'summary' && filter === '' ? pools.data?.[rootName] : undefined;
  const summed: Row[] = root ? [{kind: 'pool', key: 'root', name: rootName, depth: 0, pool: root, hasChildren: true, open: true}] : top;
  return (
    <>
      <div className="toolbar">
        <SegmentedRadioGroup
          value={current}
          onUpdate={setMode}
          aria-label={t('View')}
          options={modes.map((m) => ({value: m.key, content: t(m.title)}))}
        />
      </div>
      <div className="toolbar">
        <TextInput
          className="toolbar__filter"
          placeholder={t('Pool or operation')}
          value={filter}
          onUpdate={setFilter}
          hasClear
          controlProps={{'aria-label': t('Filter by name')}}
        />
        <SegmentedRadioGroup
          value={numbers}
          onUpdate={setNumbers}
          aria-label={t('Numbers')}
          options={[
            {value: 'relative', content: t('Relative')},
            {value: 'absolute', content: t('Absolute')},
          ]}
        />
        <Checkbox checked={shown === 'yes'} onUpdate={(on) => setShown(on ? 'yes' : 'no')}>
          {t('Operations')}
        </Checkbox>
        <Button view="outlined" onClick={() => expansion.all(!expansion.allOpen)}>
          {expansion.allOpen ? t('Collapse all') : t('Expand all')}
        </Button>
        <ColumnChoice table={current} columns={all} />
        <Export name={`pools-${tree}`} columns={columns} rows={rows} />
        <GuardedButton refusal={refusal} view="action" onClick={() => setCreating(true)}>
          {t('Create a pool')}
        </GuardedButton>
        <span className="muted toolbar__count" aria-live="off">
          {t('{n} {n|pool|pools}', {n: pools.data ? Object.keys(pools.data).length - 1 : 0})}
        </span>
      </div>
      <Loaded of={pools} lines={10}>
        {() => (
          <Grid<Row>
            label={t('Pools of tree {name}', {name: tree})}
            tall
            columns={columns}
            rows={rows}
            rowKey={(row) => row.key}
            sort="sort"
            tree={{
              level: (row) => row.depth,
              expanded: (row) => (row.hasChildren ? row.open : undefined),
              toggle: (row, open) => expansion.toggle(row.name, open),
              open: (row) => navigate(row.kind === 'pool' ? to.pool(tree, row.name) : to.operation(row.name)),
            }}
            totals={{title: t('Sum of {n} {n|pool|pools}', {n: top.length}), rows: summed}}
            empty={filter ? t('No name matches') : t('No pools yet')}
          />
        )}
      </Loaded>
      {creating && <CreatePool tree={tree} parent={rootName} onClose={() => setCreating(false)} />}
    </>
  );
}
