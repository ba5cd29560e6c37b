import {Select, TextInput} from '@gravity-ui/uikit';
import {useCallback, useMemo, useState} from 'react';

import {call, escapeKey} from '../api/client';
import {orchid, useCommand, useGet} from '../api/queries';
import type {Pool} from '../api/types';
import {shellQuote} from '../model/format';
import {readAmount} from '../model/amounts';
import {type Document, poolIn, withNewPool, withoutPool, withValue} from '../model/options';
import {pathTo, rootName} from '../model/tree';
import {useRefusal} from '../parts/guarded';
import {Confirm} from '../parts/small';
import {navigate, to} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';
import {Verdict} from './pool_verdict';

/** useParents returns the pools that can have subpools. */
function useParents(tree: string, except?: string) {
  const pools = useGet<Record<string, Pool>>(`${orchid}/pool_trees/${escapeKey(tree)}/pools`, {fields: ['parent', 'is_ephemeral']});
  return useMemo(() => {
    const all = pools.data ?? {};
    const names = Object.keys(all).filter(
      (name) => !all[name]!.is_ephemeral && (except === undefined || !pathTo(all, name).includes(except)),
    );
    return {all, options: names.map((name) => ({value: name, content: name}))};
  }, [pools.data, except]);
}

/** Outlook shows how a tree would change, and whether its promises would fit, before anything is done. */
function Outlook({tree, change}: {tree: string; change: (document: Document) => Document}) {
  const exported = useCommand<{document: Document}>('export_pools', {pool_tree: tree}, {large: true});
  const document = useMemo(() => exported.data && change(exported.data.document), [exported.data, change]);
  return document ? <Verdict tree={tree} document={document} /> : null;
}

/** poolPath returns the path of a pool. */
export function poolPath(tree: string, pools: Record<string, Pool>, name: string): string {
  return [`//sys/pool_trees/${escapeKey(tree)}`, ...pathTo(pools, name).map(escapeKey)].join('/');
}

// The usual options of a new pool; all others are on its page.
const firstOptions: {keys: string[]; title: Key}[] = [
  {keys: ['weight'], title: 'Weight'},
  {keys: ['min_share_resources', 'cpu'], title: 'Strong guarantee, CPU'},
  {keys: ['min_share_resources', 'memory'], title: 'Strong guarantee, memory'},
];

export function CreatePool({tree, parent, onClose}: {tree: string; parent: string; onClose: () => void}) {
  const {t} = useTexts();
  const [name, setName] = useState('');
  const [above, setAbove] = useState(parent);
  const [typed, setTyped] = useState<string[]>([]);
  const {all, options} = useParents(tree);
  const wanted = useMemo(
    () => firstOptions.reduce<Document>((own, option, i) => withValue(own, option.keys, readAmount(option.keys.at(-1)!, typed[i] ?? '')), {}), [typed],
  );
  const attributes = {name: name.trim(), pool_tree: tree, ...(above === rootName ? {} : {parent_name: above}), ...wanted};
  const change = useCallback((document: Document) => withNewPool(document, pathTo(all, above), name.trim(), wanted), [all, above, name, wanted]);
  const parentPath = poolPath(tree, all, above);
  const refusal = useRefusal([[['modify_children', parentPath], ['write', parentPath]]]);
  return (
    <Confirm
      title={t('Create a pool')}
      action={t('Create')}
      disabled={name.trim() === ''}
      refusal={refusal}
      command={`weir create scheduler_pool --attributes ${shellQuote(JSON.stringify(attributes))}`}
      run={() => call('create', {type: 'scheduler_pool', attributes})}
      done={t('Pool {name} was created', {name: name.trim()})}
      onClose={onClose}
    >
      <TextInput label={t('Name')} value={name} onUpdate={setName} autoFocus size="l" controlProps={{'aria-label': t('Name')}} />
      <Select
        label={t('Parent pool')} title={t('Parent pool')} size="l" width="max" filterable value={[above]} options={options}
        onUpdate={([value]) => value && setAbove(value)}
      />
      <div className="fields">
        {firstOptions.map((option, i) => (
          <TextInput
            key={option.title} label={t(option.title)} value={typed[i] ?? ''} placeholder={option.keys.at(-1) === 'memory' ? t('such as 64GiB') : t('not set')} controlProps={{'aria-label': t(option.title)}}
            onUpdate={(value) => setTyped(firstOptions.map((_, n) => (n === i ? value : (typed[n] ?? ''))))}
          />
        ))}
      </div>
      {name.trim() !== '' && <Outlook tree={tree} change={change} />}
    </Confirm>
  );
}

export function MovePool({tree, name, parent, onClose}: {tree: string; name: string; parent: string; onClose: () => void}) {
  const {t} = useTexts();
  const [above, setAbove] = useState(parent);
  const [next, setNext] = useState(name);
  const {all, options} = useParents(tree, name);
  const from = poolPath(tree, all, name);
  const into = `${poolPath(tree, all, above)}/${escapeKey(next.trim())}`;
  const change = useCallback(
    (document: Document) => {
      const way = pathTo(all, name);
      return withNewPool(withoutPool(document, way), pathTo(all, above), next.trim(), poolIn(document, way));
    },
    [all, name, above, next],
  );
  const refusal = useRefusal([[['write', poolPath(tree, all, above)]]]);
  return (
    <Confirm
      title={t('Move pool {name}', {name})}
      action={t('Move')}
      refusal={refusal}
      disabled={next.trim() === '' || from === into}
      command={`weir move ${shellQuote(from)} ${shellQuote(into)}`}
      run={async () => {
        await call('move', {source_path: from, destination_path: into});
        navigate(to.pool(tree, next.trim()));
      }}
      done={t('Pool {name} was moved', {name})}
      onClose={onClose}
    >
      <Select
        label={t('Parent pool')} title={t('Parent pool')} size="l" width="max" filterable value={[above]} options={options}
        onUpdate={([value]) => value && setAbove(value)}
      />
      <TextInput label={t('Name')} value={next} onUpdate={setNext} size="l" controlProps={{'aria-label': t('Name')}} />
      {next.trim() !== '' && from !== into && <Outlook tree={tree} change={change} />}
    </Confirm>
  );
}

export function DeletePool({tree, name, path, onClose}: {tree: string; name: string; path: string; onClose: () => void}) {
  const {t} = useTexts();
  const {all} = useParents(tree);
  const change = useCallback((document: Document) => withoutPool(document, pathTo(all, name)), [all, name]);
  return (
    <Confirm
      title={t('Delete pool {name}', {name})}
      action={t('Delete')}
      danger
      command={`weir remove ${shellQuote(path)}`}
      run={async () => {
        await call('remove', {path});
        navigate(to.scheduling(tree));
      }}
      done={t('Pool {name} was deleted', {name})}
      onClose={onClose}
    >
      <p>{t('All pools below it are deleted too.')}</p>
      {name in all && <Outlook tree={tree} change={change} />}
    </Confirm>
  );
}
