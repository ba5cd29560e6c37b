import {Select, TextArea, TextInput} from '@gravity-ui/uikit';
import {useState} from 'react';

import {call, escapeKey} from '../api/client';
import {orchid, useGet} from '../api/queries';
import type {Pool} from '../api/types';
import {commandLineOf, type Draft, emptyDraft, type Field, specOf, wrongFields} from '../model/start';
import {rootName} from '../model/tree';
import {GuardedButton, useRefusal} from '../parts/guarded';
import {Confirm} from '../parts/small';
import {useCluster} from '../shell/cluster';
import {navigate, to} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';
import {poolPath} from './pool_actions';

/** StartOperation is a button for starting an operation, in a pool or in any. */
export function StartOperation({tree, pool, refusal = ''}: {tree?: string; pool?: string; refusal?: string}) {
  const {t} = useTexts();
  const [open, setOpen] = useState(false);
  return (
    <>
      <GuardedButton refusal={refusal} view="action" onClick={() => setOpen(true)}>
        {t('Start an operation')}
      </GuardedButton>
      {open && <StartDialog start={{...emptyDraft, tree: tree ?? '', pool: pool ?? ''}} onClose={() => setOpen(false)} />}
    </>
  );
}

const numbers: {field: Field; title: Key; problem: Key}[] = [
  {field: 'jobs', title: 'Number of jobs', problem: 'a whole number from 1'},
  {field: 'cpu', title: 'Cores per job', problem: 'a number'},
  {field: 'memory', title: 'Memory limit per job', problem: 'a size such as 64GiB'},
  {field: 'gpu', title: 'GPUs per job', problem: 'a whole number'},
];

function StartDialog({start, onClose}: {start: Draft; onClose: () => void}) {
  const {t} = useTexts();
  const [draft, setDraft] = useState(start);
  const cluster = useCluster().data;
  const trees = Object.keys(cluster?.pool_trees ?? {});
  const tree = draft.tree || cluster?.default_pool_tree || '';
  const pools = useGet<Record<string, Pool>>(`${orchid}/pool_trees/${escapeKey(tree)}/pools`, {fields: ['parent']}, {enabled: tree !== ''}).data ?? {};
  const written = {...draft, tree: tree === cluster?.default_pool_tree ? '' : tree};
  const wrong = wrongFields(draft);
  const put = (field: Field) => (value: string) => setDraft({...draft, [field]: value});
  const refusal = useRefusal(draft.pool && pools[draft.pool] ? [[['use', poolPath(tree, pools, draft.pool)]]] : []);
  return (
    <Confirm
      title={t('Start an operation')}
      action={t('Start')}
      disabled={draft.command.trim() === '' || wrong.length > 0}
      refusal={refusal}
      command={draft.command.trim() === '' || wrong.length > 0 ? undefined : commandLineOf(written)}
      run={async () => {
        const {operation_id: id} = await call<{operation_id: string}>('start_operation', {operation_type: 'vanilla', spec: specOf(written)});
        navigate(to.operation(id));
      }}
      done={t('The operation was started')}
      onClose={onClose}
    >
      <TextArea
        value={draft.command} onUpdate={put('command')} minRows={2} maxRows={10} size="l" placeholder={t('Shell command, such as echo hello from $YT_JOB_COOKIE')}
        className="raw" controlProps={{'aria-label': t('Command'), spellCheck: false}}
      />
      <div className="fields">
        {trees.length > 1 && (
          <Select
            label={t('Tree')} title={t('Tree')} width="max" value={[tree]} options={trees.map((name) => ({value: name, content: name}))}
            onUpdate={([name]) => setDraft({...draft, tree: name ?? '', pool: ''})}
          />
        )}
        <Select
          label={t('Pool')} title={t('Pool')} width="max" filterable hasClear placeholder={t('named after you')} value={draft.pool ? [draft.pool] : []}
          options={Object.keys(pools).filter((name) => name !== rootName).map((name) => ({value: name, content: name}))}
          onUpdate={([name]) => put('pool')(name ?? '')}
        />
        <TextInput label={t('Title')} value={draft.title} onUpdate={put('title')} placeholder={t('the command')} controlProps={{'aria-label': t('Title')}} />
        {numbers.map(({field, title, problem}) => (
          <TextInput
            key={field} label={t(title)} value={draft[field]} onUpdate={put(field)} controlProps={{'aria-label': t(title)}}
            validationState={wrong.includes(field) ? 'invalid' : undefined} errorMessage={wrong.includes(field) ? t(problem) : undefined}
          />
        ))}
      </div>
      {refusal && <p className="danger">{refusal}</p>}
    </Confirm>
  );
}
