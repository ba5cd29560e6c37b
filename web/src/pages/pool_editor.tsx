import {Button, Select, TextArea, TextInput, useToaster} from '@gravity-ui/uikit';
import {useEffect, useMemo, useState} from 'react';

import {changeAttributes} from '../api/client';
import {refresh, useCommand} from '../api/queries';
import {shellQuote} from '../model/format';
import {readAmount, writeAmount} from '../model/amounts';
import {at, difference, type Document, optionsOf, poolIn, withPool, withValue} from '../model/options';
import {GuardedButton, useRefusal} from '../parts/guarded';
import {Command, Section} from '../parts/small';
import {Loaded, Problem} from '../parts/states';
import {navigate, to} from '../shell/routing';
import {type Key, useTexts} from '../text/i18n';
import {Verdict} from './pool_verdict';

interface EditorProps {
  tree: string;
  path: string;
  way: string[];
}

export function PoolEditor({tree, path, way}: EditorProps) {
  const exported = useCommand<{document: Document}>('export_pools', {pool_tree: tree}, {every: 10_000});
  return <Loaded of={exported}>{(data) => <Form tree={tree} path={path} way={way} document={data.document} />}</Loaded>;
}

const vectors: {key: string; title: Key; hint: Key}[] = [
  {key: 'min_share_resources', title: 'Strong guarantee', hint: 'available whenever the pool needs it'},
  {key: 'resource_limits', title: 'Limit', hint: 'never more than this'},
];
const vectorResources = ['cpu', 'memory', 'user_slots', 'gpu'];

function Form({tree, path, way, document}: EditorProps & {document: Document}) {
  const {t, word} = useTexts();
  const toaster = useToaster();
  const before = useMemo(() => optionsOf(poolIn(document, way)), [document, way]);
  const [draft, setDraft] = useState<Document>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const options = draft ?? before;
  const change = difference(before, options);
  const changed = Object.keys(change.set).length > 0 || change.removed.length > 0;
  const put = (keys: string[], value: unknown) => {
    setError(undefined);
    setDraft(withValue(options, keys, value));
  };
  const field = (keys: string[], title: string) => (
    <OptionField key={keys.join('/')} title={title} resource={keys.at(-1) ?? ''} value={at(options, keys)} onChange={(value) => put(keys, value)} />
  );
  // What a pool gets is decided by those who may write to its parent, what happens in it by those who may write to it.
  const refusal = useRefusal([[['write', path], ['write', path.slice(0, path.lastIndexOf('/'))]]]);
  const save = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await changeAttributes(path, change.set, change.removed);
      toaster.add({name: `saved-${Date.now()}`, title: t('The pool was changed'), theme: 'success', autoHiding: 4000});
      await refresh();
      setDraft(undefined);
    } catch (refused) {
      setError(refused);
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="editor">
      <div className="editor__fields">
        <Section title={t('General')}>
          <div className="fields">
            {field(['weight'], t('Weight'))}
            <Select
              label={t('Mode')} title={t('Mode')} width="max" value={[String(at(options, ['mode']) ?? 'fair_share')]}
              options={['fair_share', 'fifo'].map((value) => ({value, content: word(value)}))}
              onUpdate={([value]) => put(['mode'], value === 'fair_share' && !('mode' in before) ? undefined : value)}
            />
            {field(['max_running_operation_count'], t('Max. running'))}
            {field(['max_operation_count'], t('Max. all'))}
          </div>
        </Section>
        {vectors.map((vector) => (
          <Section key={vector.key} title={t(vector.title)} actions={<span className="muted">{t(vector.hint)}</span>}>
            <div className="fields">{vectorResources.map((r) => field([vector.key, r], word(r)))}</div>
          </Section>
        ))}
        <Section title={t('Integral guarantee')} actions={<span className="muted">{t('unused volume is saved for later')}</span>}>
          <div className="fields">
            <Select
              label={t('Type')} title={t('Type')} width="max" value={[String(at(options, ['integral_guarantees', 'guarantee_type']) ?? 'none')]}
              options={['none', 'burst', 'relaxed'].map((value) => ({value, content: word(value)}))}
              onUpdate={([value]) => put(['integral_guarantees', 'guarantee_type'], value === 'none' ? undefined : value)}
            />
            {field(['integral_guarantees', 'resource_flow', 'cpu'], t('Flow, CPU'))}
            {field(['integral_guarantees', 'burst_guarantee_resources', 'cpu'], t('Burst, CPU'))}
          </div>
        </Section>
        <RawOptions options={options} onChange={(next) => setDraft(next)} />
      </div>
      <div className="editor__verdict">
        <Section title={t('What would change')}>
          {changed ? <Verdict tree={tree} document={withPool(document, way, options)} /> : <p className="muted">{t('Nothing yet')}</p>}
          {changed && (
            <>
              <p className="muted">{t('Equivalent command')}</p>
              {Object.entries(change.set).map(([key, value]) => (
                <Command key={key} text={`weir set ${shellQuote(`${path}/@${key}`)} ${shellQuote(JSON.stringify(value))} --format json`} />
              ))}
              {change.removed.map((key) => (
                <Command key={key} text={`weir remove ${shellQuote(`${path}/@${key}`)}`} />
              ))}
            </>
          )}
          {error !== undefined && <Problem error={error} />}
          {refusal && <p className="muted">{refusal}</p>}
          <div className="editor__buttons">
            <GuardedButton view="action" size="l" disabled={!changed} loading={busy} refusal={refusal} onClick={() => void save()}>
              {t('Save')}
            </GuardedButton>
            <Button size="l" disabled={draft === undefined} onClick={() => setDraft(undefined)}>
              {t('Undo')}
            </Button>
            <Button size="l" view="flat" disabled={!changed} onClick={() => navigate(to.whatIf(question(tree, way.at(-1), change)))}>
              {t('Effect over 2 h')}
            </Button>
          </div>
        </Section>
      </div>
    </div>
  );
}

