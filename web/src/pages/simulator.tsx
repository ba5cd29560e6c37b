import {Alert, Button, Icon, Select, Spin, TextArea, TextInput} from '@gravity-ui/uikit';
import {ArrowUpFromLine, PlayFill} from '@gravity-ui/icons';
import {useRef, useState} from 'react';

import {useAnswer, useCommand} from '../api/queries';
import type {ScenarioExample, Simulation} from '../api/types';
import {shellQuote} from '../model/format';
import {Command} from '../parts/small';
import {Loaded, Problem} from '../parts/states';
import {useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';
import {Report} from './simulator_report';

/** SimulatorPage runs the scheduler in virtual time, on an example or the reader's own scenario. */
export function SimulatorPage() {
  const {t} = useTexts();
  const list = useCommand<{scenarios: ScenarioExample[]}>('list_scenarios');
  return (
    <div className="page">
      <div>
        <h1 className="page__title">{t('Simulator')}</h1>
        <p className="muted">{t('The same scheduler on virtual time: who would be entitled to what, get what, and wait how long. This cluster is not affected.')}</p>
      </div>
      <Loaded of={list}>{(data) => <Bench examples={data.scenarios} />}</Loaded>
    </div>
  );
}

function Bench({examples}: {examples: ScenarioExample[]}) {
  const {t} = useTexts();
  const [name, setName] = useQueryValue('example', examples[0]?.name ?? '');
  const [seed, setSeed] = useQueryValue('seed');
  // The reader's own scenario is too long for the address.
  const [own, setOwn] = useState<{name: string; text: string}>();
  const {run, start, stop} = useAnswer<Simulation>('simulate');
  const example = examples.find((e) => e.name === name);
  const text = own?.text ?? example?.text ?? '';
  const seedNumber = /^\d+$/.test(seed.trim()) ? Number(seed) : undefined;
  const file = own ? own.name : `examples/simulate/${name}.yaml`;
  const begin = () =>
    void start({...(own ? {scenario: own.text} : {example: name}), ...(seedNumber === undefined ? {} : {seed: seedNumber})});
  return (
    <>
      <div className="toolbar">
        <Select
          label={t('Example')} title={t('Example')} width={340} value={own ? [] : [name]} placeholder={own ? own.name : t('none')}
          options={examples.map((e) => ({value: e.name, content: e.title}))}
          onUpdate={([value]) => {
            setOwn(undefined);
            if (value) setName(value);
          }}
        />
        <Upload onText={(uploaded, content) => setOwn({name: uploaded, text: content})} />
        <TextInput
          className="simulator__seed" label={t('Seed')} value={seed} onUpdate={setSeed} placeholder={t('from the scenario')}
          controlProps={{'aria-label': t('Seed'), inputMode: 'numeric'}}
        />
        {run.state === 'running' ? (
          <Button view="outlined" size="m" onClick={stop}>
            {t('Stop')}
          </Button>
        ) : (
          <Button view="action" size="m" disabled={text.trim() === ''} onClick={begin}>
            <Icon data={PlayFill} size={14} /> {t('Run')}
          </Button>
        )}
        {run.state === 'running' && (
          <span className="simulator__wait" role="status">
            <Spin size="xs" /> {t('Running the scenario…')}
          </span>
        )}
      </div>
      {!own && example && run.state !== 'done' && <p>{example.description}</p>}
      <details className="scenario" open={own !== undefined}>
        <summary>{t('Scenario')}</summary>
        <TextArea
          value={text} minRows={10} maxRows={28} className="raw" controlProps={{'aria-label': t('Scenario'), spellCheck: false}}
          onUpdate={(next) => setOwn({name: own?.name ?? `${name}.yaml`, text: next})}
        />
      </details>
      <div>
        <div className="muted">{t('Equivalent command')}</div>
        <Command text={`weir simulate ${shellQuote(file)}${seedNumber === undefined ? '' : ` --seed ${seedNumber}`} --html report.html`} />
      </div>
      {run.state === 'refused' && <Problem error={run.error} />}
      {run.state === 'done' && (
        <>
          {run.answer.warnings.length > 0 && <Alert theme="warning" title={t('Warnings')} message={run.answer.warnings.join('; ')} />}
          <Report report={run.answer.report} took={run.answer.wall_time} />
        </>
      )}
    </>
  );
}

const mostBytes = 1 << 20;

/** Upload reads a file from the reader's machine. */
function Upload({onText}: {onText: (name: string, text: string) => void}) {
  const {t} = useTexts();
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState('');
  return (
    <>
      <Button view="outlined" onClick={() => input.current?.click()}>
        <Icon data={ArrowUpFromLine} size={14} /> {t('Upload a scenario')}
      </Button>
      <input
        ref={input} type="file" accept=".yaml,.yml,.json,.txt" hidden aria-label={t('Upload a scenario')}
        onChange={(event) => {
          const file = event.target.files?.[0];
          event.target.value = '';
          if (!file) return;
          setProblem(file.size > mostBytes ? t('A scenario may have at most {n} bytes', {n: mostBytes}) : '');
          if (file.size <= mostBytes) void file.text().then((text) => onText(file.name, text));
        }}
      />
      {problem !== '' && <span className="danger">{problem}</span>}
    </>
  );
}
