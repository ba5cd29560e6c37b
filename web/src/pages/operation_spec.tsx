import {ClipboardButton, SegmentedRadioGroup} from '@gravity-ui/uikit';

import type {OperationDetails} from '../api/types';
import {Facts, Section} from '../parts/small';
import {Empty} from '../parts/states';
import {useQueryValue} from '../shell/routing';
import {useTexts} from '../text/i18n';

/** SpecificationTab shows the specification as provided, as it applies, and the options that were not
 * recognised. */
export function SpecificationTab({operation}: {operation: OperationDetails}) {
  const {t} = useTexts();
  const [kind, setKind] = useQueryValue('spec', 'resulting');
  const documents: Record<string, unknown> = {
    resulting: operation.full_spec, provided: operation.provided_spec ?? operation.spec, unrecognised: operation.unrecognized_spec,
  };
  const document = documents[kind] ?? {};
  const text = JSON.stringify(document, null, 2);
  const isEmpty = Object.keys(document as object).length === 0;
  return (
    <>
      <CpuMonitor spec={operation.full_spec} />
      <div className="toolbar">
        <SegmentedRadioGroup
          value={kind in documents ? kind : 'resulting'}
          onUpdate={setKind}
          aria-label={t('Kind of specification')}
          options={[
            {value: 'provided', content: t('Provided')},
            {value: 'resulting', content: t('Resulting')},
            {value: 'unrecognised', content: t('Unrecognised')},
          ]}
        />
        <ClipboardButton text={text} aria-label={t('Copy')} />
      </div>
      {isEmpty ? (
        <Empty>{kind === 'unrecognised' ? t('All options are recognised') : t('Empty')}</Empty>
      ) : (
        <pre className="code" tabIndex={0} aria-label={t('Specification')}>
          {text}
        </pre>
      )}
    </>
  );
}

/** CpuMonitor shows the effective options of job_cpu_monitor. */
function CpuMonitor({spec}: {spec: Record<string, unknown> | undefined}) {
  const {t} = useTexts();
  const monitor = spec?.['job_cpu_monitor'];
  if (typeof monitor !== 'object' || monitor === null) return null;
  return (
    <Section title="job_cpu_monitor" actions={<span className="muted">{t('values in force')}</span>}>
      <Facts items={Object.entries(monitor).map(([key, value]) => [key, <code key={key}>{JSON.stringify(value)}</code>])} />
    </Section>
  );
}
