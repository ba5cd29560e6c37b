import {type Element, resources} from '../api/types';
import {amount} from '../model/format';
import {PartsBar} from '../parts/bars';
import {useTexts} from '../text/i18n';

/** ResourceTable shows what a pool or an operation uses, demands and may use of each resource. */
export function ResourceTable({label, element}: {label: string; element: Element}) {
  const {t, word, locale} = useTexts();
  const shown = resources.filter(
    (r) => (element.resource_limits[r] ?? 0) > 0 || (element.resource_usage[r] ?? 0) > 0 || (element.resource_demand[r] ?? 0) > 0,
  );
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table className="plain">
        <thead>
          <tr>
            <th>{t('Resource')}</th>
            <th className="numeric">{t('Usage')}</th>
            <th className="numeric">{t('Demand')}</th>
            <th className="numeric">{t('Fair share')}</th>
            <th>{t('Fair share by cause')}</th>
            <th className="numeric">{t('Guarantee')}</th>
            <th className="numeric" title={t('the guarantee with inferred resources, scaled to the cluster')}>
              {t('Effective')}
            </th>
            <th className="numeric">{t('Limit')}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((r) => {
            const split = element.detailed_fair_share;
            const cause = (name: string, value: number | undefined) => `${name} ${amount(r, capacityOf(element, r) * (value ?? 0), locale)}`;
            const parts = [
              {kind: 'strong', value: split.strong_guarantee[r] ?? 0, title: cause(t('strong'), split.strong_guarantee[r])},
              {kind: 'integral', value: split.integral_guarantee[r] ?? 0, title: cause(t('integral'), split.integral_guarantee[r])},
              {kind: 'weight', value: split.weight_proportional[r] ?? 0, title: cause(t('by weight'), split.weight_proportional[r])},
            ];
            return (
              <tr key={r}>
                <th scope="row">{word(r)}</th>
                <td className="numeric">{amount(r, element.resource_usage[r], locale)}</td>
                <td className="numeric">{amount(r, element.resource_demand[r], locale)}</td>
                <td className="numeric">{amount(r, element.fair_resources[r], locale)}</td>
                <td className="plain__bar">
                  <PartsBar parts={parts} whole={Math.max(split.total[r] ?? 0, 1e-9)} label={parts.map((p) => p.title).join(', ')} />
                </td>
                <td className="numeric">{amount(r, element.strong_guarantee_resources[r], locale)}</td>
                <td className="numeric">{amount(r, element.effective_strong_guarantee_resources[r], locale)}</td>
                <td className="numeric">{amount(r, element.resource_limits[r], locale)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p className="legend">
        <i className="dot dot_strong" /> {t('strong guarantee')} <i className="dot dot_integral" /> {t('integral guarantee')}{' '}
        <i className="dot dot_weight" /> {t('by weight')}
      </p>
    </div>
  );
}

/** capacityOf computes the total of a resource from a share and the corresponding amount. */
function capacityOf(element: Element, resource: (typeof resources)[number]): number {
  const share = element.fair_share[resource] ?? 0;
  return share > 0 ? (element.fair_resources[resource] ?? 0) / share : 0;
}
