import {Alert} from '@gravity-ui/uikit';
import {useEffect, useState} from 'react';

import {useCommand} from '../api/queries';
import type {Plan} from '../api/types';
import type {Document} from '../model/options';
import {Problem} from '../parts/states';
import {useTexts} from '../text/i18n';

/** Verdict shows how a tree would change and whether its promises would fit, before anything is saved. */
export function Verdict({tree, document}: {tree: string; document: Document}) {
  const {t} = useTexts();
  const [asked, setAsked] = useState(document);
  const written = JSON.stringify(document);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(document), 300);
    return () => clearTimeout(timer);
  }, [written]);
  const plan = useCommand<Plan>('plan_pools', {pool_tree: tree, document: asked});
  if (plan.error) return <Problem title={t('The server would refuse this')} error={plan.error} />;
  if (!plan.data || plan.isPlaceholderData) return <p className="muted">{t('Checking…')}</p>;
  return (
    <div className="stack">
      <pre className="diff">{plan.data.changes.join('\n') || t('Nothing yet')}</pre>
      {plan.data.warnings.length > 0 && <Alert theme="warning" message={plan.data.warnings.join('; ')} />}
      <Feasibility plan={plan.data} />
    </div>
  );
}

function Feasibility({plan}: {plan: Plan}) {
  const {t} = useTexts();
  if (plan.is_feasible === null) return <Alert theme="normal" message={t('The tree has no nodes now, so the promises cannot be checked')} />;
  const findings = (plan.feasibility?.findings ?? []).map((f) => String(f['message'] ?? '')).filter(Boolean);
  const list = (
    <ul className="reasons">
      {findings.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
  if (plan.is_feasible) return <Alert theme="success" title={t('All promises can be kept')} message={findings.length > 0 && list} />;
  return <Alert theme="danger" title={t('Not all promises can be kept')} message={list} />;
}
