import {Select, TextInput} from '@gravity-ui/uikit';
import {useMemo, useState} from 'react';

import {call, escapeKey} from '../api/client';
import {orchid, useGet} from '../api/queries';
import type {Pool} from '../api/types';
import {shellQuote} from '../model/format';
import {pathTo, rootName} from '../model/tree';
import {Confirm} from '../parts/small';
import {navigate, to} from '../shell/routing';
import {useTexts} from '../text/i18n';

/** useParents are the pools that others can be put into. */
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

/** poolPath is where a pool is in the tree of paths. */
export function poolPath(tree: string, pools: Record<string, Pool>, name: string): string {
  return [`//sys/pool_trees/${escapeKey(tree)}`, ...pathTo(pools, name).map(escapeKey)].join('/');
}

export function CreatePool({tree, parent, onClose}: {tree: string; parent: string; onClose: () => void}) {
  const {t} = useTexts();
  const [name, setName] = useState('');
  const [above, setAbove] = useState(parent);
  const {options} = useParents(tree);
  const attributes = {name: name.trim(), pool_tree: tree, ...(above === rootName ? {} : {parent_name: above})};
  return (
    <Confirm
      title={t('Create a pool')}
      action={t('Create')}
      disabled={name.trim() === ''}
      command={`weir create scheduler_pool --attributes ${shellQuote(JSON.stringify(attributes))}`}
      run={() => call('create', {type: 'scheduler_pool', attributes})}
      done={t('Pool {name} was created', {name: name.trim()})}
      onClose={onClose}
    >
      <TextInput label={t('Name')} value={name} onUpdate={setName} autoFocus size="l" controlProps={{'aria-label': t('Name')}} />
      <Select
        label={t('Inside of')} title={t('Inside of')} size="l" width="max" filterable value={[above]} options={options}
        onUpdate={([value]) => value && setAbove(value)}
      />
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
  return (
    <Confirm
      title={t('Move pool {name}', {name})}
      action={t('Move')}
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
        label={t('Inside of')} title={t('Inside of')} size="l" width="max" filterable value={[above]} options={options}
        onUpdate={([value]) => value && setAbove(value)}
      />
      <TextInput label={t('Name')} value={next} onUpdate={setNext} size="l" controlProps={{'aria-label': t('Name')}} />
    </Confirm>
  );
}

export function DeletePool({tree, name, path, onClose}: {tree: string; name: string; path: string; onClose: () => void}) {
  const {t} = useTexts();
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
      <p>{t('All pools inside of it go with it.')}</p>
    </Confirm>
  );
}
