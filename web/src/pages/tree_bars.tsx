import {resources, type TreeSummary} from '../api/types';
import {amount} from '../model/format';
import {Meter} from '../parts/bars';
import {useTexts} from '../text/i18n';

/** TreeBars shows how much of each resource of a tree is in use. */
export function TreeBars({summary}: {summary: TreeSummary}) {
  const {t, word, locale} = useTexts();
  return (
    <div className="treebars">
      {resources
        .filter((resource) => (summary.capacity[resource] ?? 0) > 0 && resource !== 'network')
        .map((resource) => {
          const used = amount(resource, summary.used[resource], locale);
          const all = amount(resource, summary.capacity[resource], locale);
          return (
            <div key={resource} className="treebars__item">
              <div className="treebars__text">
                <span>{word(resource)}</span>
                <span>
                  {used} / {all}
                </span>
              </div>
              <Meter
                value={summary.used[resource] ?? 0}
                of={summary.capacity[resource] ?? 0}
                label={t('{used} of {all} {resource} in use', {used, all, resource: word(resource)})}
              />
            </div>
          );
        })}
    </div>
  );
}
