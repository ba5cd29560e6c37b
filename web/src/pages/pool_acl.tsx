import {Select, TextInput} from '@gravity-ui/uikit';
import {useState} from 'react';

import {changeAttributes} from '../api/client';
import {usePermissions, useUser} from '../api/permissions';
import {useGet} from '../api/queries';
import {type Entry, inheritedOf, namesOf, permissions} from '../model/acl';
import {shellQuote} from '../model/format';
import {GuardedButton, useRefusal} from '../parts/guarded';
import {Confirm, Facts, Section, State} from '../parts/small';
import {Loaded} from '../parts/states';
import {useTexts} from '../text/i18n';

/** PoolAcl shows who may do what with a pool, and where that comes from. */
export function PoolAcl({path}: {path: string}) {
  const {t} = useTexts();
  const every = {every: 10_000};
  const own = useGet<Entry[]>(`${path}/@acl`, {}, every);
  const effective = useGet<Entry[]>(`${path}/@effective_acl`, {}, every);
  const inherits = useGet<boolean>(`${path}/@inherit_acl`, {}, every);
  const owner = useGet<string>(`${path}/@owner`, {}, every);
  const refusal = useRefusal([[['administer', path]]]);
  const [next, setNext] = useState<Entry[]>();
  const [adding, setAdding] = useState(false);
  return (
    <Loaded of={own}>
      {(entries) => (
        <>
          <Facts
            items={[
              [t('You may'), <Mine key="mine" path={path} />],
              [t('Owner'), owner.data ?? '–'],
              [t('Inherits from the pools above'), inherits.data === undefined ? '–' : inherits.data ? t('yes') : t('no')],
            ]}
          />
          <Section
            title={t('Own entries')}
            actions={
              <GuardedButton refusal={refusal} onClick={() => setAdding(true)}>
                {t('Add an entry')}
              </GuardedButton>
            }
          >
            {entries.length === 0 ? (
              <p className="muted">{t('This pool has no entries of its own')}</p>
            ) : (
              <Entries label={t('Own entries')} list={entries} refusal={refusal} onRemove={(i) => setNext(entries.filter((_, n) => n !== i))} />
            )}
          </Section>
          <Section title={t('Inherited entries')}>
            <Loaded of={effective} lines={2}>
              {(all) => <Entries label={t('Inherited entries')} list={inheritedOf(all, entries)} />}
            </Loaded>
          </Section>
          {adding && <Add path={path} entries={entries} onClose={() => setAdding(false)} />}
          {next && (
            <Confirm title={t('Remove the entry')} action={t('Remove')} danger {...changeOf(path, next)} done={t('The access list was changed')} onClose={() => setNext(undefined)}>
              <p>{t('Who has a permission only by this entry loses it at once.')}</p>
            </Confirm>
          )}
        </>
      )}
    </Loaded>
  );
}

/** changeOf is the change of an access list, and its command. */
function changeOf(path: string, list: Entry[]) {
  return {
    command: `weir set ${shellQuote(`${path}/@acl`)} ${shellQuote(JSON.stringify(list))} --format json`,
    run: () => changeAttributes(path, {acl: list}, []),
  };
}

/** Mine lists the permissions of the reader. */
function Mine({path}: {path: string}) {
  const user = useUser();
  const allowed = usePermissions(permissions.map((permission) => [permission, path]));
  return (
    <span className="labels">
      {user}: {permissions.map((permission, i) => allowed[i] && <State key={permission} name={permission} />)}
      {allowed.every((one) => one === false) && '–'}
    </span>
  );
}

function Entries({label, list, refusal, onRemove}: {label: string; list: Entry[]; refusal?: string; onRemove?: (index: number) => void}) {
  const {t, word} = useTexts();
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table className="plain">
        <thead>
          <tr>
            <th>{t('Action')}</th>
            <th>{t('Users and groups')}</th>
            <th>{t('Permissions')}</th>
            <th>{t('Applies to')}</th>
            {onRemove && <th />}
          </tr>
        </thead>
        <tbody>
          {list.map((entry, i) => (
            <tr key={i}>
              <th scope="row">
                <State name={entry.action} />
              </th>
              <td>{entry.subjects.join(', ')}</td>
              <td>{entry.permissions.map(word).join(', ')}</td>
              <td>{word(entry.inheritance_mode ?? 'object_and_descendants')}</td>
              {onRemove && (
                <td className="numeric">
                  <GuardedButton refusal={refusal ?? ''} onClick={() => onRemove(i)}>
                    {t('Remove')}
                  </GuardedButton>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const modes = ['object_and_descendants', 'object_only', 'descendants_only', 'immediate_descendants_only'];

function Add({path, entries, onClose}: {path: string; entries: Entry[]; onClose: () => void}) {
  const {t, word} = useTexts();
  const [subjects, setSubjects] = useState('');
  const [action, setAction] = useState('allow');
  const [chosen, setChosen] = useState(['use']);
  const [mode, setMode] = useState(modes[0]!);
  const entry: Entry = {action, subjects: namesOf(subjects), permissions: chosen, inheritance_mode: mode};
  const select = (title: string, value: string[], values: string[], onUpdate: (next: string[]) => void, multiple = false) => (
    <Select
      label={title} title={title} width="max" size="l" multiple={multiple} value={value} onUpdate={onUpdate}
      options={values.map((one) => ({value: one, content: word(one)}))}
    />
  );
  return (
    <Confirm
      title={t('Add an entry')}
      action={t('Add')}
      disabled={entry.subjects.length === 0 || chosen.length === 0}
      {...changeOf(path, [...entries, entry])}
      done={t('The access list was changed')}
      onClose={onClose}
    >
      <TextInput label={t('Users and groups')} value={subjects} onUpdate={setSubjects} size="l" controlProps={{'aria-label': t('Users and groups')}} />
      {select(t('Action'), [action], ['allow', 'deny'], ([value]) => value && setAction(value))}
      {select(t('Permissions'), chosen, permissions, setChosen, true)}
      {select(t('Applies to'), [mode], modes, ([value]) => value && setMode(value))}
    </Confirm>
  );
}
