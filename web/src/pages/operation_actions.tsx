import {Checkbox, TextInput} from '@gravity-ui/uikit';
import {useState} from 'react';

import {call} from '../api/client';
import type {OperationDetails, TreeOptions} from '../api/types';
import {shellQuote} from '../model/format';
import {readNumber} from '../model/amounts';
import {GuardedButton, useRefusal} from '../parts/guarded';
import {Confirm} from '../parts/small';
import {useTexts} from '../text/i18n';

/** operationPath returns the path of an operation, on which its permissions are. */
export const operationPath = (id: string) => `//sys/operations/${id}`;

type Action = 'abort' | 'complete' | 'suspend' | 'resume' | 'change';

export function OperationActions({operation, ended}: {operation: OperationDetails; ended: boolean}) {
  const {t} = useTexts();
  const [action, setAction] = useState<Action | ''>('');
  const refusal = useRefusal(ended ? [] : [[['manage', operationPath(operation.id)]]]);
  if (ended) return null;
  const close = () => setAction('');
  const button = (to: Action, title: string, danger = false) => (
    <GuardedButton refusal={refusal} view={danger ? 'outlined-danger' : 'normal'} onClick={() => setAction(to)}>
      {title}
    </GuardedButton>
  );
  return (
    <div className="page__actions">
      {button('change', t('Pool and weight'))}
      {operation.suspended ? button('resume', t('Resume')) : button('suspend', t('Suspend'))}
      {button('complete', t('Complete'))}
      {button('abort', t('Abort'), true)}
      {action === 'abort' && <Abort id={operation.id} onClose={close} />}
      {action === 'suspend' && <Suspend id={operation.id} onClose={close} />}
      {action === 'resume' && (
        <Confirm
          title={t('Resume the operation')}
          action={t('Resume')}
          command={`weir op resume ${operation.id}`}
          run={() => call('resume_operation', {operation_id: operation.id})}
          done={t('The operation was resumed')}
          onClose={close}
        >
          <p>{t('The operation gets new jobs again.')}</p>
        </Confirm>
      )}
      {action === 'complete' && (
        <Confirm
          title={t('Complete the operation')}
          action={t('Complete')}
          command={`weir op complete ${operation.id}`}
          run={() => call('complete_operation', {operation_id: operation.id})}
          done={t('The operation was completed')}
          onClose={close}
        >
          <p>{t('The operation ends as completed; running jobs are aborted.')}</p>
        </Confirm>
      )}
      {action === 'change' && <Change operation={operation} onClose={close} />}
    </div>
  );
}

function Abort({id, onClose}: {id: string; onClose: () => void}) {
  const {t} = useTexts();
  const [message, setMessage] = useState('');
  return (
    <Confirm
      title={t('Abort the operation')}
      action={t('Abort')}
      danger
      command={`weir op abort ${id}`}
      run={() => call('abort_operation', {operation_id: id, ...(message ? {abort_message: message} : {})})}
      done={t('The operation was aborted')}
      onClose={onClose}
    >
      <p>{t('Its jobs are aborted, and their work is lost.')}</p>
      <TextInput label={t('Message')} value={message} onUpdate={setMessage} controlProps={{'aria-label': t('Message')}} />
    </Confirm>
  );
}

function Suspend({id, onClose}: {id: string; onClose: () => void}) {
  const {t} = useTexts();
  const [abort, setAbort] = useState(false);
  return (
    <Confirm
      title={t('Suspend the operation')}
      action={t('Suspend')}
      command={`weir op suspend ${id}${abort ? ' --abort-running-jobs' : ''}`}
      run={() => call('suspend_operation', {operation_id: id, abort_running_jobs: abort})}
      done={t('The operation was suspended')}
      onClose={onClose}
    >
      <p>{t('The operation gets no new jobs until it is resumed.')}</p>
      <Checkbox checked={abort} onUpdate={setAbort}>
        {t('Also abort running jobs')}
      </Checkbox>
    </Confirm>
  );
}

/** Change moves an operation to another pool or changes its weight, in each of its trees. */
function Change({operation, onClose}: {operation: OperationDetails; onClose: () => void}) {
  const {t} = useTexts();
  const before = operation.runtime_parameters?.scheduling_options_per_pool_tree ?? {};
  const [draft, setDraft] = useState<Record<string, {pool: string; weight: string}>>(() =>
    Object.fromEntries(Object.entries(before).map(([tree, o]) => [tree, {pool: o.pool, weight: o.weight === null ? '' : String(o.weight)}])),
  );
  const changes: Record<string, Partial<TreeOptions> | {weight: unknown}> = {};
  for (const [tree, next] of Object.entries(draft)) {
    const now = before[tree]!;
    const change: Record<string, unknown> = {};
    if (next.pool.trim() !== now.pool) change['pool'] = next.pool.trim();
    const weight = readNumber(next.weight);
    if (weight !== undefined && weight !== now.weight) change['weight'] = weight;
    if (Object.keys(change).length > 0) changes[tree] = change;
  }
  const parameters = {scheduling_options_per_pool_tree: changes};
  return (
    <Confirm
      title={t('Pool and weight')}
      action={t('Save')}
      disabled={Object.keys(changes).length === 0}
      command={`weir op update ${operation.id} --parameters ${shellQuote(JSON.stringify(parameters))}`}
      run={() => call('update_operation_parameters', {operation_id: operation.id, parameters})}
      done={t('The operation was changed')}
      onClose={onClose}
    >
      {Object.entries(draft).map(([tree, options]) => (
        <div key={tree} className="fields">
          <TextInput
            label={`${t('Pool')} [${tree}]`} value={options.pool} controlProps={{'aria-label': t('Pool')}}
            onUpdate={(pool) => setDraft({...draft, [tree]: {...options, pool}})}
          />
          <TextInput
            label={t('Weight')} value={options.weight} placeholder="1" controlProps={{'aria-label': t('Weight')}}
            onUpdate={(weight) => setDraft({...draft, [tree]: {...options, weight}})}
          />
        </div>
      ))}
    </Confirm>
  );
}