/** question is the document of changes that asks what a draft would do. */
function question(tree: string, pool: string | undefined, change: {set: Document; removed: string[]}): string {
  const set = {...change.set, ...Object.fromEntries(change.removed.map((key) => [key, null]))};
  return JSON.stringify({changes: [{tree, pool, set}]}, null, 2);
}

/** OptionField edits an option that is a number or an amount; empty means unset. */
function OptionField({title, resource, value, onChange}: {title: string; resource: string; value: unknown; onChange: (value: unknown) => void}) {
  const {t} = useTexts();
  const shown = writeAmount(resource, value);
  const [text, setText] = useState(shown);
  // The field keeps the text as typed until the value changes elsewhere.
  useEffect(() => {
    if (writeAmount(resource, readAmount(resource, text)) !== shown) setText(shown);
  }, [shown]);
  return (
    <TextInput
      label={title}
      value={text}
      placeholder={resource === 'memory' ? t('not set, or such as 64GiB') : t('not set')}
      onUpdate={(next) => {
        setText(next);
        onChange(readAmount(resource, next));
      }}
      controlProps={{'aria-label': title}}
    />
  );
}

/** RawOptions edits all options as one document, for those without a field. */
function RawOptions({options, onChange}: {options: Document; onChange: (next: Document) => void}) {
  const {t} = useTexts();
  const written = JSON.stringify(options, null, 2);
  const [text, setText] = useState<string>();
  const [problem, setProblem] = useState('');
  return (
    <Section title={t('All options')}>
      <TextArea
        value={text ?? written}
        minRows={6}
        maxRows={20}
        className="raw"
        controlProps={{'aria-label': t('All options as JSON'), spellCheck: false}}
        onFocus={() => setText(written)}
        onBlur={() => problem === '' && setText(undefined)}
        onUpdate={(next) => {
          setText(next);
          try {
            const value: unknown = JSON.parse(next);
            if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error(t('must be a map'));
            setProblem('');
            onChange(value as Document);
          } catch (cause) {
            setProblem(cause instanceof Error ? cause.message : String(cause));
          }
        }}
        validationState={problem ? 'invalid' : undefined}
        errorMessage={problem}
      />
    </Section>
  );
}
