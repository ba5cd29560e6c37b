// The GPUs of a node: what each is, how it does, and which job has it.
import type {GPU} from '../api/types';
import {amount} from '../model/format';
import {Section} from '../parts/small';
import {useTexts} from '../text/i18n';

export function GPUs({gpus}: {gpus: GPU[]}) {
  const {t, locale} = useTexts();
  if (gpus.length === 0) return null;
  return (
    <Section title={t('GPUs')}>
      <div className="scroll" tabIndex={0} role="region" aria-label={t('GPUs')}>
        <table className="plain">
          <thead>
            <tr>
              <th>{t('Device')}</th>
              <th>{t('Model')}</th>
              <th className="numeric">{t('Utilisation')}</th>
              <th className="numeric">{t('Memory in use')}</th>
              <th>{t('Job')}</th>
            </tr>
          </thead>
          <tbody>
            {gpus.map((gpu) => (
              <tr key={gpu.id}>
                <th scope="row">
                  <code>{gpu.id}</code>
                </th>
                <td>{gpu.model}</td>
                <td className="numeric">{gpu.utilization === null ? '–' : `${Math.round(gpu.utilization * 100)} %`}</td>
                <td className="numeric">
                  {amount('memory', gpu.memory_in_use, locale)}
                  {gpu.memory > 0 && ` / ${amount('memory', gpu.memory, locale)}`}
                </td>
                <td>
                  {gpu.fault ? <span className="warning">{t('gets no jobs: {reason}', {reason: gpu.fault})}</span> : gpu.job_id ? <code>{gpu.job_id}</code> : t('free')}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
